"""A table of a SQL database: read as a whole or by ranges, asked by key, written with each checkpoint.

A subclass says how its system does that. What is pushed down is kept as the kit has it; how it becomes a question is the
system's.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from connectors.databases.options import Delivering, Partition
from connectors.databases.writing import EpochWriter, TransactionWriter
from connectors.kit.aggregates import Aggregation, as_aggregation
from connectors.kit.commits import CommittingWriter, EpochCommits
from connectors.kit.predicates import Condition, as_conditions
from connectors.kit.prefetch import Fetched, PrefetchingReader
from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.expr.nodes import Expr
from runtime.spi.abilities import AskedAggregate
from runtime.spi.reader import ReadContext
from runtime.spi.sink import Delivery
from runtime.spi.source import EndingInserts, Split
from runtime.spi.statistics import TableStatistics
from runtime.spi.writer import SinkWriter

__all__ = ["DatabaseTable"]


@dataclass(frozen=True)
class DatabaseTable(EndingInserts):
    """A table that opens nothing by itself.

    Attributes:
        name: here, for messages.
        table: there, as it was given.
        partition: ranges by which it is read.
        parallel: how many parts are read at the same time.
        conditions, limit, aggregation: what is pushed down.
    """

    schema: Schema
    primary_key: tuple[str, ...]
    name: str
    table: str
    partition: Partition | None
    parallel: int
    delivering: Delivering
    conditions: tuple[Condition, ...] = ()
    limit: int | None = None
    aggregation: Aggregation | None = None

    connector: ClassVar[str]
    dialect: ClassVar[str]
    """As `as_conditions` knows it."""

    # --- what a system adds

    @abstractmethod
    def place(self) -> str:
        """The table in its database, for messages and lineage: without secrets."""

    @abstractmethod
    def counted(self) -> float | None:
        """About how many rows it has; raises ConnectorError."""

    @abstractmethod
    def fetched(self, position: Any, stop: Any) -> Iterator[Fetched]:
        """Rows from a position on, in an order that is the same each time (`Fetching`)."""

    @abstractmethod
    def commits(self, job: str) -> EpochCommits[Iterable[ChangelogBatch]]:
        """Where rows and numbers are written in one transaction."""

    @abstractmethod
    def transactions(self) -> TransactionWriter:
        """Where rows are written in a transaction."""

    # --- what is read

    def statistics(self) -> TableStatistics:
        """Plans are made without them when the system does not answer."""
        if self.aggregation is not None:
            return TableStatistics() if self.aggregation.group else TableStatistics(rows=1.0)
        try:
            return TableStatistics(rows=self.counted())
        except ConnectorError:
            return TableStatistics()

    def splits(self) -> list[Split]:
        """One: its parts are read side by side, and one position says which of them are done."""
        return [Split("table")]

    def open(self, split: Split, context: ReadContext) -> PrefetchingReader:
        return PrefetchingReader(self.place(), self.fetched, context, bounded=True)

    def with_columns(self, names: Sequence[str]) -> Self:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    def with_filters(self, filters: Sequence[Expr]) -> tuple[Self, list[Expr]]:
        if self.limit is not None or self.aggregation is not None:
            return self, list(filters)
        taken, left = as_conditions(filters, self.schema, self.dialect, self.conditions)
        return replace(self, conditions=taken), left

    def with_limit(self, rows: int) -> Self:
        return replace(self, limit=rows if self.limit is None else min(rows, self.limit))

    def with_aggregates(self, group: Sequence[str], calls: Sequence[AskedAggregate]) -> Self | None:
        """Not of ranges, which say which rows are read, nor behind a limit."""
        if self.limit is not None or self.partition is not None or self.aggregation is not None:
            return None
        found = as_aggregation(self.schema, self.dialect, group, calls)
        if found is None or not all(c.exact for c in self.conditions):
            return None
        return replace(self, schema=found.schema, aggregation=found)

    def aggregated(self) -> tuple[Sequence[str], Sequence[AskedAggregate]] | None:
        found = self.aggregation
        return None if found is None else (found.group, found.calls)

    @property
    def read_columns(self) -> Schema:
        """The columns that are asked for there."""
        return self.schema if self.aggregation is None else self.aggregation.rows

    def pushed(self, schema: Schema) -> tuple[list[Expr], int | None]:
        return [c.over(schema) for c in self.conditions], self.limit

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {
            "connector": self.connector,
            "table": self.table,
            "columns": list(self.schema.names),
        }
        if self.conditions:
            described["filters"] = [c.sql for c in self.conditions]
        if self.limit is not None:
            described["limit"] = self.limit
        if self.aggregation is not None:
            described |= self.aggregation.describe()
        options: dict[str, Any] = {"database": self.place()}
        if self.partition is not None:
            ranges = self.partition
            options["ranges"] = [ranges.column, ranges.number, ranges.low, ranges.high]
        return {**described, "options": options}

    # --- what is written

    @property
    def delivery(self) -> Delivery:
        """Rows that are written twice replace each other by key."""
        return "exactly-once" if self.delivering.exactly_once else "at-least-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        if not self.primary_key or requested.is_append_only:
            return APPEND
        return ChangelogMode(
            update_after=requested.update_after, delete=requested.delete, key_only_deletes=requested.delete
        )

    def open_writer(self, job: str) -> SinkWriter:
        if self.delivering.exactly_once:
            return CommittingWriter(self.name, self.schema.names, self.commits(job), most=self.delivering.spool)
        return EpochWriter(self.name, self.transactions())
