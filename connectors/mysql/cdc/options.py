"""The options of the connector `mysql-cdc`, as Flink CDC names them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from connectors.databases.address import PASSWORD, SSL_CERT, SSL_KEY, SSL_MODE, SSL_ROOT, TIMEOUT, USERNAME
from connectors.databases.patterns import NamePattern, name_pattern
from connectors.mysql.address import PORT, Address
from connectors.mysql.cdc.gtids import parsed
from connectors.mysql.cdc.positions import Place
from connectors.options import TableOptions
from runtime.core.errors import OptionError
from runtime.core.options import Option, bool_option, int_option, text_option

__all__ = ["CDC_OPTIONS", "CdcOptions", "read_options"]

HOST = text_option("hostname", "", "the host of the server")
_PORT = int_option("port", PORT, "the port of the server")
DATABASE = text_option("database-name", "", "the database, or a regular expression for several")
TABLE = text_option("table-name", "", "the table, or a regular expression for several")
SERVER_ID = text_option(
    "server-id",
    "",
    "the number of this reader among the servers that follow the log, such as '5400'; without it one by chance",
)
STARTUP = text_option(
    "scan.startup.mode",
    "initial",
    "'initial': the rows as they are, then all changes; 'latest-offset': the changes from now on; 'earliest-offset': all "
    "changes that the log has; 'specific-offset': those from a place on; 'timestamp': those made at a time or later; 'snapshot': "
    "the rows as they are, and no more",
    ("initial", "latest-offset", "earliest-offset", "specific-offset", "timestamp", "snapshot"),
)
FILE = text_option("scan.startup.specific-offset.file", "", "the file of the log from which on changes are read")
AT = int_option("scan.startup.specific-offset.pos", 4, "where in that file")
GTIDS = text_option(
    "scan.startup.specific-offset.gtid-set",
    "",
    "transactions whose changes are not wanted: MariaDB's '0-1-100' is the newest of each domain, MySQL's 'uuid:1-100' are ranges",
)
SINCE = int_option("scan.startup.timestamp-millis", 0, "the time, in milliseconds since 1970")
MODE = text_option(
    "changelog-mode",
    "all",
    "'all': old rows, too; 'upsert': by primary key, for which the key of old rows is enough",
    ("all", "upsert"),
)
TRUNCATE = text_option(
    "scan.truncate.mode",
    "fail",
    "what TRUNCATE of the table does: 'fail' ends the job, 'ignore' keeps the rows",
    ("fail", "ignore"),
)
_ACCEPTED: tuple[Option[Any], ...] = (
    bool_option("scan.incremental.snapshot.enabled", True, "accepted for compatibility"),
    int_option("scan.incremental.snapshot.chunk.size", 8096, "accepted for compatibility"),
    text_option("scan.incremental.snapshot.chunk.key-column", "", "accepted for compatibility"),
    bool_option("scan.incremental.close-idle-reader.enabled", False, "accepted for compatibility"),
    bool_option("scan.incremental.snapshot.backfill.skip", False, "accepted for compatibility"),
    int_option("scan.snapshot.fetch.size", 1024, "accepted for compatibility"),
    text_option("server-time-zone", "", "accepted for compatibility: TIMESTAMP is a moment, and DATETIME has no zone"),
    text_option("heartbeat.interval", "30s", "accepted for compatibility"),
    text_option("connect.max-retries", "3", "accepted for compatibility: it is tried eight times"),
    text_option("connection.pool.size", "20", "accepted for compatibility"),
)
CDC_OPTIONS = (
    HOST, _PORT, USERNAME, PASSWORD, DATABASE, TABLE, SERVER_ID, STARTUP, FILE, AT, GTIDS, SINCE, MODE, TRUNCATE,
    SSL_MODE, SSL_ROOT, SSL_CERT, SSL_KEY, TIMEOUT, *_ACCEPTED,
)  # fmt: skip
_HOST = re.compile(r"[\w.-]+|[0-9A-Fa-f:.%]+")
_SERVER_ID = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?")


@dataclass(frozen=True, slots=True)
class CdcOptions:
    """What a table says. `server_id` is 0 without one; `begin` where `start` is 'specific-offset', `since` where it is 'timestamp',
    in milliseconds since 1970."""

    address: Address
    databases: NamePattern
    tables: NamePattern
    server_id: int
    start: str
    begin: Place | None
    since: int | None
    upsert: bool
    ignores_truncate: bool

    @property
    def patterned(self) -> bool:
        """Whether several tables may be meant."""
        return self.databases.re2 is not None or self.tables.re2 is not None

    def wants(self, database: str, table: str) -> bool:
        return self.databases.matches(database) and self.tables.matches(table)


def read_options(options: TableOptions) -> CdcOptions:
    """Raises OptionError for what is missing or cannot be."""
    host, port = options.required(HOST), options.get(_PORT)
    if _HOST.fullmatch(host) is None or not 0 < port < 65536:
        raise OptionError(f"options 'hostname' and 'port' cannot be '{host}' and {port}", hint="name one host")
    databases = name_pattern(DATABASE.key, options.required(DATABASE))
    tables = name_pattern(TABLE.key, options.required(TABLE))
    for option in _ACCEPTED:
        options.get(option)
    start = options.get(STARTUP).lower()
    begin = _begin(options) if start == "specific-offset" else None
    since = int(options.required(SINCE)) if start == "timestamp" else None
    address = Address(
        host,
        port,
        "" if databases.re2 else databases.text,
        options.required(USERNAME),
        options.secret(PASSWORD),
        options.get(SSL_MODE),
        options.get(SSL_ROOT),
        options.get(SSL_CERT),
        options.get(SSL_KEY),
        max(2, options.get(TIMEOUT) // 1000),
    )
    return CdcOptions(
        address,
        databases,
        tables,
        _server_id(options.get(SERVER_ID)),
        start,
        begin,
        since,
        options.get(MODE).lower() == "upsert",
        options.get(TRUNCATE).lower() == "ignore",
    )


def _begin(options: TableOptions) -> Place:
    """Behind a set of transactions, or a file and a place in it."""
    gtids = options.get(GTIDS)
    if not gtids:
        return Place(options.required(FILE), options.get(AT))
    try:
        return Place("", 0, str(parsed(gtids, maria=":" not in gtids)))
    except ValueError as error:
        raise OptionError(
            f"option '{GTIDS.key}' cannot be '{gtids}'",
            hint="MariaDB writes '0-1-100,1-1-5', MySQL '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7'",
        ) from error


def _server_id(text: str) -> int:
    """Of a range, which Flink CDC has for several readers, the first one."""
    if not text:
        return 0
    found = _SERVER_ID.fullmatch(text.strip())
    if found is None or not 0 < int(found[1]) < 1 << 32:
        raise OptionError(
            f"option '{SERVER_ID.key}' cannot be '{text}'", hint="it is a number, or a range such as '5400-5404'"
        )
    return int(found[1])
