"""The rows of a recursive query with UNION: each once, in the first round that gives it.

A row may be given in several rounds, and several times in each: by the query it begins with (round 0), and by rows of the
round before. All of that is counted, by row and round. A row is a member in the least round that gives it; when that
round no longer does, it becomes one of the next round that does, or none. So a cycle never keeps itself alive: what a
row gives through a cycle comes rounds later than the row, and goes when the row's own round goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from runtime.core.schema import Schema
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grouping import distinct_rows
from runtime.kernels.grow import grown
from runtime.operators.operator import StateSize
from runtime.plan.state import StateSpec, column_names
from runtime.state.keyed import KeyIndex
from runtime.state.table import StateTable

__all__ = ["Moves", "RoundMembers"]

_NEVER = 1 << 62
"""The round of a row that is no member."""


class Moves(NamedTuple):
    """What becomes of members in a round: rows with a round and a sign, those that lose their place first. `entered`: +1
    for a row that was no member, -1 for one that is none now, 0 for one that changes its round."""

    columns: list[pa.Array]
    rounds: np.ndarray
    signs: np.ndarray
    entered: np.ndarray


class RoundMembers:
    """Counts of rows by round, and in which round each is a member.

    `apply` is called with the changes of one round after another, ascending within an epoch. NULL equals NULL.
    """

    def __init__(self, schema: Schema, kept: StateSpec) -> None:
        types = [f.type.arrow for f in schema]
        self._types = types
        self._index = KeyIndex(types)
        self._store = ColumnStore(types)
        self._round = np.zeros(0, np.int64)
        """By row: in which round it is a member."""
        self._entries = KeyIndex([pa.int64(), pa.int64()], [False, False])
        """Row and round to the place of their count."""
        self._of_row = BlockLists()
        self._count = np.zeros(0, np.int64)
        self._entry_row = np.zeros(0, np.int64)
        self._entry_round = np.zeros(0, np.int64)
        self._waiting: dict[int, list[np.ndarray]] = {}
        names = column_names(schema)
        self.table = StateTable(
            kept.name,
            [*zip(names, types, strict=True), ("$round", pa.int64()), ("$count", pa.int64())],
            live=self._entries.live_slots,
            read=lambda entries: [
                *self._store.take(self._entry_row[entries]),
                pa.array(self._entry_round[entries]),
                pa.array(self._count[entries]),
            ],
            load=self._load,
            key=kept.key_names,
        )

    @property
    def waiting(self) -> Sequence[int]:
        """Rounds that give rows which lost their place in this epoch: `apply` has to see these rounds, too."""
        return list(self._waiting)

    @property
    def state_size(self) -> StateSize:
        sides = (self._round, self._count, self._entry_row, self._entry_round)
        kept = (self._index, self._store, self._entries, self._of_row)
        return StateSize(len(self._entries), sum(k.nbytes for k in kept) + sum(s.nbytes for s in sides))

    def apply(self, number: int, columns: Sequence[pa.Array] | None, signs: np.ndarray) -> Moves | None:
        """Takes in how often round `number` gives rows, more (+1) or less (-1); gives what becomes of members."""
        looked_at = self._waiting.pop(number, [])
        gone = np.empty(0, np.int64)
        if columns is not None and len(signs):
            rows, gone = self._count_in(number, columns, signs)
            looked_at.append(rows)
        if not looked_at:
            return None
        rows = np.concatenate(looked_at)
        rows = rows[distinct_rows(rows)]
        least = self._least(rows)
        before = self._round[rows]
        here = least <= number
        loses = np.where(here, before != least, before <= number) & (before != _NEVER)
        gains = here & (before != least)
        none = ~here & (loses | (before == _NEVER))
        self._round[rows[here]] = least[here]
        self._round[rows[none]] = _NEVER
        later = none & (least != _NEVER)
        for round_, found in _by_round(least[later], rows[later]):
            self._waiting.setdefault(round_, []).append(found)
        moved = np.concatenate((rows[loses], rows[gains]))
        moves = None
        if len(moved):
            entered = np.concatenate(
                (-(loses & ~here)[loses].astype(np.int8), (before == _NEVER)[gains].astype(np.int8))
            )
            moves = Moves(
                self._store.take(moved),
                np.concatenate((before[loses], least[gains])),
                np.concatenate((np.full(int(loses.sum()), -1, np.int8), np.ones(int(gains.sum()), np.int8))),
                entered,
            )
        self._drop(rows, gone)
        return moves

    def _count_in(self, number: int, columns: Sequence[pa.Array], signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows whose counts were changed, and the entries that hold nothing any more."""
        slots, is_new = self._index.insert(columns, len(signs))
        self._round = grown(self._round, self._index.capacity)
        new = np.flatnonzero(is_new)
        self._store.put(slots[new], [c.take(pa.array(new)) for c in columns])
        self._round[slots[new]] = _NEVER
        entries = self._entry(slots, np.full(len(slots), number, np.int64))
        np.add.at(self._count, entries, signs)
        entries = entries[distinct_rows(entries)]
        # What is taken back but was never there is passed over.
        self._count[entries] = np.maximum(self._count[entries], 0)
        gone = entries[self._count[entries] == 0]
        self.table.wrote(entries)
        self._of_row.remove(self._entry_row[gone], gone)
        return slots[distinct_rows(slots)], gone

    def _entry(self, rows: np.ndarray, rounds: np.ndarray) -> np.ndarray:
        """The places of counts, made where absent."""
        entries, is_new = self._entries.insert([pa.array(rows), pa.array(rounds)], len(rows))
        size = self._entries.capacity
        self._count = grown(self._count, size)
        self._entry_row, self._entry_round = grown(self._entry_row, size), grown(self._entry_round, size)
        new = entries[is_new]
        self._count[new] = 0
        self._entry_row[new], self._entry_round[new] = rows[is_new], rounds[is_new]
        self._of_row.append(rows[is_new], new)
        return entries

    def _least(self, rows: np.ndarray) -> np.ndarray:
        """The least round that gives each row; `_NEVER` where none does."""
        index, entries = self._of_row.probe(rows)
        least = np.full(len(rows), _NEVER, np.int64)
        np.minimum.at(least, index, self._entry_round[entries])
        return least

    def _drop(self, rows: np.ndarray, gone: np.ndarray) -> None:
        self._entries.remove(gone)
        self.table.freed(gone)
        empty = rows[(self._of_row.counts(rows) == 0) & (self._round[rows] == _NEVER)]
        self._store.free(empty)
        self._index.remove(empty)

    def _load(self, columns: list[pa.Array]) -> np.ndarray:
        rounds, counts = (c.to_numpy() for c in columns[-2:])
        slots, is_new = self._index.insert(columns[:-2], len(rounds))
        self._round = grown(self._round, self._index.capacity)
        new = np.flatnonzero(is_new)
        self._store.put(slots[new], [c.take(pa.array(new)) for c in columns[:-2]])
        self._round[slots[new]] = _NEVER
        entries = self._entry(slots, rounds)
        self._count[entries] = counts
        np.minimum.at(self._round, slots, rounds)
        return entries


def _by_round(rounds: np.ndarray, rows: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """The rows of each round."""
    if not len(rounds):
        return []
    order = np.argsort(rounds, kind="stable")
    rounds, rows = rounds[order], rows[order]
    starts = np.flatnonzero(np.diff(rounds, prepend=rounds[0] - 1))
    return list(zip(rounds[starts].tolist(), np.split(rows, starts[1:]), strict=True))
