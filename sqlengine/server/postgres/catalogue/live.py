"""Tables of the catalogue that tell what is so at the moment: who is connected, and how large tables are.

They are filled for each question that names them, so that no other question pays for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sqlengine.catalog.objects import CatalogView, ObjectPath
from sqlengine.database.session import Session
from sqlengine.server.postgres.catalogue.contents import oid_of, role_oid

if TYPE_CHECKING:
    from sqlengine.server.postgres.session import ClientSession

__all__ = ["Sessions", "live_rows", "sizes"]

Sessions = Callable[[], Iterable["ClientSession"]]
"""Those that are connected."""
Row = dict[str, Any]
_STATES = {b"I": "idle", b"T": "idle in transaction", b"E": "idle in transaction (aborted)"}
_HIDDEN = "<insufficient privilege>"


def _activity(asker: ClientSession, sessions: Iterable[ClientSession]) -> Iterable[Row]:
    user = asker.settings.get("session_authorization")
    sees_all = asker.settings.get("is_superuser") == "on"
    for session in sessions:
        catalog = session.environment.session.catalogs.current_catalog
        name = session.settings.get("session_authorization")
        row: Row = {
            "datid": oid_of("database", catalog), "datname": catalog, "pid": session.number, "usesysid": role_oid(name),
            "usename": name, "backend_type": "client backend",
        }  # fmt: skip
        if not sees_all and name != user:
            yield row | {"query": _HIDDEN}
            continue
        doing = session.activity
        host, _, port = session.client.rpartition(":")
        waits = not doing.active
        yield row | {
            "application_name": session.settings.get("application_name"),
            "client_addr": host.strip("[]") or None,
            "client_port": int(port) if port.isdecimal() else None,
            "backend_start": doing.connected,
            "xact_start": doing.transaction_since,
            "query_start": doing.statement_since,
            "state_change": doing.since,
            "wait_event_type": "Client" if waits else None,
            "wait_event": "ClientRead" if waits else None,
            "state": _STATES[session.transaction.state] if waits else "active",
            "query": doing.text,
        }


def _locks(_: ClientSession, sessions: Iterable[ClientSession]) -> Iterable[Row]:
    """Statements take no locks but that of their own transaction, as each of PostgreSQL does."""
    for session in sessions:
        if session.activity.transaction_since is not None:
            yield {
                "locktype": "virtualxid", "virtualxid": f"{session.number}/1", "virtualtransaction": f"{session.number}/1",
                "pid": session.number, "mode": "ExclusiveLock", "granted": True, "fastpath": True,
            }  # fmt: skip


def _databases(asker: ClientSession, sessions: Iterable[ClientSession]) -> Iterable[Row]:
    backends: dict[str, int] = {}
    for session in sessions:
        catalog = session.environment.session.catalogs.current_catalog
        backends[catalog] = backends.get(catalog, 0) + 1
    counted = ("xact_commit", "xact_rollback", "blks_read", "blks_hit", "tup_returned", "tup_fetched", "tup_inserted",
               "tup_updated", "tup_deleted", "conflicts", "temp_files", "temp_bytes", "deadlocks")  # fmt: skip
    for catalog in asker.environment.session.catalogs.seen_catalogs():
        name = catalog.name
        row = {"datid": oid_of("database", name), "datname": name, "numbackends": backends.get(name, 0)}
        yield row | dict.fromkeys(counted, 0)


def _tables(asker: ClientSession, _: Iterable[ClientSession]) -> Iterable[Row]:
    """Rows that are there. What has happened to them before is not counted."""
    session = asker.environment.session
    for path, oid, storage in _stored(session):
        table = session.database.memory.get(storage)
        if table is not None:
            counted = ("seq_scan", "seq_tup_read", "idx_scan", "idx_tup_fetch", "n_tup_ins", "n_tup_upd", "n_tup_del",
                       "n_tup_hot_upd", "n_dead_tup", "n_mod_since_analyze", "n_ins_since_vacuum", "vacuum_count",
                       "autovacuum_count", "analyze_count", "autoanalyze_count")  # fmt: skip
            row = {"relid": oid, "schemaname": path.database, "relname": path.name, "n_live_tup": table.held}
            yield row | dict.fromkeys(counted, 0)


def _stored(session: Session) -> Iterable[tuple[ObjectPath, int, ObjectPath]]:
    """Tables and materialized views of the current catalog: path, number, and the path of what holds their rows."""
    catalogs = session.catalogs
    for name in catalogs.seen_databases(catalogs.current_catalog):
        for thing in catalogs.seen_objects(catalogs.current_catalog, name):
            if not isinstance(thing, CatalogView):
                yield thing.path, oid_of("object", *thing.path.parts), thing.storage


_ROWS: Mapping[str, Callable[[ClientSession, Iterable[ClientSession]], Iterable[Row]]] = {
    "pg_stat_activity": _activity,
    "pg_locks": _locks,
    "pg_stat_database": _databases,
    "pg_stat_user_tables": _tables,
    "pg_stat_all_tables": _tables,
}
"""What gives their rows, by name."""


def live_rows(name: str, asker: ClientSession, sessions: Sessions) -> list[Row]:
    """The rows of such a table; columns that are not named are NULL."""
    return list(_ROWS[name](asker, tuple(sessions())))


def sizes(session: Session) -> tuple[list[int], list[int]]:
    """The numbers of relations whose rows are here, and how many bytes they take; those of all in the catalog stand with
    the number of its database."""
    oids: list[int] = []
    found: list[int] = []
    for _, oid, storage in _stored(session):
        table = session.database.memory.get(storage)
        oids.append(oid)
        found.append(0 if table is None else table.nbytes)
    return [oid_of("database", session.catalogs.current_catalog), *oids], [sum(found), *found]
