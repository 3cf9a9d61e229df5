"""Rows of a state table that are read while the job goes on: what a checkpoint takes from state that keeps whole rows.

A row of a `ColumnStore` is written once and stays as it is until it is freed. So to save rows it is enough to note their
slots and to hold them: what is freed meanwhile is let go of later. The thread that writes reads them piece by piece, into
memory that is used again, instead of the job copying all of them while it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.kernels.columns import ColumnStore, SlotAllocator

__all__ = ["MANY_ROWS", "CopiedRows", "HeldRows", "RowsInPlace"]

MANY_ROWS = 16_384
"""Of fewer rows a copy is made at once."""
_PIECE_ROWS = 65_536


class CopiedRows:
    """Rows that are copied at once, because they may change: in pieces, whose memory is used again by the next save. (What
    is large the system takes back and gives out anew, page by page, which takes longer than the copy.)

    Args:
        slots: of all rows, in the order in which they are read fastest.
        read: makes a batch of some.
    """

    def __init__(self, slots: np.ndarray, read: Callable[[np.ndarray], pa.RecordBatch]) -> None:
        self.slots = slots
        pieces = range(0, len(slots), _PIECE_ROWS)
        self._batches = [read(slots[start : start + _PIECE_ROWS]) for start in pieces]

    @property
    def nbytes(self) -> int:
        return sum(batch.nbytes for batch in self._batches)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self._batches)

    def release(self) -> None:
        self._batches = []


@dataclass(frozen=True, slots=True)
class RowsInPlace:
    """Where the rows of a table are that never change until they are freed.

    Attributes:
        store: their first columns.
        slots: hands out their slots.
        rest: the columns after those, which may change: they are copied at once.
        row_of: the slots in the store of slots of the table, where these are others.
    """

    store: ColumnStore
    slots: SlotAllocator
    rest: Callable[[np.ndarray], Sequence[pa.Array]]
    row_of: Callable[[np.ndarray], np.ndarray] | None = None


class HeldRows:
    """The rows at slots as they are now. Made and released in the job's thread; all else may be another one.

    Args:
        named: makes a batch, as it is saved, of slots and columns.
    """

    def __init__(
        self, place: RowsInPlace, slots: np.ndarray, named: Callable[[np.ndarray, Sequence[pa.Array]], pa.RecordBatch]
    ) -> None:
        self._place = place
        self._named = named
        self._ids = slots
        self._rows = slots if place.row_of is None else place.row_of(slots)
        self._rest = list(place.rest(slots))
        place.store.hold()
        place.slots.hold()
        self._row_bytes = self._piece(slice(0, 1), [column.slice(0, 1) for column in self._rest]).nbytes

    @property
    def slots(self) -> np.ndarray:
        """Of all rows, in no particular order."""
        return self._ids

    @property
    def nbytes(self) -> int:
        """About how much it is."""
        return len(self._ids) * self._row_bytes

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in the order in which they are read fastest."""
        order = self._place.store.reading_positions(self._rows)
        for start in range(0, len(self._ids), _PIECE_ROWS):
            if order is None:
                piece = slice(start, start + _PIECE_ROWS)
                yield self._piece(piece, [column.slice(start, _PIECE_ROWS) for column in self._rest])
            else:
                chosen = order[start : start + _PIECE_ROWS]
                yield self._piece(chosen, [column.take(pa.array(chosen)) for column in self._rest])

    def release(self) -> None:
        """Nobody reads them any more."""
        self._place.store.release()
        self._place.slots.release()

    def _piece(self, part: slice | np.ndarray, rest: Sequence[pa.Array]) -> pa.RecordBatch:
        return self._named(self._ids[part], [*self._place.store.read_held(self._rows[part]), *rest])
