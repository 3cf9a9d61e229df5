"""Texts as bytes in numpy: the UTF-8 of all rows in one array, and the offsets of the rows in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.expr.columns import as_array
from runtime.expr.distinct import map_distinct
from runtime.expr.function import Value

__all__ = ["change_text", "character_index", "is_ascii", "nothing", "on_rows", "text_bytes", "with_bytes"]


def nothing(value: Value) -> bool:
    """Whether a value is the constant NULL."""
    return isinstance(value, pa.Scalar) and not value.is_valid


def text_bytes(texts: pa.Array) -> tuple[Any, Any]:
    """The bytes of all rows (a view, uint8) and the rows' offsets in them (length + 1; the first is 0)."""
    buffers = texts.buffers()
    offsets = (
        np.frombuffer(buffers[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
        if len(texts)
        else np.zeros(1, np.int32)
    )
    if buffers[2] is None:
        return np.zeros(0, np.uint8), offsets - offsets[0]
    return np.frombuffer(buffers[2], np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def with_bytes(texts: pa.Array, data: Any) -> pa.Array:
    """The texts with other bytes in the same places."""
    _, offsets = text_bytes(texts)
    made = pa.StringArray.from_buffers(
        len(texts), pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))
    )
    return pc.if_else(texts.is_valid(), made, None) if texts.null_count else made


def is_ascii(texts: pa.Array) -> bool:
    """Whether every character of every row is ASCII."""
    data, _ = text_bytes(texts)
    return not len(data) or int(data.max()) < 128


def character_index(texts: pa.Array, index: Any) -> Any:
    """Byte positions within the rows as character positions; -1 stays -1."""
    data, offsets = text_bytes(texts)
    starts = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])
    found = index >= 0
    at = offsets[:-1] + np.where(found, index, 0)
    return np.where(found, starts[np.minimum(at, len(data))] - starts[offsets[:-1]], -1)


def on_rows(compute: Callable[[pa.Array], pa.Array], value: Value, length: int) -> Value:
    """Apply an array function to a value; a constant stays one."""
    if isinstance(value, pa.Scalar):
        return compute(as_array(value, 1))[0]
    return compute(as_array(value, length))


def change_text(
    value: Value, length: int, ascii_kernel: Callable[[pa.Array], pa.Array], otherwise: Callable[[str], str]
) -> Value:
    """Texts changed by a kernel where they are ASCII, and by a Python function per distinct text where not."""

    def change(texts: pa.Array) -> pa.Array:
        if is_ascii(texts):
            return ascii_kernel(texts)
        simple = pc.fill_null(pc.string_is_ascii(texts), True)
        rest = texts.filter(pc.invert(simple))
        changed = map_distinct(otherwise, [rest], pa.string(), len(rest))
        plain = ascii_kernel(pc.if_else(simple, texts, ""))
        return pc.replace_with_mask(plain, pc.invert(simple), changed)

    return on_rows(change, value, length)
