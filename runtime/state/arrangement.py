"""Tables whose rows are kept by some of their columns for all who join them by these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from runtime.core.schema import Schema

__all__ = ["Arrangement", "Found", "Span", "SupportsArrangements"]

Span = tuple[int, int]
"""From which version of a table to which one an epoch goes; -1: as if it had no rows."""


class Found(NamedTuple):
    """Rows by their numbers, and how often each is there at the end of a span and was at its start, int64 (n,)."""

    rows: np.ndarray
    now: np.ndarray
    old: np.ndarray

    def at(self, places: np.ndarray) -> Found:
        """Those at some places, or where a mask says so."""
        return Found(self.rows[places], self.now[places], self.old[places])


class Arrangement(Protocol):
    """The rows of a table by some of its columns, at each version that somebody who follows the table has yet to leave.
    Used by any thread."""

    def reading(self) -> AbstractContextManager[object]:
        """For the time of a block numbers of rows mean the same rows. What was delivered before it begins is found."""
        ...

    def changed(self, span: Span) -> Found:
        """The rows that are there more or less often at its end than at its start."""
        ...

    def find(self, keys: Sequence[pa.Array], null_safe: Sequence[bool]) -> np.ndarray:
        """A number for each key, int64 (n,); -1 for one without rows, or with a NULL where that matches nothing."""
        ...

    def probe(self, keys: np.ndarray, span: Span, most: int) -> Iterator[tuple[np.ndarray, Found]]:
        """The rows of keys, by their numbers: positions in `keys`, and rows that are there at the end or at the start. In
        pieces of about so many rows at most, but for a single key that has more."""
        ...

    def take(self, columns: Sequence[int], rows: np.ndarray) -> list[pa.Array]:
        """Columns of the table, by position, at rows."""
        ...

    def release(self) -> None:
        """Whoever was given it needs it no more."""
        ...


@runtime_checkable
class SupportsArrangements(Protocol):
    """A table that keeps its rows by any of its columns, once for all who ask. Its readers tell versions
    (`runtime/local/split_progress.py`)."""

    @property
    def schema(self) -> Schema: ...

    @property
    def row_key(self) -> Sequence[str]:
        """The columns of which no two rows have the same values; none when rows may repeat."""
        ...

    def arrangement(self, columns: Sequence[int], user: str) -> Arrangement:
        """Its rows by some columns, kept until all who have asked for these columns release it. `user`: who asks, for
        people."""
        ...

    def users(self, columns: Sequence[int]) -> Sequence[str]:
        """Who has asked for these columns, in this order, and has not released them."""
        ...
