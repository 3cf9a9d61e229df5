"""A server that follows another one, and shows what that has: tables and views after one of its epochs, never parts of two.

One connection brings all of it in cuts (`sending.py`); a cut is applied with the lock held and shown as one epoch. When the
connection is lost, what was shown stays until another one has brought all there is, which then differs by one epoch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.memory import MemoryTable
from connectors.memory.difference import difference
from runtime.checkpoint.storage import Damage
from runtime.core.errors import OptionError, SqlEngineError
from runtime.core.logs import Log
from runtime.core.rooms import Room
from sqlengine.api.environment import TableEnvironment
from sqlengine.catalog.catalog import Catalog, Database
from sqlengine.catalog.objects import CatalogTable, ObjectPath
from sqlengine.database.folder.changes import Definition, EpochChanges, Place, TableChanges, changes_of
from sqlengine.database.replica_state import ReplicaState
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.server.replication import people
from sqlengine.statements.lasting_views import current
from sqlengine.statements.tables import declared_table
from sqlengine.statements.views import declared_view

if TYPE_CHECKING:
    import psycopg as _psycopg
    import psycopg.conninfo as _conninfo
else:
    _psycopg = Room("psycopg")
    _conninfo = Room("psycopg.conninfo")

__all__ = ["Replica", "leader_of", "wait_until_ready"]

_log = Log("server")
_AGAIN_SECONDS = 0.5
_REPLICATE = "REPLICATE DATABASE VERSION 1"
_SILENCE_SECONDS = 10
"""A leader that says nothing for so long is gone: it says something each second."""
_DEFINED = (*people.KINDS, "catalog", "database", "table", "view")


def leader_of(uri: str) -> str:
    """Hosts and ports of a URI, without secrets. Raises OptionError E1500 for one that is none."""
    try:
        said = _conninfo.conninfo_to_dict(uri)
    except ModuleNotFoundError as error:
        raise OptionError(
            "--replica-of needs psycopg, which is not installed", code="E1500", hint="pip install 'sqlengine[client]'"
        ) from error
    except _psycopg.Error as error:
        raise OptionError(
            "--replica-of takes the address of a server", code="E1500", hint="postgresql://ann@db1:5433,db2:5433"
        ) from error
    hosts = str(said.get("host") or "localhost").split(",")
    ports = str(said.get("port") or "5432").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    return ", ".join(f"{host}:{port}" for host, port in zip(hosts, ports, strict=False))


@dataclass
class _Known:
    """What the replica has, by its place."""

    definitions: dict[Place, Definition] = field(default_factory=dict)


class Replica:
    """Follows a leader from `begin` on.

    Args:
        environment: a session of the database that becomes what the leader has.
        uri: where the leader is; may name several servers, of which the one that takes writes is meant.
    """

    def __init__(self, environment: TableEnvironment, uri: str) -> None:
        self._session = environment.session
        self._uri = uri
        self._known = _Known()
        self._stopped = threading.Event()
        self.ready = threading.Event()
        """Set when something is shown."""
        self.failure: BaseException | None = None
        """Why it has given up: what the leader has cannot be shown."""
        self.state = ReplicaState(leader_of(uri))
        self._thread = threading.Thread(target=self._follow, name="replica", daemon=True)

    def begin(self) -> None:
        """Follow, on a thread. From now on the database takes no changes from others."""
        self._session.database.replica = self.state
        self._session.database.metrics.add(self.state.samples)
        self._thread.start()

    def stop(self) -> None:
        """Follow no more."""
        self._stopped.set()

    def _follow(self) -> None:
        told = ""
        while not self._stopped.is_set():
            try:
                self._connected()
            except (_psycopg.Error, Damage, OSError) as error:
                text = str(error).partition("\n")[0]
                if text != told:
                    _log.warning("%s cannot be followed: %s", self.state.leader, text)
                told = text
            except BaseException as error:
                self.failure = error
                self.ready.set()
                _log.failure(f"{self.state.leader} cannot be followed", error)
                return
            finally:
                self.state.is_connected = False
            self._stopped.wait(_AGAIN_SECONDS)

    def _connected(self) -> None:
        connection = _psycopg.connect(
            self._uri,
            autocommit=True,
            target_session_attrs="read-write",
            application_name="sqlengine replica",
            tcp_user_timeout=_SILENCE_SECONDS * 1000,
            keepalives_idle=_SILENCE_SECONDS // 2,
            keepalives_interval=1,
            keepalives_count=3,
        )
        with connection, connection.cursor() as cursor:
            first = True
            for epoch, changes in self._cuts(cursor.stream(_REPLICATE, binary=True)):
                self._apply(changes, first=first)
                self.state.shows(epoch, changes.moment)
                self.state.is_connected, first = True, False
                self.ready.set()
                if self._stopped.is_set():
                    return

    @staticmethod
    def _cuts(rows: Iterator[Sequence[object]]) -> Iterator[tuple[int, EpochChanges]]:
        whole = EpochChanges()
        for epoch, complete, body in rows:
            assert isinstance(epoch, int) and isinstance(body, bytes)
            part = changes_of(pa.py_buffer(body), f"epoch {epoch:,} of the leader")
            whole.definitions.update(part.definitions)
            whole.tables += part.tables
            whole.moment = part.moment
            if complete:
                yield epoch, whole
                whole = EpochChanges()

    # --- what is applied

    def _apply(self, changes: EpochChanges, *, first: bool) -> None:
        """Have what has changed, as one epoch. `first`: it is all there is, in the place of what was."""
        session, known = self._session, self._known.definitions
        gone = [place for place, definition in changes.definitions.items() if definition is None]
        if first:
            gone = [place for place in known if place not in changes.definitions]
        made = {p: d for p, d in changes.definitions.items() if d is not None and known.get(p) != d}
        if not gone and not made and not changes.tables:
            return
        with session.alone(redefines=bool(gone or made)):
            for place in sorted(gone, key=lambda place: _DEFINED.index(place[0]), reverse=True):
                self._forget(place)
            for place, definition in made.items():
                self._make(place, definition)
            # An epoch of many rows has several parts of a table.
            tables: dict[ObjectPath, list[TableChanges]] = {}
            for table in changes.tables:
                tables.setdefault(ObjectPath(*table.storage), []).append(table)
            changed = [table for path, parts in tables.items() if (table := self._change(path, parts)) is not None]
            session.publish(changed)

    def _change(self, path: ObjectPath, parts: Sequence[TableChanges]) -> MemoryTable | None:
        thing = self._session.catalogs.find(path)
        if not isinstance(thing, CatalogTable):
            return None  # It could not be made, and was told.
        table = self._session.memory_table(thing)
        batches = [batch for part in parts for batch in part.batches]
        for batch in batches:
            if batch.rows.schema.types != table.schema.arrow.types:
                raise Damage(f"there are rows of other columns than {path} has")
        if parts[0].anew and (len(table) or table.append_only):
            if table.append_only:
                self._session.database.forget_rows(thing.storage)
                table = self._session.memory_table(thing)
            else:
                fresh = self._session.database.new_table(thing, self._session.options)
                fresh.apply_again(*batches)
                batches = [difference(table.contents(), fresh.contents())]
        table.apply_again(*batches)
        return table

    def _forget(self, place: Place) -> None:
        catalogs = self._session.catalogs
        self._known.definitions.pop(place, None)
        match place:
            case (kind, *_) if kind in people.KINDS:
                people.forget(place, self._session)
            case ("catalog", name):
                catalogs.drop_catalog(name, if_exists=True)
            case ("database", catalog, name):
                catalogs.catalog(catalog).databases.pop(name, None)
            case _:
                found = catalogs.find(ObjectPath(*place[1:]))
                if found is not None:
                    if isinstance(found, CatalogTable):
                        self._session.database.forget_rows(found.storage)
                    catalogs.remove(found)

    def _make(self, place: Place, definition: Definition) -> None:
        """What cannot be made here, such as a view of a table that is not sent, is told, and is not there."""
        if place in self._known.definitions and place[0] in ("table", "view"):
            self._forget(place)
        self._known.definitions[place] = definition
        session, catalogs = self._session, self._session.catalogs
        try:
            if place[0] in people.KINDS:
                people.make(place, definition.text, session)
                return
            statement = parse_statement(definition.text)
            if isinstance(statement, st.CreateCatalog):
                if place[1] not in {catalog.name for catalog in catalogs.catalogs()}:
                    catalogs.put_catalog(Catalog(place[1], statement.comment, st.options_dict(statement.options), {}))
            elif isinstance(statement, st.CreateDatabase):
                databases = catalogs.catalog(place[1]).databases
                if place[2] not in databases:
                    options = st.options_dict(statement.options)
                    databases[place[2]] = Database(place[2], statement.comment, options)
            else:
                with current(session, definition):
                    if isinstance(statement, ddl.CreateTable):
                        table = declared_table(statement, session)
                        catalogs.replace(table)
                        session.memory_table(table)
                    else:
                        assert isinstance(statement, st.CreateView)
                        catalogs.replace(declared_view(statement, session))
        except SqlEngineError as error:
            _log.failure(f"the {place[0]} {'.'.join(place[1:])} is not at this replica", error)


def wait_until_ready(replica: Replica, goes_on: Callable[[float], bool]) -> bool:
    """Wait until a replica shows something; whether it does. Raises why it never will."""
    while not replica.ready.is_set():
        if not goes_on(0.05):
            replica.stop()
            return False
    if replica.failure is not None:
        raise replica.failure
    return True
