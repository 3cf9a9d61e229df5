"""Physical nodes of windows. See `nodes.py` for what holds for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.changelog import ChangelogMode
from runtime.core.node import node
from runtime.core.schema import Schema
from runtime.expr.nodes import Expr
from runtime.plan.aggregate_state import value_specs
from runtime.plan.base import BY_ROW, Division, Follows, PhysicalNode, by_keys
from runtime.plan.estimates.rows import (
    RowFacts,
    combinations,
    combinations_within,
    filtered,
    grouped,
    joined,
    windows_in_all,
    windows_of_a_row,
)
from runtime.plan.estimates.sizes import (
    LIST,
    WORD,
    Kept,
    Sizes,
    accumulator_bytes,
    alive,
    index_bytes,
    key_index_bytes,
    row_bytes,
    timed,
    value_sizes,
)
from runtime.plan.parts import AggregateSpec, JoinKind, RankFunction, SortSpec, WindowProperty
from runtime.plan.state import CLOCK, WATERMARK, StateSpec, figure, key_text
from runtime.plan.text import (
    both_schemas,
    by_text,
    calls_text,
    columns_text,
    emit_text,
    on_text,
    order_text,
    pairs_text,
    window_text,
    zone_text,
)
from runtime.plan.windows import SessionWindow, WindowEmit, WindowSpec

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
        return by_keys((self.input, self.partition))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        (given,) = inputs
        times = windows_of_a_row(self.window)
        time = given.columns[self.time]
        ends = time._replace(distinct=windows_in_all(self.window, time.span, given.rows))
        return RowFacts(given.rows * times, given.epoch * times, (*given.columns, ends, ends, ends), given.known)

    @property
    def _by_clock(self) -> bool:
        return self.input.schema[self.time].type.is_proctime


@node
class WindowAggregateExec(PhysicalNode):
    """Aggregation per window and keys, emitted when the watermark reaches window_end - 1 ms.

    Output: key columns, then one column per call, then `properties`. With `AttachedWindow`, `start` and `end` are the
    positions of the window columns of the input and `time` is unused; else `time` is the time attribute. `proctime`:
    the window closes by the clock. `emit`: results come before that, too, or change later.
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
    emit: WindowEmit | None = None

    def text(self) -> str:
        schema = self.input.schema
        of = columns_text([self.time] if self.time >= 0 else [self.start, self.end], schema)
        names = self.schema.names[len(self.keys) : len(self.keys) + len(self.calls)]
        more = "".join(f" {x.value}" for x in self.properties)
        calls = calls_text(self.calls, schema, names)
        window = f"{window_text(self.window)} of {of}{by_text(self.keys, schema)}"
        when = "" if self.emit is None else emit_text(self.emit)
        return f"{window} [{calls}]{more and ' with' + more}{zone_text(self.zone)}{when}"

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
        follows = Follows.time(self.proctime)
        if self.emit is not None and (self.emit.early or self.emit.late):
            follows |= Follows.CLOCK
        return follows

    @property
    def polled(self) -> bool:
        """Results before the end of a window, and corrections after it, have timers; the end of one by the clock has none."""
        return self.proctime

    def division(self) -> Division:
        return by_keys((self.input, self.keys))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        (given,) = inputs
        time = given.columns[self.time]
        times = windows_of_a_row(self.window)
        if isinstance(self.window, SessionWindow):
            rows = combinations(given, self.keys) * max(
                1.0, min(10.0, given.rows / max(combinations(given, self.keys), 1.0))
            )
            windows = rows
        else:
            windows = windows_in_all(self.window, time.span, given.rows) if not self.proctime else 1.0
            each = min(given.rows, given.rows * times / windows)
            rows = windows * combinations_within(given, self.keys, each)
        rows = max(1.0, min(rows, given.rows * times))
        found = grouped(given, self.keys, self.calls, rows)
        ends = time._replace(distinct=min(windows, rows))
        share = min(1.0, given.epoch / max(given.rows, 1.0))
        return found._replace(columns=(*found.columns, *(ends for _ in self.properties)), epoch=max(1.0, rows * share))

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        (facts,) = inputs
        length = float(self.window.length)
        rows = alive(facts, self.time, length, self.proctime)
        span = facts.span(self.time) or 0.0
        covered = rows / max(facts.rows, 1.0) * span * 1000
        slice_ = length / windows_of_a_row(self.window)
        slices = max(1.0, covered / slice_) if slice_ and not self.proctime else 1.0
        keys = combinations_within(facts, self.keys, rows) if self.keys else 1.0
        if isinstance(self.window, SessionWindow):
            panes = min(rows, keys * max(1.0, covered / max(length * 2, 1.0)))
        else:
            panes = min(rows, slices * max(1.0, combinations_within(facts, self.keys, rows / slices)))
        size = key_index_bytes(self.input.schema, facts, self.keys, keys)
        size += index_bytes(panes, 2, 0.0)
        size += panes * (accumulator_bytes(self.calls, self.input.schema, facts) + 4 * WORD)
        size += keys * (LIST + row_bytes(self.input.schema, facts, self.keys))
        name = "sessions" if isinstance(self.window, SessionWindow) else "panes"
        return {name: Kept(panes, keys, size), **value_sizes(self.calls, self.input.schema, facts, rows, self.keys)}

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
        return Follows.time(self.proctime)

    def division(self) -> Division:
        return by_keys((self.left, self.left_keys), (self.right, self.right_keys))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        left, right = (*self.left_keys, self.left_window[1]), (*self.right_keys, self.right_window[1])
        return joined(self.kind, left, right, self.condition, inputs, 1.0)

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        found: Sizes = {}
        sides = (
            ("left", self.left, inputs[0], self.left_keys, self.left_window),
            ("right", self.right, inputs[1], self.right_keys, self.right_window),
        )
        for name, source, facts, keys, window in sides:
            rows = alive(facts, window[1], 0.0, self.proctime)
            found[name] = timed(source.schema, facts, rows, keys)
        return found


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
        return Follows.TIES | Follows.time(self.proctime)

    def division(self) -> Division:
        return by_keys((self.input, self.partition))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        (given,) = inputs
        rows = min(
            given.rows, max(1.0, combinations(given, (*self.partition, self.window[1]))) * (self.end - self.start + 1)
        )
        return filtered(given, rows / max(given.rows, 1.0))

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        (facts,) = inputs
        waiting = alive(facts, self.window[1], 0.0, self.proctime)
        keys = combinations(facts, (*self.partition, self.window[1]), waiting)
        rows = min(waiting, keys * self.end)
        index = key_index_bytes(self.input.schema, facts, (*self.partition, *self.window), keys)
        each = row_bytes(self.input.schema, facts) + (len(self.order) + 3) * WORD
        return {
            "partitions": Kept(keys, keys, index + keys * self.end * WORD),
            "rows": Kept(rows, keys, rows * each),
        }
