"""One input of a regular join: its rows by key, and how many rows of the other side each matches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.schema import Schema
from runtime.kernels.arrow_buffers import null_mask
from runtime.kernels.grouping import distinct_rows
from runtime.kernels.grow import grown
from runtime.kernels.indexed import add_at
from runtime.operators.operator import EpochTime
from runtime.plan.state import StateSpec
from runtime.state.keyed import KeyIndex
from runtime.state.multiset import RowMultiset
from runtime.state.row_table import RowColumn, row_table
from runtime.state.rows import Identity
from runtime.state.table import StateTable

__all__ = ["PAIRS", "JoinSide"]

PAIRS = 1 << 18
"""How many candidate pairs are looked at together."""

_NONE = np.empty(0, np.int64)
_UNKNOWN = -1
"""The number of matches of a restored row that was saved without it."""


class JoinSide:
    """One input: its rows by key slot and, for each row, how many rows of the other side it matches (where that is
    counted).

    `kept`: rows come out without a match, or come out by whether they have one. `totals`: matches are the size of the
    other bag. `plain`: rows only come and are read.
    """

    def __init__(
        self,
        schema: Schema,
        mode: ChangelogMode,
        keys: tuple[int, ...],
        unique: tuple[int, ...] | None,
        null_safe: Sequence[bool],
        kept: bool,
        totals: bool,
        ttl: int,
        plain: bool,
    ) -> None:
        self.kept = kept
        identity = Identity.of(mode, unique)
        images = mode.is_retract and not mode.key_only_deletes
        self.rows = RowMultiset(schema, identity, unique or (), totals=totals, images=images, plain=plain)
        # Old images by key are told from new ones within an epoch: see `RowStore`.
        self.takes_parts = not (identity is Identity.KEYED and images)
        self._keys = keys
        self._strict = [k for k, safe in zip(keys, null_safe, strict=True) if not safe]
        self._ttl = ttl
        self._counts_matches = kept and not totals
        self._matches = np.empty(0, np.int64)
        self._shift = np.empty(0, np.int64)
        self._touched: list[np.ndarray] = []

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self._matches.nbytes + self._shift.nbytes

    def table(self, spec: StateSpec, index: KeyIndex) -> StateTable:
        """The state table of this side."""
        matches = RowColumn("$matches", pa.int64(), lambda slots: pa.array(self._matches[slots]), self._load_matches)
        return row_table(
            self.rows,
            spec,
            lambda columns: self._key_slots(columns, index),
            of=self.rows.all,
            ttl=self._ttl,
            extra=[matches] if self._counts_matches else [],
        )

    def _key_slots(self, columns: list[pa.Array], index: KeyIndex) -> np.ndarray:
        """The key slots of rows, -1 for those that can match nothing."""
        usable = np.ones(len(columns[0]), np.bool_)
        for position in self._strict:
            nulls = null_mask(columns[position])
            if nulls is not None:
                usable &= ~nulls
        slots = np.full(len(usable), -1, np.int64)
        mask = pa.array(usable)
        slots[usable] = index.insert([columns[k].filter(mask) for k in self._keys], int(usable.sum()))[0]
        return slots

    def _load_matches(self, slots: np.ndarray, matches: pa.Array) -> None:
        self._matches = grown(self._matches, self.rows.capacity)
        self._shift = grown(self._shift, self.rows.capacity)
        self._matches[slots] = matches.fill_null(_UNKNOWN).to_numpy()

    def count_unknown(self, other: JoinSide) -> None:
        """Counts the matches of rows that were saved without: all of the other side's bag matched, and none expired."""
        if not self._counts_matches:
            return
        unknown = self.rows.live_slots()
        unknown = unknown[self._matches[unknown] == _UNKNOWN]
        self._matches[unknown] = 0
        for index, found in other.rows.probe(self.rows.key[unknown], PAIRS):
            add_at(self._matches, unknown[index], other.rows.count[found])

    def keyed(
        self, batch: ChangelogBatch, index: KeyIndex
    ) -> tuple[ChangelogBatch, np.ndarray, np.ndarray, ChangelogBatch | None]:
        """The changes to keep, their key slots, the slots that are new, and the changes whose key is NULL where they
        are not kept."""
        missing: np.ndarray | None = None
        for position in self._strict:
            nulls = null_mask(batch.column(position))
            if nulls is not None:
                missing = nulls if missing is None else missing | nulls
        if missing is None:
            slots, is_new = index.insert([batch.column(k) for k in self._keys], len(batch))
            return batch, slots, slots[is_new], None
        present = batch.filter(~missing)
        slots, is_new = index.insert([present.column(k) for k in self._keys], len(present))
        new = slots[is_new]
        if self.rows.identity is not Identity.KEYED:
            return present, slots, new, batch.filter(missing)
        whole = np.full(len(batch), -1, np.int64)
        whole[~missing] = slots
        return batch, whole, new, None

    def apply(self, batch: ChangelogBatch, keys: np.ndarray, time: EpochTime) -> np.ndarray:
        """Takes the changes in; the row slots that changed."""
        changed = self.rows.apply(batch, keys)
        if self._ttl:
            self.rows.write_times(changed, time.processing_time)
        if self._counts_matches:
            self._matches = grown(self._matches, self.rows.capacity)
            self._shift = grown(self._shift, self.rows.capacity)
            self._matches[changed[self.rows.count[changed] == self.rows.delta[changed]]] = 0
        return changed

    def take_expired(self, time: EpochTime) -> np.ndarray:
        if not self._ttl:
            return _NONE
        slots = self.rows.expired(time.processing_time - self._ttl)
        return self.rows.take_away(slots) if len(slots) else slots

    def count_matches(self, slots: np.ndarray, by: np.ndarray) -> None:
        """Row slots (with repeats) have so many more matches."""
        if self._counts_matches and len(slots):
            add_at(self._shift, slots, by)
            self._touched.append(slots)

    def matches(self, slots: np.ndarray, other: JoinSide) -> np.ndarray:
        """How many rows of the other side each row matches."""
        return self._matches[slots] if self._counts_matches else other.rows.totals(self.rows.key[slots])[0]

    def flipped_by_count(self, changed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The changed rows, and the others that lost their last or got their first match: slots, matches before,
        matches now."""
        touched = np.concatenate([changed, *self._touched])
        self._touched = []
        old = self._matches[touched]
        now = old + self._shift[touched]
        relevant = ((old > 0) != (now > 0)) | (self.rows.delta[touched] != 0)
        slots, old, now = touched[relevant], old[relevant], now[relevant]
        self._matches[touched] += self._shift[touched]
        self._shift[touched] = 0
        if self.rows.table is not None:
            self.rows.table.wrote(touched)
        once = distinct_rows(slots)
        return slots[once], old[once], now[once]

    def flipped_by_total(
        self, other: JoinSide, changed: np.ndarray, theirs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same where all rows of the other side's bag match."""
        keys = other.rows.key[theirs]
        now, delta = other.rows.totals(keys)
        keys = np.unique(keys[(now > 0) != (now - delta > 0)])
        found = [slots[self.rows.delta[slots] == 0] for _, slots in self.rows.probe(keys, PAIRS)]
        slots = np.concatenate([changed, *found])
        now, delta = other.rows.totals(self.rows.key[slots])
        return slots, now - delta, now
