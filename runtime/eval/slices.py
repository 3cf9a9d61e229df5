"""Rows that are computed slice by slice, because nobody can stop a library in the middle of a column."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from runtime.core.cancellation import look
from runtime.expr.function import Value

__all__ = ["large_texts", "slices"]

FIRST_ROWS = 1 << 14
FIRST_BYTES = 1 << 19
SLICE_SECONDS = 0.1
GROWTH = 8.0
LARGE_BYTES = 1 << 25


def slices(rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Where each slice of so many rows (of `size` bytes in all) begins, and its height. The first is small, each of those
    that follow has as many rows as take a tenth of a second: what a row costs depends on its function and its texts."""
    height = max(1, min(FIRST_ROWS, FIRST_BYTES * rows // max(1, size)))
    at = 0
    while at < rows:
        look()
        started = time.perf_counter()
        yield at, min(height, rows - at)
        at += height
        height = max(1, int(height * min(GROWTH, SLICE_SECONDS / max(time.perf_counter() - started, 1e-6))))


def large_texts(args: Sequence[Value]) -> int:
    """The bytes of the texts among the arguments of a function when they are so many that it may take long, else 0."""
    size = sum(a.nbytes for a in args if isinstance(a, pa.Array) and pa.types.is_string(a.type))
    return size if size > LARGE_BYTES else 0
