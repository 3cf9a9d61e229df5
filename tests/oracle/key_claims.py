"""What the planner says of keys, put to the test with rows.

For the plan of a query, and for every plan below it, its rows are kept as a bag, and once more by each of its upsert
keys, as INSERT INTO would into a table with that primary key. A keyed sink is sent no old images, so that a key that
rows change, or a row that gets lost on the way, shows as a difference between the two. Of a unique key no two rows of
the bag may agree on all columns; a table by a unique key that is no upsert key is kept, too: what stands before its
sink must bring the changes in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from connectors.memory import MemorySink, MemoryTable
from planner.logical.display import explain
from planner.logical.nodes import LogicalNode, Project, Sink, Values
from planner.lower import lower
from planner.traits.context import TraitContext
from planner.traits.keys import Key, unique_keys, upsert_keys
from runtime.core.errors import SqlEngineError
from runtime.core.schema import Field, Schema
from runtime.local.job import Job
from runtime.plan.nodes import PhysicalNode
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.maintained_view import MaintainedView
from sqlengine.database.session import Session
from sqlengine.statements.planning import bound_schema, bound_view, lower_context, plan_view
from sqlengine.verify.rows import Row, difference, rows_of

__all__ = ["KeyClaims"]

MOST_PLANS = 6
MOST_KEYS = 3


@dataclass(frozen=True)
class _Kept:
    """One plan's rows: all of them, and by each upsert key (names of columns)."""

    plan: LogicalNode
    bag: MemoryTable
    keyed: tuple[MemoryTable, ...]
    unique: tuple[tuple[int, ...], ...]


class KeyClaims:
    """Keeps the rows of a query's plan and of the plans below it. Nothing is kept of plans for which no key is claimed.

    Args:
        below: also the plans below, the largest `MOST_PLANS` of them; else only the query's own.
    """

    def __init__(self, session: Session, name: str, query: object, *, below: bool) -> None:
        bound = bound_view(session, query)
        schema = bound_schema(bound)
        names = [f"k{i}" for i in range(len(schema))]
        planned = plan_view(session, bound, _table(name, schema.fields), names)
        assert isinstance(planned.optimized, Sink)
        self._traits = TraitContext(session.functions, session.options)
        self._session = session
        self._kept: list[_Kept] = []
        self._roots: list[PhysicalNode] = []
        self._top = top = planned.optimized.input
        plans = [p for p in dict.fromkeys(_plans(top)) if p is top or not isinstance(p, Project | Values)]
        for number, plan in enumerate(plans[: MOST_PLANS if below else 1]):
            self._keep(f"{name}_{number}", plan, must=plan is top)
        if self._roots:
            job = Job(f"view {name}", self._roots, session.job_settings())
            path = ObjectPath("default_catalog", "default_database", name)
            session.views.add(MaintainedView(path, job, False, frozenset()))

    def _keep(self, name: str, plan: LogicalNode, *, must: bool) -> None:
        positions = {column.id: i for i, column in enumerate(plan.columns)}

        def shown(keys: Sequence[Key]) -> list[tuple[int, ...]]:
            return [tuple(sorted(positions[i] for i in key)) for key in keys if key <= set(positions)]

        unique, upsert = shown(unique_keys(plan, self._traits)), shown(upsert_keys(plan, self._traits))
        if not unique or not positions:
            return
        fields = [Field(f"k{i}", c.type) for i, c in enumerate(plan.columns)]
        bag = _table(name, fields)
        chosen = upsert[:MOST_KEYS] + [key for key in unique if key not in upsert][:1]
        keyed = [_table(f"{name}_by_{n}", fields, key) for n, key in enumerate(chosen) if key]
        try:
            context = lower_context(self._session)
            roots = [lower(Sink(plan, MemorySink(t, live=True), t.name), context) for t in (bag, *keyed)]
        except SqlEngineError:
            # Not every part of a query is one that could be asked by itself.
            if must:
                raise
            return
        self._roots += roots
        self._kept.append(_Kept(plan, bag, tuple(keyed), tuple(unique)))

    def problem(self) -> str | None:
        """What is claimed and not so, with the plan of which it is claimed; None when all is well."""
        for kept in self._kept:
            rows = rows_of(kept.bag.contents())
            found = _duplicates(rows, kept.unique)
            for table in kept.keyed:
                differs = difference(rows_of(table.contents()), rows, [False] * len(kept.plan.columns), "the bag's")
                if differs is not None and found is None:
                    found = f"kept by key {', '.join(table.primary_key)}:\n{differs}"
            if found is not None:
                return f"{found}\nof the plan\n{explain(kept.plan)}"
        return None

    @property
    def tables(self) -> tuple[MemoryTable, ...]:
        """The rows of the query itself by its keys."""
        return next((kept.keyed for kept in self._kept if kept.plan is self._top), ())


def _plans(plan: LogicalNode) -> Iterator[LogicalNode]:
    yield plan
    for source in plan.inputs:
        yield from _plans(source)


def _table(name: str, fields: Sequence[Field], key: Sequence[int] = ()) -> MemoryTable:
    schema = Schema(tuple(Field(f"k{i}", f.type.materialized()) for i, f in enumerate(fields)))
    return MemoryTable(name, schema, [f"k{i}" for i in key])


def _duplicates(rows: Sequence[Row], unique: Sequence[tuple[int, ...]]) -> str | None:
    for key in unique:
        seen = Counter(repr([row[i] for i in key]) for row in rows)
        twice = [text for text, times in seen.items() if times > 1]
        if twice:
            return f"unique key {', '.join(f'k{i}' for i in key)} is there more than once: {', '.join(twice[:3])}"
    return None
