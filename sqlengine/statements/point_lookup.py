"""Queries that are rows of one table in memory by the values of some of its columns: `SELECT a, b FROM t WHERE k = ?`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.memory import MemoryTable
from connectors.memory.snapshot import TableSnapshot
from runtime.core.types import DataType, TypeRoot
from runtime.expr.nodes import Call, Expr, InputRef, Literal, Parameter
from runtime.plan.nodes import CalcExec, SourceExec
from sqlengine.catalog.catalog import CatalogObject
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView, ObjectPath, PhysicalColumn
from sqlengine.database.session import Session
from sqlengine.parameters.binding import Key
from sqlengine.statements.prepared_plans import Kept

__all__ = ["PointLookup", "point_lookup"]


def _whole(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


_KINDS: dict[TypeRoot, Callable[[Any], bool]] = {
    TypeRoot.TINYINT: _whole(-(1 << 7), (1 << 7) - 1),
    TypeRoot.SMALLINT: _whole(-(1 << 15), (1 << 15) - 1),
    TypeRoot.INT: _whole(-(1 << 31), (1 << 31) - 1),
    TypeRoot.BIGINT: _whole(-(1 << 63), (1 << 63) - 1),
    TypeRoot.VARCHAR: lambda value: type(value) is str,
    TypeRoot.DATE: lambda value: type(value) is dt.date,
}
"""Types whose equality is that of their values, by what is a value of each."""


@dataclass(frozen=True, slots=True)
class PointLookup:
    """What such a query reads, and what it was read from.

    Attributes:
        thing: the table or materialized view.
        keys: the positions of the columns that are compared.
        types: theirs.
        values: with what each is compared: the key of a parameter, or a literal.
        wanted: the positions of the columns of the result; `row` has their types.
    """

    thing: CatalogTable | MaterializedView
    keys: tuple[int, ...]
    types: tuple[DataType, ...]
    values: tuple[Key | Literal, ...]
    wanted: tuple[int, ...]
    row: tuple[DataType, ...]
    read: tuple[tuple[ObjectPath, CatalogObject], ...]
    surroundings: tuple[Any, ...]

    def holds(self, session: Session) -> bool:
        """Whether the names of the query and the options still mean what they did, and the session has changed nothing
        that only it sees."""
        catalogs, epoch = session.catalogs, session.epoch
        return (
            self.surroundings == _surroundings(session)
            and all(catalogs.find(path) is thing for path, thing in self.read)
            and (epoch is None or not epoch.rows)
        )

    def contents(self, session: Session) -> MemoryTable | None:
        """The rows as all see them; None where they have to be brought up to date first.

        Raises PlanningError E1713 when the view has failed.
        """
        shown, storage = session.database.shown, self.thing.storage
        found = shown.memory.get(storage)
        if found is None or found in shown.stale or found not in shown.versions or session.views.is_due():
            return None
        session.views.check(storage)
        return found

    def key_of(self, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """What the columns have to be, for values of the parameters from 1 on; None where a value is not simply one of
        the column's type."""
        found: list[Any] = []
        for type_, wanted in zip(self.types, self.values):
            value = wanted.value if isinstance(wanted, Literal) else values[int(wanted) - 1]
            if value is not None and not _KINDS[type_.root](value):
                return None
            found.append(value)
        return tuple(found)


def _surroundings(session: Session) -> tuple[Any, ...]:
    catalogs, authority = session.catalogs, session.authority
    privileges = None if authority is None else authority.roles.version
    return catalogs.current_catalog, catalogs.current_database, session.options.as_dict(), privileges


def point_lookup(kept: Kept, session: Session) -> PointLookup | None:
    """The lookup that a kept plan of a query is; None for any other query."""
    planned = kept.made
    plan = planned.physical
    if planned.order or planned.visible != len(planned.schema) or not isinstance(plan, CalcExec):
        return None
    source = plan.input
    if plan.condition is None or not isinstance(source, SourceExec) or not isinstance(source.table, TableSnapshot):
        return None
    thing = next((t for path, t in kept.read if str(path) == source.table.name), None)
    if thing is None or isinstance(thing, CatalogView) or kept.counts or kept.given:
        return None
    names = [column.name for column in thing.columns if isinstance(column, PhysicalColumn)]
    compared: dict[int, tuple[DataType, Key | Literal]] = {}
    for part in _parts(plan.condition):
        found = _comparison(part)
        if found is None or found[0] in compared:
            return None
        compared[found[0]] = found[1:]
    if not all(isinstance(projection, InputRef) for projection in plan.projections):
        return None
    at = [names.index(field.name) for field in source.schema]
    keys = sorted(compared, key=lambda i: at[i])
    return PointLookup(
        thing,
        tuple(at[i] for i in keys),
        tuple(compared[i][0] for i in keys),
        tuple(compared[i][1] for i in keys),
        tuple(at[p.index] for p in plan.projections if isinstance(p, InputRef)),
        tuple(field.type for field in planned.schema),
        kept.read,
        _surroundings(session),
    )


def _parts(condition: Expr) -> Sequence[Expr]:
    if isinstance(condition, Call) and condition.function == "AND":
        return [part for arg in condition.args for part in _parts(arg)]
    return [condition]


def _comparison(part: Expr) -> tuple[int, DataType, Key | Literal] | None:
    """`column = value`, with both of one simple type."""
    if not isinstance(part, Call) or part.function != "=":
        return None
    left, right = part.args
    if isinstance(right, InputRef):
        left, right = right, left
    if not isinstance(left, InputRef) or not isinstance(right, Parameter | Literal):
        return None
    if left.type.root is not right.type.root or left.type.root not in _KINDS:
        return None
    if isinstance(right, Literal):
        return left.index, left.type, right
    return (left.index, left.type, right.key) if isinstance(right.key, int) else None
