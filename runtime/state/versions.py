"""Versions of rows by key and time: the state of a versioned table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from runtime.core.schema import Schema
from runtime.kernels.grow import grown
from runtime.plan.state import StateSpec
from runtime.state.keyed import KeyIndex
from runtime.state.row_table import RowColumn
from runtime.state.table import StateTable, shared_value
from runtime.state.timed import TimedRows
from runtime.state.timed_table import timed_table

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
        self._keys: StateTable | None = None

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
            self._wrote_keys(keys)

    def tables(self, keys: StateSpec, versions: StateSpec, index: KeyIndex) -> list[StateTable]:
        """The tables of the versions, whose key slots are those of `index`: `versions`, each with whether it is a
        delete; `keys`, each with the time from which on its versions are known (microseconds); and the same time for
        the keys that were forgotten."""
        deleted = RowColumn("$deleted", pa.bool_(), lambda slots: pa.array(self._deleted[slots]), self._load_deleted)
        rows = timed_table(
            self._rows,
            versions,
            lambda columns: index.insert([columns[k] for k in versions.key], len(columns[0]))[0],
            extra=[deleted],
        )

        def load(given: list[pa.Array]) -> np.ndarray:
            slots, _ = index.insert(given[:-1], len(given[-1]))
            self._floor = grown(self._floor, index.capacity)
            self._floor[slots] = given[-1].to_numpy()
            return slots

        self._keys = StateTable(
            keys.name,
            [*zip(keys.key_names, (keys.schema[k].type.arrow for k in keys.key), strict=True), ("$known", pa.int64())],
            live=index.live_slots,
            read=lambda slots: [*index.columns(slots), pa.array(self._floor[slots])],
            load=load,
            key=keys.key_names,
        )
        forgotten = shared_value("forgotten", pa.int64(), lambda: self._forgotten, self._forget_until)
        return [self._keys, rows, forgotten]

    def _load_deleted(self, slots: np.ndarray, deleted: pa.Array) -> None:
        self._deleted = grown(self._deleted, self._rows.capacity, False)
        self._deleted[slots] = deleted.to_numpy(zero_copy_only=False)
        # What the watermark has passed is passed again, and pruned as before.
        self._pending.add([], self._rows.key[slots], self._rows.time[slots])

    def _forget_until(self, times: list[object]) -> None:
        self._forgotten = max(cast("list[int]", times))

    def _wrote_keys(self, keys: np.ndarray) -> None:
        if self._keys is not None:
            self._keys.wrote(keys)

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
        self._wrote_keys(keys[index[last]])
        gone = kept[self._deleted[kept]]
        if len(gone):
            # The key is as if it had never been; that it was is remembered for all such keys together.
            self._forgotten = max(self._forgotten, int(self._rows.time[gone].max()))
        dropped = np.concatenate((slots[~last], gone))
        self._rows.remove(dropped)
        self._rows.free(dropped)
        empty = keys[self._rows.key_counts(keys) == 0]
        if self._keys is not None:
            self._keys.freed(empty)
        return empty

    def forget(self, keys: np.ndarray) -> None:
        """Drops all versions of keys."""
        if not len(keys):
            return
        _, slots = self._rows.range(keys, np.full(len(keys), _FIRST), np.full(len(keys), -_FIRST))
        self._rows.remove(slots)
        self._rows.free(slots)
        if self._keys is not None:
            self._keys.freed(keys)

    def take(self, slots: np.ndarray) -> list[pa.Array]:
        return self._rows.take(slots)

    def take_column(self, position: int, slots: np.ndarray) -> pa.Array:
        return self._rows.take_column(position, slots)
