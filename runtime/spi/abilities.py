"""What a table may support beyond reading and writing: push-down, distributed reading, INSERT OVERWRITE.

The engine finds these protocols with `isinstance`: a table has an ability when it has the methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, runtime_checkable

import pyarrow as pa

from runtime.core.schema import Schema
from runtime.core.types import DataType
from runtime.expr.nodes import Expr
from runtime.spi.sink import SinkTable
from runtime.spi.source import SourceTable, Split

__all__ = [
    "AggregateName",
    "AskedAggregate",
    "CompactedFiles",
    "KeepsVersions",
    "ListsPartitions",
    "StoredColumns",
    "SupportsAggregates",
    "SupportsChangeDetection",
    "SupportsCompaction",
    "SupportsDistributedLookups",
    "SupportsDistributedReads",
    "SupportsFiledReads",
    "SupportsFilters",
    "SupportsLimit",
    "SupportsOverwrite",
    "SupportsPartitionDiscovery",
    "SupportsProjection",
    "SupportsRelease",
    "SupportsReplacement",
    "SupportsRereading",
    "SupportsRowOffsets",
    "SupportsSplitEvents",
    "SupportsSplitRefresh",
    "SupportsStatementChanges",
    "SupportsTimeTravel",
    "SupportsTypeWidening",
    "TellsAggregates",
    "TellsPushDown",
    "TellsStoredColumns",
]


@runtime_checkable
class SupportsProjection(Protocol):
    """A source that reads only the columns that a query needs."""

    def with_columns(self, names: Sequence[str]) -> Self:
        """The table with these columns of its schema, in this order."""
        ...


@runtime_checkable
class SupportsFilters(Protocol):
    """A source that drops rows early. Filters are expressions whose columns are `InputRef`s into `schema`."""

    def with_filters(self, filters: Sequence[Expr]) -> tuple[Self, list[Expr]]:
        """The table with the filters that it took, and the filters that the engine must still apply, also those that it
        takes in part. With filters that it has already, it gives a table that is equal to itself."""
        ...


@runtime_checkable
class SupportsLimit(Protocol):
    """A source that stops after a number of rows."""

    def with_limit(self, rows: int) -> Self:
        """The table that gives no more than so many rows."""
        ...


AggregateName = Literal["COUNT", "SUM", "MIN", "MAX"]


@dataclass(frozen=True, slots=True)
class AskedAggregate:
    """An aggregate function over rows of a table: of a column, `COUNT` also of rows (None). `type`: of its result."""

    function: AggregateName
    column: str | None
    type: DataType

    @property
    def text(self) -> str:
        return f"{self.function}({'*' if self.column is None else self.column})"


@runtime_checkable
class SupportsAggregates(Protocol):
    """A bounded source that counts, adds and compares by itself, and gives groups instead of rows.

    The engine puts together what it is given: a group may come in several parts, as from several files. Results are as the
    engine's: NULL is a group, and no value of a function; a sum of no values is NULL, and one of whole numbers wraps in its
    type. A group without rows is none, also without keys.
    """

    def with_aggregates(self, group: Sequence[str], calls: Sequence[AskedAggregate]) -> Self | None:
        """The table that gives the columns of `group`, and behind them a column for each call, of its type, instead of its
        rows. Its own columns, filters and limit are those that the table has. None when it cannot, or not just so."""
        ...


@runtime_checkable
class TellsAggregates(Protocol):
    """A source with aggregates that can stand in a compiled plan (`TellsPushDown`)."""

    def aggregated(self) -> tuple[Sequence[str], Sequence[AskedAggregate]] | None:
        """What it was given: columns and functions; None without."""
        ...


@runtime_checkable
class TellsPushDown(Protocol):
    """A source with filters or a limit that can stand in a compiled plan."""

    def pushed(self, schema: Schema) -> tuple[list[Expr], int | None]:
        """The filters that it has taken, over the columns of `schema`, and its limit: the table with all of these columns
        takes them again when the plan is carried out."""
        ...


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """Rows that lie in Parquet files, or in memory, as they are read: `schema` are the columns that are stored, of exactly
    these types, among them those of the table; `filters`, over `schema`, tell which rows are the table's. `rows`: gives them,
    where there are no files."""

    paths: tuple[str, ...]
    schema: Schema
    filters: tuple[Expr, ...] = ()
    rows: Callable[[], pa.Table] | None = None


@runtime_checkable
class TellsStoredColumns(Protocol):
    """A source whose rows others may read from where they lie, as a batch query does."""

    def stored_columns(self) -> StoredColumns | None:
        """Where they lie now; None where the rows differ from what is stored, or errors in files are treated in a way of the
        table's own. Raises nothing."""
        ...


