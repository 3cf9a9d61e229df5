"""A case: tables, what happens to them, definitions of views, one query, and how it is run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from planner.stages import STAGES
from tests.oracle.generate_choices import Choices, Draw
from tests.oracle.generate_lives import Life, draw_life
from tests.oracle.generate_queries import Queries
from tests.oracle.generate_tables import Op, Table, draw_epochs, draw_tables
from tests.oracle.generate_text import Query, Text, text

__all__ = ["Case", "Definition", "RULES", "cases", "draw_case"]

RULES: tuple[str, ...] = tuple(sorted({r.name for s in STAGES for r in s.rules if not r.essential}))
"""The rules that can be switched off."""

_RELATION = re.compile(r"(\w+) AS r\d")
_MOST_READ = 10
"""Views over views multiply what they read, and what has no equality multiplies rows."""


@dataclass(frozen=True)
class Definition:
    """A view that the query may read. `how`: VIEW or MATERIALIZED VIEW."""

    how: str
    name: str
    query: Query


@dataclass(frozen=True)
class Case:
    """All of a case. `disabled`: the rules that its second run does without; `late`: that run creates the view over
    full tables; `life`: how the jobs of the run with one change an epoch live."""

    tables: tuple[Table, ...]
    epochs: tuple[tuple[Op, ...], ...]
    definitions: tuple[Definition, ...]
    query: Query
    disabled: tuple[str, ...]
    late: bool
    life: Life

    @property
    def sql(self) -> Text:
        return self.query.sql


def _reads(query: str, definitions: Sequence[Definition]) -> int:
    """How many base tables a query reads, those below views as often as the views are read."""
    below = {d.name: d.query.sql.ours for d in definitions}

    def of(text: str) -> int:
        return sum(of(below[name]) if name in below else 1 for name in _RELATION.findall(text))

    return of(query)


@st.composite
def cases(draw: Draw, family: str) -> Case:
    """Cases whose outermost query is of a family."""
    return draw_case(Choices(draw), family)


def draw_case(choose: Choices, family: str) -> Case:
    """One case."""
    tables = draw_tables(choose)
    queries = Queries(choose, [(t.name, t.columns) for t in tables])
    definitions = []
    for _ in range(choose.weighted([(75, 0), (8, 1), (5, 2), (2, 3), (2, 4), (8, 5)])):
        how = choose.pick(("VIEW", "MATERIALIZED VIEW"))
        name = choose.name("v")
        query = queries.query(choose.weighted([(3, 0), (2, 1)]))
        if _reads(query.sql.ours, definitions) > _MOST_READ:
            break
        definitions.append(Definition(how, name, query))
        queries.sources.append((name, query.columns))
        # Each reads the one before it, often.
        queries.favourite = (name, query.columns)
    depth = choose.weighted([(3, 1), (3, 0), (2, 2), (1, 3)])
    with_text = None
    if choose.chance(12):
        common = queries.query(max(depth - 1, 0))
        name = choose.name("w")
        with_text = text(f"WITH {name} AS ({{}}) ", common.sql)
        queries.favourite = (name, common.columns)
    query = queries.query(depth, family=family)
    if with_text is not None:
        query = Query(text("{}{}", with_text, query.sql), query.columns, query.single)
    number = _reads(query.sql.ours, definitions)
    epochs = draw_epochs(choose, tables, large=number <= 2, small=number > _MOST_READ)
    disabled = choose.some(RULES, 0, len(RULES)) if choose.chance(60) else []
    late = choose.chance(25)
    steps = tuple(tuple(e) for e in epochs)
    return Case(tables, steps, tuple(definitions), query, tuple(disabled), late, draw_life(choose))
