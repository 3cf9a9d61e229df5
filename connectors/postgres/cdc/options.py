"""The options of the connector `postgres-cdc`, as Flink CDC names them, and `url` as the connector `postgres` has it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from connectors.options import TableOptions
from connectors.postgres.address import ADDRESS_OPTIONS, PASSWORD, URL, USERNAME, Address, read_address
from runtime.core.errors import OptionError
from runtime.core.options import Option, bool_option, int_option, text_option

__all__ = ["CDC_OPTIONS", "CdcOptions", "read_options"]

HOST = text_option("hostname", "", "the host of the server")
PORT = int_option("port", 5432, "the port of the server")
DATABASE = text_option("database-name", "", "the database")
SCHEMA = text_option("schema-name", "", "the schema of the table")
TABLE = text_option("table-name", "", "the table")
SLOT = text_option("slot.name", "", "the replication slot, one for each table and job; it is made if it is missing")
PLUGIN = text_option("decoding.plugin.name", "pgoutput", "the plugin that decodes the log", ("pgoutput",))
PUBLICATION = text_option(
    "publication.name", "", "a publication that has the table; without it one of the slot's name is made"
)
STARTUP = text_option(
    "scan.startup.mode",
    "initial",
    "'initial': the rows as they are, then all changes; 'latest-offset': the changes from now on; 'committed-offset': the "
    "changes that the slot has; 'snapshot': the rows as they are, and no more",
    ("initial", "latest-offset", "committed-offset", "snapshot"),
)
MODE = text_option(
    "changelog-mode",
    "all",
    "'all': old rows whole, which needs REPLICA IDENTITY FULL; 'upsert': by primary key, for which the key is enough",
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
    int_option("scan.snapshot.fetch.size", 1024, "accepted for compatibility"),
    text_option("heartbeat.interval.ms", "30s", "accepted for compatibility; the slot moves on without"),
    text_option("connect.max-retries", "3", "accepted for compatibility"),
    text_option("connection.pool.size", "30", "accepted for compatibility"),
)
CDC_OPTIONS = (
    HOST, PORT, *ADDRESS_OPTIONS, DATABASE, SCHEMA, TABLE, SLOT, PLUGIN, PUBLICATION, STARTUP, MODE, TRUNCATE, *_ACCEPTED,
)  # fmt: skip
_HOST = re.compile(r"[\w.-]+|[0-9A-Fa-f:.%]+")
_SLOT = re.compile(r"[a-z0-9_]{1,63}")


@dataclass(frozen=True, slots=True)
class CdcOptions:
    """What a table says. `publication` is empty where one is made."""

    address: Address
    schema: str
    table: str
    slot: str
    publication: str
    start: str
    upsert: bool
    ignores_truncate: bool

    @property
    def published(self) -> str:
        """The name of the publication."""
        return self.publication or f"{self.slot}_publication"


def read_options(options: TableOptions) -> CdcOptions:
    """Raises OptionError for what is missing or cannot be."""
    start = options.get(STARTUP).lower()
    slot = options.get(SLOT) if start == "snapshot" else options.required(SLOT)
    if slot and _SLOT.fullmatch(slot) is None:
        raise OptionError(
            f"option '{SLOT.key}' cannot be '{slot}'", hint="it has small letters, digits and underscores, at most 63"
        )
    options.get(PLUGIN)
    for option in _ACCEPTED:
        options.get(option)
    return CdcOptions(
        _address(options),
        options.required(SCHEMA),
        options.required(TABLE),
        slot,
        options.get(PUBLICATION),
        start,
        options.get(MODE).lower() == "upsert",
        options.get(TRUNCATE).lower() == "ignore",
    )


def _address(options: TableOptions) -> Address:
    if options.has(URL):
        if options.has(HOST) or options.has(PORT):
            raise OptionError("options 'url' and 'hostname' say the same", hint="set one of them")
        found = read_address(options)
        return replace(found, database=options.get(DATABASE)) if options.has(DATABASE) else found
    host, port = options.required(HOST), options.get(PORT)
    if _HOST.fullmatch(host) is None or not 0 < port < 65536:
        raise OptionError(f"options 'hostname' and 'port' cannot be '{host}' and {port}", hint="name one host")
    found = Address(host, port, options.required(DATABASE), options.required(USERNAME), options.secret(PASSWORD))
    return found
