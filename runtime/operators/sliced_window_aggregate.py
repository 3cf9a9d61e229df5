"""Aggregation per window: TUMBLE, HOP, CUMULATE, and windows that the input's rows carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.eval.aggregates.aggregate_set import AggregateSet
from runtime.kernels.grouping import group_ids
from runtime.kernels.indexed import add_at
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.pane_state import PaneState, Slices
from runtime.operators.window_assign import (
    SliceAssigner,
    closed,
    closed_count,
    firing_times,
    milliseconds,
    wall_bounds,
    wall_milliseconds,
)
from runtime.operators.window_columns import (
    by_clock,
    clock_time,
    clock_watermark,
    ends_as_times,
    passed,
    property_columns,
    reject_null_times,
)
from runtime.plan.nodes import WindowAggregateExec
from runtime.plan.windows import AttachedWindow
from runtime.state.table import StateTable, shared_value

__all__ = ["SlicedWindowAggregateOperator"]


class SlicedWindowAggregateOperator(Operator):
    """Key columns, then one column per call, then the window properties; one row per window and key with a live row,
    when the watermark reaches the window's last millisecond. Append-only.

    State: accumulators per slice and key; windows are runs of slices (`SliceAssigner`), merged when they close. What a
    CUMULATE window has already shown is kept merged in one pane. A slice is freed when the last of its windows has
    closed; rows of such slices are late and rejected. Rows may be taken back as long as their slice is there.
    Order: by window end, then by first arrival of the key in the window's first slice that has it.
    """

    def __init__(self, node: WindowAggregateExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._assigner = None if isinstance(node.window, AttachedWindow) else SliceAssigner(node.window)
        source = node.input.schema
        self._types = source.types
        retracts = not node.input.mode.is_append_only or any(c.retract for c in node.calls)
        single = self._assigner is None or self._assigner.single
        self._slices = Slices()
        self._panes = PaneState(
            self._slices,
            [source[i].type for i in node.keys],
            node.calls,
            source.types,
            not single,
            retracts,
            context.functions,
        )
        self._single = single
        self._by_clock = by_clock(node.proctime, node.input)
        self._fired = MIN_WATERMARK
        self._tables = [
            *self._panes.tables(node.kept("panes")),
            shared_value("fired", pa.int64(), lambda: self._fired, self._go_on_from),
        ]

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    def _go_on_from(self, fired: list[object]) -> None:
        self._fired = max(cast("list[int]", fired))

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is not None and len(batch):
            self._add(batch, time)
        watermark = clock_watermark(time) if self._node.proctime else time.watermark
        output = None
        if watermark > self._fired and len(self._slices):
            output = self._fire_single(watermark) if self._single else self._fire_merged(watermark)
        self._fired = max(self._fired, watermark)
        return output

    @property
    def state_size(self) -> StateSize:
        return StateSize(len(self._panes), self._panes.nbytes + self._slices.nbytes)

    def _add(self, batch: ChangelogBatch, time: EpochTime) -> None:
        located = self._locate(batch, time)
        if located is None:
            return
        batch, ends, starts, step = located
        if self._assigner is not None and self._assigner.cumulative:
            ends = self._base_ends(ends)
            starts = ends - step
        words = ((ends - ends.min()) // step).astype(np.uint64).reshape(-1, 1)
        if self._assigner is None:
            words = np.stack((ends, starts), axis=1).view(np.uint64)
        first, group = group_ids(words)
        slice_ends, slice_starts = ends[first], starts[first]
        last = slice_ends if self._assigner is None else self._assigner.last_ends(slice_ends)
        late = np.zeros(len(first), np.bool_)
        watermark = passed(time, self._node.proctime)
        if not self._by_clock:
            # With slides longer than the size a row may be in no window at all.
            late = closed(firing_times(last, self._node.zone), watermark) & (last >= slice_ends)
        if late.any():
            rows = late[group]
            self._context.reject("late", batch.rows.filter(pa.array(rows)), watermark, self._event_time(batch, rows))
        usable = ~late & (last >= slice_ends)
        slots = np.full(len(first), -1, np.int64)
        slots[usable] = self._slices.open(slice_ends[usable], slice_starts[usable])
        slices = slots[group]
        if not usable.all():
            kept = slices >= 0
            batch, slices = batch.filter(kept), slices[kept]
            if not len(batch):
                return
        signs = None if batch.kinds is None else batch.signs()
        columns = batch.columns
        self._panes.add(slices, [columns[i] for i in self._node.keys], signs, columns)

    def _locate(
        self, batch: ChangelogBatch, time: EpochTime
    ) -> tuple[ChangelogBatch, np.ndarray, np.ndarray, int] | None:
        """The rows that have a time, the end and start of the slice of each, and what divides all differences of
        ends."""
        node = self._node
        if self._assigner is None:
            batch = reject_null_times(batch, node.start, self._context)
            batch = reject_null_times(batch, node.end, self._context)
            if not len(batch):
                return None
            return batch, milliseconds(batch.column(node.end)), milliseconds(batch.column(node.start)), 1
        if self._by_clock:
            end = self._assigner.slice_ends(np.array([clock_time(time, node.zone)]))
            ends = np.full(len(batch), end[0], np.int64)
        else:
            batch = reject_null_times(batch, node.time, self._context)
            if not len(batch):
                return None
            ends = self._assigner.slice_ends(wall_milliseconds(batch.column(node.time), node.zone))
        return batch, ends, ends - self._assigner.slice_size, self._assigner.slice_size

    def _event_time(self, batch: ChangelogBatch, rows: np.ndarray) -> pa.Array:
        if self._assigner is not None:
            return batch.column(self._node.time).filter(pa.array(rows))
        return ends_as_times(batch.column(self._node.end).filter(pa.array(rows)), self._node.zone)

    def _fire_single(self, watermark: int) -> ChangelogBatch | None:
        """Windows that are one slice each."""
        ends = self._slices.ends
        due = self._slices.slots[: closed_count(ends, watermark, self._node.zone)]
        if not len(due):
            return None
        index, panes = self._panes.panes(due)
        live = self._panes.live(panes) > 0
        if not live.all():
            index, panes = index[live], panes[live]
        output = None
        if len(panes):
            slices = due[index]
            output = self._output(
                self._panes.key_columns(panes),
                self._panes.aggregates.results(panes),
                self._slices.start(slices),
                self._slices.end(slices),
            )
        self._panes.drop(due)
        self._slices.close(due)
        return output

    def _fire_merged(self, watermark: int) -> ChangelogBatch | None:
        """Windows that are several slices each."""
        assert self._assigner is not None
        zone = self._node.zone
        # A slice's first window ends at the earliest with the slice itself.
        near = closed_count(self._slices.ends, watermark, zone)
        slots, ends = self._slices.slots[:near], self._slices.ends[:near]
        after = None if self._fired == MIN_WATERMARK else wall_bounds(self._fired, zone)[0] + 1
        until = None if watermark == MAX_WATERMARK else wall_bounds(watermark, zone)[1] + 1
        index, window_ends = self._assigner.window_ends(ends, after, until)
        distinct, window = np.unique(window_ends, return_inverse=True)
        firing = firing_times(distinct, zone)
        due = closed(firing, watermark) & ~closed(firing, self._fired)
        chosen = np.flatnonzero(due[window])
        output = None
        if len(chosen):
            order = chosen[np.lexsort((index[chosen], window[chosen]))]
            output = self._merge(window[order], slots[index[order]], distinct)
        self._retire(slots, ends, watermark)
        return output

    def _merge(self, window: np.ndarray, slices: np.ndarray, ends: np.ndarray) -> ChangelogBatch | None:
        """The rows of windows, given as pairs (window number, slice) ordered by window."""
        assert self._assigner is not None
        index, panes = self._panes.panes(slices)
        if not len(panes):
            return None
        owner = window[index]
        words = np.concatenate((owner.astype(np.uint64).reshape(-1, 1), self._panes.key_words(panes)), axis=1)
        first, group = group_ids(words)
        counts = np.zeros(len(first), np.int64)
        add_at(counts, group, self._panes.live(panes))
        groups = np.flatnonzero(counts > 0)
        if not len(groups):
            return None
        if len(first) == len(panes):
            results = self._panes.aggregates.results(panes[groups])
        else:
            merged = AggregateSet(self._node.calls, self._types, True, self._context.functions)
            merged.merge(group, self._panes.aggregates, panes)
            results = merged.results(groups)
        representative = first[groups]
        window_ends = ends[owner[representative]]
        keys = self._panes.key_columns(panes[representative])
        return self._output(keys, results, self._assigner.starts(window_ends), window_ends)

    def _retire(self, slots: np.ndarray, ends: np.ndarray, watermark: int) -> None:
        """Frees the slices whose windows have all closed; folds those of a CUMULATE window that were shown into one."""
        assert self._assigner is not None
        over = closed(firing_times(self._assigner.last_ends(ends), self._node.zone), watermark)
        self._panes.drop(slots[over])
        self._slices.close(slots[over])
        if not self._assigner.cumulative:
            return
        shown = ~over & closed(firing_times(ends, self._node.zone), watermark)
        slots, ends = slots[shown], ends[shown]
        base_ends = self._assigner.starts(ends) + self._assigner.slice_size
        folded = ends != base_ends
        if folded.any():
            # The first slice of the window stands for all that was shown.
            distinct, index = np.unique(base_ends[folded], return_inverse=True)
            bases = self._slices.open(distinct, distinct - self._assigner.slice_size)
            self._panes.fold_into(slots[folded], bases[index])
            self._slices.close(slots[folded])

    def _base_ends(self, ends: np.ndarray) -> np.ndarray:
        """The slices that rows of a CUMULATE window go to: what was already shown is in the window's first slice, and
        changes to it must meet it there."""
        assert self._assigner is not None
        if not self._shown(ends.min()):
            return ends
        distinct, index = np.unique(ends, return_inverse=True)
        shown = closed(firing_times(distinct, self._node.zone), self._fired)
        return np.where(shown, self._assigner.starts(distinct) + self._assigner.slice_size, distinct)[index]

    def _shown(self, end: np.int64) -> bool:
        return bool(closed(firing_times(np.array([end]), self._node.zone), self._fired)[0])

    def _output(
        self, keys: list[pa.Array], results: list[pa.Array], starts: np.ndarray, ends: np.ndarray
    ) -> ChangelogBatch:
        schema = self._node.schema
        properties = property_columns(self._node.properties, schema, starts, ends, self._node.zone)
        return ChangelogBatch.of([*keys, *results, *properties], schema)
