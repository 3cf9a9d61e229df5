"""What physical nodes are made of besides expressions: kinds of join, sort columns, aggregate calls, indexes of vectors, and how a
table is looked up (Flink 2.3, `LookupOptions` of FLIP-221, and the hint LOOKUP)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from runtime.core.errors import InternalError
from runtime.core.node import Node, node
from runtime.core.options import duration_option, int_option, text_option
from runtime.core.schema import Schema
from runtime.core.types import DataType
from runtime.spi.lookup import LookupTable
from runtime.spi.source import SourceTable

__all__ = [
    "WholeTable",
    "Reload",
    "PartialCaching",
    "CachedTable",
    "ASYNC_TIMEOUT",
    "ASYNC_LOOKUP_OPTIONS",
    "ASYNC_CAPACITY",
    "METRICS",
    "AggregateSpec",
    "Alignment",
    "JoinKind",
    "JoinStep",
    "LookupRequests",
    "LookupRetry",
    "RankFunction",
    "SnapshotLoad",
    "SortSpec",
    "VectorIndexSpec",
    "WindowProperty",
]


class JoinKind(enum.Enum):
    """SEMI and ANTI give left columns only."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"

    @property
    def keeps_left(self) -> bool:
        """Left rows without a match come out padded with NULL."""
        return self in (JoinKind.LEFT, JoinKind.FULL)

    @property
    def keeps_right(self) -> bool:
        return self in (JoinKind.RIGHT, JoinKind.FULL)

    @property
    def left_only(self) -> bool:
        return self in (JoinKind.SEMI, JoinKind.ANTI)


@node
class JoinStep(Node):
    """One of several joins that are one operator. `left`, `right`: what is joined, by number: first come the inputs, then
    the results of the steps. Keys are columns of these; `columns`: which of the left and then the right columns (left
    alone with SEMI and ANTI) the result has, whose names and types are `schema`.
    """

    left: int
    right: int
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    null_safe: tuple[bool, ...]
    columns: tuple[int, ...]
    schema: Schema


class RankFunction(enum.Enum):
    ROW_NUMBER = "ROW_NUMBER"
    RANK = "RANK"
    DENSE_RANK = "DENSE_RANK"


class WindowProperty(enum.Enum):
    """Columns a window operator adds. TIME is end - 1 ms and a time attribute."""

    START = "window_start"
    END = "window_end"
    TIME = "window_time"


@node
class Alignment(Node):
    """The sources of a job that name the same `group` keep together in event time: none is read while it is more than
    `max_drift` milliseconds ahead of the slowest."""

    group: str
    max_drift: int


@node
class SortSpec(Node):
    """One sort column by position."""

    index: int
    descending: bool = False
    nulls_last: bool = False


@node
class AggregateSpec(Node):
    """One aggregate call over columns of the input.

    `args` and `filter` are positions (filter a BOOLEAN column); `retract` says that the input may take rows back.
    """

    function: str
    args: tuple[int, ...]
    arg_types: tuple[DataType, ...]
    type: DataType
    distinct: bool = False
    filter: int | None = None
    retract: bool = False
    order_by: tuple[SortSpec, ...] = ()


METRICS = ("cosine", "dot", "euclidean")
"""What near is: the largest cosine of the angle, the largest dot product, the smallest distance."""


@node
class VectorIndexSpec(Node):
    """An index over vectors.

    Args:
        metric: one of METRICS.
        kind: 'flat' compares with every vector, 'hnsw' searches a graph and may miss some.
        connectivity, expansion_add, expansion_search: of 'hnsw', how many neighbours a vector has, and how many candidates
            are looked at when one is added or searched for; 0 leaves it to the library.
    """

    metric: str = "cosine"
    kind: str = "flat"
    connectivity: int = 0
    expansion_add: int = 0
    expansion_search: int = 0

    def text(self) -> str:
        return f"{self.kind}, {self.metric}"