@runtime_checkable
class SupportsTypeWidening(Protocol):
    """A source whose columns may be declared with a wider type later, while a job keeps its state."""

    def preserves_values(self, wide: DataType, narrow: DataType) -> bool:
        """Whether every row that could be read with the narrow type has the same value with the wide one."""
        ...


@runtime_checkable
class SupportsPartitionDiscovery(Protocol):
    """A source whose splits all grow at the same time, as the partitions of a log do. All of them are open, and each
    gets its share of every read."""

    def discovered(self, split: Split) -> Split:
        """A split that appeared while the job runs: it is read from its beginning, whatever the source's start option
        says."""
        ...


@runtime_checkable
class SupportsSplitEvents(Protocol):
    """An unbounded source that tells when its splits change. Of one without this, `splits` is called every 10 milliseconds
    (20 for a view) while a job waits."""

    def watch_splits(self, wake: Callable[[], None]) -> Callable[[], None]:
        """From now on call `wake`, from any thread, when `splits` may give something else than last time. Gives a call
        that ends this; it does not block. A source whose splits never change does nothing."""
        ...


@runtime_checkable
class SupportsSplitRefresh(Protocol):
    """An unbounded source that looks for splits at intervals, and can do so at once."""

    def refresh_splits(self) -> None:
        """The next `splits` gives what there is then. FLUSH asks for it, so that it reads all that has come before."""
        ...


@runtime_checkable
class SupportsChangeDetection(Protocol):
    """An unbounded source that notices when a split changes after its last row was read. It is not read again; the user
    is told."""

    def fingerprint(self, position: Any) -> Any:
        """What a later change is detected by: a JSON value, from a reader's position at its end."""
        ...

    def changed(self, split: Split, fingerprint: Any) -> tuple[str, Any] | None:
        """How a split has changed since then, as a text for the user, and its fingerprint now; None when it has
        not."""
        ...


@runtime_checkable
class SupportsDistributedReads(Protocol):
    """A source whose splits can be read in other processes, on machines that see the same files. It can be pickled, and
    so can its splits and positions. Its readers are no `WatermarkReader`s."""

    @property
    def distributed_reads(self) -> bool:
        """Whether they can, with these options."""
        ...


@runtime_checkable
class SupportsDistributedLookups(Protocol):
    """A `LookupTable` that can be asked from other processes and machines, from several at the same time. It can be
    pickled."""

    @property
    def distributed_lookups(self) -> bool:
        """Whether it can, with these options."""
        ...


@runtime_checkable
class SupportsFiledReads(Protocol):
    """A bounded source that another system computes, whose tasks put the rows in files of the job that reads them."""

    def filed_reads(self, here: bool) -> bool:
        """Whether they can. `here`: all tasks of the job run on this machine, so that its folder may be one of here alone."""
        ...

    def in_folder(self, place: str) -> Self:
        """The table that uses a folder (`StateFolder`) for all that it puts in files."""
        ...

    def filed(self) -> SourceTable:
        """The table as files of that folder, which can be read in any process that sees it: now it is computed. It can be
        pickled as `SupportsDistributedReads` can, and its splits are those of this table."""
        ...


