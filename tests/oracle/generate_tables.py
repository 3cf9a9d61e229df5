"""Base tables and what happens to them: schemas, small domains of values, scripts of changes cut into epochs."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.oracle.generate_choices import Choices
from tests.oracle.generate_text import Column, Kind

__all__ = ["DOMAINS", "Change", "Contents", "Op", "Table", "arrow_type", "draw_epochs", "draw_tables", "literal"]

Row = tuple[Any, ...]

DOMAINS: dict[Kind, tuple[Any, ...]] = {
    Kind.INT: (1, 2, 0, 3, -1),
    Kind.BIGINT: (1, 2, 0, 7, -3),
    Kind.DECIMAL: (Decimal("1.00"), Decimal("2.50"), Decimal("0.00"), Decimal("-1.25"), Decimal("7.75")),
    Kind.DOUBLE: (1.0, 0.5, 2.25, 0.0, -1.5),
    Kind.STRING: ("a", "b", "ab", "", "A_b", "%"),
    Kind.BOOLEAN: (True, False),
    Kind.DATE: (dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2023, 12, 31)),
    Kind.TIMESTAMP: (
        dt.datetime(2024, 1, 1),
        dt.datetime(2024, 1, 1, 0, 30),
        dt.datetime(2024, 2, 29, 23, 59, 59, 500000),
    ),
    Kind.SMALLINT: (1, 2, 0, 5, -2),
    Kind.FLOAT: (1.0, 0.5, 2.0, 0.0, -2.5),
    Kind.TIME: (dt.time(1), dt.time(12, 30), dt.time(0), dt.time(23, 59, 59)),
    Kind.BYTES: (b"a", b"b", b"", b"ab"),
}
"""Small on purpose: joins must hit, groups must have several rows, and rows must repeat."""


def arrow_type(kind: Kind) -> pa.DataType:
    return {
        Kind.INT: pa.int32(),
        Kind.BIGINT: pa.int64(),
        Kind.DECIMAL: pa.decimal128(10, 2),
        Kind.DOUBLE: pa.float64(),
        Kind.STRING: pa.string(),
        Kind.BOOLEAN: pa.bool_(),
        Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"),
        Kind.SMALLINT: pa.int16(),
        Kind.FLOAT: pa.float32(),
        Kind.TIME: pa.time32("ms"),
        Kind.BYTES: pa.binary(),
    }[kind]


def literal(value: Any, kind: Kind) -> str:
    """A value as SQL that both engines read."""
    if value is None:
        return f"CAST(NULL AS {kind.value})"
    match kind:
        case Kind.STRING:
            return "'" + value.replace("'", "''") + "'"
        case Kind.BOOLEAN:
            return "TRUE" if value else "FALSE"
        case Kind.DATE:
            return f"DATE '{value.isoformat()}'"
        case Kind.TIMESTAMP:
            return f"TIMESTAMP '{value.isoformat(sep=' ', timespec='milliseconds')}'"
        case Kind.DOUBLE | Kind.FLOAT | Kind.BIGINT | Kind.SMALLINT:
            return f"CAST({value} AS {kind.value})"
        case Kind.TIME:
            return f"TIME '{value.isoformat()}'"
        case Kind.BYTES:
            return f"CAST('{value.decode()}' AS BYTES)"
        case Kind.INT if value < 0:
            return f"({value})"
        case _:
            return str(value)


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
        parts = [f"{c.name} {c.kind.value}" for c in self.columns]
        if self.key:
            parts.append(f"PRIMARY KEY ({', '.join(c.name for c in self.columns[: self.key])}) NOT ENFORCED")
        options = " WITH ('changelog-mode' = 'append')" if self.sends == "insertions" else ""
        return f"CREATE TABLE {self.name} ({', '.join(parts)}){options}"

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
            row = tuple(_wide(chance, c.kind, null=i >= table.key) for i, c in enumerate(table.columns))
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


_KINDS = (Kind.INT, *(k for k in Kind if k is not Kind.APPROX))
_KEY_KINDS = (Kind.INT, Kind.STRING, Kind.BIGINT, Kind.DATE, Kind.SMALLINT, Kind.TIME)


def _wide(chance: random.Random, kind: Kind, *, null: bool) -> Any:
    """A value of a larger domain, now and then one of the small one or NULL."""
    if null and chance.random() < 0.1:
        return None
    if chance.random() < 0.2:
        return chance.choice(DOMAINS[kind])
    number = chance.randint(-40, 160)
    match kind:
        case Kind.INT | Kind.BIGINT | Kind.SMALLINT:
            return number
        case Kind.DECIMAL:
            return Decimal(number) / 4
        case Kind.DOUBLE | Kind.FLOAT:
            return number / 4 + 0.0
        case Kind.TIME:
            return dt.time(number % 24, 7)
        case Kind.BYTES:
            return b"%d" % number
        case Kind.STRING:
            return f"text number {number}" if number % 2 else f"{number}"
        case Kind.DATE:
            return DOMAINS[kind][0] + dt.timedelta(days=number)
        case Kind.TIMESTAMP:
            return DOMAINS[kind][0] + dt.timedelta(minutes=number)
        case _:
            return chance.choice(DOMAINS[kind])


def draw_tables(choose: Choices) -> tuple[Table, ...]:
    """One to three tables; the first column is always of an INT so that tables have something to be joined on."""
    found = []
    for number in range(choose.weighted([(3, 1), (4, 2), (3, 3)])):
        key = choose.weighted([(5, 0), (4, 1), (1, 2)])
        width = choose.count(max(2, key + 1), 5)
        columns = []
        for i in range(width):
            kind = Kind.INT if i == 0 else choose.pick(_KEY_KINDS) if i < key else choose.pick(_KINDS)
            columns.append(Column(f"c{i}", kind))
        keyed = [(6, "full images"), (2, "after-images"), (1, "key-only deletes")]
        sends = choose.weighted(keyed if key else [(3, "full images"), (1, "insertions")])
        found.append(Table(f"t{number}", tuple(columns), key, sends))
    return tuple(found)


def draw_value(choose: Choices, kind: Kind, *, null: bool) -> Any:
    """A value of a kind's domain, mostly one of its first three; NULL in one of seven cases where it may be."""
    if null and choose.chance(14):
        return None
    domain = DOMAINS[kind]
    return domain[choose.weighted([(5, 0), (4, 1), (3, 2), (1, 3), (1, 4)]) % len(domain)]


def draw_row(choose: Choices, table: Table) -> Row:
    return tuple(draw_value(choose, c.kind, null=i >= table.key) for i, c in enumerate(table.columns))


def draw_epochs(choose: Choices, tables: tuple[Table, ...], *, large: bool = True) -> list[list[Op]]:
    """One to six epochs of changes: more insertions at the start; at times an empty epoch, or one that empties a table.

    `large`: now and then hundreds of rows; not for queries whose joins would make millions of them.
    """
    epochs = []
    churns = large and choose.chance(15)
    for number in range(choose.count(1, 6)):
        ops = []
        size = choose.count(0, 6) * choose.pick((1, 1, 2)) + (choose.count(0, 8) if number == 0 else 0)
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


__all__ += ["Row", "draw_row", "draw_value"]
