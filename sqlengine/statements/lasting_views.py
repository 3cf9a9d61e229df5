"""Materialized views of a database that is opened: they go on from the checkpoint, or are made again.

Where tables are as they were at the checkpoint, views are put beside them with their state, their answers and the
positions of their sources; then tables and views take what has changed since like any other changes. A view is made
again from its definition, over tables as they are at the end, when the checkpoint does not have it as it is defined now,
when it is planned otherwise or calls other functions, when it reads something that is made anew, or when its files are
damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from connectors.memory import MemoryTable
from connectors.memory.difference import difference
from runtime.checkpoint.fitting import taking
from runtime.checkpoint.segments import SegmentReader
from runtime.checkpoint.storage import Damage
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import DatabaseError, SqlEngineError
from runtime.core.logs import Log, tell
from runtime.core.options import Options
from runtime.plan.base import Follows
from sqlengine.catalog.objects import CatalogTable, MaterializedView, ObjectPath
from sqlengine.database.durable import Durable
from sqlengine.database.folder.changes import Definition, Place, Storage
from sqlengine.database.folder.pieces import read_rows
from sqlengine.database.folder.saved_history import SavedHistory
from sqlengine.database.folder.stored import Stored
from sqlengine.database.folder.view_state import SavedView, saved_view
from sqlengine.database.maintained_view import MaintainedView
from sqlengine.database.session import Session
from sqlengine.database.view_traits import varies
from sqlengine.options.database import SCHEDULER_PREFIX
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.statements import views
from sqlengine.statements.query_reads import query_reads
from sqlengine.statements.view_goes_on import ViewGoesOn

__all__ = ["current", "follow_again", "make_views", "meaning", "views_go_on", "with_options"]

_log = Log("database")

_MEANS = (
    "table.", "optimizer.", "parallelism.", "state.", "sqlengine.batch.", "sqlengine.state.", SCHEDULER_PREFIX
)  # fmt: skip
"""What the options begin with on which the answer of a view depends, or how it is kept and computed."""
_ORDER = Follows.EVENT_TIME | Follows.ARRIVAL | Follows.CLOCK
"""What makes it matter to a view which changes come in one epoch."""


def meaning(options: Options) -> tuple[tuple[str, str], ...]:
    """The options that are kept with a view."""
    return tuple(sorted((k, v) for k, v in options.as_dict().items() if k.startswith(_MEANS)))


@contextmanager
def current(session: Session, definition: Definition) -> Iterator[None]:
    """The catalog and database that were current when something was defined."""
    catalogs = session.catalogs
    before = catalogs.current_catalog, catalogs.current_database
    catalogs.current_catalog, catalogs.current_database = definition.catalog, definition.database
    try:
        yield
    finally:
        catalogs.current_catalog, catalogs.current_database = before


@contextmanager
def with_options(session: Session, definition: Definition) -> Iterator[None]:
    """The options on which the answer of a view depends are those that were set when it was made."""
    before = session.options
    others = {k: v for k, v in before.as_dict().items() if not k.startswith(_MEANS)}
    session.options = Options({**others, **dict(definition.options)})
    try:
        yield
    finally:
        session.options = before


def _materialized(stored: Stored) -> dict[Place, Definition]:
    return {place: d for place, d in stored.definitions.items() if place[0] == "materialized view"}


# --- from the checkpoint
# ---------------------------------------------------------------------------------------------------------------------


def views_go_on(session: Session, durable: Durable, stored: Stored, *, own: bool) -> dict[Place, Definition]:
    """Have views go on, and give tables what has changed since the checkpoint. `own`: that is one of this folder.

    Gives the definitions of the views that are yet to be made. Raises DatabaseError E3700 when files cannot be read.
    """
    opening = _Opening(session, durable, stored, own)
    waiting = list(stored.views)
    while waiting:
        later = [storage for storage in waiting if not opening.go_on(storage)]
        if len(later) == len(waiting):
            for storage in later:
                opening.is_made_again(ObjectPath(*storage), "a view that it reads is made again")
            break
        waiting = later
    opening.take_changes()
    return {place: d for place, d in _materialized(stored).items() if _path(place) not in opening.gone_on}


class _Opening:
    """Views and tables between the checkpoint and the end of the log."""

    def __init__(self, session: Session, durable: Durable, stored: Stored, own: bool) -> None:
        self._session = session
        self._durable = durable
        self._stored = stored
        self._own = own
        self._reader = SegmentReader(stored.storage)
        self.gone_on: set[ObjectPath] = set()

    def go_on(self, storage: Storage) -> bool:
        """Put a view where it was, if it can be; False: something that it reads is not there yet."""
        path, state = ObjectPath(*storage), self._stored.views[storage]
        for read in state.basis.reads:
            is_view = ("materialized view", *read) in self._stored.definitions
            if is_view and ObjectPath(*read) not in self.gone_on:
                return False
            if not is_view and read in self._stored.tables and self._stored.tables[read].anew:
                self.is_made_again(path, f"{'.'.join(read)} was written anew")
                return True
        try:
            saved = saved_view(self._reader, state, self._stored.storage.place)
        except (Damage, FileNotFoundError) as damage:
            self.is_made_again(path, f"its files are damaged: {damage}")
            return True
        except OSError as error:
            raise DatabaseError(
                f"the state of {path} cannot be read: {error.strerror or error}",
                hint="see to the folder and its permissions",
            ) from error
        try:
            self._go_on(path, saved)
        except (SqlEngineError, OSError) as error:
            self.is_made_again(path, error.message if isinstance(error, SqlEngineError) else str(error))
        else:
            self.gone_on.add(path)
        return True

    def _go_on(self, path: ObjectPath, saved: SavedView) -> None:
        session = self._session
        place = ("materialized view", *path.parts)
        definition = self._stored.definitions[place]
        statement = parse_statement(definition.text)
        assert isinstance(statement, st.CreateMaterializedView)
        went_on = self._durable.kept_views.went_on
        begun = partial(went_on, saved=saved.state, chains=saved.chains) if self._own else _nothing
        with (
            session.alone(),
            session.database.histories.going_on(),
            current(session, definition),
            with_options(session, definition),
            taking(f"what is saved of {path}"),
        ):
            views.create_materialized_view(statement, session, ViewGoesOn(session, saved, begun))
            _made(session, self._durable, place, definition, statement)

    def is_made_again(self, path: ObjectPath, why: str) -> None:
        """A view cannot go on."""
        self._durable.kept_views.forget(path)
        _log.warning(
            "the materialized view %s is made again from its definition: %s", path, why, view=str(path),
            path=self._stored.storage.place,
        )  # fmt: skip

    def take_changes(self) -> None:
        """What has changed in tables since the checkpoint; views take it in. One that cannot is made again."""
        session, database, stored = self._session, self._session.database, self._stored
        histories = database.histories
        if stored.number:
            database.replay(stored.number)
        # What was restored is no change that came when the database was opened.
        database.show(redefined=True)
        self._durable.kept_histories.go_on(self._histories(), self._reader, own=self._own)
        histories.restart()
        if self._own and self._stored.followed.jobs:
            self._follow()
        tables = {
            storage: (session.memory[ObjectPath(*storage)], rows.after)
            for storage, rows in self._stored.tables.items()
            if rows.after and ObjectPath(*storage) in session.memory
        }
        in_order = self._in_order()
        for storage, (table, changes) in tables.items():
            if storage not in in_order:
                table.apply_again(*(batch for _, batches in changes for batch in batches))
                table.publish()
        histories.replay(None)
        if stored.number:
            database.replay(database.shown.epoch)
        session.views.propagate()
        epochs: dict[int, list[tuple[MemoryTable, list[ChangelogBatch]]]] = {}
        for storage, (table, changes) in tables.items():
            if storage in in_order:
                for epoch, batches in changes:
                    epochs.setdefault(epoch, []).append((table, batches))
        for epoch in sorted(epochs):
            histories.replay(stored.moments.get(epoch))
            if stored.number:
                database.replay(stored.numbers.get(epoch, database.shown.epoch))
            for table, batches in epochs[epoch]:
                table.apply_again(*batches)
                table.publish()
            session.views.propagate()
        self._drop_failed()
        first = database.opened(max([stored.number, *stored.numbers.values()]))
        for path in self._unsure():
            history = histories.of(session.memory[path])
            if history is not None:
                history.unsure = stored.number, first

    def _unsure(self) -> set[ObjectPath]:
        """The views of which readers may have seen, behind the checkpoint, what is not there any more: the log does not have
        all from which they are computed."""
        found: set[ObjectPath] = set()
        for view in self._session.views.jobs():
            if (
                view.outside
                or view.follows_time
                or varies(view.job, self._session.functions)
                or not view.inputs.isdisjoint(found)
            ):
                found.add(view.path)
        return found

    def _follow(self) -> None:
        """What jobs follow is as it was at the checkpoint."""
        for storage in self._stored.followed.tables:
            found = self._session.catalogs.find(ObjectPath(*storage))
            if isinstance(found, CatalogTable):
                self._session.memory_table(found)  # One without rows has not been made so far.
        self._durable.followed.restore(self._stored.followed, self._is_lost)

    def _is_lost(self, storage: Storage) -> bool:
        """Whether nobody knows what a table was at the checkpoint."""
        return storage in self._stored.tables and self._stored.tables[storage].anew

    def _histories(self) -> dict[Storage, SavedHistory]:
        """Those of tables, and of views that go on."""
        return {
            storage: history
            for storage, history in self._stored.histories.items()
            if storage not in self._stored.views or ObjectPath(*storage) in self.gone_on
        }

    def _in_order(self) -> set[Storage]:
        """The tables with a history, and those below views that have one, or to which it matters which changes come in one
        epoch: they take them as they came."""
        kept = self._session.database.histories
        found = {path.parts for path, table in self._session.memory.items() if kept.of(table) is not None}
        for view in reversed(self._session.views.jobs()):
            if view.path.parts in found or any(v.node.follows() & _ORDER for v in view.job.dataflow.vertices):
                found |= {path.parts for path in view.inputs}
        return found

    def _drop_failed(self) -> None:
        """Views that have failed over what came after the checkpoint, and those that read them."""
        session = self._session
        for view in session.views.jobs():
            if view.failure is None or view.path not in self.gone_on:
                continue
            for path in (view.path, *session.views.above(view.path)):
                self.gone_on.discard(path)
                self.is_made_again(path, view.failure.message)
                session.views.remove(path)
                session.memory.pop(path, None)
                found = session.catalogs.find(path)
                if found is not None:
                    session.catalogs.remove(found)


def _nothing(view: MaintainedView) -> None:
    """The folder has nothing of the view yet."""


# --- from the definition
# ---------------------------------------------------------------------------------------------------------------------


def make_views(session: Session, durable: Durable, stored: Stored, left: dict[Place, Definition]) -> None:
    """Make views from their definitions."""
    waiting = left
    while waiting:
        missing = [p for p, d in waiting.items() if not _make_view(session, durable, stored, p, d)]
        # A view that was given another query may read one that is younger.
        moved = len(missing) < len(waiting)
        waiting = {p: waiting[p] for p in missing}
        if not moved:
            break
    for place, definition in waiting.items():
        _make_view(session, durable, stored, place, definition, last=True)


def _make_view(
    session: Session, durable: Durable, stored: Stored, place: Place, definition: Definition, *, last: bool = False
) -> bool:
    """Make a view again. What it reads may not be there so far: then it is not made (False), unless this is the last
    attempt. Whatever else is wrong with it is told, and stands in its place."""
    statement = parse_statement(definition.text)
    assert isinstance(statement, st.CreateMaterializedView)
    path = _path(place)
    try:
        # It is filled with the lock held: nobody may see a database that is restored by halves.
        with session.alone(), current(session, definition), with_options(session, definition):
            views.create_materialized_view(statement, session)
            _made(session, durable, place, definition, statement)
    except SqlEngineError as error:
        if error.code == "E1202" and not last:
            return False
        if _storage(place) in stored.views:
            durable.kept_views.could_not_go_on(path, stored.views[_storage(place)])
        unmade = MaterializedView(path, statement.query.query, statement.query.text, (), comment=statement.comment)
        session.catalogs.replace(unmade)
        session.views.add_unmade(path, error)
        durable.known[place] = unmade, definition
        _log.failure(f"the materialized view {path} could not be made again", error, path=durable.folder.place)
        tell(f"the materialized view {path} is kept, but could not be made again: {error.code} {error.message}")
    return True


def _made(
    session: Session, durable: Durable, place: Place, definition: Definition, statement: st.CreateMaterializedView
) -> None:
    path = _path(place)
    with current(session, definition), with_options(session, definition):
        durable.view_reads[path] = query_reads(session, statement.query.query)[0]
    made = session.catalogs.find(path)
    assert made is not None
    durable.known[place] = made, definition


def follow_again(session: Session, durable: Durable, stored: Stored) -> None:
    """Views that were made again are there: jobs that follow them are given what differs from the checkpoint."""

    def changed(storage: Storage, table: MemoryTable) -> ChangelogBatch | None:
        before = MemoryTable(table.name, table.schema)
        try:
            batches = list(read_rows(SegmentReader(stored.storage), stored.views[storage].contents))
            if any(batch.rows.schema.types != table.schema.arrow.types for batch in batches):
                return None
            before.apply_again(*batches)
        except (Damage, OSError, KeyError):
            return None
        return difference(before.contents(), table.contents())

    if stored.followed.jobs:
        durable.followed.made_again(stored.followed, changed)


def _storage(place: Place) -> Storage:
    return place[1], place[2], place[3]


def _path(place: Place) -> ObjectPath:
    return ObjectPath(*place[1:])