@runtime_checkable
class SupportsRowOffsets(Protocol):
    """A source that can compute where a row lies without reading, so that several readers share a split."""

    def position_after(self, split: Split, position: Any, rows: int) -> Any:
        """The position so many rows behind another one (None: the beginning). None when the split has fewer rows, or
        when it is unknown."""
        ...


@runtime_checkable
class SupportsStatementChanges(Protocol):
    """A source of changes that statements of the session make. It is exempt from limits of rows per second: the next
    statement expects to see them."""

    @property
    def statement_changes(self) -> bool: ...


@runtime_checkable
class SupportsRereading(Protocol):
    """A source of which not everybody gets all rows."""

    @property
    def readable_again(self) -> bool:
        """Whether another reader gets the rows that one has had, with these options."""
        ...


@runtime_checkable
class SupportsRelease(Protocol):
    """A source for which the system behind it keeps something, such as a replication slot, also while nobody reads:
    `CALL sys.release`."""

    def release(self) -> Sequence[tuple[str, str]]:
        """Have it keep nothing more: what it was, kind and name, of each thing that was there. Raises ConnectorError while
        somebody reads."""
        ...


@runtime_checkable
class ListsPartitions(Protocol):
    """A source that knows its partitions: SHOW PARTITIONS."""

    def partitions(self) -> Sequence[Mapping[str, str | None]]:
        """The partitions that have rows, in order: the text of each partition column's value, None for NULL."""
        ...


@runtime_checkable
class SupportsOverwrite(Protocol):
    """A sink for INSERT OVERWRITE. Its writers are `AtomicWriter`s."""

    def with_overwrite(self, partition: Mapping[str, Any]) -> SinkTable:
        """The sink that replaces rows. `partition` holds the values of the partition columns that the statement names,
        as Python values of their types; empty for the whole table."""
        ...


@runtime_checkable
class SupportsReplacement(Protocol):
    """A sink whose rows can take the place of all that are there: REPLACE TABLE AS over the same files. Its writers are
    `AtomicWriter`s."""

    def with_replacement(self) -> SinkTable:
        """The sink that replaces all rows, of all partitions."""
        ...


@dataclass(frozen=True, slots=True)
class CompactedFiles:
    """What has become of a folder of a table: its name below the table's, empty for that itself; how many files it had, and
    has; and how many of these stay because a job may still look for them."""

    folder: str
    before: int
    after: int
    kept_for_jobs: int


@runtime_checkable
class SupportsCompaction(Protocol):
    """A sink whose small pieces can be put together: `CALL sys.compact`."""

    def compact(self, target: int) -> Sequence[CompactedFiles]:
        """Put what is smaller than `target` bytes together, to about that size. Rows stay the same, whatever fails. Raises
        UnsupportedError where the order of the pieces means something."""
        ...


@runtime_checkable
class KeepsVersions(Protocol):
    """A sink whose system keeps what the table was: `CALL sys.expire_snapshots`, `CALL sys.remove_orphan_files`."""

    def expire_versions(self, older_than: int, retained: int) -> tuple[int, int]:
        """Forget versions that are older than a time, milliseconds since 1970, but the newest `retained`, and remove the files
        that only they had. Gives the numbers of versions and of files."""
        ...

    def remove_orphan_files(self, older_than: int, dry_run: bool) -> Sequence[str]:
        """Remove files that no version has, and that are older than a time; gives their paths. `dry_run`: remove none."""
        ...


@runtime_checkable
class SupportsTimeTravel(Protocol):
    """A source that can be read as it was: FOR SYSTEM_TIME AS OF a constant."""

    def as_of(self, milliseconds: int) -> SourceTable:
        """The table as it was at a time, milliseconds since 1970. Reading it raises ConnectorError where nobody knows that."""
        ...
