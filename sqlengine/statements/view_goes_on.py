"""A materialized view that goes on from where a checkpoint has it, instead of reading all its input again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from connectors.memory import MemoryTable
from runtime.checkpoint.epoch_state import Restored
from runtime.core.errors import CheckpointError
from runtime.local.split_progress import Reached, SplitProgress
from runtime.plan.identity import uids
from runtime.plan.nodes import PhysicalNode, SourceExec
from sqlengine.bind import BoundQuery
from sqlengine.catalog.objects import MaterializedView, ObjectPath
from sqlengine.database.folder.view_state import SavedView
from sqlengine.database.maintained_view import MaintainedView
from sqlengine.database.session import Session
from sqlengine.database.view_basis import ViewBasis
from sqlengine.statements.planning import PlannedView, plan_view
from sqlengine.statements.query_reads import fingerprints

__all__ = ["ViewGoesOn", "does_not_fit", "planned_over", "whole"]


@contextmanager
def planned_over(session: Session, basis: ViewBasis) -> Iterator[None]:
    """While a view is planned, tables have the numbers of rows that they had when it was planned first."""
    found = [(session.memory.get(ObjectPath(*path)), rows) for path, rows in basis.reads.items()]
    tables = [(table, rows) for table, rows in found if table is not None]
    for table, rows in tables:
        table.stated_rows = rows
    try:
        yield
    finally:
        for table, _ in tables:
            table.stated_rows = None


@dataclass(frozen=True)
class ViewGoesOn:
    """What a view is made from. All that it reads is as it was at the checkpoint.

    Args:
        begun: called with the view before it takes anything.
    """

    session: Session
    saved: SavedView
    begun: Callable[[MaintainedView], object]

    def check(self, view: MaterializedView) -> None:
        """Raises CheckpointError when it calls functions that are others now."""
        now, before = fingerprints(self.session, view.query), self.saved.basis.functions
        changed = [name for name in now.keys() | before.keys() if not now.get(name) or now[name] != before.get(name)]
        if changed:
            raise does_not_fit(f"the function {min(changed)} may compute something else now")

    def planned(self, bound: BoundQuery, contents: MemoryTable, names: Sequence[str]) -> PlannedView:
        """Its plan: the one that it had, if there is such a one."""
        with planned_over(self.session, self.saved.basis):
            planned = plan_view(self.session, bound, contents, names)
            if not self._had(planned.physical):
                # A version before this one knew no keys of views.
                keyless = plan_view(self.session, bound, contents, names, knows_keys=False)
                planned = keyless if self._had(keyless.physical) else planned
        return planned

    def _had(self, root: PhysicalNode) -> bool:
        return set(uids([root]).values()) == set(self.saved.restored.operators)

    def restored(self, root: PhysicalNode) -> Restored:
        """Its state under its plan. Raises CheckpointError when it is planned otherwise than it was."""
        names, saved = uids([root]), self.saved.restored
        if not self._had(root):
            raise does_not_fit("it is planned in another way now")
        given = [n for n in names if isinstance(n, SourceExec) and isinstance(n.table, MemoryTable)]
        sources = {**saved.sources, **{names[node]: whole(node.table) for node in given}}
        missing = [n.name for n in names if isinstance(n, SourceExec) and names[n] not in sources]
        if missing:
            raise does_not_fit(f"it is not known where it stands in {missing[0]}")
        return replace(saved, sources=sources)

    def fill(self, contents: MemoryTable) -> None:
        """Its answer. Raises CheckpointError for rows of another table."""
        arrow = contents.schema.arrow
        for batch in self.saved.contents:
            if batch.rows.schema.types != arrow.types or batch.rows.schema.names != arrow.names:
                raise does_not_fit("its rows have other columns")
        if self.saved.contents:
            contents.apply(*self.saved.contents)
            contents.publish()


def whole(table: object) -> object:
    """The position of who has all that a table has now."""
    assert isinstance(table, MemoryTable)
    return SplitProgress().json(Reached(0, (("all", table.token),), ()))


def does_not_fit(why: str) -> CheckpointError:
    """What is said of a view that cannot go on."""
    return CheckpointError(why, code="E3402", hint="it is made again from its definition")
