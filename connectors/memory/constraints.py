"""What holds for every row of a table in memory: conditions (CHECK), and columns without repeated values (UNIQUE).

    changes of one step --> CHECK: over the new rows alone
                        --> by which rows the contents would change --> UNIQUE: how often each value would be there

Both are looked at before anything is changed, in columns. What is there of the columns of UNIQUE is kept in a hash index
with counts, which is made when the first change comes, and again when the contents were changed in another way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from runtime.core.changelog import DELETE, INSERT, ChangelogBatch
from runtime.core.errors import ExpressionError
from runtime.core.schema import Field, Schema
from runtime.expr.cast.text import to_text
from runtime.kernels.grouping import distinct_rows
from runtime.kernels.grow import grown
from runtime.state.keyed import KeyIndex

__all__ = ["BrokenConstraint", "CheckRule", "ConstrainedTable", "TableRules", "UniqueRule", "net_of"]

_SHOWN = 60
"""Characters of a value in a message."""


class BrokenConstraint(ExpressionError):
    """A row for which a constraint does not hold. `constraint`: its name; `table`: the table's."""

    constraint: str = ""
    table: str = ""


class ConstrainedTable(Protocol):
    """What constraints ask of a table in memory."""

    @property
    def name(self) -> str: ...

    @property
    def schema(self) -> Schema: ...

    @property
    def primary_key(self) -> tuple[str, ...]: ...

    @property
    def key_positions(self) -> list[int]: ...

    @property
    def append_only(self) -> bool: ...

    def contents(self) -> pa.Table: ...

    def rows_by_key(self, keys: Sequence[pa.Array]) -> tuple[np.ndarray, pa.RecordBatch]: ...

    def counts_of(self, rows: pa.RecordBatch) -> np.ndarray: ...

    def slots_of(self, rows: pa.RecordBatch) -> np.ndarray: ...

    def rows_at(self, slots: np.ndarray) -> pa.RecordBatch: ...

    def exactly(self, rows: pa.RecordBatch) -> pa.RecordBatch: ...


class CheckRule:
    """CHECK. `holds` gives for each row whether it does, NULL for what is not known, which is as good as true."""

    def __init__(self, name: str, text: str, holds: Callable[[pa.RecordBatch], pa.Array]) -> None:
        self.name = name
        self.text = text
        self.holds = holds

    def check(self, table: ConstrainedTable, rows: pa.RecordBatch) -> None:
        """Raise BrokenConstraint E2024 when a row breaks it."""
        broken = ~np.asarray(self.holds(rows).fill_null(True))
        if not broken.any():
            return
        row = rows.slice(int(np.flatnonzero(broken)[0]), 1)
        raise _broken(
            f'a row of {table.name} breaks the constraint "{self.name}", CHECK ({self.text}): '
            f"{_shown(table.schema, row)}",
            "E2024",
            "give other values, or DROP CONSTRAINT",
            self.name,
            table,
        )


