"""Bags of rows by key: the state of joins and of everything that must give back rows that it once took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.schema import Schema
from runtime.kernels.block_lists import BlockLists
from runtime.state.rows import Identity, RowStore

__all__ = ["RowMultiset"]


class RowMultiset(RowStore):
    """Keys, given as slots of a `KeyIndex`, to bags of rows. Rows that are gone are found by probing until `settle`."""

    def __init__(
        self,
        schema: Schema,
        identity: Identity,
        unique: Sequence[int] = (),
        *,
        totals: bool = False,
        images: bool = False,
        plain: bool = False,
    ) -> None:
        super().__init__(schema, identity, unique, totals=totals, images=images, plain=plain)
        self._lists = BlockLists()

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._lists.nbytes

    def bag_sizes(self, keys: np.ndarray) -> np.ndarray:
        """How many stored rows each key has, equal ones counted once, int64."""
        return self._lists.counts(keys)

    def all(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of each key: `(index, row_slots)`."""
        return self._lists.probe(keys)

    def drop(self, keys: np.ndarray) -> None:
        """Takes all rows of keys away, outside of any epoch."""
        index, slots = self._lists.probe(keys)
        if self.plain:
            self._lists.remove(keys[index], slots)
            self._store.free(slots)
            self._slots.free(slots)
        else:
            self.settle(self.take_away(slots))

    def probe(self, keys: np.ndarray, max_pairs: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The rows of each key, in pieces: `(probe_index, row_slots)`, in order of `keys`, then of arrival.

        A piece has at most `max_pairs` pairs. Key -1 has no rows.
        """
        return self._lists.probe_chunks(keys, max_pairs)

    def _link(self, slots: np.ndarray, columns: Sequence[pa.Array], keys: np.ndarray) -> None:
        if (keys < 0).any():
            slots, keys = slots[keys >= 0], keys[keys >= 0]
        self._lists.append(keys, slots)

    def _release(self, slots: np.ndarray) -> None:
        keys = self.key[slots]
        if (keys < 0).any():
            slots, keys = slots[keys >= 0], keys[keys >= 0]
        self._lists.remove(keys, slots)
