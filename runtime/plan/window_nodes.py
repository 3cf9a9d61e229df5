"""Physical nodes of windows: see `runtime/plan/nodes.py` for what holds for all nodes."""

from __future__ import annotations

from runtime.core.changelog import ChangelogMode
from runtime.core.node import node
from runtime.core.schema import Schema
from runtime.expr.nodes import Expr
from runtime.plan.base import PhysicalNode
from runtime.plan.parts import AggregateSpec, JoinKind, RankFunction, SortSpec, WindowProperty
from runtime.plan.windows import WindowSpec

__all__ = ["WindowAggregateExec", "WindowJoinExec", "WindowTableExec", "WindowTopNExec"]


@node
class WindowTableExec(PhysicalNode):
    """The window table function alone: input columns, then window_start, window_end, window_time; a row per window it
    falls in.

    `zone` is the session's time zone when the time column is TIMESTAMP_LTZ, else None. SESSION rows come out when their
    window closes.
    """

    input: PhysicalNode
    window: WindowSpec
    time: int
    partition: tuple[int, ...]
    zone: str | None
    schema: Schema
    mode: ChangelogMode


@node
class WindowAggregateExec(PhysicalNode):
    """Aggregation per window and keys, emitted once when the watermark reaches window_end - 1 ms.

    Output: key columns, then one column per call, then `properties`. With `AttachedWindow`, `start` and `end` are the
    positions of the window columns of the input and `time` is unused; else `time` is the time attribute. `proctime`:
    the window closes by the clock.
    """

    input: PhysicalNode
    window: WindowSpec
    time: int
    keys: tuple[int, ...]
    calls: tuple[AggregateSpec, ...]
    properties: tuple[WindowProperty, ...]
    zone: str | None
    schema: Schema
    mode: ChangelogMode
    start: int = -1
    end: int = -1
    proctime: bool = False


@node
class WindowJoinExec(PhysicalNode):
    """Join the rows of equal windows (window columns by position on each side) when the window closes; append-only
    inputs."""

    left: PhysicalNode
    right: PhysicalNode
    kind: JoinKind
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    null_safe: tuple[bool, ...]
    left_window: tuple[int, int]
    right_window: tuple[int, int]
    zone: str | None
    condition: Expr | None
    schema: Schema
    mode: ChangelogMode
    proctime: bool = False


@node
class WindowTopNExec(PhysicalNode):
    """Top-n of each window and partition, emitted when the window closes; append-only input that carries its window
    columns.

    Ties rank by arrival. `latest`: the last row in this order and, of ties, by arrival; `start` and `end` are 1 then
    (deduplication that keeps the last row).
    """

    input: PhysicalNode
    function: RankFunction
    partition: tuple[int, ...]
    window: tuple[int, int]
    order: tuple[SortSpec, ...]
    start: int
    end: int
    rank_column: bool
    zone: str | None
    schema: Schema
    mode: ChangelogMode
    proctime: bool = False
    latest: bool = False
