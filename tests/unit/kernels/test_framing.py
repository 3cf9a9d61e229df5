"""Rows as messages: with kernels and without, for any values, slices and NULLs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.errors import InternalError
from runtime.kernels import framing
from runtime.kernels.native import kernel

VALUES = st.lists(st.one_of(st.none(), st.binary(max_size=9)), min_size=0, max_size=12)


def columns_of(values: list[bytes | None], count: int, start: int) -> list[pa.Array]:
    """Columns of one length, slices of longer ones."""
    return [pa.array((values[i:] + values[:i])[: len(values)], pa.binary())[start:] for i in range(count)]


@settings(deadline=None)
@given(VALUES, st.integers(0, 4), st.integers(0, 3))
def test_values_behind_their_lengths(values: list[bytes | None], count: int, start: int) -> None:
    columns = columns_of(values, count, min(start, len(values)))
    rows = len(columns[0]) if columns else len(values)
    expected = b""
    for i in range(rows):
        cells = [column[i].as_py() for column in columns]
        body = b"".join(b"\xff\xff\xff\xff" if cell is None else len(cell).to_bytes(4, "big") + cell for cell in cells)
        expected += b"D" + (len(body) + 6).to_bytes(4, "big") + count.to_bytes(2, "big") + body
    assert bytes(framing.framed(columns, rows, b"D")) == expected


@settings(deadline=None)
@given(VALUES, st.integers(0, 4), st.integers(0, 3), st.sampled_from([b"\t", b"|", "é".encode()]))
def test_values_between_delimiters(values: list[bytes | None], count: int, start: int, delimiter: bytes) -> None:
    known: list[bytes | None] = [value or b"" for value in values]
    columns = columns_of(known, count, min(start, len(known)))
    rows = len(columns[0]) if columns else len(known)
    expected = b""
    for i in range(rows):
        line = delimiter.join(column[i].as_py() for column in columns) + b"\n"
        expected += b"d" + (len(line) + 4).to_bytes(4, "big") + line
    assert bytes(framing.delimited(columns, rows, b"d", delimiter)) == expected


def of_frames(rng: np.random.Generator, rows: int) -> None:
    """Calls of each kernel, for the tests of hostile indexes."""
    columns = [pa.array([rng.bytes(size) for size in rng.integers(0, 9, rows)], pa.binary()) for _ in range(3)]
    framing.framed(columns, rows, b"D")
    framing.delimited(columns, rows, b"d", b",")


def test_nothing_is_written_outside() -> None:
    put, heads = kernel("frame_values", "ixbIX"), kernel("frame_heads", "inxX")
    delimit = kernel("delimit_values", "ixnIX")
    assert put is not None and heads is not None and delimit is not None
    data, all_valid = np.frombuffer(b"abcdef", np.uint8), np.empty(0, np.bool_)

    def places(*numbers: int) -> np.ndarray:
        return np.array(numbers, np.int64)

    out = np.zeros(12, np.uint8)
    for offsets, at in (
        ((0, 7), (0,)),
        ((3, 2), (0,)),
        ((-1, 2), (0,)),
        ((0, 3), (6,)),
        ((0, 3), (-1,)),
        ((0, 3), (2**63 - 1,)),
        ((0, 3, 3), (0,)),
    ):
        with pytest.raises(InternalError):
            put(places(*offsets), data, all_valid, places(*at), out)
    with pytest.raises(InternalError):
        put(places(0, 3), data, np.zeros(1, np.bool_), places(9), out)
    with pytest.raises(InternalError):
        put(places(0, 3), data, np.zeros(2, np.bool_), places(0), out)
    with pytest.raises(InternalError):
        delimit(places(0, 3), data, 9, places(9), out)
    for starts in ((0, 6), (-1, 8), (6, 13), (12, 20), (0, -1)):
        with pytest.raises(InternalError):
            heads(places(*starts), 68, np.zeros(2, np.uint8), out)
