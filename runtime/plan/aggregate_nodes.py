"""Physical nodes of aggregation: groups, and OVER. See `nodes.py` for what holds for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from runtime.core.changelog import ChangelogMode
from runtime.core.node import node
from runtime.core.schema import Schema
from runtime.expr.nodes import Frame, FrameBound
from runtime.plan.aggregate_state import is_distinct, value_specs
from runtime.plan.base import TIME_TO_LIVE, Division, Follows, PhysicalNode, by_keys
from runtime.plan.estimates.rows import RowFacts, combinations, grouped
from runtime.plan.estimates.sizes import (
    COUNTED,
    LISTED,
    ORDERED,
    WORD,
    Kept,
    Sizes,
    accumulator_bytes,
    alive,
    key_index_bytes,
    row_bytes,
    value_sizes,
)
from runtime.plan.over_state import RANKS, begins_with_partition, carries, looks_back, over_names, values_table
from runtime.plan.parts import AggregateSpec, SortSpec
from runtime.plan.state import (
    CLOCK,
    KEYS,
    NOTHING,
    ONE_ROW,
    WATERMARK,
    StateSpec,
    figure,
    key_text,
    touched,
    until_idle,
)
from runtime.plan.text import by_text, calls_text, order_text

__all__ = ["GroupAggregateExec", "OverAggregateExec"]


@node
class GroupAggregateExec(PhysicalNode):
    """Unwindowed aggregation: key columns, then one column per call. No keys: one global group, which appears with its
    first row.

    `mode.update_before` says whether old images are sent. With `retract` inputs a group whose last row is taken back
    gives `-D`.
    `ttl`: idle milliseconds after which a group is forgotten; 0 never.
    """

    input: PhysicalNode
    keys: tuple[int, ...]
    calls: tuple[AggregateSpec, ...]
    schema: Schema
    mode: ChangelogMode
    ttl: int = field(default=0, metadata=TIME_TO_LIVE)

    advice = "SET 'table.exec.state.ttl', or aggregate in windows"

    def text(self) -> str:
        calls = calls_text(self.calls, self.input.schema, self.schema.names[len(self.keys) :])
        return f"{by_text(self.keys, self.input.schema).lstrip()} [{calls}]".strip()

    def state(self) -> tuple[StateSpec, ...]:
        schema = self.input.schema
        held = f"accumulators by {key_text(schema, self.keys)}"
        bound = until_idle(self.ttl, KEYS if self.keys else ONE_ROW)
        return (
            StateSpec("groups", held, bound, schema, self.keys),
            *value_specs(self.calls, schema, "groups", until_idle(self.ttl, NOTHING)),
            figure("arrivals"),
        )

    def follows(self) -> Follows:
        return Follows.NOTHING

    def division(self) -> Division:
        return by_keys((self.input, self.keys))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        (given,) = inputs
        return grouped(given, self.keys, self.calls, combinations(given, self.keys) if self.keys else 1.0)

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        (facts,) = inputs
        groups = combinations(facts, self.keys) if self.keys else 1.0
        size = key_index_bytes(self.input.schema, facts, self.keys, groups)
        held = (
            row_bytes(self.input.schema, facts, self.keys)
            + accumulator_bytes(self.calls, self.input.schema, facts)
            + WORD
        )
        return {
            "groups": Kept(groups, groups, size + groups * held),
            **value_sizes(self.calls, self.input.schema, facts, facts.rows, self.keys),
        }

    def revises(self) -> bool:
        return True

    def by_key_alone(self) -> bool:
        return True

    @property
    def aggregates(self) -> tuple[AggregateSpec, ...]:
        return self.calls


@node
class OverAggregateExec(PhysicalNode):
    """Aggregates and window functions with OVER: input columns, then one column per call.

    `rowtime`: the order column is event time: append-only, rows come out in time order when the watermark passes them,
    late ones are rejected.
    `proctime`: arrival order, at once. Neither: any order columns, updating: rows whose value changes are sent again.
    `calls` use AggregateSpec; `function` may also be ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, NTILE, PERCENT_RANK,
    CUME_DIST, FIRST_VALUE, LAST_VALUE, NTH_VALUE.
    """

    input: PhysicalNode
    partition: tuple[int, ...]
    order: tuple[SortSpec, ...]
    frame: Frame | None
    calls: tuple[AggregateSpec, ...]
    rowtime: bool
    proctime: bool
    schema: Schema
    mode: ChangelogMode
    ttl: int = field(default=0, metadata=TIME_TO_LIVE)

    advice = "SET 'table.exec.state.ttl', or give the frame an interval of event time"

    def text(self) -> str:
        schema = self.input.schema
        frame = "" if self.frame is None else f" {self.frame.text()}"
        order = f" order by {order_text(self.order, schema)}" if self.order else ""
        calls = calls_text(self.calls, schema, self.schema.names[len(schema) :])
        return f"[{calls}]{by_text(self.partition, schema)}{order}{frame}"

    def state(self) -> tuple[StateSpec, ...]:
        schema = self.input.schema
        by = key_text(schema, self.partition)
        if not self.in_time_order:
            rows = StateSpec(
                "rows", f"all rows in order by {by}", until_idle(self.ttl, NOTHING), schema, self.partition
            )
            return (rows, *touched(schema, self.partition, self.ttl))
        by_time = self.time_bounds_rows
        tables: list[StateSpec] = []
        if self.rowtime:
            held = "rows until their time has come" + (" and their frame is whole" if self.waits_for_rows else "")
            tables.append(StateSpec("waiting", held, self._waits_until(), schema, self.partition))
        if self.keeps_past_rows:
            if by_time:
                bound = WATERMARK if self.rowtime else CLOCK
            else:
                listed = not self.carries_totals and (
                    self.frame is None or begins_with_partition(self.frame.with_(exclude=None))
                )
                bound = until_idle(self.ttl, NOTHING if listed else KEYS)
            tables.append(StateSpec("frames", f"rows that later frames reach by {by}", bound, schema, self.partition))
        if self.keeps_totals or (self.ttl and not by_time):
            held = f"{'accumulators' if self.keeps_totals else 'the time of the last change'} by {by}"
            bound = until_idle(0 if by_time else self.ttl, KEYS)
            tables.append(StateSpec("totals", held, bound, schema, self.partition))
        tables += [
            StateSpec(
                values_table(name),
                f"distinct values of {key_text(schema, call.args, 'one row')}",
                until_idle(self.ttl, NOTHING),
                owner="totals",
            )
            for name, call in self.distinct_calls
        ]
        if any(looks_back(call) for call in self.calls):
            tables.append(figure("history"))
        return tuple(tables)

    def follows(self) -> Follows:
        if self.proctime:
            return Follows.CLOCK | Follows.ARRIVAL
        return Follows.TIES | (Follows.EVENT_TIME if self.rowtime else Follows.NOTHING)

    def division(self) -> Division:
        return by_keys((self.input, self.partition))

    def estimate(self, inputs: Sequence[RowFacts]) -> RowFacts:
        return inputs[0]

    def sizes(self, inputs: Sequence[RowFacts]) -> Sizes:
        (facts,) = inputs
        schema = self.input.schema
        keys = combinations(facts, self.partition) if self.partition else 1.0
        row = row_bytes(schema, facts) + accumulator_bytes(self.calls, schema, facts)
        index = key_index_bytes(schema, facts, self.partition, keys)
        time = self.order[0].index if self.order else 0
        waiting = alive(facts, time, 0.0, False) if self.rowtime else 0.0
        rows = facts.rows
        size = index + rows * (row + ORDERED + COUNTED)
        if not self.input.mode.is_append_only:
            size += key_index_bytes(schema, facts, tuple(range(len(schema))), rows)
        return {
            "rows": Kept(rows, keys, size),
            "waiting": Kept(waiting, min(keys, waiting), waiting * (row_bytes(schema, facts) + ORDERED)),
            "frames": Kept(rows, keys, rows * (row + LISTED)),
            "totals": Kept(keys, keys, index + keys * (accumulator_bytes(self.calls, schema, facts) + WORD)),
            "touched": Kept(keys, keys, keys * WORD),
        }

    def revises(self) -> bool:
        return not self.in_time_order

    @property
    def aggregates(self) -> tuple[AggregateSpec, ...]:
        return self.calls

    @property
    def in_time_order(self) -> bool:
        """Whether rows come out in order of time, and stay as they are."""
        return self.rowtime or self.proctime

    @property
    def carries_totals(self) -> bool:
        """In time order: whether frames are told by what a partition carries from row to row, so that no row past is
        needed but for LAG."""
        frame = self.frame
        by_clock = self.proctime and frame is not None and not frame.rows and begins_with_partition(frame)
        ends_here = frame is None or by_clock or frame.upper is FrameBound.CURRENT_ROW
        return begins_with_partition(frame) and ends_here and all(carries(c) or looks_back(c) for c in self.calls)

    @property
    def keeps_totals(self) -> bool:
        """In time order: whether something is carried for each partition."""
        if self.carries_totals:
            return any(carries(call) for call in self.calls)
        return any(call.function.upper() in RANKS for call in self.calls)

    @property
    def keeps_past_rows(self) -> bool:
        """In time order: whether rows that have come out are kept, for the frames of later ones."""
        return not self.carries_totals or any(looks_back(call) for call in self.calls)

    @property
    def time_bounds_rows(self) -> bool:
        """In time order: whether rows past go when time has passed them by the length of the frames (RANGE), so that no
        time to live is needed."""
        frame = self.frame
        if self.carries_totals or begins_with_partition(frame) or any(looks_back(call) for call in self.calls):
            return False
        return frame is not None and frame.unit == "RANGE"

    @property
    def waits_for_rows(self) -> bool:
        """In order of event time: whether rows wait for others that follow them, or frames count groups of equal
        times."""
        frame = self.frame
        return self.rowtime and frame is not None and (frame.reaches_ahead or frame.groups)

    def _waits_until(self) -> str:
        """What bounds the rows that wait."""
        frame = self.frame
        if frame is None or not self.waits_for_rows:
            return WATERMARK
        if frame.upper is FrameBound.UNBOUNDED_FOLLOWING:
            return NOTHING
        return WATERMARK if frame.unit == "RANGE" or frame.upper_offset is None else KEYS

    @property
    def distinct_calls(self) -> list[tuple[str, AggregateSpec]]:
        """In time order: the calls that keep the distinct values that they have seen, with their names."""
        if not self.carries_totals:
            return []
        named = zip(over_names(self.calls), self.calls, strict=True)
        return [(name, call) for name, call in named if is_distinct(call)]
