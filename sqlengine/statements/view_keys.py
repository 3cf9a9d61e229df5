"""The keys of a materialized view, and who relies on them: a view that is given another query keeps those.

A reader relies on a key when its plan would be another one without it (`SourceExec.relied_on`). One that does not may have
keys of its own because of it: without it, it has those that it would have anyway, and what relies on the others stands
in the way in the same manner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from connectors.memory import MemoryTable
from connectors.memory.followed import FollowedTable
from runtime.core.errors import CatalogError, Span
from runtime.local.job import Job
from runtime.plan.nodes import SourceExec
from runtime.plan.walk import walk_all
from sqlengine.catalog.objects import MaterializedView, ObjectPath
from sqlengine.database.session import Session
from sqlengine.statements.planning import PlannedView

__all__ = ["ViewKeys"]

Keys = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ViewKeys:
    """The keys of a view that is made or replaced, by the names of columns.

    Args:
        own: those that it would have if no view that it reads had any.
    """

    session: Session
    path: ObjectPath
    keys: Keys
    own: Keys

    @staticmethod
    def of(planned: PlannedView, view: MaterializedView, session: Session, *, part: bool = False) -> ViewKeys:
        """Those that follow from the plan of its query. `part`: other rows stay as they are, with the keys that they have."""
        names = [c.name for c in view.columns]
        partitions = () if view.refresh is None else view.refresh.partitioned_by

        def named(keys: tuple[tuple[int, ...], ...]) -> Keys:
            # Partitions are computed each at its time.
            found = ({*(names[i] for i in key), *partitions} for key in keys)
            return tuple(tuple(name for name in names if name in key) for key in found)

        keys, own = named(planned.keys), named(planned.own_keys)
        before = session.catalogs.find(view.path)
        if part and isinstance(before, MaterializedView):
            keys, own = (_still(before.keys, given) for given in (keys, own))
        return ViewKeys(session, view.path, keys, own)

    def check(self, span: Span) -> None:
        """Raises CatalogError E1410 when somebody relies on a key that the view had, and has no more."""
        self._demoted(span)

    def settle(self, view: MaterializedView) -> None:
        """The view is made: the catalog knows its keys, and those of its readers."""
        catalogs = self.session.catalogs
        for reader in self._demoted(None):
            catalogs.replace(reader)
        catalogs.replace(replace(view, keys=self.keys))

    def _demoted(self, span: Span | None) -> list[MaterializedView]:
        """The views above that have fewer keys with it. Raises what `check` does."""
        found: list[MaterializedView] = []
        before = self.session.catalogs.find(self.path)
        changed = [(before, self.keys)] if isinstance(before, MaterializedView) else []
        kept = {view.path: view for view in self.session.views.jobs()}
        while changed:
            view, keys = changed.pop()
            self._check_unused(view, keys, span)
            for path in self.session.views.dependents(view.storage):
                reader, job = self.session.catalogs.find(path), kept.get(path)
                if not isinstance(reader, MaterializedView) or job is None or reader.keys == job.own_keys:
                    continue
                if _gone(job.known_keys.get(str(view.path), ()), keys):
                    changed.append((reader, job.own_keys))
                    found.append(replace(reader, keys=job.own_keys))
        return found

    def _check_unused(self, view: MaterializedView, keys: Keys, span: Span | None) -> None:
        relying = [(name, gone) for name, relied in _readers(self.session, view) if (gone := _gone(relied, keys))]
        if not relying:
            return
        names = ", ".join(name for name, _ in relying)
        columns = ", ".join(relying[0][1][0])
        raise CatalogError(
            f'"{view.path.name}" would have no key ({columns}) any more, over which others were planned: {names}',
            code="E1410",
            span=span,
            hint=f"drop or stop those first, or have the query give one row for each ({columns})",
        )


def _gone(keys: Keys, others: Keys) -> Keys:
    """Those keys that are none when others are."""
    return tuple(key for key in keys if key not in _still(keys, others))


def _still(keys: Keys, others: Keys) -> Keys:
    """Those keys that are keys, too, when others are."""
    return tuple(key for key in keys if any(set(other) <= set(key) for other in others))


def _readers(session: Session, view: MaterializedView) -> Iterator[tuple[str, Keys]]:
    """Who follows a view, with the keys of it on which the plan relies."""
    contents = session.memory.get(view.storage)
    running: list[tuple[str, Job]] = [
        ("a subscription" if kept.passing else f'the materialized view "{kept.path.name}"', kept.job)
        for kept in session.views.jobs()
        if not kept.ended and kept.path != view.path
    ]
    running += [(f'the job "{job.id}"', job.job) for job in session.jobs.active()]
    for name, job in running:
        sources = [node for node in walk_all(job.roots) if isinstance(node, SourceExec)]
        yield name, tuple(key for node in sources if _contents(node) is contents for key in node.relied_on)


def _contents(node: SourceExec) -> MemoryTable | None:
    table = node.table.contents if isinstance(node.table, FollowedTable) else node.table
    return table if isinstance(table, MemoryTable) else None
