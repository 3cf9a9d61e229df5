"""The server and the table, looked at before anything is read."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from connectors.mysql.cdc.positions import Place
from connectors.mysql.connection import Connection, literal
from connectors.mysql.described import Relation
from runtime.core.errors import ConnectorError

__all__ = ["check_server", "kept_still", "log_begin", "log_end", "server_of", "tells_names"]

_NAMES = ("log_bin", "binlog_format", "binlog_row_image", "server_uuid", "server_uid", "server_id")


def _variables(connection: Connection) -> dict[str, str]:
    names = ", ".join(map(literal, _NAMES))
    return dict(connection.asked(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"))


def server_of(connection: Connection) -> str:
    """Who has the log: a name that no other server has."""
    found = _variables(connection)
    return found.get("server_uuid") or f"{found.get('server_uid', '')}/{found.get('server_id', '')}"


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
            return Place(str(rows[0][0]), int(rows[0][1]))
    raise ConnectorError(
        f"MySQL at {connection.address} keeps no binary log", code="E3171", hint="set log_bin in its settings"
    )


def log_begin(connection: Connection) -> Place:
    """The first place that the server still has."""
    return Place(str(connection.asked("SHOW BINARY LOGS")[0][0]), 4)


@contextmanager
def kept_still(connection: Connection, relation: Relation) -> Generator[None]:
    """Nobody writes a table: all of its changes that are committed are in the log, and are seen."""
    try:
        connection.run(f"LOCK TABLES {relation.sql} READ")
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
