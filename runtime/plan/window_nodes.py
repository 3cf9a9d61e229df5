"""Physical nodes of windows. See `nodes.py` for what holds for all of them."""

from __future__ import annotations

from runtime.core.changelog import ChangelogMode
from runtime.core.node import node
from runtime.core.schema import Schema
from runtime.expr.nodes import Expr
from runtime.plan.aggregate_state import value_specs
from runtime.plan.base import BY_ROW, Division, Follows, PhysicalNode, tells_keys
from runtime.plan.parts import AggregateSpec, JoinKind, RankFunction, SortSpec, WindowProperty
from runtime.plan.state import CLOCK, WATERMARK, StateSpec, figure, key_text
from runtime.plan.text import (
    both_schemas,
    by_text,
    calls_text,
    columns_text,
    on_text,
    order_text,
    pairs_text,
    window_text,
    zone_text,
)
from runtime.plan.windows import SessionWindow, WindowSpec

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

    def text(self) -> str:
        schema = self.input.schema
        of = f"{window_text(self.window)} of {columns_text([self.time], schema)}"
        return f"{of}{by_text(self.partition, schema)}{zone_text(self.zone)}"

    def state(self) -> tuple[StateSpec, ...]:
        if not isinstance(self.window, SessionWindow):
            return ()
        schema, bound = self.input.schema, CLOCK if self._by_clock else WATERMARK
        held = f"open sessions by {key_text(schema, self.partition)}"
        return (
            StateSpec("sessions", held, bound, schema, self.partition),
            StateSpec("rows", "rows of open sessions", bound, owner="sessions"),
            figure("arrivals"),
        )

    def follows(self) -> Follows:
        if self._by_clock:
            return Follows.CLOCK
        return Follows.EVENT_TIME if isinstance(self.window, SessionWindow) else Follows.NOTHING

    def division(self) -> Division:
        if not isinstance(self.window, SessionWindow):
            return BY_ROW
        return (self.partition,) if tells_keys(self.input.mode, self.partition) else None

    @property
    def _by_clock(self) -> bool:
        return self.input.schema[self.time].type.is_proctime


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

    def text(self) -> str:
        schema = self.input.schema
        of = columns_text([self.time] if self.time >= 0 else [self.start, self.end], schema)
        names = self.schema.names[len(self.keys) : len(self.keys) + len(self.calls)]
        more = "".join(f" {x.value}" for x in self.properties)
        calls = calls_text(self.calls, schema, names)
        window = f"{window_text(self.window)} of {of}{by_text(self.keys, schema)}"
        return f"{window} [{calls}]{more and ' with' + more}{zone_text(self.zone)}"

    def state(self) -> tuple[StateSpec, ...]:
        schema, bound = self.input.schema, CLOCK if self.proctime else WATERMARK
        session = isinstance(self.window, SessionWindow)
        name = "sessions" if session else "panes"
        held = f"accumulators by window and {key_text(schema, self.keys, 'nothing else')}"
        return (
            StateSpec(name, held, bound, schema, self.keys),
            *value_specs(self.calls, schema, name, bound),
            figure("arrivals"),
            *([] if session else [figure("fired")]),
        )

    def follows(self) -> Follows:
        return Follows.CLOCK if self.proctime else Follows.EVENT_TIME

    def division(self) -> Division:
        return (self.keys,) if tells_keys(self.input.mode, self.keys) else None

    @property
    def aggregates(self) -> tuple[AggregateSpec, ...]:
        return self.calls


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

    def text(self) -> str:
        left, right = self.left.schema, self.right.schema
        pairs = pairs_text(self.left_keys, self.right_keys, self.null_safe, left, right)
        windows = f"({columns_text(self.left_window, left)}) = ({columns_text(self.right_window, right)})"
        on = on_text(pairs, self.condition, both_schemas(left, right))
        return f"{self.kind.name} windows {windows}{on}{zone_text(self.zone)}"

    def state(self) -> tuple[StateSpec, ...]:
        bound = CLOCK if self.proctime else WATERMARK
        return (
            StateSpec("left", "rows of open windows", bound, self.left.schema, self.left_keys),
            StateSpec("right", "rows of open windows", bound, self.right.schema, self.right_keys),
        )

    def follows(self) -> Follows:
        return Follows.CLOCK if self.proctime else Follows.EVENT_TIME

    def division(self) -> Division:
        told = tells_keys(self.left.mode, self.left_keys) and tells_keys(self.right.mode, self.right_keys)
        return (self.left_keys, self.right_keys) if told else None


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

    def text(self) -> str:
        schema = self.input.schema
        rank = f" AS {self.schema.names[-1]}" if self.rank_column else ""
        ranks = "last" if self.latest else f"{self.function.value} {self.start}..{self.end}"
        window = f" window ({columns_text(self.window, schema)})"
        return f"{ranks}{rank}{window}{by_text(self.partition, schema)} order by {order_text(self.order, schema)}"

    def state(self) -> tuple[StateSpec, ...]:
        schema, bound = self.input.schema, CLOCK if self.proctime else WATERMARK
        by = key_text(schema, self.partition, "nothing else")
        held = f"open windows and {by} in order of arrival"
        return (
            StateSpec("partitions", held, bound, schema, self.partition),
            StateSpec("rows", f"{self.end} rows by window and {by}", bound, schema, self.partition),
        )

    def follows(self) -> Follows:
        return Follows.TIES | (Follows.CLOCK if self.proctime else Follows.EVENT_TIME)

    def division(self) -> Division:
        return (self.partition,) if tells_keys(self.input.mode, self.partition) else None
