"""Connectors of Flink that are not there: their tables can be defined, tested and explained, not read or
written.

What such a table gives and takes is what Flink's does, so that a plan is the right one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from runtime.core.changelog import APPEND, RETRACT, ChangelogMode
from runtime.core.errors import OptionError
from runtime.core.schema import Schema
from runtime.spi.reader import ReadContext
from runtime.spi.registry import Registry, TableRequest
from runtime.spi.sink import Delivery
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["ABSENT_CONNECTORS", "AbsentTable", "absent_table", "is_absent_connector", "refuse_absent"]

_BOUNDED_NAMES = """
cassandra doris faker hbase-1.4 hbase-2.2 hive hudi kudu maxcompute odps
paimon starrocks
"""
_BOUNDED = frozenset(_BOUNDED_NAMES.split())
_STREAMS_NAMES = """
dynamodb-stream fluss kinesis-legacy pravega pulsar rocketmq sqs
"""
_STREAMS = frozenset(_STREAMS_NAMES.split())
_SINKS_NAMES = """
bigquery dynamodb elasticsearch-6 elasticsearch-8 firehose gcp-pubsub http-sink
opensearch-1 opensearch-2 prometheus snowflake
"""
_SINKS = frozenset(_SINKS_NAMES.split())
_CHANGES_NAMES = """
db2-cdc oceanbase-cdc oracle-cdc sqlserver-cdc tidb-cdc vitess-cdc
"""
_CHANGES = frozenset(_CHANGES_NAMES.split())
_INSERTS_ONLY = frozenset(("firehose", "hive", "kinesis-legacy", "prometheus", "pulsar", "sqs"))
ABSENT_CONNECTORS = _BOUNDED | _STREAMS | _SINKS | _CHANGES


def is_absent_connector(name: str) -> bool:
    """Whether Flink, or a well-known project beside it, has a connector of this name, which is not there here."""
    return name in ABSENT_CONNECTORS


def absent_table(request: TableRequest, connector: str, registry: Registry) -> AbsentTable | None:
    """What stands for a table whose connector is not there; None for any other."""
    if not is_absent_connector(connector) or registry.connectors.knows(connector):
        return None
    gives = RETRACT if connector in _CHANGES else APPEND
    bounded = connector in _BOUNDED
    return AbsentTable(
        request.name,
        request.schema,
        request.primary_key,
        connector,
        f"connector '{connector}'",
        "E1501",
        gives,
        bounded,
    )


def refuse_absent(tables: Iterable[object]) -> None:
    """Raises OptionError where one of the tables of a job is not there."""
    for table in tables:
        if isinstance(table, AbsentTable):
            table.refuse()


@dataclass(frozen=True)
class AbsentTable:
    """A table that is planned with and never opened: source, sink and lookup table in one. `what` is not there."""

    name: str
    schema: Schema
    primary_key: tuple[str, ...]
    connector: str
    what: str
    code: str
    changelog_mode: ChangelogMode
    bounded: bool

    @property
    def reads(self) -> bool:
        return self.connector not in _SINKS

    @property
    def looks_up(self) -> bool:
        return self.connector in _BOUNDED or self.connector == "jdbc"

    @property
    def delivery(self) -> Delivery:
        return "at-least-once"

    def refuse(self) -> NoReturn:
        """Raises OptionError E1501: it cannot be opened."""
        raise OptionError(
            f"{self.what} of {self.name} is not there: the table can be explained and tested, not read or written",
            code=self.code,
            hint="use a connector and a format of docs/connectors, or install the package that brings it",
        )

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        self.refuse()

    def open(self, split: Split, context: ReadContext) -> NoReturn:
        self.refuse()

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> NoReturn:
        self.refuse()

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        if self.connector in _INSERTS_ONLY:
            return APPEND
        return requested if self.primary_key or self.changelog_mode == RETRACT else APPEND

    def open_writer(self, job: str) -> NoReturn:
        self.refuse()

    def describe(self) -> dict[str, Any]:
        return {"connector": self.connector, "name": self.name}
