"""What can be asked, by the names that clients give: where the state of a job is, and what follows it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import pyarrow as pa

from runtime.core.errors import AccessError, PlanningError, did_you_mean
from runtime.core.memory import HeldBeside
from runtime.local.following import Following, stateful
from runtime.local.job import Job
from runtime.local.spilled_keys import is_spilled
from runtime.local.vertex import Vertex
from runtime.plan.identity import short_kind
from runtime.state.mirror import MirroredTable
from runtime.state.table import StateTable
from sqlengine.catalog.objects import CatalogTable, MaterializedView
from sqlengine.database.acting import check_read
from sqlengine.database.maintained_view import MaintainedView
from sqlengine.database.session import Session
from sqlengine.roles.authority import Authority
from sqlengine.roles.privileges import Target
from sqlengine.server.lookups import Indices
from sqlengine.server.state.asked import Asked, JobState, SpilledState, TableRows, check_running
from sqlengine.server.state.failures import JobEnded, NotAllowed, NotQueryable, NotStarted, UnknownJob, UnknownState

__all__ = ["LISTED", "States"]

T = TypeVar("T")

LISTED = pa.schema(
    [
        ("of", pa.string()),
        ("state", pa.string()),
        ("key", pa.list_(pa.string())),
        ("columns", pa.list_(pa.string())),
        ("rows", pa.int64()),
    ]
)
"""The list of what can be asked. `state`: NULL for the rows of a table or view; `rows`: of an operator all that it keeps."""

_FOLLOWED = 64
"""So many state tables are followed at once; of more the one goes that was asked least lately."""
_WAIT_SECONDS = 0.5
_EPOCH_SECONDS = 5.0
"""So long a question for state on disk waits for the end of an epoch."""


@contextmanager
def _as_failure() -> Iterator[None]:
    """What somebody may not do, as clients know it."""
    try:
        yield
    except AccessError as error:
        raise NotAllowed(error.message, hint=error.hint) from None


class States:
    """The tables, views and jobs of a database. Any thread may ask.

    Args:
        session: resolves names; nothing is changed in it.
    """

    def __init__(self, session: Session, indices: Indices) -> None:
        self._session = session
        self._database = session.database
        self._indices = indices
        self._followed: dict[tuple[str, str, str], _Begun] = {}
        self._guard = threading.Lock()
        self._database.memory_accounts.add(self.held)

    def held(self) -> Iterator[HeldBeside]:
        """What follows states, for `system.memory`."""
        for (_, operator, table), begun in tuple(self._followed.items()):
            following = begun.following
            yield HeldBeside(following.job, f"{table} of {operator}, followed", following.rows, following.nbytes)

    def find(self, of: str, state: str, who: Authority | None = None) -> Asked:
        """What can be asked by these names, by `who` (None: by the program itself). Brings a view up to date that has let
        changes gather.

        Raises NotAllowed, UnknownJob, UnknownState, NotStarted, JobEnded, NotQueryable, and PlanningError E1713 for a view
        that has failed.
        """
        if who is not None:
            thing = None if state else self._named(of)
            with _as_failure():
                if thing is None:
                    who.require("MONITOR", Target("system", ()))
                else:
                    check_read(who, thing, None)
        return self._job_state(of, state) if state else self._table(of)

    def listed(self, who: Authority | None = None) -> pa.Table:
        """What can be asked, as far as `who` may know of it."""
        rows: list[tuple[object, ...]] = []
        for thing in self._things():
            if who is not None and not who.may("SELECT", Target("table", thing.path.parts)):
                continue
            table = self._database.shown.memory.get(thing.storage)
            if table is not None and table.files is None:
                names = [field.name for field in table.schema]
                rows.append((str(thing.path), None, list(_key_of(thing)), names, table.held))
        everything = who is None or who.may("MONITOR", Target("system", ()))
        for name, job, _ in self._jobs() if everything else ():
            for vertex, tables in stateful(job.dataflow):
                for table in tables:
                    shown = MirroredTable.of(table)
                    size = None if vertex.operator is None else vertex.operator.state_size.rows
                    rows.append((name, f"{vertex.name}.{table.name}", list(shown.key), shown.columns.names, size))
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(LISTED)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, LISTED, strict=True)]
        return pa.Table.from_arrays(arrays, schema=LISTED)

    @property
    def nbytes(self) -> int:
        """The memory of all that is followed."""
        return sum(begun.following.nbytes for begun in tuple(self._followed.values()))

    def close(self) -> None:
        """Follow nothing any more."""
        with self._guard:
            for begun in self._followed.values():
                begun.following.close()
            self._followed.clear()

    # --- tables and views

    def _things(self) -> Iterator[CatalogTable | MaterializedView]:
        for catalog in tuple(self._database.shown.catalogs.values()):
            for database in tuple(catalog.databases.values()):
                for thing in tuple(database.objects.values()):
                    if isinstance(thing, CatalogTable | MaterializedView):
                        yield thing

    def _named(self, of: str) -> CatalogTable | MaterializedView | None:
        """The table or view of a name; without a catalog or a database those of a new session are meant."""
        catalogs = self._session.catalogs
        parts = tuple(of.replace("`", "").split("."))
        wanted = (catalogs.current_catalog, catalogs.current_database)[: max(0, 3 - len(parts))] + parts
        return next((t for t in self._things() if t.path.parts == wanted or str(t.path) == of), None)

    def _table(self, of: str) -> Asked:
        thing = self._named(of)
        if thing is None:
            if any(name == of for name, _, _ in self._jobs()):
                raise UnknownState(
                    f"{of} is a job: which of its states?", hint="name one; StateClient.states lists them"
                )
            raise self._unknown(of)
        self._make_fresh(thing)
        table = self._database.shown.memory.get(thing.storage)
        if table is None:
            raise NotQueryable(
                f"the rows of {thing.path} are in another system", hint="make a materialized view over the table"
            )
        if table.files is not None:
            raise NotQueryable(
                f"the rows of {thing.path} lie in files (state.backend.type), and have no index", hint="use SELECT"
            )
        return TableRows(self._database, self._indices, table, _key_of(thing))

    def _make_fresh(self, thing: CatalogTable | MaterializedView) -> None:
        """As a SELECT does. Raises PlanningError E1713 when the view has failed."""
        views, database = self._session.views, self._database
        views.let_time_pass()
        table = database.shown.memory.get(thing.storage)
        if table is not None and table in database.shown.stale:
            with views.lock.only(lambda: views.below(table)):
                views.bring_up_to_date(table)
                database.show(caught_up=True)
        views.check(thing.storage)

    # --- jobs

    def _jobs(self) -> Iterator[tuple[str, Job, MaintainedView | None]]:
        for running in tuple(self._database.jobs.jobs.values()):
            yield running.id, running.job, None
        for view in self._database.views.jobs():
            yield view.job.name, view.job, view

    def _job(self, of: str) -> tuple[Job, MaintainedView | None]:
        """The job of a name, or that of a view of this name."""
        for name, job, view in self._jobs():
            if name == of:
                return job, view
        thing = self._named(of)
        for _, job, view in self._jobs():
            if view is not None and thing is not None and view.path == thing.path:
                return job, view
        raise self._unknown(of)

    def _unknown(self, of: str) -> UnknownJob:
        known = [name for name, _, _ in self._jobs()] + [t.path.name for t in self._things()]
        hint = did_you_mean(of, known) or "StateClient.states lists what there is"
        return UnknownJob(f"there is no table, materialized view or job '{of}'", hint=hint)

    def _job_state(self, of: str, state: str) -> Asked:
        job, view = self._job(of)
        if view is not None:
            thing = self._named(str(view.path))
            if thing is not None:
                self._make_fresh(thing)
        check_running(job)
        vertex, table = _state_of(job, state)
        shown = MirroredTable.of(table)
        if is_spilled(vertex, table.name):
            return SpilledState(job, vertex.name, shown, lambda call: self._between_epochs(job, view, call))
        return JobState(self._following(job, view, vertex.name, table.name), shown)

    def _between_epochs(self, job: Job, view: MaintainedView | None, call: Callable[[], T]) -> T:
        """What a call gives while the job stands between two epochs. Raises NotStarted when it does not come to that."""
        if view is not None:
            with self._session.views.lock.only(lambda: [view.path]):
                return call()
        return _waited(job, job.between_epochs(call), _EPOCH_SECONDS)

    def _following(self, job: Job, view: MaintainedView | None, operator: str, table: str) -> Following:
        """What follows a state table; a job that has taken the place of another is followed anew. Where nobody has asked
        before, the state is read between two epochs: who asks is told to come again, if that takes long."""
        key = (job.name, operator, table)
        with self._guard:
            found = self._followed.pop(key, None)
            if found is None or found.following.job is not job or found.over:
                if found is not None:
                    found.following.close()
                found = self._begin(Following(job, operator, table), view)
                for gone in [k for k, f in self._followed.items() if f.over]:
                    self._followed.pop(gone).following.close()
                while len(self._followed) >= _FOLLOWED:
                    self._followed.pop(next(iter(self._followed))).following.close()
            # What was asked last is last.
            self._followed[key] = found
        _waited(job, found.begun, _WAIT_SECONDS)
        return found.following

    def _begin(self, following: Following, view: MaintainedView | None) -> _Begun:
        if view is None:
            return _Begun(following, following.job.between_epochs(following.begin))
        begun: Future[None] = Future()
        lock, path = self._session.views.lock, view.path

        def begin() -> None:
            try:
                with lock.only(lambda: [path]):
                    following.begin()
                begun.set_result(None)
            except BaseException as error:
                begun.set_exception(error)

        threading.Thread(target=begin, name="state", daemon=True).start()
        return _Begun(following, begun)


class _Begun(NamedTuple):
    """What follows a state table, once `begun` is done."""

    following: Following
    begun: Future[None]

    @property
    def over(self) -> bool:
        """Whether it is to be made anew."""
        return self.following.over or (self.begun.done() and self.begun.exception() is not None)


def _waited(job: Job, asked: Future[T], seconds: float) -> T:
    try:
        return asked.result(seconds)
    except FutureTimeout as error:
        raise NotStarted(f"{job.name} is at an epoch, behind which its state is read", hint="ask again") from error
    except PlanningError as error:
        if error.code == "E1416":
            raise JobEnded(error.message, hint=error.hint) from error
        raise


def _key_of(thing: CatalogTable | MaterializedView) -> tuple[str, ...]:
    return thing.primary_key if isinstance(thing, CatalogTable) else ()


def _state_of(job: Job, state: str) -> tuple[Vertex, StateTable]:
    """The operator and the table that a text means: the name of the table, behind the operator's name or kind where
    several have one of this name. Raises UnknownState."""
    found: list[tuple[Vertex, StateTable]] = []
    known: list[str] = []
    for vertex, tables in stateful(job.dataflow):
        for table in tables:
            whole = f"{vertex.name}.{table.name}"
            known.append(whole)
            if state == whole:
                return vertex, table
            if state in (table.name, f"{short_kind(vertex.node)}.{table.name}"):
                found.append((vertex, table))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(f"{vertex.name}.{table.name}" for vertex, table in found)
        raise UnknownState(f'{job.name} has several states "{state}"', hint=f"say which: {names}")
    hint = did_you_mean(state, known) or (f"its states are: {', '.join(known)}" if known else "it keeps no state")
    raise UnknownState(f'{job.name} has no state "{state}"', hint=hint)
