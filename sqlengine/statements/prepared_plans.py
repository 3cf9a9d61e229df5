"""Plans of a prepared statement, to be used again with other values.

A plan may be used again when it reads nothing but tables and views in memory, of which it gets the rows of the moment,
and when all that it was made from is the same: the objects that its names stand for, options and functions.
Any other plan is made anew with the values in it, so that connectors see conditions and not parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from connectors.memory.snapshot import TableSnapshot
from runtime.core.errors import SqlEngineError
from runtime.core.node import Node
from runtime.core.types import DataType
from runtime.plan.nodes import LookupJoinExec, PhysicalNode, SourceExec
from runtime.plan.walk import walk
from sqlengine.catalog.catalog import CatalogObject
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView, ObjectPath
from sqlengine.database.session import Session
from sqlengine.options.verify import VERIFY
from sqlengine.parameters.binding import Key, Parameters, Slot, rewritten
from sqlengine.statements.planning import PlannedQuery

__all__ = ["Kept", "Plans"]

_MOST = 8
"""Plans that are kept of a statement: values of other types have other plans."""
_GROWTH = 3
"""Bits by which the number of a table's rows may differ from that which a plan was made for."""


@dataclass(frozen=True)
class Kept:
    """A plan, or what else was made of a bound statement, with what it was made from."""

    made: Any
    slots: tuple[Slot, ...]
    given: dict[Key, DataType]
    counts: dict[Key, object]
    read: tuple[tuple[ObjectPath, CatalogObject], ...]
    rows: dict[str, int]
    surroundings: tuple[Any, ...]

    @staticmethod
    def of(made: Any, session: Session, parameters: Parameters, rows: dict[str, int]) -> Kept:
        return Kept(
            made,
            tuple(parameters.slots),
            dict(parameters.given),
            dict(parameters.counts),
            tuple({path: (path, thing) for path, thing in parameters.read}.values()),
            rows,
            _surroundings(session),
        )

    def holds(self, session: Session, parameters: Parameters) -> bool:
        """Whether it may be used again, with these values."""
        return (
            self.surroundings == _surroundings(session)
            and all(session.catalogs.find(path) is thing for path, thing in self.read)
            and parameters.fits(self.slots, self.given, self.counts)
        )


def _surroundings(session: Session) -> tuple[Any, ...]:
    return (
        session.catalogs.current_catalog,
        session.catalogs.current_database,
        session.options.as_dict(),
        dict(session.user_functions),
        # Somebody may have taken a privilege away.
        None if session.authority is None else session.authority.roles.version,
    )


class Plans:
    """The plans of one prepared statement."""

    def __init__(self) -> None:
        self._kept: list[Kept] = []
        self._only_with_values = False

    def query(self, session: Session, parameters: Parameters, plan: Callable[[], PlannedQuery]) -> PlannedQuery:
        """The plan for the values: one that was made before, or one that `plan` makes."""
        if session.in_epoch or session.options.get(VERIFY) or self._only_with_values:
            return plan()
        for kept in self._kept:
            if kept.holds(session, parameters) and _like_then(session, kept):
                return _with_rows_of_now(
                    kept.made, session, parameters, {str(path): thing for path, thing in kept.read}
                )
        planned = self._for_other_values(session, parameters, plan)
        if planned is None:
            self._only_with_values = True
            return plan()
        return planned

    @property
    def newest(self) -> Kept | None:
        """What was kept last."""
        return self._kept[-1] if self._kept and not self._only_with_values else None

    def find(self, session: Session, parameters: Parameters) -> Any:
        """What `keep` has kept for such values; None when there is none."""
        return next((kept.made for kept in self._kept if kept.holds(session, parameters)), None)

    def keep(self, made: Any, session: Session, parameters: Parameters, rows: dict[str, int] | None = None) -> None:
        """Remember what was made from the statement as bound last; what does not hold any more is forgotten."""
        kept = [k for k in self._kept if k.surroundings == _surroundings(session)]
        self._kept = [*kept[-_MOST + 1 :], Kept.of(made, session, parameters, rows or {})]

    def _for_other_values(
        self, session: Session, parameters: Parameters, plan: Callable[[], PlannedQuery]
    ) -> PlannedQuery | None:
        parameters.read.clear()
        parameters.keeps_places = True
        try:
            planned = plan()
        except SqlEngineError:
            return None
        finally:
            parameters.keeps_places = False
        read = {str(path): thing for path, thing in parameters.read}
        rows: dict[str, int] = {}
        for node in walk(planned.physical):
            if isinstance(node, SourceExec) and isinstance(node.table, TableSnapshot) and node.table.name in read:
                rows[node.table.name] = node.table.num_rows
            elif isinstance(node, SourceExec | LookupJoinExec):
                return None
        self.keep(replace(planned, physical=_emptied(planned.physical)), session, parameters, rows)
        return replace(planned, physical=parameters.filled(planned.physical))


def _emptied(plan: PhysicalNode) -> PhysicalNode:
    """The plan without the rows of the tables that it reads."""
    empty: dict[str, pa.Table] = {}

    def change(node: Node) -> Node:
        if not isinstance(node, SourceExec) or not isinstance(node.table, TableSnapshot):
            return node
        table = node.table
        whole = empty.setdefault(table.name, table.whole.schema.empty_table())
        return node.with_(table=TableSnapshot(table.name, table.schema, whole, table.schema.names))

    return rewritten(plan, change)


def _like_then(session: Session, kept: Kept) -> bool:
    """Whether the tables have about as many rows as when the plan was made."""
    things = {str(path): thing for path, thing in kept.read}
    return all(
        abs(session.snapshot(_stored(things[name])).num_rows.bit_length() - then.bit_length()) <= _GROWTH
        for name, then in kept.rows.items()
    )


def _stored(thing: CatalogObject) -> CatalogTable | MaterializedView:
    assert not isinstance(thing, CatalogView)
    return thing


def _with_rows_of_now(
    planned: PlannedQuery, session: Session, parameters: Parameters, read: dict[str, CatalogObject]
) -> PlannedQuery:
    snapshots: dict[str, TableSnapshot] = {}

    def change(node: Node) -> Node:
        if not isinstance(node, SourceExec) or not isinstance(node.table, TableSnapshot):
            return node
        name = node.table.name
        if name not in snapshots:
            thing = _stored(read[name])
            session.views.check(thing.path)
            snapshots[name] = session.snapshot(thing)
        return node.with_(table=snapshots[name].with_columns(node.table.schema.names))

    return replace(planned, physical=parameters.filled(planned.physical, change))
