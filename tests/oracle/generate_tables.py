"""Base tables and what happens to them: schemas, small domains of values, scripts of changes cut into epochs."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.oracle.generate_choices import Choices
from tests.oracle.generate_text import DRAWN, LARGE, NESTED, Column, Kind
from tests.oracle.generate_values import arrow_type, draw_value, wide_value

__all__ = ["Change", "Contents", "Op", "Row", "Table", "draw_epochs", "draw_row", "draw_tables"]

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Table:
    """A base table. `key`: how many of the first columns are the primary key (0: a bag of rows).

    `sends`: what followers of its changes are given: full images, after-images by key, or those with deletes that
    hold the key only; or insertions, and then it takes nothing else.
    """

    name: str
    columns: tuple[Column, ...]
    key: int
    sends: str = "full images"

    def ddl(self) -> str:
        parts = [f"{c.name} {c.kind.value}{' NOT NULL' if c.required else ''}" for c in self.columns]
        if self.key:
            parts.append(f"PRIMARY KEY ({', '.join(c.name for c in self.columns[: self.key])}) NOT ENFORCED")
        options = " WITH ('changelog-mode' = 'append')" if self.sends == "insertions" else ""
        return f"CREATE TABLE {self.name} ({', '.join(parts)}){options}"

    def nullable(self, at: int) -> bool:
        return at >= self.key and not self.columns[at].required

    def batch(self, rows: list[Row]) -> pa.RecordBatch:
        fields = [pa.field(c.name, arrow_type(c.kind)) for c in self.columns]
        arrays = [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(fields)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


@dataclass(frozen=True)
class Op:
    """A change as drawn: `what` is insert, delete, update, clear or churn; `at` chooses the live row, modulo their
    number.

    A churn is many insertions, updates and deletions at once, by chance from the seed `at`: state must grow, and shrink
    again.
    """

    table: int
    what: str
    at: int
    row: Row


@dataclass(frozen=True)
class Change:
    """A change that happens: `old` goes, `new` comes; either may be missing."""

    table: int
    old: Row | None
    new: Row | None


class Contents:
    """What the tables hold: plain Python, the reference for both engines."""

    def __init__(self, tables: tuple[Table, ...]) -> None:
        self.tables = tables
        self.rows: list[list[Row]] = [[] for _ in tables]

    def take(self, op: Op) -> list[Change]:
        """Carry out a change as drawn; gives what happens (nothing when there is no row to change)."""
        table, rows = self.tables[op.table], self.rows[op.table]
        if op.what == "churn":
            return self._churn(op)
        if table.sends == "insertions":
            return [self._put(op.table, op.row)] if op.row else []
        if op.what == "clear":
            gone, rows[:] = list(rows), []
            return [Change(op.table, r, None) for r in gone]
        if op.what == "insert":
            return [self._put(op.table, op.row)]
        if not rows:
            return []
        at = op.at % len(rows)
        if op.what == "delete":
            return [Change(op.table, rows.pop(at), None)]
        old = rows[at]
        new = old[: table.key] + op.row[table.key :] if table.key else op.row
        rows[at] = new
        return [Change(op.table, old, new)]

    def _churn(self, op: Op) -> list[Change]:
        chance = random.Random(op.at)
        table = self.tables[op.table]
        shares = chance.choice(((8, 1, 1), (1, 1, 8), (4, 3, 3)))
        found = []
        for _ in range(150):
            what = chance.choices(("insert", "update", "delete"), shares)[0]
            row = tuple(wide_value(chance, c.kind, null=table.nullable(i)) for i, c in enumerate(table.columns))
            found += self.take(Op(op.table, what, chance.randrange(1 << 20), row))
        return found

    def _put(self, index: int, row: Row) -> Change:
        key, rows = self.tables[index].key, self.rows[index]
        if key:
            for at, old in enumerate(rows):
                if old[:key] == row[:key]:
                    rows[at] = row
                    return Change(index, old, row)
        rows.append(row)
        return Change(index, None, row)


_KEY_KINDS = (Kind.INT, Kind.STRING, Kind.BIGINT, Kind.DATE, Kind.SMALLINT, Kind.TIME, Kind.CHAR, Kind.FINE)
_TIMES = (Kind.TIMESTAMP, Kind.DATE, Kind.TIME)
_TEXTS = (Kind.STRING, Kind.CHAR, Kind.VARCHAR)


def draw_tables(choose: Choices, *, sends: bool = True) -> tuple[Table, ...]:
    """One to three tables; the first column is always of an INT so that tables have something to be joined on.

    `sends`: their followers may be given something else than full images.
    """
    found = []
    theme = choose.weighted([(10, ()), (3, LARGE), (2, _TIMES), (2, _TEXTS), (2, NESTED)])
    kinds = (*DRAWN, *theme * (40 // len(theme))) if theme else DRAWN
    for number in range(choose.weighted([(3, 1), (4, 2), (3, 3)])):
        key = choose.weighted([(5, 0), (4, 1), (1, 2)])
        width = choose.count(max(2, key + 1), 5)
        columns = []
        for i in range(width):
            kind = Kind.INT if i == 0 else choose.pick(_KEY_KINDS) if i < key else choose.pick(kinds)
            columns.append(Column(f"c{i}", kind, required=i >= key and choose.chance(30)))
        keyed = [(6, "full images"), (2, "after-images"), (1, "key-only deletes")]
        given = choose.weighted(keyed if key else [(3, "full images"), (1, "insertions")]) if sends else "full images"
        found.append(Table(f"t{number}", tuple(columns), key, given))
    return tuple(found)


def draw_row(choose: Choices, table: Table) -> Row:
    return tuple(draw_value(choose, c.kind, null=table.nullable(i)) for i, c in enumerate(table.columns))


def draw_epochs(
    choose: Choices, tables: tuple[Table, ...], *, large: bool = True, small: bool = False
) -> list[list[Op]]:
    """One to six epochs of changes: more insertions at the start; at times an empty epoch, or one that empties a table.

    `large`: now and then hundreds of rows; not for queries whose joins would make millions of them. `small`: few.
    """
    epochs = []
    churns = large and choose.chance(15)
    for number in range(choose.count(1, 6)):
        ops = []
        size = choose.count(0, 6) * choose.pick((1, 1, 2))
        if small:
            size //= 2
        if number == 0 and not small:
            size += choose.count(0, 8) + 3 * len(tables)
        for _ in range(size):
            table = choose.count(0, len(tables) - 1)
            what = choose.weighted([(14 if number == 0 else 5, "insert"), (4, "update"), (2, "delete")])
            row = draw_row(choose, tables[table]) if what != "delete" else ()
            ops.append(Op(table, what, choose.count(0, 7) if what != "insert" else 0, row))
        if churns:
            ops += [
                Op(choose.count(0, len(tables) - 1), "churn", choose.count(0, 999), ())
                for _ in range(choose.count(0, 2))
            ]
        if number and choose.chance(10):
            ops.append(Op(choose.count(0, len(tables) - 1), "clear", 0, ()))
        epochs.append(ops)
    return epochs
