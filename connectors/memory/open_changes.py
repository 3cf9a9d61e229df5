"""What an open epoch has changed in a table: its session's alone until the epoch ends.

The table stays as it is. Who has made the changes reads the newest contents with the changes in them; when the epoch ends
they are applied to the table, unless somebody else has changed one of the same rows meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from connectors.memory.column_files import in_memory
from connectors.memory.rows import TableVersion
from connectors.memory.snapshot import TableSnapshot
from connectors.memory.staged import StagedChanges
from connectors.memory.table import MemoryTable
from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.kernels.grouping import distinct_rows
from runtime.state.keyed import KeyIndex

if TYPE_CHECKING:
    import connectors.memory.constraints as _constraints
else:
    _constraints = Room("connectors.memory.constraints")

__all__ = ["OpenChanges"]


class OpenChanges(StagedChanges):
    """The changes of one epoch to a table in memory."""

    def __init__(self, table: MemoryTable) -> None:
        super().__init__(table.files)
        self.table = table
        self._changes: list[ChangelogBatch] = []
        self._others: list[ChangelogBatch] = []
        self._read_from = 0
        self._known: list[int] = []
        """How much of what others have changed each change knows of."""
        self._read: tuple[TableVersion, int, TableVersion] | None = None
        table.tell(self)

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def schema(self) -> Schema:
        return self.table.schema

    @property
    def primary_key(self) -> tuple[str, ...]:
        return self.table.primary_key

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return self.table.accepts(requested)

    def describe(self) -> dict[str, Any]:
        return self.table.describe()

    @property
    def batches(self) -> Sequence[ChangelogBatch]:
        """The changes in their order."""
        return self._changes

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        """What it holds in memory: its changes, those of others that it has heard of, and what a sink has prepared. From
        any thread."""
        return in_memory((*self._changes, *self._others, *self.prepared), self.files)

    def __bool__(self) -> bool:
        """Whether the epoch has changed anything."""
        return bool(self._changes)

    def begin_statement(self) -> None:
        """A statement begins, which reads what others have changed so far."""
        self._read_from = len(self._others)

    def apply(self, *batches: ChangelogBatch) -> None:
        """Changes behind the others. Raises PlanningError E1710 for updates and deletes of an append-only table, and
        BrokenConstraint E2024."""
        self.table.check_takes(batches)
        made = [batch for batch in batches if len(batch)]
        self._changes += made
        self._known += [self._read_from] * len(made)

    def forget_since(self, count: int) -> None:
        """Keep only so many changes: the statement that made the others has failed."""
        del self._changes[count:], self._known[count:]
        self._read = None

    @property
    def looks_for_twins(self) -> bool:
        """Whether the table has columns without repeated values."""
        return self.table.rules is not None and bool(self.table.rules.uniques)

    def check_twins(self) -> None:
        """Raise BrokenConstraint E2025 when the table with these changes would have values twice. Called with the table's
        lock held."""
        if self.table.rules is not None:
            self.table.rules.check_net(self.table, self._changes)

    def hear(self, changes: Sequence[ChangelogBatch]) -> None:
        """Others have changed the table."""
        self._others += changes

    @property
    def conflicts(self) -> bool:
        """Whether others have changed a row that a statement of this epoch changes, too, since that statement read."""
        if self.table.append_only or not self._others:
            return False
        known = np.array(self._known, np.int64)
        return any(
            self._meet([self._changes[i] for i in np.flatnonzero(known == at)], self._others[at:])
            for at in np.unique(known[known < len(self._others)]).tolist()
        )

    def _meet(self, changes: Sequence[ChangelogBatch], others: Sequence[ChangelogBatch]) -> bool:
        mine, theirs = _touched(changes, self.table), _touched(others, self.table)
        positions = self.table.key_positions
        index = KeyIndex([self.schema[p].type.arrow for p in positions], exact=not self.primary_key)
        index.insert([mine.column(p) for p in positions], len(mine))
        return bool(np.any(index.find([theirs.column(p) for p in positions], len(theirs)) >= 0))

    def commit(self) -> None:
        """Apply the changes to the table. Called with its lock held."""
        if self._changes:
            self.table.apply(*self._changes)

    def close(self) -> None:
        """The epoch has ended: what others change from now on is not kept for it. Harmless when called again."""
        self.table.tell_no_more(self)
        self._others.clear()

    def contents(self) -> pa.Table:
        """The newest contents with the changes in them."""
        return self.version().rows()

    def version(self) -> TableVersion:
        """The same, for as long as somebody wants to read it."""
        base = self.table.version()
        if not self._changes:
            return base
        known = self._read
        if known is None or known[0] is not base or known[1] != len(self._changes):
            changed = self.table.version_with(ChangelogBatch.concat(self._changes))
            known = self._read = base, len(self._changes), changed
        return known[2]

    def rows_by_key(self, keys: Sequence[pa.Array]) -> tuple[np.ndarray, pa.RecordBatch]:
        """Which keys are there, bool (n,), and their newest rows in the same order, with the changes in them. Called with
        the table's lock held; costs as much as the keys and the changes."""
        held, rows = self.table.rows_by_key(keys)
        if not self._changes:
            return held, rows
        mine = ChangelogBatch.concat(self._changes).decoded()
        return self._with(mine, self.table.key_positions, keys, held, rows)

    def rows_by_unique(
        self, rule: _constraints.UniqueRule, keys: Sequence[pa.Array]
    ) -> tuple[np.ndarray, pa.RecordBatch]:
        """The same by the columns of a UNIQUE of the table."""
        held, rows = rule.rows_by(self.table, keys)
        if not self._changes:
            return held, rows
        net = rule.compared(_constraints.net_of(self.table, ChangelogBatch.concat(self._changes)))
        # What is given to somebody counts behind what is taken from others.
        net = net.take(np.argsort(net.signs() > 0, kind="stable"))
        return self._with(net, rule.positions, keys, held, rows)

    def _with(
        self,
        mine: ChangelogBatch,
        positions: Sequence[int],
        keys: Sequence[pa.Array],
        held: np.ndarray,
        rows: pa.RecordBatch,
    ) -> tuple[np.ndarray, pa.RecordBatch]:
        """Rows that are there, with the last change of each key."""
        index = KeyIndex([self.schema[p].type.arrow for p in positions])
        slots, _ = index.insert([mine.column(p) for p in positions], len(mine))
        newest = np.full(index.capacity + 1, -1, np.int64)
        last = distinct_rows(slots, last=True)
        newest[slots[last]] = last
        # -1, a key without a change, has the last place.
        at = newest[index.find(keys, len(held))]
        changed, there = at >= 0, held.copy()
        there[changed] = mine.signs()[at[changed]] > 0
        place = np.flatnonzero(held)
        whole = pa.Table.from_batches([rows, self.table.exactly(mine.rows)]).combine_chunks().to_batches()
        from_ = at + len(place)
        kept = place[~changed[place]]
        from_[kept] = np.flatnonzero(~changed[place])
        chosen = from_[there]
        return there, whole[0].take(pa.array(chosen)) if whole else rows

    def snapshot(self) -> TableSnapshot:
        """The same as a bounded table: what the session's statements read."""
        return TableSnapshot(self.name, self.schema, self.version())

    def __len__(self) -> int:
        return self.version().num_rows


def _touched(changes: Sequence[ChangelogBatch], table: MemoryTable) -> ChangelogBatch:
    """The changes in which two epochs may contradict each other: all of a key; of a bag, the rows taken away."""
    found = ChangelogBatch.concat(list(changes))
    return found if table.primary_key else found.filter(found.signs() < 0)
