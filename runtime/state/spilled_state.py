"""The state of one operator of which only the keys in use are in its structures; the others are in a store.

Before a step the keys of its rows come in; after it the keys that have not been in use for longest go out, when there
are more than the budget allows. Nothing is written before that: what stays in use never leaves memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.kernels.arrow_buffers import null_mask, single_array
from runtime.kernels.bloom import BloomFilter
from runtime.kernels.grow import grown
from runtime.kernels.key_encoding import KeyEncoder
from runtime.state.deadlines import NO_DEADLINE, Deadlines
from runtime.state.key_bytes import KeyBytes
from runtime.state.keyed import KeyIndex
from runtime.state.keyed_state import KeyedState
from runtime.state.rocksdb import RocksStore
from runtime.state.spilled_table import SpilledTable
from runtime.state.table import StateTable

__all__ = ["SpilledState", "Touched"]

_KEPT = 7 / 8
"""When keys have to go, so many of those allowed stay: they go in batches."""
_FEW = 1024
"""Keys that expire come in so many at a time, or an eighth of those allowed."""
_MANY_SEEN = 1 << 20
"""A filter of fewer keys takes no memory worth the looking."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The keys of an epoch's rows, with repeats, and which of them the store knows."""

    columns: list[pa.Array]
    count: int
    stored: np.ndarray


