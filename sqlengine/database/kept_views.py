"""Materialized views in the checkpoints of a database: what has changed in each since the last one.

A view is saved between two epochs, up to date with all tables: its operators say how their state has changed, its answer
tells of its changes as a table does, its sources say where they stand. What nobody has changed is named again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from connectors.memory import MemoryTable
from runtime.checkpoint.epoch_state import EpochState
from runtime.checkpoint.image import TableChains
from runtime.core.changelog import ChangelogBatch
from runtime.plan.json import plan_json
from runtime.plan.nodes import SourceExec
from runtime.state.snapshot import SavedOperator
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.folder.changes import Definition, Place, Storage
from sqlengine.database.folder.pieces import RowChanges, is_cheaper_anew
from sqlengine.database.folder.view_state import ViewChanges, ViewState
from sqlengine.database.maintained_view import MaintainedView
from sqlengine.database.view_basis import ViewBasis
from sqlengine.database.views import Views

__all__ = ["OUTSIDE_SECONDS", "KeptViews"]

OUTSIDE_SECONDS = 10.0
"""How old a checkpoint gets when views have taken rows of connectors since."""
_FEW_ROWS = 1 << 16
"""So many changes of an answer are kept in memory, however small it is."""


@dataclass(slots=True)
class _Pending:
    """What is being written of a view."""

    changes: ViewChanges
    figures: object


class _KeptView:
    """A view since the last checkpoint.

    Args:
        saved: what that says of it; None when it has nothing.
        tell: called with the bytes of changes that are in no log.
    """

    def __init__(self, view: MaintainedView, saved: ViewState | None, tell: Callable[[int], object]) -> None:
        self.view = view
        self._tell = tell
        self.saved = saved
        self.changes: list[ChangelogBatch] | None = None if saved is None else []
        """Of the answer; None: all of it is to be written."""
        self.rows = 0
        self.chains: TableChains | None = None
        """What was written of the state; None when the next save is to be whole."""
        self.figures: object = None if saved is None else _figures(view)
        self.pending: _Pending | None = None
        assert view.contents is not None
        self.contents = view.contents
        self.contents.watchers.add(self)

    def hear(self, changes: Sequence[ChangelogBatch]) -> None:
        if self.changes is not None:
            self.changes += changes
            self.rows += sum(map(len, changes))
            if self.view.outside:
                self._tell(sum(batch.nbytes for batch in changes))
            if self.rows > max(self.contents.held, _FEW_ROWS):
                self.forget_changes()

    def forget_changes(self) -> None:
        self.changes, self.rows = None, 0

    @property
    def moved(self) -> bool:
        """Whether it has taken rows, or time, since the last checkpoint."""
        return self.figures != _figures(self.view)

    def fix(self) -> ViewChanges:
        """What the next checkpoint writes."""
        figures = _figures(self.view)
        unchanged = self.saved is not None and self.figures == figures and not self.view.follows_time
        state = _state(self.view, saved=unchanged, complete=self.chains is None)
        changes = ViewChanges(
            self.view.basis or ViewBasis(), state, self._contents(), self.chains or {}, self.saved, unchanged=unchanged
        )
        self.pending = _Pending(changes, figures)
        self.changes, self.rows = [], 0
        return changes

    def _contents(self) -> RowChanges:
        pieces = [] if self.saved is None else self.saved.contents
        if self.changes is None or is_cheaper_anew(pieces, self.changes, self.contents.held):
            return RowChanges([], rows_of(self.contents))
        return RowChanges(pieces, self.changes)

    def settle(self, saved: ViewState | None) -> None:
        """What was fixed is written, or (None) never will be."""
        pending, self.pending = self.pending, None
        if pending is None:
            return
        pending.changes.state.release()
        if saved is None:
            self.saved, self.chains, self.figures = None, None, None
            self.forget_changes()
            return
        whole = not pending.changes.unchanged
        self.chains = pending.changes.written if whole and not self.view.ended else self.chains
        self.saved, self.figures = saved, pending.figures
        if not self.view.ended:
            self.view.job.publish({})  # Sources may forget what was read.


class KeptViews:
    """All views of a database, for its checkpoints. Used with the lock held."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._kept: dict[Storage, _KeptView] = {}
        self._unread: dict[Storage, ViewState] = {}
        self.bytes = 0
        """How much is to be written of answers whose changes are in no log."""

    def went_on(self, view: MaintainedView, saved: ViewState, chains: TableChains) -> None:
        """A view goes on from what the newest checkpoint of this folder says; tables of its state that have their rows where
        they were save only what changes (`StateTable.restore`), behind those chains."""
        kept = self._kept[view.path.parts] = _KeptView(view, saved, self._count)
        kept.chains = chains

    def forget(self, path: ObjectPath) -> None:
        """A view does not go on from there."""
        self._kept.pop(path.parts, None)

    def could_not_go_on(self, path: ObjectPath, saved: ViewState) -> None:
        """A view that could not be made now. What the checkpoint says of it is kept, unless tables go on without it."""
        if not saved.basis.reads:
            self._unread[path.parts] = saved

    def _count(self, nbytes: int) -> None:
        self.bytes += nbytes

    def moved(self, *, outside: bool) -> bool:
        """Whether views have taken anything since the last checkpoint. `outside`: those over connectors."""
        return any(
            self._has_moved(view) for view in self._views.jobs() if (view.outside or not outside) and not view.passing
        )

    @property
    def has_heirs(self) -> bool:
        """Whether a view over connectors has what another one has read, and no checkpoint has it: the view would read its
        sources from the start."""
        return any(
            view.outside and view.take_over is not None and self._is_new(view)
            for view in self._views.jobs()
            if view.failure is None
        )

    def _is_new(self, view: MaintainedView) -> bool:
        kept = self._kept.get(view.path.parts)
        return kept is None or kept.view is not view

    def _has_moved(self, view: MaintainedView) -> bool:
        return view.failure is None and (self._is_new(view) or self._kept[view.path.parts].moved)

    def fix(self, definitions: Mapping[Place, Definition]) -> dict[Storage, ViewChanges]:
        """What a checkpoint writes of the views that are defined and up to date."""
        running = self._running(definitions)
        before, self._kept = self._kept, {}
        for storage, view in running.items():
            kept = before.get(storage)
            if kept is not None and kept.view is view:
                self._kept[storage] = kept
            else:
                self._kept[storage] = _KeptView(view, None, self._count)
        for storage, kept in before.items():
            # A view that has failed goes on the next time from where it was, if no table has gone on without it.
            if kept.saved is not None and kept.view.failure is not None and storage not in running:
                self.could_not_go_on(kept.view.path, kept.saved)
        self.bytes = 0
        return {storage: kept.fix() for storage, kept in self._kept.items()}

    def unread(self, definitions: Mapping[Place, Definition]) -> dict[Storage, ViewState]:
        """Views that do not run now, as checkpoints before have them."""
        running = self._running(definitions)
        self._unread = {
            storage: state
            for storage, state in self._unread.items()
            if storage not in running and ("materialized view", *storage) in definitions
        }
        return self._unread

    def images(self, definitions: Mapping[Place, Definition]) -> dict[Storage, ViewChanges]:
        """All of the views; the next checkpoint is as if nobody had asked."""
        found: dict[Storage, ViewChanges] = {}
        for storage, view in self._running(definitions).items():
            assert view.contents is not None
            state = _state(view, saved=False, complete=True, image=True)
            found[storage] = ViewChanges(view.basis or ViewBasis(), state, RowChanges([], rows_of(view.contents)), {})
        return found

    def settle(self, written: Mapping[Storage, ViewState] | None) -> None:
        """What was fixed last is written, and the checkpoint says this of each view; or (None) it never will be."""
        for storage, kept in self._kept.items():
            kept.settle(None if written is None else written.get(storage))

    def _running(self, definitions: Mapping[Place, Definition]) -> dict[Storage, MaintainedView]:
        return {
            view.path.parts: view
            for view in self._views.jobs()
            if view.failure is None
            and view.contents is not None
            and ("materialized view", *view.path.parts) in definitions
        }


