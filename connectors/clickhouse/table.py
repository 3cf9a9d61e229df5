"""The connector `clickhouse`: a table or view of ClickHouse as source, sink and lookup table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from connectors.clickhouse.commits import ClickHouseCommits, ClickHouseRows
from connectors.clickhouse.described import described
from connectors.clickhouse.reading import asking, fetch
from connectors.clickhouse.server import ADDRESS_OPTIONS, Server, read_server
from connectors.databases.asking import Asking, ServedTable
from connectors.databases.names import split_name
from connectors.databases.options import GUARANTEE, TABLE, read_delivering
from connectors.formats.held import check_held
from connectors.kit.commits import SPOOL_SIZE
from connectors.kit.prefetch import Fetched
from connectors.options import TableOptions, physical_part
from runtime.core.changelog import APPEND, RETRACT, ChangelogMode
from runtime.core.errors import OptionError
from runtime.core.options import bool_option, duration_option, int_option, text_option
from runtime.core.rooms import Room
from runtime.spi.registry import ConnectorFactory, TableRequest

if TYPE_CHECKING:
    import connectors.clickhouse.catalog as _catalog
else:
    _catalog = Room("connectors.clickhouse.catalog")

__all__ = ["CLICKHOUSE", "OPTIONS", "ClickHouseTable", "clickhouse_table"]

MERGED = bool_option(
    "scan.final",
    True,
    "whether rows of engines that merge them (ReplacingMergeTree, ..) are read as merged, with FINAL",
)
BATCH = int_option("sink.batch-size", 65_536, "so many rows are one insert")
SIGN = text_option(
    "sink.sign-column", "", "the sign of a CollapsingMergeTree: changes are written as rows with 1 and -1"
)
_INTERVAL = duration_option("sink.flush-interval", 1000, "accepted for compatibility: an epoch is written at once")
_RETRIES = int_option("sink.max-retries", 3, "accepted for compatibility: it is tried eight times")
_PARALLELISM = int_option("sink.parallelism", 1, "accepted for compatibility")
OPTIONS = (*ADDRESS_OPTIONS, TABLE, MERGED, BATCH, SIGN, GUARANTEE, SPOOL_SIZE, _INTERVAL, _RETRIES, _PARALLELISM)


@dataclass(frozen=True)
class ClickHouseTable(ServedTable):
    """A table of ClickHouse. `names`: database and table.

    Attributes:
        merged: it is read with FINAL, where there is such a thing.
        batch: rows of an insert.
        sign: the column of 1 and -1; empty without one.
    """

    connector = "clickhouse"
    dialect = "clickhouse"

    server: Server = field(kw_only=True)
    merged: bool = field(default=True, kw_only=True)
    batch: int = field(default=65_536, kw_only=True)
    sign: str = field(default="", kw_only=True)

    def place(self) -> str:
        return f"{self.server}/{'.'.join(self.names)}"

    def counted(self) -> float | None:
        return described(self.server, *self.names).rows

    def fetched(self, position: Any, stop: Any) -> Iterator[Fetched]:
        return fetch(self, position, stop)

    def asking(self) -> Asking:
        return asking()

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        if self.sign:
            return APPEND if requested.is_append_only else RETRACT
        return super().accepts(requested)

    def commits(self, job: str) -> ClickHouseCommits:
        return ClickHouseCommits(self, job)

    def transactions(self) -> ClickHouseRows:
        return ClickHouseRows(self)


def clickhouse_table(request: TableRequest) -> ClickHouseTable:
    """The table that options describe; raises OptionError."""
    check_held("connector 'clickhouse'", request.schema)
    options = table_options(request)
    server = read_server(options)
    names = split_name(options.required(TABLE), server.database, "`")
    sign, batch = options.get(SIGN), options.get(BATCH)
    if sign in request.schema.names:
        raise OptionError(f"the column '{sign}' is the sign of rows, which the sink writes", hint="do not declare it")
    if not 1 <= batch <= 1_000_000:
        raise OptionError(f"'{BATCH.key}' is from 1 to 1000000", hint="leave it out")
    return ClickHouseTable(
        schema=physical_part(request),
        primary_key=request.primary_key,
        name=request.name,
        table=".".join(names),
        partition=None,
        parallel=1,
        delivering=read_delivering(options),
        names=names,
        server=server,
        merged=options.get(MERGED),
        batch=batch,
        sign=sign,
    )


def table_options(request: TableRequest) -> TableOptions:
    """The options of a table."""
    return TableOptions(request.options, "connector 'clickhouse'", OPTIONS)


CLICKHOUSE = ConnectorFactory(
    name="clickhouse",
    document="a table of ClickHouse: read, written exactly once, looked up by key",
    source=clickhouse_table,
    sink=clickhouse_table,
    lookup=clickhouse_table,
    options=OPTIONS,
    check=clickhouse_table,
    infer=lambda request: _catalog.described_table(request),
)
