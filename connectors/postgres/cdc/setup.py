"""The table, its publication and its slot: looked at before anything is read, and made where they are missing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from connectors.postgres.address import Address
from connectors.postgres.cdc.positions import lsn_of, lsn_text
from connectors.postgres.connection import connected, quoted, run, telling
from runtime.core.errors import ConnectorError, UnavailableError

__all__ = [
    "Followed",
    "KeyColumn",
    "drop_slot",
    "found_table",
    "log_end",
    "made_publication",
    "made_slot",
    "usable_slot",
]

PLUGIN = "pgoutput"
_ENDING_SECONDS, _PAUSE_SECONDS = 1.0, 0.02
"""How long a connection may take to end that was closed just now, and how often it is looked for."""
_TABLE = """
SELECT c.oid, c.relkind, c.relreplident, c.relispartition,
  coalesce((SELECT bool_and(p.relreplident = 'f') FROM pg_partition_tree(c.oid) AS t JOIN pg_class AS p ON p.oid = t.relid
    WHERE t.isleaf), false)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
_KEY = """
SELECT a.attname, a.atttypid, format_type(a.atttypid, NULL), a.atttypmod
FROM pg_index AS i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place)
JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = %s AND {which} ORDER BY k.place
"""
_TYPES = "SELECT attname, atttypid FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped"
_PUBLISHED = """
SELECT p.pubinsert AND p.pubupdate AND p.pubdelete, p.pubtruncate, to_jsonb(t) ->> 'rowfilter', t.tablename IS NOT NULL
FROM pg_publication AS p
LEFT JOIN pg_publication_tables AS t ON t.pubname = p.pubname AND t.schemaname = %s AND t.tablename = %s
WHERE p.pubname = %s
"""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of a key. `type`, `modifier`: as in `pg_attribute`; `written`: how the type is called."""

    name: str
    type: int
    written: str
    modifier: int


@dataclass(frozen=True, slots=True)
class Followed:
    """A table that can be followed.

    Attributes:
        key: its primary key.
        identity: the columns that old rows are sent with; None: all.
        types: of its columns, the numbers in `pg_type`.
    """

    number: int
    key: tuple[KeyColumn, ...]
    identity: tuple[str, ...] | None
    types: dict[str, int]


def found_table(connection: Any, schema: str, name: str, *, upsert: bool, changes: bool) -> Followed:
    """The table. Raises ConnectorError E3163 when it is not there, E3171 when its changes cannot be told.

    Args:
        upsert: the key is enough of old rows.
        changes: they are wanted, not only the rows as they are.
    """
    table = f"{schema}.{name}"
    rows = run(connection, _TABLE, [schema, name]).fetchall()
    if not rows:
        raise ConnectorError(
            f"there is no table {table}",
            code="E3163",
            hint="check the options 'schema-name' and 'table-name': they are names, not regular expressions",
        )
    number, kind, identity, _, leaves_full = rows[0]
    kind, identity = _text(kind), _text(identity)
    if changes and kind not in "rp":
        raise ConnectorError(
            f"{table} is no table: PostgreSQL tells the changes of tables alone", code="E3171", hint="name a table"
        )
    full = identity == "f" and (kind == "r" or leaves_full)
    if changes and not upsert and not full:
        raise ConnectorError(
            f"of old rows of {table}, PostgreSQL tells no more than the key",
            code="E3171",
            hint=f"ALTER TABLE {quoted(schema)}.{quoted(name)} REPLICA IDENTITY FULL"
            + (" (and each of its partitions)" if kind == "p" else "")
            + ", or declare the primary key and set 'changelog-mode' = 'upsert', for which the key is enough",
        )
    if changes and identity == "n":
        raise ConnectorError(
            f"{table} has REPLICA IDENTITY NOTHING: PostgreSQL does not tell which rows are changed",
            code="E3171",
            hint="ALTER TABLE .. REPLICA IDENTITY DEFAULT or FULL",
        )
    key = tuple(KeyColumn(*row) for row in run(connection, _KEY.format(which="i.indisprimary"), [number]).fetchall())
    by = key
    if identity == "i":
        found = run(connection, _KEY.format(which="i.indisreplident"), [number]).fetchall()
        by = tuple(KeyColumn(*row) for row in found)
    types = dict(run(connection, _TYPES, [number]).fetchall())
    return Followed(number, key, None if full else tuple(k.name for k in by), types)


def made_publication(connection: Any, publication: str, schema: str, name: str, *, may_make: bool) -> None:
    """There is a publication that has the table when this returns. Raises ConnectorError E3171 otherwise."""
    place = f"{quoted(schema)}.{quoted(name)}"
    rows = run(connection, _PUBLISHED, [schema, name, publication]).fetchall()
    if not rows:
        if not may_make:
            raise ConnectorError(
                f"there is no publication {publication}",
                code="E3171",
                hint=f"CREATE PUBLICATION {quoted(publication)} FOR TABLE {place} "
                "WITH (publish_via_partition_root = true), before the slot is made",
            )
        run(
            connection,
            f"CREATE PUBLICATION {quoted(publication)} FOR TABLE {place} WITH (publish_via_partition_root = true)",
        )
        return
    changes, truncates, row_filter, there = rows[0]
    if not there:
        raise ConnectorError(
            f"the publication {publication} does not have {schema}.{name}",
            code="E3171",
            hint=f"ALTER PUBLICATION {quoted(publication)} ADD TABLE {place} (of a partitioned table it must publish "
            "via the partition root), or leave 'publication.name' out: then one is made",
        )
    if row_filter is not None or not (changes and truncates):
        raise ConnectorError(
            f"the publication {publication} does not have all changes of {schema}.{name}",
            code="E3171",
            hint="make it without WHERE, and with publish = 'insert, update, delete, truncate'",
        )


def usable_slot(connection: Any, slot: str, database: str) -> dict[str, Any] | None:
    """What PostgreSQL says of a slot, None when there is none. Raises ConnectorError E3170 when it cannot be used."""
    level = run(connection, "SHOW wal_level").fetchall()[0][0]
    if level != "logical":
        raise ConnectorError(
            f"PostgreSQL writes no log that can be decoded: wal_level is {level}",
            code="E3171",
            hint="set wal_level = logical in postgresql.conf, and restart the server",
        )
    cursor = run(connection, "SELECT * FROM pg_replication_slots WHERE slot_name = %s", [slot])
    names = [column.name for column in cursor.description]
    rows = cursor.fetchall()
    if not rows:
        return None
    found = dict(zip(names, rows[0], strict=True))
    if found["plugin"] != PLUGIN or found["database"] != database:
        raise ConnectorError(
            f"the slot {slot} is of the plugin {found['plugin']} and the database {found['database']}",
            code="E3170",
            hint="give the option 'slot.name' a name of its own for each table and job",
        )
    if found.get("wal_status") == "lost" or found.get("invalidation_reason") or found["restart_lsn"] is None:
        raise ConnectorError(
            f"PostgreSQL has dropped what the slot {slot} had not given: its changes are lost",
            code="E3170",
            hint=f"the job stood still for longer than max_slot_wal_keep_size allows. SELECT pg_drop_replication_slot('{slot}'), "
            "and begin anew with --fresh",
        )
    return found


def made_slot(connection: Any, slot: str, database: str) -> int:
    """Where a slot begins, which is made when there is none: waits for the transactions that are open then."""
    found = usable_slot(connection, slot, database)
    if found is not None:
        return lsn_of(found["confirmed_flush_lsn"])
    made = run(connection, "SELECT lsn FROM pg_create_logical_replication_slot(%s, %s)", [slot, PLUGIN]).fetchall()
    return lsn_of(made[0][0])


def check_goes_on(connection: Any, slot: str, database: str, lsn: int) -> None:
    """Raises ConnectorError E3170 when a slot does not have what comes behind a place."""
    found = usable_slot(connection, slot, database)
    if found is None:
        raise ConnectorError(
            f"there is no slot {slot} any more: changes since {lsn_text(lsn)} are lost",
            code="E3170",
            hint="somebody has dropped it, or the server is another one. Begin anew with --fresh",
        )
    begins = lsn_of(found["confirmed_flush_lsn"])
    if begins > lsn:
        raise ConnectorError(
            f"the slot {slot} begins at {lsn_text(begins)}, and the job goes on from {lsn_text(lsn)}: changes are lost",
            code="E3170",
            hint="somebody else has read the slot, or the job goes back to an older checkpoint than its newest. Give each job "
            "a slot of its own, and begin anew with --fresh",
        )


def log_end(connection: Any) -> int:
    """How far the log is written."""
    return log_ends(connection)[1]


def log_ends(connection: Any) -> tuple[int, int]:
    """How far the log is safe on disk, and how far it is written."""
    rows = run(connection, "SELECT pg_current_wal_flush_lsn(), pg_current_wal_insert_lsn()").fetchall()
    return lsn_of(rows[0][0]), lsn_of(rows[0][1])


def drop_slot(address: Address, slot: str, publication: str | None) -> list[tuple[str, str]]:
    """Remove a slot, and a publication, if one is named: those that were there. Raises UnavailableError E3150 while somebody
    reads the slot."""
    found: list[tuple[str, str]] = []
    with telling(address), connected(address) as connection:
        until = time.monotonic() + _ENDING_SECONDS
        while rows := run(
            connection, "SELECT active FROM pg_replication_slots WHERE slot_name = %s", [slot]
        ).fetchall():
            if not rows[0][0]:
                break
            if time.monotonic() > until:
                raise UnavailableError(f"the slot {slot} is being read", hint="stop the job that reads it first")
            time.sleep(_PAUSE_SECONDS)
        if rows:
            run(connection, "SELECT pg_drop_replication_slot(%s)", [slot])
            found.append(("replication slot", slot))
        there = run(connection, "SELECT 1 FROM pg_publication WHERE pubname = %s", [publication or ""]).fetchall()
        if publication is not None and there:
            run(connection, f"DROP PUBLICATION {quoted(publication)}")
            found.append(("publication", publication))
    return found


def _text(value: Any) -> str:
    """A value of the type "char", which the client gives as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


__all__ += ["check_goes_on", "log_ends"]
