"""A view that is given one query after another, with changes of its tables, and restarts, between them."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.oracle.generate_cases import Definition
from tests.oracle.generate_choices import Choices, Draw
from tests.oracle.generate_dml import Statements
from tests.oracle.generate_lives import Life, draw_life
from tests.oracle.generate_queries import Queries
from tests.oracle.generate_tables import Table, draw_tables
from tests.oracle.generate_text import Column, Kind, Query, Text, joined, same, text

__all__ = ["RESTART", "ReplacedCase", "replaced_cases"]

RESTART = same("-- restart")


@dataclass(frozen=True)
class ReplacedCase:
    """Tables, views that the queries read, and what happens: a change of tables, the next query of the view `kept`, or a
    restart. `followed`: all queries have the same columns, and somebody follows the view."""

    tables: tuple[Table, ...]
    definitions: tuple[Definition, ...]
    steps: tuple[Text | Query, ...]
    followed: bool
    life: Life

    @property
    def sql(self) -> Text:
        """All that happens, one after another."""
        found = [text("-- view {} is {}", d.name, d.query.sql) for d in self.definitions]
        found += [text("-- kept is {}", s.sql) if isinstance(s, Query) else s for s in self.steps]
        return joined(";\n", found)


def draw_replaced_case(choose: Choices) -> ReplacedCase:
    """One case."""
    tables = draw_tables(choose, sends=False)
    queries = Queries(choose, [(t.name, t.columns) for t in tables])
    statements = Statements(choose, queries, tables)
    definitions: list[Definition] = []
    for _ in range(choose.weighted([(1, 0), (4, 1), (2, 2)])):
        how = choose.weighted([(4, "VIEW"), (1, "MATERIALIZED VIEW")])
        name = choose.name("v")
        query = queries.query(choose.weighted([(2, 0), (3, 1)]))
        definitions.append(Definition(how, name, query))
        queries.sources.append((name, query.columns))
        # What the queries have in common, and what is kept of it.
        queries.favourite = (name, query.columns)
    followed = choose.chance(35)
    steps: list[Text | Query] = [statements.values(t, choose.count(1, 6)) for t in tables]
    known: list[Query] = []
    for _ in range(choose.count(2, 5)):
        query = _next(choose, queries, known)
        known.append(query)
        steps.append(_nulls(query) if followed else query)
        steps += [statements.statement() for _ in range(choose.count(0, 2))]
        if choose.chance(25):
            steps.append(RESTART)
    return ReplacedCase(tables, tuple(definitions), tuple(steps), followed, draw_life(choose))


def _next(choose: Choices, queries: Queries, known: list[Query]) -> Query:
    """A new query, one that was there, or one over what was there."""
    if not known or choose.chance(40):
        return queries.query(choose.weighted([(3, 0), (2, 1)]))
    last = choose.pick(known)
    columns = last.columns
    column = choose.pick(columns)
    match choose.weighted([(1, "same"), (2, "fewer"), (2, "filter"), (2, "groups"), (2, "twice"), (2, "best")]):
        case "same":
            return last
        case "fewer":
            return Query(text("SELECT {} FROM ({}) AS inner_0", column.name, last.sql), (column,), last.single)
        case "filter":
            sql = text("SELECT * FROM ({}) AS inner_0 WHERE {} IS NOT NULL", last.sql, column.name)
            return Query(sql, columns, False)
        case "twice":
            other = queries.query(0)
            if [c.kind for c in other.columns] != [c.kind for c in columns]:
                other = last
            return Query(text("({}) UNION ALL ({})", last.sql, other.sql), columns, False)
        case "groups":
            counted = text("SELECT {0} IS NULL AS gone, COUNT(*) AS many FROM ({1}) AS inner_0", column.name, last.sql)
            grouped = text("{} GROUP BY {} IS NULL", counted, column.name)
            return Query(grouped, (Column("gone", Kind.BOOLEAN), Column("many", Kind.BIGINT)), False)
        case _:
            best = text("SELECT COUNT(*) AS many, COUNT({}) AS there FROM ({}) AS inner_0", column.name, last.sql)
            return Query(
                text("{} HAVING COUNT(*) > 0", best), (Column("many", Kind.BIGINT), Column("there", Kind.BIGINT)), False
            )


def _nulls(query: Query) -> Query:
    """A query with the columns of all others."""
    first, last = query.columns[0].name, query.columns[-1].name
    sql = text("SELECT {} IS NULL AS a, {} IS NULL AS b FROM ({}) AS followed_0", first, last, query.sql)
    return Query(sql, (Column("a", Kind.BOOLEAN), Column("b", Kind.BOOLEAN)), False)


@st.composite
def replaced_cases(draw: Draw) -> ReplacedCase:
    """Cases for hypothesis."""
    return draw_replaced_case(Choices(draw))
