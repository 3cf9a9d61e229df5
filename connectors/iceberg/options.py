"""The options of the connector `iceberg`, with Flink's names, and where a table is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from connectors.kit.commits import SPOOL_SIZE
from connectors.options import TableOptions
from runtime.core.errors import OptionError
from runtime.core.options import bool_option, duration_option, int_option, text_option
from runtime.core.secrets import Secret, is_secret

__all__ = ["CATALOG_OPTIONS", "Address", "PASSED_ON", "TABLE_OPTIONS", "Reading", "read_address", "read_reading"]

CATALOG_TYPES = ("hadoop", "rest", "sql", "hive", "glue", "dynamodb")
TYPE = text_option(
    "catalog-type", "", "what keeps the names of tables: a folder ('hadoop'), a service, a database", CATALOG_TYPES
)
NAME = text_option("catalog-name", "iceberg", "the name under which a catalog of type 'sql' keeps its tables")
URI = text_option(
    "uri", "", "the address of the catalog: 'http://..', 'thrift://..', 'sqlite:////..', 'postgresql+psycopg://..'"
)
WAREHOUSE = text_option(
    "warehouse", "", "the folder of the tables, also in an object store; of a REST catalog its name"
)
DATABASE = text_option("catalog-database", "default", "the database (namespace) of the table")
TABLE = text_option("catalog-table", "", "the table; its own name when not given")
DEFAULT_DATABASE = text_option(
    "default-database", "default", "the database that USE CATALOG makes the current database"
)
CREDENTIAL = text_option("credential", "", "of a REST catalog: 'id:secret'")
TOKEN = text_option("token", "", "of a REST catalog: a bearer token")
SCOPE = text_option("scope", "", "of a REST catalog: the scope of OAuth2")
OAUTH = text_option("oauth2-server-uri", "", "of a REST catalog: who gives tokens")
PASSED_ON = ("s3.", "gcs.", "adls.", "hdfs.", "client.", "glue.", "hive.", "dynamodb.", "rest.", "header.")
"""Options that begin so are the library's own."""
_OF_CATALOG = (TYPE, NAME, URI, WAREHOUSE, CREDENTIAL, TOKEN, SCOPE, OAUTH)

SNAPSHOT = int_option("snapshot-id", 0, "the snapshot to read")
AS_OF = int_option("as-of-timestamp", 0, "reads what was there at a time, in milliseconds since 1970")
BRANCH = text_option("branch", "main", "the branch to read or write")
TAG = text_option("tag", "", "the tag to read")
STREAMING = bool_option("streaming", False, "reads what is there, then what comes: without an end")
MONITOR = duration_option("monitor-interval", 60_000, "how often to look for new snapshots, such as '1 s'")
START = int_option("start-snapshot-id", 0, "reads what came after this snapshot ('streaming')")
STRATEGY = text_option(
    "starting-strategy",
    "TABLE_SCAN_THEN_INCREMENTAL",
    "where reading begins ('streaming'): with all rows, behind the newest snapshot, or with the changes of the oldest one",
    ("TABLE_SCAN_THEN_INCREMENTAL", "INCREMENTAL_FROM_LATEST_SNAPSHOT", "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"),
)
CHANGES = bool_option(
    "streaming-changes", False, "reads deletes and updates, too ('streaming'); a table with a primary key always does"
)
UPSERT = bool_option(
    "write.upsert.enabled",
    False,
    "a row takes the place of the one with its key; needs a PRIMARY KEY, which also turns it on",
)
TARGET_SIZE = text_option("write.target-file-size-bytes", "128 mb", "rows of so many bytes, in memory, go into a file")
CATALOG_OPTIONS = (*_OF_CATALOG, DEFAULT_DATABASE)
TABLE_OPTIONS = (
    *_OF_CATALOG, DATABASE, TABLE, SNAPSHOT, AS_OF, BRANCH, TAG, STREAMING, MONITOR, START, STRATEGY, CHANGES, UPSERT,
    TARGET_SIZE, SPOOL_SIZE,
)  # fmt: skip