class UniqueRule:
    """UNIQUE: no two rows have the same values in the columns at `positions`. Rows with a NULL among them are alike to
    none, or, where `nulls_distinct` is False, to each other."""

    def __init__(self, name: str, positions: Sequence[int], *, nulls_distinct: bool = True) -> None:
        self.name = name
        self.positions = list(positions)
        self.nulls_distinct = nulls_distinct
        self._index: KeyIndex | None = None
        self._counts = np.zeros(0, np.int64)
        self._holders: np.ndarray | None = None
        """Where the row with each of the values is (`slots_of`), once somebody has asked for rows by them."""

    @property
    def nbytes(self) -> int:
        """What it keeps in memory."""
        holders = 0 if self._holders is None else self._holders.nbytes
        return 0 if self._index is None else self._index.nbytes + self._counts.nbytes + holders

    def check(self, table: ConstrainedTable, net: ChangelogBatch) -> None:
        """Raise BrokenConstraint E2025 when the contents would have values twice. `net`: by which they would change."""
        index = self._made(table)
        net = self.compared(net)
        if not len(net):
            return
        columns = self._columns(net)
        alike = KeyIndex([c.type for c in columns])
        slots, is_first = alike.insert(columns, len(net))
        sums = np.zeros(alike.capacity, np.int64)
        np.add.at(sums, slots, net.signs().astype(np.int64))
        first = np.flatnonzero(is_first)
        known = index.find([c.take(pa.array(first)) for c in columns], len(first))
        there = np.zeros(len(first), np.int64)
        there[known >= 0] = self._counts[known[known >= 0]]
        more = sums[slots[first]]
        twice = first[(more > 0) & (there + more > 1)]
        if len(twice):
            raise self._twice(table, net.rows.select(self.positions).slice(int(twice[0]), 1), "would have")

    def check_all(self, table: ConstrainedTable) -> None:
        """Raise BrokenConstraint E2025 when the contents have values twice."""
        index = self._made(table)
        twice = np.flatnonzero(self._counts > 1)
        if len(twice):
            names = [table.schema[p].name for p in self.positions]
            raise self._twice(table, pa.RecordBatch.from_arrays(index.columns(twice[:1]), names=names), "have")

    def _twice(self, table: ConstrainedTable, row: pa.RecordBatch, verb: str) -> BrokenConstraint:
        shown = _shown((table.schema[p] for p in self.positions), row)
        return _broken(
            f'several rows of {table.name} {verb} {shown}, against the constraint "{self.name}", '
            f"UNIQUE ({', '.join(row.schema.names)})",
            "E2025",
            "give other values, or UPDATE the row that is there",
            self.name,
            table,
        )

    def rows_by(self, table: ConstrainedTable, columns: Sequence[pa.Array]) -> tuple[np.ndarray, pa.RecordBatch]:
        """Which values are there, bool (n,), and their rows in the same order."""
        index = self._made(table)
        if self._holders is None:
            self._holders = np.zeros(index.capacity, np.int64)
            for rows in table.contents().to_batches():
                self._hold(table, ChangelogBatch(rows))
        slots = index.find(columns, len(columns[0]))
        return slots >= 0, table.rows_at(self._holders[slots[slots >= 0]])

    def _hold(self, table: ConstrainedTable, rows: ChangelogBatch) -> None:
        assert self._index is not None and self._holders is not None
        rows = self.compared(rows)
        self._holders = grown(self._holders, self._index.capacity)
        self._holders[self._index.find(self._columns(rows), len(rows))] = table.slots_of(table.exactly(rows.rows))

    def take(self, table: ConstrainedTable, net: ChangelogBatch) -> None:
        """The contents have changed so."""
        net = self.compared(net)
        if self._index is None or not len(net):
            return
        slots, _ = self._index.insert(self._columns(net), len(net))
        self._counts = grown(self._counts, self._index.capacity)
        np.add.at(self._counts, slots, net.signs().astype(np.int64))
        touched = distinct_rows(slots)
        gone = slots[touched][self._counts[slots[touched]] <= 0]
        self._counts[gone] = 0
        if self._holders is not None:
            self._hold(table, net.filter(net.signs() > 0))
        self._index.remove(gone)

    def forget(self) -> None:
        """The contents have changed in a way that nobody tells."""
        self._index, self._counts, self._holders = None, np.zeros(0, np.int64), None

    def _made(self, table: ConstrainedTable) -> KeyIndex:
        if self._index is None:
            self._index = KeyIndex([table.schema[p].type.arrow for p in self.positions])
            for rows in table.contents().to_batches():
                self.take(table, ChangelogBatch(rows))
        return self._index

    def _columns(self, net: ChangelogBatch) -> list[pa.Array]:
        return [net.column(p) for p in self.positions]

    def compared(self, net: ChangelogBatch) -> ChangelogBatch:
        """The rows that may be like others."""
        net = net.decoded()
        missing = self.missing(self._columns(net), len(net))
        return net.filter(~missing) if missing.any() else net

    def missing(self, columns: Sequence[pa.Array], count: int) -> np.ndarray:
        """Which rows are like no other, bool (n,)."""
        found = np.zeros(count, np.bool_)
        for column in columns if self.nulls_distinct else ():
            if column.null_count:
                found |= np.asarray(column.is_null())
        return found