@node
class SnapshotLoad(Node):
    """When the table of a snapshot join is loaded: its watermark has reached `until` (milliseconds since the epoch; None:
    the time at which the query begins), or has not moved for `idle` milliseconds of processing time (None: it waits).
    `ttl`: how long its rows are kept without a change; None: as the options say.
    """

    until: int | None
    idle: int | None
    ttl: int | None


@node
class LookupRetry(Node):
    """Rows for which a lookup finds nothing are asked for again `attempts` times, `delay` milliseconds apart."""

    delay: int
    attempts: int


@node
class LookupRequests(Node):
    """How a table is asked that can be asked for several keys at once: for how many, and how many milliseconds each may
    take. None: as the options of the session say. `asynchronous`: False asks for all of them in one request."""

    asynchronous: bool | None = None
    capacity: int | None = None
    timeout: int | None = None


ASYNC_CAPACITY = int_option(
    "table.exec.async-lookup.buffer-capacity", 100, "for how many keys an asynchronous lookup asks at once"
)
ASYNC_TIMEOUT = duration_option(
    "table.exec.async-lookup.timeout",
    180_000,
    "how long an asynchronous lookup of a key may take, tries after failures included",
)
_MODE = text_option(
    "table.exec.async-lookup.output-mode",
    "ORDERED",
    "accepted for compatibility: rows come in order, all of an epoch at once",
    ("ORDERED", "ALLOW_UNORDERED"),
)
ASYNC_LOOKUP_OPTIONS = (ASYNC_CAPACITY, ASYNC_TIMEOUT, _MODE)


@dataclass(frozen=True, slots=True)
class PartialCaching:
    """Answers are remembered by key. Of three bounds at least one is given; times are milliseconds of processing time.

    Args:
        max_rows: the most rows; the keys that were not asked for the longest time are forgotten first. A key without rows
            counts as one.
        after_write: how long an answer counts. after_access: for how long a key may not be asked for.
        missing: whether it is remembered that a key has no rows.
    """

    max_rows: int | None = None
    after_write: int | None = None
    after_access: int | None = None
    missing: bool = True

    def __str__(self) -> str:
        parts = [
            f"{self.max_rows} rows" if self.max_rows is not None else "",
            f"{self.after_write} ms after write" if self.after_write is not None else "",
            f"{self.after_access} ms after access" if self.after_access is not None else "",
            "" if self.missing else "without missing keys",
        ]
        return "partial: " + ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Reload:
    """When a table that is kept as a whole is read again.

    Args:
        interval: milliseconds from one time to the next; None: at a time of day. from_start: counted from when reading
            began, else from when it ended.
        time: of day, milliseconds. zone: its time zone; None: that of the session. days: from one time to the next.
    """

    interval: int | None = None
    from_start: bool = False
    time: int = 0
    zone: str | None = None
    days: int = 1

    def __str__(self) -> str:
        if self.interval is not None:
            return f"full: every {self.interval} ms"
        minutes = self.time // 60_000
        seconds = self.time % 60_000 // 1000
        text = f"full: at {minutes // 60:02}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")
        return f"{text}{'' if self.zone is None else ' ' + self.zone}" + (
            "" if self.days == 1 else f" every {self.days} days"
        )


@dataclass(frozen=True)
class CachedTable:
    """A table that is asked by key. `cache`: None when each key of an epoch is asked for. `retries`: how often it is
    asked again when it fails."""

    table: LookupTable
    cache: PartialCaching | None
    retries: int

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        return self.table.lookup(key_columns, keys)

    def describe(self) -> dict[str, Any]:
        """That of the table: what is remembered changes no state of a job."""
        return self.table.describe()


@dataclass(frozen=True)
class WholeTable:
    """A table whose rows are all read and kept, and read again from time to time. Its input ends and has inserts only."""

    source: SourceTable
    reload: Reload
    retries: int

    @property
    def schema(self) -> Schema:
        return self.source.schema

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> NoReturn:
        """Nobody asks it: the join looks into the rows that it has read."""
        raise InternalError("a table with a full cache is read, not asked")

    def describe(self) -> dict[str, Any]:
        """That of the source: what is remembered changes no state of a job."""
        return self.source.describe()
