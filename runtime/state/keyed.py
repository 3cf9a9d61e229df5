"""Key columns to slots: the front of all keyed state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.schema import Schema
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.interned import forget_unused
from runtime.kernels.key_encoding import KeyEncoder

__all__ = ["KeyIndex"]


class KeyIndex:
    """Maps keys, given as Arrow columns, to dense int64 slots that stay until they are removed and are reused
    afterwards.

    Keys are compared as SQL compares groups: NULL equals NULL, NaN equals NaN, 0.0 equals -0.0. Strings and nested
    values that only removed keys held are forgotten from time to time, at a cost that is a constant share of the
    removals.

    Args:
        types: the Arrow types of the key columns; none at all means that every row has the same key.
        nullable: whether each may hold NULL (all may when not given).
        exact: see `KeyEncoder`: for whole rows that must come back as they were.
    """

    def __init__(
        self, types: Sequence[pa.DataType], nullable: Sequence[bool] | None = None, *, exact: bool = False
    ) -> None:
        self._encoder = KeyEncoder(types, nullable, exact=exact)
        self._index = HashIndex(self._encoder.width)

    @staticmethod
    def of(schema: Schema, positions: Sequence[int]) -> KeyIndex:
        """An index over some columns of a schema. All may be NULL: upsert deletes leave out what is declared NOT
        NULL."""
        return KeyIndex([schema[p].type.arrow for p in positions])

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._index)

    @property
    def rows(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        return self._index.nbytes + self._encoder.nbytes

    @property
    def capacity(self) -> int:
        """The exclusive bound of all slots given out: the size that arrays beside the index need."""
        return self._index.capacity

    def find(self, columns: Sequence[pa.Array], count: int | None = None) -> np.ndarray:
        """The slot of each row's key, int64 (n,); -1 where there is none. `count` is n, needed when there are no key
        columns."""
        return self._index.find(self._encoder.probe(columns, count))

    def insert(self, columns: Sequence[pa.Array], count: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The slot of each row's key, added where absent: `(slots int64 (n,), is_new bool (n,))`; new at the first
        occurrence only."""
        return self._index.insert(self._encoder.encode(columns, count))

    def remove(self, slots: np.ndarray) -> None:
        """Forgets the keys of live slots, each once."""
        self._index.remove(slots)
        forget_unused(self._index, self._encoder)

    def columns(self, slots: np.ndarray) -> list[pa.Array]:
        """The key columns of live slots."""
        return self._encoder.decode(self._index.keys(slots))

    def live_slots(self) -> np.ndarray:
        """All slots in use, ascending. Costs as much as the index is large."""
        return self._index.live_slots()

    def clear(self) -> None:
        self._index.clear()
