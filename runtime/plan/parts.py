"""What physical nodes are made of besides expressions: kinds of join, sort columns, aggregate calls, indexes of vectors."""

from __future__ import annotations

import enum

from runtime.core.node import Node, node
from runtime.core.types import DataType

__all__ = [
    "METRICS",
    "AggregateSpec",
    "Alignment",
    "JoinKind",
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
