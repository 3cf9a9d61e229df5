"""Versions of rows by key and time: the state of a versioned table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.schema import Schema
from runtime.kernels.grow import grown
from runtime.state.timed import TimedRows

__all__ = ["Versions"]

_FIRST = -(2**62)


class Versions:
    """Per key slot its versions in order of time; of two at one time the later arrival counts. A version may be a
    delete.

    Times are microseconds. `prune` drops what no row after a time can ask for; `known` tells whether an older time
    can still be answered.
    """

    def __init__(self, schema: Schema) -> None:
        self._rows = TimedRows(schema, keyed=True, waits=False)
        self._deleted = np.empty(0, np.bool_)
        self._floor = np.empty(0, np.int64)
        self._forgotten = _FIRST
        self._pending = TimedRows(Schema(()), keyed=False)

    @property
    def rows(self) -> int:
        return self._rows.rows

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._pending.nbytes + self._deleted.nbytes + self._floor.nbytes

    def begin(self, keys: np.ndarray) -> None:
        """Key slots that stand for new keys."""
        if len(keys):
            self._floor = grown(self._floor, int(keys.max()) + 1)
            self._floor[keys] = self._forgotten

    def add(self, columns: Sequence[pa.Array], keys: np.ndarray, times: np.ndarray, deleted: np.ndarray) -> None:
        """Versions in order of arrival; `deleted` ones match nothing."""
        slots = self._rows.add(columns, keys, times)
        self._pending.add([], keys, times)
        self._deleted = grown(self._deleted, self._rows.capacity, False)
        self._deleted[slots] = deleted

    def valid_at(self, keys: np.ndarray, times: np.ndarray) -> np.ndarray:
        """The version of each key at a time: row slots, -1 where there is none or it is a delete."""
        found = self._rows.floor(keys, times)
        present = np.flatnonzero(found >= 0)
        found[present[self._deleted[found[present]]]] = -1
        return found

    def newest(self, keys: np.ndarray) -> np.ndarray:
        """The time of each key's newest version, the least of all times where there is none."""
        return self.newest_until(keys, np.full(len(keys), 2**62))

    def newest_until(self, keys: np.ndarray, times: np.ndarray) -> np.ndarray:
        """The time of each key's newest version at or before a time."""
        found = self._rows.floor(keys, times)
        return (
            np.where(found >= 0, self._rows.time[found], _FIRST) if len(self._rows.time) else np.full(len(keys), _FIRST)
        )

    def known(self, keys: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Whether nothing that was dropped could have been valid for the key at the time."""
        if not len(self._floor):
            return times >= self._forgotten
        return times >= np.where(keys >= 0, self._floor[keys], self._forgotten)

    def may_be_superseded(self, times: np.ndarray) -> np.ndarray:
        """Of versions of keys that are not there: whether a newer delete of the key may have been dropped, so that
        nobody can tell what the version would mean."""
        return times < self._forgotten

    def prune(self, until: int) -> np.ndarray:
        """Drops the versions that are not valid at or after a time, deletes that nothing follows included.

        Cost follows the versions that the time has passed since the last call. Returns the key slots that have no
        version any more.
        """
        passed = self._pending.due(until + 1)
        keys = np.unique(self._pending.key[passed])
        self._pending.free(passed)
        if not len(keys):
            return keys
        index, slots = self._rows.range(keys, np.full(len(keys), _FIRST), np.full(len(keys), until))
        last = np.append(index[1:] != index[:-1], True)
        kept = slots[last]
        self._floor[keys[index[last]]] = self._rows.time[kept]
        gone = kept[self._deleted[kept]]
        if len(gone):
            # The key is as if it had never been; that it was is remembered for all such keys together.
            self._forgotten = max(self._forgotten, int(self._rows.time[gone].max()))
        dropped = np.concatenate((slots[~last], gone))
        self._rows.remove(dropped)
        self._rows.free(dropped)
        return keys[self._rows.key_counts(keys) == 0]

    def take(self, slots: np.ndarray) -> list[pa.Array]:
        return self._rows.take(slots)

    def take_column(self, position: int, slots: np.ndarray) -> pa.Array:
        return self._rows.take_column(position, slots)