@dataclass(frozen=True)
class Address:
    """A table of a catalog. `properties` are what the library's catalog is made with."""

    catalog: str
    type: str
    properties: tuple[tuple[str, str | Secret], ...] = field(repr=False)
    database: str = ""
    table: str = ""

    @property
    def identifier(self) -> tuple[str, ...]:
        """As the library names it."""
        return (*self.database.split("."), self.table)

    @property
    def place(self) -> str:
        """Which table that is, for texts: nothing secret is in it."""
        return f"{self.catalog}.{self.database}.{self.table}"

    def of(self, database: str, table: str) -> Address:
        """Another one of the same catalog."""
        return replace(self, database=database, table=table)


@dataclass(frozen=True)
class Reading:
    """Which snapshots are read. `start`: None begins with all rows, 0 with the changes of the oldest snapshot, -1 behind the
    newest one; other numbers are snapshots behind which to begin. `interval` in seconds."""

    snapshot: int | None = None
    as_of: int | None = None
    branch: str = "main"
    tag: str = ""
    streaming: bool = False
    changes: bool = False
    start: int | None = None
    interval: float = 60.0


def read_address(options: TableOptions, given: Mapping[str, str], where: str, default_table: str = "") -> Address:
    """Where a table, or a catalog, is. Raises OptionError for what does not belong together."""
    kind = options.required(TYPE).lower()
    needed = {"hadoop": WAREHOUSE, "rest": URI, "sql": URI, "hive": URI}.get(kind)
    if needed is not None:
        options.required(needed)
    if kind == "hadoop" and "://" in options.get(WAREHOUSE) and not options.get(WAREHOUSE).startswith("file:"):
        raise OptionError(
            f"{where} cannot keep names in {options.get(WAREHOUSE).partition('://')[0]}: 'catalog-type' = 'hadoop' is for folders "
            "of this machine",
            hint="an object store cannot rename; use 'catalog-type' = 'rest' or 'sql'",
        )
    properties = {
        key: given[key]
        for key in sorted(given)
        if given[key] and (key in {o.key for o in _OF_CATALOG[2:]} or key.startswith(PASSED_ON))
    }
    return Address(
        options.get(NAME),
        kind,
        tuple((k, Secret(v) if is_secret(k) or k == URI.key else v) for k, v in properties.items()),
        options.get(DATABASE) if DATABASE.key in given or default_table else "",
        options.get(TABLE) if TABLE.key in given else default_table,
    )


def read_reading(options: TableOptions, primary_key: tuple[str, ...]) -> Reading:
    """Which snapshots are read; raises OptionError for options that exclude each other."""
    points = [o for o in (SNAPSHOT, AS_OF, TAG) if options.has(o)]
    if len(points) > 1 or (points and options.has(BRANCH)):
        raise OptionError(
            f"options {', '.join(repr(o.key) for o in (*points, *((BRANCH,) if options.has(BRANCH) else ())))} exclude each other",
            hint="each of them says what is read",
        )
    streaming = options.get(STREAMING)
    if streaming and points:
        raise OptionError(
            f"option '{points[0].key}' reads a snapshot, and 'streaming' what comes after one",
            hint="'start-snapshot-id' says behind which snapshot to begin",
        )
    if not streaming:
        for option in (START, STRATEGY, CHANGES):
            if options.has(option):
                raise OptionError(f"option '{option.key}' needs 'streaming' = 'true'", hint=option.description)
    start = {"INCREMENTAL_FROM_LATEST_SNAPSHOT": -1, "INCREMENTAL_FROM_EARLIEST_SNAPSHOT": 0}.get(
        options.get(STRATEGY).upper()
    )
    return Reading(
        options.get(SNAPSHOT) if options.has(SNAPSHOT) else None,
        options.get(AS_OF) if options.has(AS_OF) else None,
        options.get(BRANCH),
        options.get(TAG),
        streaming,
        streaming and (options.get(CHANGES) or bool(primary_key)),
        options.get(START) if options.has(START) else start,
        options.get(MONITOR) / 1000,
    )
