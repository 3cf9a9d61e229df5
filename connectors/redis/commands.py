"""Commands of Redis made of columns, and answers.

Source: Redis serialization protocol (RESP 2). A command is `*<number of parts>`, and each part is `$<length>` and its bytes, each
with a line end. Those of a batch are joined by Arrow, so that no row is made one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["MOST_AT_ONCE", "asked", "commands", "parts", "whole"]

MOST_AT_ONCE = 10_000
"""So many commands are sent before their answers are read: the server keeps answers in memory until then."""
_END, _EMPTY = pa.scalar(b"\r\n", pa.binary()), pa.scalar(b"", pa.binary())


def whole(*words: str | bytes | int) -> bytes:
    """One command."""
    made = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(made) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in made)


def parts(values: pa.Array) -> pa.Array:
    """Each value as a part of a command; NULL as none."""
    values = values.cast(pa.binary())
    lengths = pc.binary_length(values).cast(pa.string()).cast(pa.binary())
    return pc.binary_join_element_wise(pa.scalar(b"$", pa.binary()), lengths, _END, values, _END, _EMPTY)


def commands(name: str, numbers: np.ndarray, values: Sequence[pa.Array]) -> bytes:
    """A command for each row. `numbers`: how many parts it has with its name; `values`: `parts` of columns, NULL is none."""
    heads = pa.array(numbers).cast(pa.string()).cast(pa.binary())
    word = pa.scalar(b"\r\n$%d\r\n%s\r\n" % (len(name), name.encode()), pa.binary())
    made = pc.binary_join_element_wise(
        pa.scalar(b"*", pa.binary()), heads, word, *values, _EMPTY, null_handling="replace", null_replacement=b""
    )
    _, offsets, data = made.buffers()
    ends = np.frombuffer(offsets, np.int32)
    return bytes(memoryview(data)[int(ends[0]) : int(ends[len(made)])]) if len(made) else b""


def asked(connection: Any, sent: bytes, answers: int) -> Iterator[Any]:
    """Send commands, and give their answers, one by one: the client reads no others."""
    connection.send_packed_command([sent])
    for _ in range(answers):
        yield connection.read_response(disable_decoding=True)
