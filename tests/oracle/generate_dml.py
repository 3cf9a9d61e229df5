"""Sequences of INSERT, UPDATE and DELETE as SQL, in epochs of their own and between BEGIN EPOCH and its end, with queries
between them, over tables that views follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.oracle.generate_cases import Definition
from tests.oracle.generate_choices import Choices, Draw
from tests.oracle.generate_expressions import Expressions
from tests.oracle.generate_lives import Life, draw_life
from tests.oracle.generate_queries import Queries
from tests.oracle.generate_tables import Table, draw_row, draw_tables
from tests.oracle.generate_text import EXACT, ORDERED, Column, Expr, Kind, Query, Text, joined, same, text
from tests.oracle.generate_values import DOMAINS, literal, null_of

__all__ = ["DmlCase", "Statements", "Step", "dml_cases", "draw_dml_case"]


@dataclass(frozen=True)
class Step:
    """Statements and queries in order. `end`: of the epoch that they stand in, END EPOCH or ROLLBACK EPOCH; empty where
    each is an epoch of its own."""

    parts: tuple[Text | Query, ...]
    end: str


@dataclass(frozen=True)
class DmlCase:
    """Tables, views over them, and what is done to the tables. `life`: how the jobs of the views live."""

    tables: tuple[Table, ...]
    definitions: tuple[Definition, ...]
    steps: tuple[Step, ...]
    life: Life

    @property
    def sql(self) -> Text:
        """All statements, one after another."""
        return joined(
            ";\n", [p.sql if isinstance(p, Query) else p for step in self.steps for p in step.parts] or [same("")]
        )


def draw_dml_case(choose: Choices) -> DmlCase:
    """One case."""
    tables = draw_tables(choose, sends=False)
    queries = Queries(choose, [(t.name, t.columns) for t in tables])
    definitions = []
    for _ in range(choose.weighted([(3, 1), (2, 2), (1, 3)])):
        how = choose.pick(("MATERIALIZED VIEW", "VIEW"))
        name = choose.name("v")
        query = queries.query(choose.weighted([(3, 0), (1, 1)]))
        definitions.append(Definition(how, name, query))
        queries.sources.append((name, query.columns))
    statements = Statements(choose, queries, tables)
    steps = [
        Step(tuple(statements.values(t, choose.count(1, 6)) for t in tables), "END EPOCH" if choose.chance(50) else "")
    ]
    for _ in range(choose.count(1, 4)):
        end = choose.weighted([(4, ""), (3, "END EPOCH"), (1, "ROLLBACK EPOCH")])
        parts: list[Text | Query] = []
        for _ in range(choose.count(1, 3) if end else 1):
            if end and choose.chance(20):
                parts.append(queries.query(0))
            parts.append(statements.statement())
        if end and choose.chance(40):
            parts.append(queries.query(0))
        steps.append(Step(tuple(parts), end))
    return DmlCase(tables, tuple(definitions), tuple(steps), draw_life(choose))


@st.composite
def dml_cases(draw: Draw) -> DmlCase:
    """Cases for hypothesis."""
    return draw_dml_case(Choices(draw))


class Statements:
    """Draws statements that change tables."""

    def __init__(self, choose: Choices, queries: Queries, tables: Sequence[Table]) -> None:
        self._choose = choose
        self._queries = queries
        self._tables = tables

    def statement(self) -> Text:
        choose = self._choose
        table = choose.pick(self._tables)
        match choose.weighted([(3, "select"), (4, "update"), (4, "delete"), (3, "values"), (1, "truncate")]):
            case "select":
                return self._from_query(table)
            case "update":
                return self._update(table)
            case "delete":
                where = self._where(table)
                return text("DELETE FROM {}{}", table.name, where)
            case "truncate":
                return Text(f"TRUNCATE TABLE {table.name}", f"DELETE FROM {table.name}")
        return self.values(table, choose.count(1, 3))

    def values(self, table: Table, number: int) -> Text:
        """INSERT of rows; of a key the last one counts, so there is one of each."""
        rows = [draw_row(self._choose, table) for _ in range(number)]
        if table.key:
            rows = list({row[: table.key]: row for row in rows}.values())
        each = [
            text("({})", joined(", ", [literal(v, c.kind) for v, c in zip(row, table.columns, strict=True)]))
            for row in rows
        ]
        names = ", ".join(c.name for c in table.columns)
        insert = text("INSERT INTO {} VALUES {}", table.name, joined(", ", each))
        source = f"SELECT * FROM (VALUES {joined(', ', each).duck}) AS given ({names})"
        return insert if not table.key else Text(insert.ours, self._by_key(table, source))

    def _by_key(self, table: Table, source: str) -> str:
        """DuckDB's statements for an INSERT that replaces rows by key."""
        keys = " AND ".join(f"given.{c.name} = {table.name}.{c.name}" for c in table.columns[: table.key])
        return (
            f"CREATE OR REPLACE TEMP TABLE given AS {source}; DELETE FROM {table.name} WHERE EXISTS"
            f" (SELECT 1 FROM given WHERE {keys}); INSERT INTO {table.name} SELECT * FROM given"
        )

    def _from_query(self, table: Table) -> Text:
        choose = self._choose
        if table.key and choose.chance(50):
            scope = Expressions(choose, [c.of(table.name) for c in table.columns], scalar=self._scalar())
            items = [c.of(table.name).sql for c in table.columns[: table.key]]
            items += [self._value(scope, c) for c in table.columns[table.key :]]
            source = text("SELECT {} FROM {}{}", self._named(table, items), table.name, self._where(table))
        elif table.key:
            inner = self._queries.relation(1)
            scope = Expressions(choose, inner.columns)
            keys = [scope.column((c.kind,)) or Expr(scope.constant(c.kind, null=False), c.kind) for c in table.columns]
            keys = keys[: table.key]
            items = [k.sql for k in keys] + [self._extreme(scope, c) for c in table.columns[table.key :]]
            known = joined(" AND ", [text("{} IS NOT NULL", k.sql) for k in keys])
            group = joined(", ", [k.sql for k in keys])
            source = text("SELECT {} FROM {} WHERE {} GROUP BY {}", self._named(table, items), inner.sql, known, group)
        else:
            inner = self._queries.from_clause(0)
            scope = Expressions(choose, inner.columns, scalar=self._scalar())
            items = [self._value(scope, c) for c in table.columns]
            where = text(" WHERE {}", self._condition(inner.columns)) if choose.chance(50) else same("")
            source = text("SELECT {} FROM {}{}", self._named(table, items), inner.sql, where)
        insert = text("INSERT INTO {} {}", table.name, source)
        return Text(insert.ours, self._by_key(table, source.duck) if table.key else self._whole(table, source.duck))

    def _whole(self, table: Table, source: str) -> str:
        """DuckDB's statements for an INSERT: its second branch of a UNION ALL may read what the first one has inserted."""
        return f"CREATE OR REPLACE TEMP TABLE given AS {source}; INSERT INTO {table.name} SELECT * FROM given"

    def _named(self, table: Table, items: Sequence[Text]) -> Text:
        return joined(", ", [text("{} AS {}", i, c.name) for i, c in zip(items, table.columns, strict=True)])

    def _extreme(self, scope: Expressions, column: Column) -> Text:
        if column.kind not in ORDERED or scope.column((column.kind,)) is None:
            return scope.constant(column.kind, null=not column.required)
        value = text("{}({})", self._choose.pick(("MAX", "MIN")), scope.value(column.kind, 0))
        return self._fitting(value, column)

    def _value(self, scope: Expressions, column: Column) -> Text:
        return self._fitting(scope.value(column.kind, 1), column)

    def _fitting(self, value: Text, column: Column) -> Text:
        """Of exactly the column's type, and not NULL where it may not be."""
        if column.required:
            value = text("COALESCE({}, {})", value, literal(DOMAINS[column.kind][0], column.kind))
        if column.kind in (Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.FLOAT):
            return text("CAST({} AS {})", value, column.kind.value)
        return value

    def _update(self, table: Table) -> Text:
        choose = self._choose
        columns = [c for c in table.columns[table.key :] if c.kind in EXACT]
        if not columns:
            return text("DELETE FROM {}{}", table.name, self._where(table))
        scope = Expressions(choose, [c.of(table.name) for c in table.columns], scalar=self._scalar())
        sets = []
        for column in choose.some(columns, 1, 2):
            null = not column.required and choose.chance(10)
            value = null_of(column.kind) if null else self._value(scope, column)
            sets.append(text("{} = {}", column.name, value))
        return text("UPDATE {} SET {}{}", table.name, joined(", ", sets), self._where(table))

    def _where(self, table: Table) -> Text:
        if self._choose.chance(10):
            return same("")
        return text(" WHERE {}", self._condition([c.of(table.name) for c in table.columns]))

    def _condition(self, columns: Sequence[Expr]) -> Text:
        return Expressions(self._choose, columns, lambda outer: self._queries.subquery(outer, 0)).condition(1)

    def _scalar(self) -> Callable[[Sequence[Expr], Kind], Text] | None:
        return (lambda outer, kind: self._queries.scalar(outer, kind, 0)) if self._choose.chance(40) else None
