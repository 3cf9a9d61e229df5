"""The server and the table, looked at before anything is read."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from connectors.databases.patterns import NamePattern
from connectors.mysql.cdc.gtids import holds, parsed
from connectors.mysql.cdc.positions import Place
from connectors.mysql.connection import Connection, literal
from connectors.mysql.described import Relation
from runtime.core.errors import ConnectorError, UnavailableError

__all__ = [
    "check_has",
    "check_server",
    "has_gtids",
    "is_maria",
    "kept_still",
    "log_at",
    "log_begin",
    "log_end",
    "matching",
    "numbered",
    "same_number",
    "server_of",
    "tells_names",
]

_OWN = "'mysql', 'sys', 'information_schema', 'performance_schema'"
"""Databases of the server itself."""
_NAMES = ("log_bin", "binlog_format", "binlog_row_image", "server_uuid", "server_uid", "server_id")


def _variables(connection: Connection) -> dict[str, str]:
    names = ", ".join(map(literal, _NAMES))
    return dict(connection.asked(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"))


def server_of(connection: Connection) -> str:
    """Who has the log: a name that no other server has; of MariaDB with a slash before its number."""
    found = _variables(connection)
    return found.get("server_uuid") or f"{found.get('server_uid', '')}/{found.get('server_id', '')}"


def is_maria(server: str) -> bool:
    """What a server is, by its name."""
    return "/" in server


def same_number(server: str, other: str) -> bool:
    """Whether two servers of MariaDB have the same number: then they do not replicate each other, and the same GTIDs are other
    transactions."""
    return is_maria(server) and server.partition("/")[2] == other.partition("/")[2]


def has_gtids(connection: Connection, server: str) -> bool:
    """Whether all transactions have numbers: those of MariaDB have."""
    if is_maria(server):
        return True
    found = connection.asked("SHOW GLOBAL VARIABLES LIKE 'gtid_mode'")
    return bool(found) and str(found[0][1]).upper() == "ON"


def numbered(connection: Connection, place: Place) -> Place:
    """A place with the transactions before it, which MariaDB can tell, and MySQL tells in its log."""
    if not is_maria(server_of(connection)):
        return place
    ((gtids,),) = connection.asked(f"SELECT BINLOG_GTID_POS({literal(place.file)}, {place.at})")
    # Nothing is said where there is no such place; at the first one it is what it says.
    known = gtids or None if place.order != log_begin(connection).order else gtids or ""
    return Place(place.file, place.at, known)


def check_has(connection: Connection, places: Sequence[Place]) -> None:
    """Raises UnavailableError E3150 for a server that has not yet all of the transactions before some places."""
    there = log_end(connection)
    maria = is_maria(server_of(connection))
    for place in places:
        if place.gtids is None:
            continue
        if there.gtids is None or (place.gtids and (":" in place.gtids) == maria):
            raise ConnectorError(
                f"MySQL at {connection.address} has no GTIDs such as '{place.gtids}', behind which reading would go on",
                code="E3170",
                hint="those of MariaDB and of MySQL are different; of MySQL gtid_mode and enforce_gtid_consistency must be ON",
            )
        if not holds(there.gtids, place.gtids):
            raise UnavailableError(
                f"MySQL at {connection.address} has in its log not all of the transactions that were read: it has "
                f"'{there.gtids}', not '{place.gtids}'",
                hint="does it still replicate them? It must write them into its log (log_slave_updates, "
                "log_replica_updates = ON)",
            )


def tells_names(connection: Connection) -> bool:
    """Whether the log has names of columns."""
    found = connection.asked("SHOW GLOBAL VARIABLES LIKE 'binlog_row_metadata'")
    return bool(found) and str(found[0][1]).upper() == "FULL"


def check_server(connection: Connection) -> None:
    """Raises ConnectorError E3171 when the server does not log rows, whole and one by one."""
    found = _variables(connection)
    for name, wanted, what in (
        ("log_bin", "ON", "keeps no binary log"),
        ("binlog_format", "ROW", "logs statements, not rows"),
        ("binlog_row_image", "FULL", "logs rows without all of their columns"),
    ):
        value = found.get(name, wanted)
        if value.upper() not in (wanted, "1" if wanted == "ON" else wanted):
            raise ConnectorError(
                f"MySQL at {connection.address} {what} ({name} = {value})",
                code="E3171",
                hint="set log_bin, binlog_format = ROW and binlog_row_image = FULL in the settings of the server",
            )


def log_end(connection: Connection) -> Place:
    """The place behind all that is committed. Raises ConnectorError E3161 for who may not see it."""
    for statement in ("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"):
        try:
            rows = connection.asked(statement)
        except ConnectorError as error:
            # MySQL 8.4 has only the second one.
            if error.code != "E3163":
                raise
            continue
        if rows:
            return Place(str(rows[0][0]), int(rows[0][1]), _gtids(connection, rows[0]))
    raise ConnectorError(
        f"MySQL at {connection.address} keeps no binary log", code="E3171", hint="set log_bin in its settings"
    )


_MYSQL_COLUMNS = 5


def _gtids(connection: Connection, status: Sequence[object]) -> str | None:
    """All transactions in the log; None where there are some without a number, or with one that has a tag."""
    server = server_of(connection)
    if is_maria(server):
        ((gtids,),) = connection.asked("SELECT @@GLOBAL.gtid_binlog_pos")
        return str(gtids)
    if len(status) < _MYSQL_COLUMNS or not has_gtids(connection, server):
        return None
    try:
        return str(parsed(str(status[_MYSQL_COLUMNS - 1]), maria=False))
    except ValueError:
        return None


def log_begin(connection: Connection) -> Place:
    """The first place that the server still has."""
    return Place(str(connection.asked("SHOW BINARY LOGS")[0][0]), 4)


def log_at(connection: Connection, seconds: int, written: Callable[[Place], int]) -> Place:
    """The beginning of a file that has all that is committed at a time or later. `written`: when the file there was begun, in
    seconds since 1970."""
    files = [Place(str(name), 4) for name, *_ in connection.asked("SHOW BINARY LOGS")]
    return files[max(0, bisect_right(files, seconds, key=written) - 1)]


def matching(connection: Connection, databases: NamePattern, tables: NamePattern) -> list[tuple[str, str]]:
    """The tables whose names match, in their order."""
    found = connection.asked(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', "
        f"'SYSTEM VERSIONED') AND TABLE_SCHEMA NOT IN ({_OWN}) ORDER BY 1, 2"
    )
    here = {*databases.chosen(sorted({database for database, _ in found}))}
    named = {*tables.chosen(sorted({table for _, table in found}))}
    return [(database, table) for database, table in found if database in here and table in named]


@contextmanager
def kept_still(connection: Connection, relations: Sequence[Relation]) -> Generator[None]:
    """Nobody writes some tables: all of their changes that are committed are in the log, and are seen."""
    try:
        connection.run(f"LOCK TABLES {', '.join(f'{r.sql} READ' for r in relations)}")
    except ConnectorError as error:
        if error.code != "E3161":
            raise
        raise ConnectorError(
            f"{error.message}: a place in the log and a snapshot are one moment while nobody may write the table",
            code="E3161",
            hint="GRANT LOCK TABLES, SELECT, REPLICATION SLAVE, REPLICATION CLIENT (of MariaDB BINLOG MONITOR) to the user",
        ) from error
    try:
        yield
    finally:
        connection.run("UNLOCK TABLES")