class TableRules:
    """The constraints of a table in memory. Called with the lock of the table held, but for `check_rows`."""

    def __init__(self, checks: Sequence[CheckRule], uniques: Sequence[UniqueRule]) -> None:
        self.checks = tuple(checks)
        self.uniques = tuple(uniques)

    @property
    def nbytes(self) -> int:
        """What they keep in memory."""
        return sum(rule.nbytes for rule in self.uniques)

    def check_rows(self, table: ConstrainedTable, batches: Sequence[ChangelogBatch]) -> None:
        """Raise BrokenConstraint E2024 when a row that comes breaks a condition. From any thread."""
        for batch in batches if self.checks else ():
            signs = batch.signs()
            rows = batch.decoded() if batch.kinds is None else batch.decoded().filter(signs > 0)
            if len(rows):
                for rule in self.checks:
                    rule.check(table, table.exactly(rows.rows))

    def check_net(self, table: ConstrainedTable, batches: Sequence[ChangelogBatch]) -> ChangelogBatch | None:
        """By which rows the contents would change, for `take`; None when no rule has to know. Raises BrokenConstraint
        E2025 when values would be there twice."""
        if not self.uniques or not any(map(len, batches)):
            return None
        net = net_of(table, ChangelogBatch.concat(list(batches)))
        for rule in self.uniques:
            rule.check(table, net)
        return net

    def take(self, table: ConstrainedTable, net: ChangelogBatch | None) -> None:
        """The contents have changed so; None: no rule has to know."""
        if net is not None:
            for rule in self.uniques:
                rule.take(table, net)

    def forget(self) -> None:
        """The contents have changed in a way that nobody tells."""
        for rule in self.uniques:
            rule.forget()


def net_of(table: ConstrainedTable, changes: ChangelogBatch) -> ChangelogBatch:
    """By which full rows the contents of a table would change: what is taken, and what is given. Costs as much as the
    changes."""
    changes = ChangelogBatch(table.exactly(changes.decoded().rows), changes.kinds)
    if table.append_only or (not table.primary_key and changes.is_append_only):
        return changes
    keys = [changes.column(p) for p in table.key_positions]
    alike = KeyIndex([key.type for key in keys], exact=not table.primary_key)
    slots, _ = alike.insert(keys, len(changes))
    signs = changes.signs().astype(np.int64)
    chosen = distinct_rows(slots, last=bool(table.primary_key))
    if table.primary_key:
        newest = changes.take(chosen)
        _, before = table.rows_by_key([newest.column(p) for p in table.key_positions])
        after = newest.rows.filter(pa.array(signs[chosen] > 0))
        kinds = np.repeat(np.array([DELETE, INSERT], np.int8), [before.num_rows, after.num_rows])
        return ChangelogBatch(ChangelogBatch.concat([ChangelogBatch(before), ChangelogBatch(after)]).rows, kinds)
    sums = np.zeros(alike.capacity, np.int64)
    np.add.at(sums, slots, signs)
    rows = changes.rows.take(pa.array(chosen))
    there = table.counts_of(rows)
    # A row that is not there cannot be taken back.
    net = np.maximum(there + sums[slots[chosen]], 0) - there
    often = np.repeat(np.arange(len(chosen)), np.abs(net))
    return ChangelogBatch(rows.take(pa.array(often)), np.where(net[often] > 0, INSERT, DELETE).astype(np.int8))


def _shown(fields: Iterable[Field], row: pa.RecordBatch) -> str:
    """A row for a message: its values as CAST writes them, long ones cut."""
    parts: list[str] = []
    for field, column in zip(fields, row.columns, strict=True):
        text = to_text(column, field.type, "UTC")[0].as_py()
        text = "NULL" if text is None else text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        parts.append(f"{field.name} = {text}")
    return ", ".join(parts)


def _broken(message: str, code: str, hint: str, constraint: str, table: ConstrainedTable) -> BrokenConstraint:
    error = BrokenConstraint(message, code=code, hint=hint)
    error.constraint, error.table = constraint, table.name
    return error
