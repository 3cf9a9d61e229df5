"""What a leader sends to its replicas: all definitions and rows, then what each epoch changes, cut between epochs.

A cut is an epoch as the log of a database in a folder has it (`EpochChanges`), but that materialized views are in it as tables:
a replica computes nothing, so it shows the answers of the leader, whatever they are computed from. Tables of connectors are
not sent. Roles and functions are (`people.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from connectors.memory import MemoryTable
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import SqlEngineError
from runtime.core.wakeup import Wakeup
from sqlengine.catalog.catalog import CatalogObject
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView, ObjectPath
from sqlengine.database.folder.changes import Definition, EpochChanges, Place, Storage, TableChanges
from sqlengine.database.session import Session
from sqlengine.server.feeds import Feeds, Follower
from sqlengine.server.replication import people
from sqlengine.statements.create_text import catalog_text, create_text, database_text, quoted
from sqlengine.statements.databases import IN_MEMORY

__all__ = ["Cuts"]


class _Sent:
    """A table or view whose rows a replica has."""

    def __init__(self, table: MemoryTable, follower: Follower) -> None:
        self.table = table
        self.follower = follower


class Cuts:
    """The cuts of a database, for one replica.

    Args:
        wakeup: is woken when there may be another one.
    """

    def __init__(self, session: Session, feeds: Feeds, wakeup: Wakeup) -> None:
        self._session = session
        self._feeds = feeds
        self._wakeup = wakeup
        self._catalogs: object = None
        self._people: object = None
        self._views: list[Place] = []
        self._failed: frozenset[Place] = frozenset()
        self._known: dict[Place, tuple[object, Definition]] = {}
        self._sent: dict[Storage, _Sent] = {}

    def close(self) -> None:
        """No more are taken."""
        for sent in self._sent.values():
            sent.follower.close()

    def take(self) -> tuple[int, EpochChanges]:
        """What has changed since the last time, all of it at first, and the epoch up to which that is all. Raises Behind."""
        session, database = self._session, self._session.database
        session.views.let_time_pass()
        with database.showing:
            shown = database.shown
            same = shown.catalogs is self._catalogs and people.state_of(database) == self._people
            if same and self._broken() == self._failed:
                return shown.epoch, self._changes(EpochChanges(), ())
        with session.alone():
            changes = EpochChanges()
            begun = self._define(changes)
            with database.showing:
                shown = database.shown
                self._catalogs = shown.catalogs
                return shown.epoch, self._changes(changes, begun)

    def _changes(self, changes: EpochChanges, begun: tuple[TableChanges, ...]) -> EpochChanges:
        """Called while nothing else is shown."""
        anew = {table.storage: table for table in begun}
        for storage, sent in self._sent.items():
            entries, _ = sent.follower.take_shown()
            batches = [entry.batch for entry in entries]
            first = anew.get(storage)
            if first is not None:
                first.batches += batches
                changes.tables.append(first)
            elif batches:
                changes.tables.append(TableChanges(storage, False, batches))
        changes.moment = self._session.clock.now()
        return changes

    def _broken(self) -> frozenset[Place]:
        """The views that are no longer kept up to date: whoever reads them is told so, and nobody is to read them there."""
        return frozenset(place for place in self._views if not self._is_kept(place))

    def _is_kept(self, place: Place) -> bool:
        try:
            self._session.views.check(ObjectPath(*place[1:]))
        except SqlEngineError:
            return False
        return True

    def _define(self, changes: EpochChanges) -> tuple[TableChanges, ...]:
        """What differs in definitions; the rows of what is new. Called with the lock held."""
        self._people = people.state_of(self._session.database)
        found, begun = self._found(), list[TableChanges]()
        for place in [place for place in self._known if place not in found]:
            del self._known[place]
            changes.definitions[place] = None
        for storage in [s for s in self._sent if ("table", *s) not in found]:
            self._sent.pop(storage).follower.close()
        for place, (thing, definition) in found.items():
            before = self._known.get(place)
            if before is None or before[1] != definition:
                changes.definitions[place] = definition
            self._known[place] = thing, definition
            if isinstance(thing, CatalogTable | MaterializedView):
                begun += self._begin(thing)
        return tuple(begun)

    def _begin(self, thing: CatalogTable | MaterializedView) -> Iterator[TableChanges]:
        storage = thing.storage.parts
        table, sent = self._session.memory_table(thing), self._sent.get(storage)
        if sent is not None:
            if sent.table is table:
                return
            sent.follower.close()
        start = self._feeds.start(table, self._wakeup, snapshot=True, after=None)
        self._session.views.tell_followers(self._wakeup)
        self._sent[storage] = _Sent(table, start.follower)
        assert start.rows is not None
        yield TableChanges(storage, True, [ChangelogBatch(batch) for batch in start.rows.rows().to_batches()])

    def _found(self) -> dict[Place, tuple[object, Definition]]:
        """All that a replica is to have, in the order in which it can be made."""
        kept: list[Place] = []
        places: dict[Place, tuple[object, Definition]] = {}
        plain: dict[Place, tuple[object, Definition]] = {}
        for place, text in people.sent(self._session.database):
            places[place] = None, Definition(text, "", "")
        for catalog in self._session.catalogs.catalogs():
            if catalog.options.get("type") != IN_MEMORY:
                continue
            places["catalog", catalog.name] = catalog, Definition(catalog_text(catalog, masked=True), "", "")
            for database in catalog.databases.values():
                name = f"{quoted(catalog.name)}.{quoted(database.name)}"
                text = database_text(database, name=name, masked=True)
                places["database", catalog.name, database.name] = database, Definition(text, "", "")
                for thing in database.objects.values():
                    place = ("view" if isinstance(thing, CatalogView) else "table", *thing.path.parts)
                    if isinstance(thing, CatalogView):
                        plain[place] = thing, self._definition(place, thing)
                    elif isinstance(thing, MaterializedView):
                        kept.append(place)
                        if self._is_kept(place):
                            places[place] = thing, self._definition(place, thing)
                    elif thing.connector is None:
                        places[place] = thing, self._definition(place, thing)
        self._views = kept
        self._failed = self._broken()
        return places | plain

    def _definition(self, place: Place, thing: CatalogObject) -> Definition:
        known = self._known.get(place)
        if known is not None and known[0] is thing:
            return known[1]
        if isinstance(thing, MaterializedView):
            columns = ", ".join(f"{quoted(c.name)} {c.type.materialized()}" for c in thing.columns)
            path = ".".join(quoted(part) for part in thing.path.parts)
            return Definition(f"CREATE TABLE {path} ({columns})", thing.path.catalog, thing.path.database)
        return Definition(create_text(thing, masked=True), thing.path.catalog, thing.path.database)