def rows_of(table: MemoryTable) -> list[ChangelogBatch]:
    """All rows of a table as insertions."""
    return [ChangelogBatch(batch) for batch in table.contents().to_batches()]


def _figures(view: MaintainedView) -> object:
    """What is the same as long as the state of a view is. A source over a connector may also get on without rows, and is to
    be told of it: a log that nobody needs any more."""
    positions = [source.position() for source in view.job.inputs] if view.outside else []
    rows = [(v.rows_in, v.rows_out, v.watermark, v.input_watermark) for v in view.job.dataflow.vertices]
    return rows, positions, view.ended


def _state(view: MaintainedView, *, saved: bool, complete: bool, image: bool = False) -> EpochState:
    """The state of a view as it is now. `saved`: that of its operators is not needed. `image`: operators do not note that it
    was asked for."""
    job, flow = view.job, view.job.dataflow
    tables = {v.name for v in flow.vertices if isinstance(v.node, SourceExec) and isinstance(v.node.table, MemoryTable)}
    if saved or view.ended or image:
        alone = [SavedOperator(v.name, v.watermark, v.input_watermark, ()) for v in flow.vertices]
        operators = flow.image() if image and not view.ended else alone
        names = {v.node: v.name for v in flow.vertices}
        sources = {names[source.node]: source.position() for source in job.inputs}
        counts = {"rows": flow.row_counts()}
        plan = plan_json(job.roots, job.time_zone)
        state = EpochState(flow.epoch, 0, plan, operators, sources, {}, view.ended, counts)
    else:
        state = job.save(complete=complete, finished=False)
    # Where tables of the database stand follows from the checkpoint itself.
    sources = {name: position for name, position in state.sources.items() if name not in tables}
    return replace(state, sources=sources, sinks={})
