"""BITMAP: sets of 32-bit integers, which are ordered and shown without a sign.

A value is carried as the bytes that Flink's BITMAP_TO_BYTES gives: the portable Roaring format
(https://github.com/RoaringBitmap/RoaringFormatSpec) with containers as small as they can be. Equal sets have equal
bytes, whatever they were made from; so a bitmap is grouped, joined and compared as its bytes are.

The library takes one bitmap at a time, so functions of bitmaps loop over them, each different one once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from runtime.core.errors import ExpressionError
from runtime.core.rooms import Room
from runtime.expr.columns import integers_of
from runtime.expr.lists import parts_of

if TYPE_CHECKING:
    import pyroaring as _roaring
else:
    _roaring = Room("pyroaring")

__all__ = [
    "bitmap",
    "bitmaps_of",
    "bitmaps_text",
    "carried",
    "carried_all",
    "checked",
    "each",
    "elements_of",
    "members",
    "set_of",
    "singles",
    "text_of",
]

_NO_RUNS = 12346
_RUNS = 12347
"""Cookies. That of a bitmap with containers of runs has 16 bits; behind it is the number of containers less one."""
_FEW = 4
"""With fewer containers, one of them of runs, offsets are left out."""
_LONGEST_TEXT = 0x80000


def bitmap(data: bytes) -> _roaring.BitMap:
    """The set that bytes hold. Raises ExpressionError E2019 when they are no bitmap."""
    try:
        return _roaring.BitMap.deserialize(data)
    except (ValueError, IndexError) as error:
        raise ExpressionError(
            f"the bytes X'{data[:20].hex().upper()}{'...' if len(data) > 20 else ''}' are no bitmap",
            code="E2019",
            hint="give what BITMAP_TO_BYTES gives: the portable format of 32-bit Roaring bitmaps",
        ) from error


def carried(value: _roaring.BitMap) -> bytes:
    """A set as it is carried; its containers become as small as they can be."""
    value.run_optimize()
    data = value.serialize()
    return _without_ties(data) if int.from_bytes(data[:2], "little") == _RUNS else data


def set_of(values: np.ndarray) -> _roaring.BitMap:
    """The set of integers, int32 (n,)."""
    return _roaring.BitMap(values.view(np.uint32))


def singles(values: np.ndarray) -> pa.Array:
    """The set of each integer alone, of int32 (n,)."""
    unsigned = values.view(np.uint32)
    rows = np.zeros(
        len(values),
        np.dtype([("head", "<u4"), ("count", "<u4"), ("high", "<u2"), ("less", "<u2"), ("at", "<u4"), ("low", "<u2")]),
    )
    rows["head"], rows["count"], rows["at"] = _NO_RUNS, 1, 16
    rows["high"], rows["low"] = unsigned >> 16, unsigned & 0xFFFF
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(rows.itemsize), len(rows), [None, pa.py_buffer(rows)]).cast(
        pa.binary()
    )


def carried_all(values: Sequence[_roaring.BitMap | None]) -> pa.Array:
    """Sets as a column."""
    return pa.array([None if v is None else carried(v) for v in values], pa.binary())


def checked(data: bytes) -> bytes:
    """Bytes from outside as they are carried; what follows the bitmap is left out, as in Flink.

    Raises:
        ExpressionError: they are no bitmap (E2019).
    """
    return carried(bitmap(data))


def of_python(value: Any) -> bytes:
    """A set of a program as it is carried: one of pyroaring, or bytes as of BITMAP_TO_BYTES.

    Raises:
        ExpressionError: bytes that are no bitmap (E2019).
        TypeError: something else.
    """
    if isinstance(value, bytes):
        return checked(value)
    if not isinstance(value, _roaring.AbstractBitMap):
        raise TypeError(f"a set of pyroaring or bytes are wanted, not {type(value).__name__}")
    return carried(_roaring.BitMap(value))


def bitmaps_of(lists: pa.Array) -> pa.Array:
    """The sets of the items of each list of INT; NULL items are left out."""
    parts = parts_of(lists)
    items = lists.values.take(pa.array(parts.rows))
    ends = np.cumsum(parts.lengths)
    if items.null_count:
        there = items.is_valid().to_numpy(zero_copy_only=False)
        items = items.drop_null()
        ends = np.concatenate([[0], np.cumsum(there)])[ends]
    numbers = integers_of(items).astype(np.int32, copy=False)
    made = [set_of(some) for some in np.split(numbers, ends[:-1])] if len(lists) else []
    known = [True] * len(lists) if parts.valid is None else parts.valid.tolist()
    return carried_all([m if k else None for m, k in zip(made, known, strict=True)])


def members(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The integers of all sets of a column beside each other, int32 in the order without a sign, and how many each set
    has; none where it is NULL."""
    lists = elements_of(column)
    return lists.flatten().to_numpy(), parts_of(lists).lengths