class SpilledState:
    """Moves keys between the structures of an operator and a store.

    Args:
        keyed: the operator's keys.
        tables: its tables, shared ones left out.
        store: closed with this.
        allowed: how many keys may stay, given how many there are.
    """

    def __init__(
        self,
        keyed: KeyedState,
        tables: Sequence[StateTable],
        store: RocksStore,
        allowed: Callable[[int], int],
    ) -> None:
        self._keyed = keyed
        self._store = store
        self._allowed = allowed
        self._key_bytes = KeyBytes(keyed.types)
        self._hashes = KeyEncoder(keyed.types)
        self._seen = BloomFilter()
        self._cold = 0
        self._touched_at = np.zeros(0, np.int64)
        self._stored = np.zeros(0, np.bool_)
        self._epoch = 0
        self._deadlines = Deadlines(store) if keyed.expires else None
        by_table: dict[StateTable, SpilledTable] = {}
        for table in tables:
            owner = None if table.owner is None else by_table[table.owner]
            by_table[table] = SpilledTable(table, owner, store, self._key_bytes, self._is_hot)
        self._tables = list(by_table.values())

    @property
    def rows(self) -> int:
        """How many rows are in the store."""
        return sum(table.rows for table in self._tables)

    @property
    def bytes(self) -> int:
        """How many bytes they take there."""
        return sum(table.bytes for table in self._tables)

    @property
    def nbytes(self) -> int:
        """The memory that the moving takes."""
        own = self._seen.nbytes + self._touched_at.nbytes + self._stored.nbytes
        return own + sum(table.nbytes for table in self._tables)

    def look(self, name: str, keys: Sequence[pa.Array]) -> tuple[np.ndarray, list[pa.Array]]:
        """The rows of a table for keys, each once, wherever they are; they stay there. Gives for each row the position of
        its key, ascending, and the columns but that of the owner. Between epochs."""
        (table,) = (table for table in self._tables if table.name == name)
        given = [k if k.type == t else k.cast(t) for k, t in zip(keys, self._keyed.types, strict=True)]
        there = np.arange(len(given[0]))
        for key, nullable in zip(given, self._keyed.nullable, strict=True):
            if not nullable and key.null_count:
                there = np.intersect1d(there, np.flatnonzero(key.is_valid().to_numpy(zero_copy_only=False)))
        given = [key.take(pa.array(there)) for key in given]
        slots = self._keyed.find(given, len(there))
        hot, cold = np.flatnonzero(slots >= 0), np.flatnonzero(slots < 0)
        encoded = self._key_bytes.encode([key.take(pa.array(cold)) for key in given])
        order = self._key_bytes.order(encoded)
        index, columns = table.look(slots[hot], encoded.take(pa.array(order)))
        index = there[np.concatenate([hot, cold[order]])[index]]
        if len(there) < len(keys[0]) and table.owner is None:
            lone = np.setdiff1d(np.arange(len(keys[0])), there)
            of_lone, more = table.without_key(self._keyed.nullable, [key.take(pa.array(lone)) for key in keys])
            index = np.concatenate([index, lone[of_lone]])
            columns = [pa.concat_arrays([c, m.cast(c.type)]) for c, m in zip(columns, more, strict=True)]
        sorted_ = np.argsort(index, kind="stable")
        return index[sorted_], [column.take(pa.array(sorted_)) for column in columns]

    def admit(self, inputs: Sequence[Sequence[pa.Array]]) -> Touched | None:
        """Brings in the keys of an epoch: the key columns of each input that has rows. None when there are none."""
        given = [found for columns in inputs if len((found := self._usable(columns))[0])]
        if not given:
            return None
        columns = given[0] if len(given) == 1 else [pa.concat_arrays(parts) for parts in zip(*given, strict=True)]
        count = len(columns[0])
        slots = self._keyed.find(columns, count)
        missing = np.flatnonzero(slots < 0)
        self._grow(int(slots.max(initial=-1)) + 1)
        stored = self._stored[slots]
        if len(missing):
            stored[missing] = self._fetch(
                columns if len(missing) == count else [c.take(pa.array(missing)) for c in columns]
            )
        return Touched(columns, count, stored)

    def due(self, now: int) -> Iterator[None]:
        """Brings in the keys of which something has expired before `now`, some at a time. The operator forgets what has
        expired before the next are asked for, and what is left of them goes out first."""
        while self._deadlines is not None:
            most = max(_FEW, self._allowed(self._keyed.count()) // 8)
            encoded = self._deadlines.take(now, most)
            if not len(encoded):
                return
            self._bring_in(encoded.take(pa.array(self._key_bytes.order(encoded))))
            yield
            slots = self._keyed.find(self._key_bytes.decode(encoded), len(encoded))
            slots = slots[slots >= 0]
            self._grow(int(slots.max(initial=-1)) + 1)
            self._touched_at[slots] = 0
            self._stored[slots] = False
            self.shrink()

    def settle(self, touched: Touched | None) -> None:
        """After the step: notes what was in use, and sends away what is too much."""
        self._epoch += 1
        if touched is None:
            return
        slots = self._keyed.find(touched.columns, touched.count)
        self._grow(int(slots.max(initial=-1)) + 1)
        lost = np.flatnonzero((slots < 0) & touched.stored)
        if len(lost):
            keys, _ = self._distinct([c.take(pa.array(lost)) for c in touched.columns])
            encoded = self._key_bytes.encode(keys)
            for table in self._tables:
                table.forget(encoded)
        if (slots < 0).any():
            alive = slots >= 0
            slots, stored = slots[alive], touched.stored[alive]
        else:
            stored = touched.stored
        self._touched_at[slots] = self._epoch
        self._stored[slots] = stored
        self.shrink()

    def shrink(self) -> None:
        """Sends away the keys longest not in use while there are more than are allowed."""
        count = self._keyed.count()
        allowed = self._allowed(count)
        if count <= allowed:
            return
        live = self._keyed.live()
        self._grow(int(live.max()) + 1)
        surplus = min(count, count - int(allowed * _KEPT))
        oldest = live if surplus == count else live[np.argpartition(self._touched_at[live], surplus - 1)[:surplus]]
        self._send_away(oldest)

    def close(self) -> None:
        self._store.close()

    def _usable(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        """The key columns without rows that have no key."""
        arrays = [single_array(c, t) for c, t in zip(columns, self._keyed.types, strict=True)]
        missing: np.ndarray | None = None
        for array, nullable in zip(arrays, self._keyed.nullable, strict=True):
            nulls = None if nullable else null_mask(array)
            if nulls is not None:
                missing = nulls if missing is None else missing | nulls
        return arrays if missing is None else [a.filter(pa.array(~missing)) for a in arrays]

    def _grow(self, size: int) -> None:
        self._touched_at = grown(self._touched_at, size)
        self._stored = grown(self._stored, max(size, 1), False)

    def _is_hot(self, columns: list[pa.Array]) -> np.ndarray:
        return self._keyed.find(columns, len(columns[0])) >= 0

    def _distinct(self, columns: list[pa.Array]) -> tuple[list[pa.Array], np.ndarray]:
        """The different keys, and which of them each row has."""
        numbers, is_new = KeyIndex(self._keyed.types).insert(columns, len(columns[0]))
        return (columns if is_new.all() else [c.filter(pa.array(is_new)) for c in columns]), numbers

    def _fetch(self, columns: list[pa.Array]) -> np.ndarray:
        """Brings in keys that are not there; returns for each row whether the store goes on to have its key."""
        stored = np.zeros(len(columns[0]), np.bool_)
        candidates = np.flatnonzero(self._seen.may_contain(self._hashes.stable_hash(columns, len(stored))))
        if not len(candidates):
            return stored
        keys, numbers = self._distinct([c.take(pa.array(candidates)) for c in columns])
        encoded = self._key_bytes.encode(keys)
        order = self._key_bytes.order(encoded)
        present = self._bring_in(encoded.take(pa.array(order)))
        if not self._keyed.expires:
            of_keys = np.empty(len(encoded), np.bool_)
            of_keys[order] = present
            stored[candidates] = of_keys[numbers]
        return stored

    def _bring_in(self, encoded: pa.Array) -> np.ndarray:
        """Brings in keys, ascending; returns which of them the store had."""
        found: dict[SpilledTable | None, np.ndarray] = {}
        deadlines = np.full(len(encoded), NO_DEADLINE)
        self._mute(True)
        for table in self._tables:
            asked = encoded
            present = np.zeros(len(encoded), np.bool_)
            if table.owner is None:
                present, times = table.fetch(asked)
                deadlines = np.minimum(deadlines, times)
            else:
                owned = found[table.owner]
                if owned.any():
                    present[owned], _ = table.fetch(asked if owned.all() else asked.filter(pa.array(owned)))
            found[table] = present
        self._mute(False)
        anywhere = np.logical_or.reduce(list(found.values()))
        self._cold -= int(np.count_nonzero(anywhere))
        if self._deadlines is not None:
            # Such a key may go without a row that tells us.
            self._deadlines.remove(encoded, deadlines)
            for table, present in found.items():
                if table is not None and present.any():
                    table.forget(encoded if present.all() else encoded.filter(pa.array(present)))
        return anywhere

    def _send_away(self, slots: np.ndarray) -> None:
        columns = self._keyed.columns(slots)
        encoded = self._key_bytes.encode(columns)
        order = self._key_bytes.order(encoded)
        encoded, slots = encoded.take(pa.array(order)), slots[order]
        stored = self._stored[slots]
        self._note_seen(columns)
        self._cold += len(slots)
        deadlines = np.full(len(slots), NO_DEADLINE)
        for table in reversed(self._tables):
            index, rows = table.rows_of(slots)
            counts = np.bincount(index, minlength=len(slots)).astype(np.int64)
            old = stored & (counts == 0)
            if old.any():
                table.forget(encoded.filter(pa.array(old)))
            deadlines = np.minimum(deadlines, table.send_away(rows, counts, encoded))
        if self._deadlines is not None:
            self._deadlines.add(encoded, deadlines)
        self._mute(True)
        self._keyed.drop(slots)
        self._mute(False)
        self._stored[slots] = False

    def _note_seen(self, columns: list[pa.Array]) -> None:
        """Keys go to the store. Of a filter that mostly knows keys which have expired since a new one is made."""
        if self._deadlines is not None and self._seen.count > _MANY_SEEN and self._seen.count > 4 * self._cold:
            self._seen = BloomFilter()
            for table in self._tables:
                for keys, _ in self._store.scan(table.name):
                    self._seen.add(self._hashes.stable_hash(self._key_bytes.decode(keys), len(keys)))
        self._seen.add(self._hashes.stable_hash(columns, len(columns[0])))

    def _mute(self, muted: bool) -> None:
        for table in self._tables:
            table.mute(muted)