def elements_of(column: pa.Array) -> pa.Array:
    """The integers of each set as a list of INT."""
    return each(
        column, lambda data: np.asarray(bitmap(data).to_array(), np.uint32).view(np.int32), pa.list_(pa.int32())
    )


def bitmaps_text(column: pa.Array) -> pa.Array:
    """The text of each set: `{1,2}`, cut with `...` behind 524,288 characters."""
    return each(column, lambda data: text_of(bitmap(data)), pa.string())


def each(column: pa.Array, function: Callable[[bytes], Any], type_: pa.DataType) -> pa.Array:
    """`function` of each value, called once for each different one; NULL of NULL."""
    encoded = column.dictionary_encode()
    return pa.array([function(data) for data in encoded.dictionary.to_pylist()], type_).take(encoded.indices)


def text_of(value: Iterable[int]) -> str:
    """The text of one set, whose integers come in order."""
    parts = [str(v) for v in itertools.islice(value, _LONGEST_TEXT // 2 + 1)]
    # How long the text is behind each comma.
    lengths = 1 + np.cumsum([len(p) + 1 for p in parts])
    last = int(np.searchsorted(lengths, _LONGEST_TEXT, side="right"))
    if last < len(parts) - 1:
        return "{" + ",".join(parts[: last + 1]) + ",...}"
    return "{" + ",".join(parts) + "}"


def _without_ties(data: bytes) -> bytes:
    """Runs of just the size of the values that they stand for, as these values: a set that was made of runs then has the
    bytes of one that never had any. Both have the same size, so nothing else moves."""
    count = int.from_bytes(data[2:4], "little") + 1
    flags = np.unpackbits(np.frombuffer(data, np.uint8, (count + 7) // 8, 4), bitorder="little")[:count].copy()
    header = 4 + (count + 7) // 8
    cards = np.frombuffer(data, "<u2", 2 * count, header)[1::2].astype(np.int64) + 1
    words = np.frombuffer(data, np.uint8)
    at = header + 4 * count + (4 * count if count >= _FEW else 0)
    out = bytearray(data)
    changed = False
    for number in range(count):
        if flags[number]:
            runs = int.from_bytes(words[at : at + 2].tobytes(), "little")
            size = 2 + 4 * runs
            if cards[number] == 1 + 2 * runs:
                pairs = np.frombuffer(data, "<u2", 2 * runs, at + 2).astype(np.int64)
                values = np.concatenate([np.arange(s, s + n + 1) for s, n in pairs.reshape(-1, 2).tolist()])
                out[at : at + size] = values.astype("<u2").tobytes()
                flags[number] = 0
                changed = True
        else:
            size = 2 * int(cards[number]) if cards[number] <= 4096 else 8192
        at += size
    if not changed:
        return data
    out[4:header] = np.packbits(flags, bitorder="little").tobytes()
    # Without any runs there is another cookie.
    return bytes(out) if flags.any() else bitmap(bytes(out)).serialize()
