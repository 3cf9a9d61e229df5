"""Aggregation per window with results before its end, and corrections after it."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import InternalError
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grouping import distinct_rows, group_ids
from runtime.kernels.grow import expand_ranges, grown
from runtime.operators.column_equality import equal_columns
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.operators.pane_state import PaneState, Slices
from runtime.operators.window_assign import SliceAssigner, closed, closed_count, firing_times, wall_milliseconds
from runtime.operators.window_columns import (
    by_clock,
    clock_time,
    clock_watermark,
    passed,
    property_columns,
    reject_null_times,
)
from runtime.plan.nodes import WindowAggregateExec
from runtime.plan.windows import AttachedWindow, SessionWindow
from runtime.state.table import StateTable, shared_value

__all__ = ["EmittingWindowAggregateOperator"]

_NEVER = -(2**63)


class EmittingWindowAggregateOperator(Operator):
    """Key columns, one column per call, the window properties: `+I` with the first result of a window and key, `-U` and
    `+U` (only `+U` when nobody needs old images) when a later one differs, `-D` when its last row was taken back.

    A result is given when the watermark reaches the window's last millisecond; before it as `early` says, and for rows
    that come after it as `late` says. A delay runs from the first change of a window and key that nobody has seen, and
    its multiples from then on. Rows are late, and the window is forgotten, when the watermark is `lateness` past its
    end.
    State: accumulators per window and key, and what was shown of each. Unlike windows that give one result, those of HOP
    share nothing.
    Order: by window end, then by first arrival of the key in the window.
    """

    def __init__(self, node: WindowAggregateExec, context: OperatorContext) -> None:
        if node.emit is None or isinstance(node.window, SessionWindow | AttachedWindow):
            raise InternalError("windows that give one result")
        self._node = node
        self._emit = node.emit
        self._context = context
        self._assigner = SliceAssigner(node.window)
        source = node.input.schema
        retracts = not node.input.mode.is_append_only or any(c.retract for c in node.calls)
        self._windows = Slices()
        self._panes = PaneState(
            self._windows,
            [source[i].type for i in node.keys],
            node.calls,
            source.types,
            False,
            retracts,
            context.functions,
        )
        first = len(node.keys)
        self._shown = _Shown(node.schema.types[first : first + len(node.calls)])
        self._timers = _Timers() if node.emit.early or node.emit.late else None
        self._fired = MIN_WATERMARK
        timed = [] if self._timers is None else self._timers.columns()
        self._tables = [
            *self._panes.tables(node.kept("panes"), [*self._shown.columns(), *timed], self._saved, self._restore),
            shared_value("fired", pa.int64(), lambda: self._fired, self._go_on_from),
        ]

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    @property
    def state_size(self) -> StateSize:
        return StateSize(len(self._panes), self._panes.nbytes + self._windows.nbytes + self._shown.nbytes)

    def next_timer(self) -> int | None:
        return None if self._timers is None else self._timers.next

    def _saved(self, panes: np.ndarray) -> list[pa.Array]:
        return [*self._shown.save(panes), *([] if self._timers is None else self._timers.save(panes))]

    def _restore(self, panes: np.ndarray, columns: list[pa.Array]) -> None:
        shown = len(self._shown.columns())
        self._shown.restore(panes, columns[:shown])
        if self._timers is not None:
            self._timers.restore(panes, columns[shown:])

    def _go_on_from(self, fired: list[object]) -> None:
        self._fired = max(cast("list[int]", fired))

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        zone = self._node.zone
        watermark = clock_watermark(time) if self._node.proctime else time.watermark
        given: list[np.ndarray] = []
        if batch is not None and len(batch):
            panes, fresh = self._take_in(batch, time)
            given.append(self._at_once(panes, fresh, watermark, time.processing_time))
        near = closed_count(self._windows.ends, watermark, zone)
        over = self._windows.slots[:near]
        ended = over[~closed(firing_times(self._windows.ends[:near], zone), self._fired)]
        on_time = self._panes.panes(ended)[1]
        given.append(on_time)
        if self._timers is not None:
            # A delay of changes before the end means nothing after it.
            self._timers.forget(on_time)
            given.append(self._timers.due(time.processing_time))
        output = self._results(np.unique(np.concatenate(given)))
        self._fired = max(self._fired, watermark)
        self._forget(watermark)
        return output

    def _take_in(self, batch: ChangelogBatch, time: EpochTime) -> tuple[np.ndarray, np.ndarray]:
        """The panes that the rows change, each once, and which of them are new."""
        node, zone = self._node, self._node.zone
        now, watermark = by_clock(node.proctime, node.input), passed(time, node.proctime)
        if now:
            ends = np.full(len(batch), self._assigner.slice_ends(np.array([clock_time(time, zone)]))[0], np.int64)
        else:
            batch = reject_null_times(batch, node.time, self._context)
            if not len(batch):
                return np.empty(0, np.int64), np.empty(0, np.bool_)
            ends = self._assigner.slice_ends(wall_milliseconds(batch.column(node.time), zone))
        first, group = group_ids(ends.view(np.uint64).reshape(-1, 1))
        index, window_ends = self._assigner.window_ends(ends[first])
        falls_in_any = np.bincount(index, minlength=len(first)) > 0
        if not now:
            last = watermark if node.proctime else self._last_closed(watermark)
            open_ = ~closed(firing_times(window_ends, zone), last)
            index, window_ends = index[open_], window_ends[open_]
        counts = np.bincount(index, minlength=len(first))
        late = (falls_in_any & (counts == 0))[group]
        if late.any():
            rows = pa.array(late)
            self._context.reject("late", batch.rows.filter(rows), watermark, batch.column(node.time).filter(rows))
        windows = self._windows.open(window_ends, self._assigner.starts(window_ends))
        starts = np.cumsum(counts) - counts
        row, at = expand_ranges(starts[group], counts[group])
        if not len(row):
            return np.empty(0, np.int64), np.empty(0, np.bool_)
        rows, signs = batch.rows, None if batch.kinds is None else batch.signs()
        if len(row) != len(batch) or late.any():
            rows, signs = rows.take(pa.array(row)), None if signs is None else signs[row]
        columns = rows.columns
        panes, is_new = self._panes.add(windows[at], [columns[i] for i in node.keys], signs, columns)
        once = distinct_rows(panes)
        return panes[once], is_new[once]

    def _last_closed(self, watermark: int) -> int:
        """The watermark at which windows that take no rows any more have fired."""
        if watermark in (MIN_WATERMARK, MAX_WATERMARK):
            return watermark
        return max(watermark - self._emit.lateness, MIN_WATERMARK)

    def _at_once(self, panes: np.ndarray, fresh: np.ndarray, watermark: int, now: int) -> np.ndarray:
        """Those of the changed panes whose results are given now; for others it is noted when."""
        early, late = self._emit.early, self._emit.late
        ends = self._windows.end(self._panes.slices_of(panes))
        firing = firing_times(ends, self._node.zone)
        after = closed(firing, self._fired)
        before = ~closed(firing, watermark)
        now_late = after if not late else after & fresh
        chosen = now_late | (before if early == 0 else np.zeros(len(panes), np.bool_))
        if self._timers is not None:
            if early:
                self._timers.set(panes[before], early, now)
            if late:
                self._timers.set(panes[after & ~fresh], late, now)
        return panes[chosen]

    def _results(self, panes: np.ndarray) -> ChangelogBatch | None:
        """What is new of the results of panes."""
        if not len(panes):
            return None
        windows = self._panes.slices_of(panes)
        order = np.lexsort((self._panes.arrival(panes), self._windows.end(windows)))
        panes, windows = panes[order], windows[order]
        self._panes.wrote(panes)
        live, was = self._panes.live(panes) > 0, self._shown.are(panes)
        new, old = self._panes.aggregates.results(panes), self._shown.values(panes)
        changed = live & was & ~equal_columns(old, new, len(panes))
        appears, vanishes = live & ~was, was & ~live
        before = vanishes | (changed if self._node.mode.update_before else np.zeros(len(panes), np.bool_))
        after = appears | changed
        if not (after | vanishes).any():
            return None
        # Two places per pane, the old image and the new one.
        sent = np.flatnonzero(np.stack((before, after), axis=1).ravel())
        pane, is_new = sent >> 1, (sent & 1).astype(np.bool_)
        image = pa.array(np.where(is_new, pane + len(panes), pane))
        values = [pc.take(pa.concat_arrays([o, n]), image) for o, n in zip(old, new, strict=True)]
        kinds = np.where(
            is_new,
            np.where(appears[pane], INSERT, UPDATE_AFTER),
            np.where(vanishes[pane], DELETE, UPDATE_BEFORE),
        ).astype(np.int8)
        self._shown.show(panes[after], [c.filter(pa.array(after)) for c in new])
        self._shown.forget(panes[vanishes])
        node, of = self._node, windows[pane]
        properties = property_columns(
            node.properties, node.schema, self._windows.start(of), self._windows.end(of), node.zone
        )
        return ChangelogBatch.of([*self._panes.key_columns(panes[pane]), *values, *properties], node.schema, kinds)

    def _forget(self, watermark: int) -> None:
        """Frees the windows that take no rows any more."""
        last = watermark if self._node.proctime else self._last_closed(watermark)
        gone = self._windows.slots[: closed_count(self._windows.ends, last, self._node.zone)]
        if not len(gone):
            return
        panes = self._panes.panes(gone)[1]
        self._shown.forget(panes)
        if self._timers is not None:
            self._timers.forget(panes)
        self._panes.drop(gone)
        self._windows.close(gone)


class _Shown:
    """The results that were given, by pane."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = [t.arrow for t in types]
        self._values = ColumnStore(self._types)
        self._are = np.zeros(0, np.bool_)

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._are.nbytes

    def columns(self) -> list[tuple[str, pa.DataType]]:
        return [("$shown", pa.bool_()), *((f"$shown {i}", t) for i, t in enumerate(self._types))]

    def are(self, panes: np.ndarray) -> np.ndarray:
        """Whether something was given of each pane."""
        self._are = grown(self._are, int(panes.max()) + 1 if len(panes) else 0)
        return self._are[panes]

    def values(self, panes: np.ndarray) -> list[pa.Array]:
        """What was given; NULL where nothing was."""
        found = self.are(panes)
        if found.all():
            return self._values.take(panes)
        place = pa.array(np.cumsum(found) - 1, mask=~found)
        return [c.take(place) for c in self._values.take(panes[found])]

    def show(self, panes: np.ndarray, values: Sequence[pa.Array]) -> None:
        self._values.put(panes, values)
        self._are[panes] = True

    def forget(self, panes: np.ndarray) -> None:
        panes = panes[self.are(panes)]
        self._values.free(panes)
        self._are[panes] = False

    def save(self, panes: np.ndarray) -> list[pa.Array]:
        return [pa.array(self.are(panes)), *self.values(panes)]

    def restore(self, panes: np.ndarray, columns: Sequence[pa.Array]) -> None:
        were = columns[0]
        self.are(panes)
        self.show(panes[were.to_numpy(zero_copy_only=False)], [c.filter(were) for c in columns[1:]])


class _Timers:
    """When the changes of panes are to be shown, in milliseconds of processing time. Cost follows the changes."""

    def __init__(self) -> None:
        self._since = np.zeros(0, np.int64)
        self._at = np.zeros(0, np.int64)
        # What is due at a time, and these times as a heap.
        self._noted: dict[int, list[np.ndarray]] = {}
        self._times: list[int] = []

    @staticmethod
    def columns() -> list[tuple[str, pa.DataType]]:
        return [("$since", pa.int64()), ("$due", pa.int64())]

    @property
    def next(self) -> int | None:
        return self._times[0] if self._times else None

    def set(self, panes: np.ndarray, delay: int, now: int) -> None:
        """The panes have changed now; those that wait already go on waiting."""
        if not len(panes):
            return
        self._room(panes)
        panes = panes[self._at[panes] == _NEVER]
        first = panes[self._since[panes] == _NEVER]
        self._since[first] = now
        since = self._since[panes]
        self._note(panes, since + ((now - since) // delay + 1) * delay)

    def due(self, now: int) -> np.ndarray:
        """The panes whose time has come; they wait no more."""
        found = [np.empty(0, np.int64)]
        while self._times and self._times[0] <= now:
            then = heapq.heappop(self._times)
            for panes in self._noted.pop(then):
                waiting = panes[self._at[panes] == then]
                self._at[waiting] = _NEVER
                found.append(waiting)
        return np.concatenate(found)

    def forget(self, panes: np.ndarray) -> None:
        if len(panes):
            self._room(panes)
            self._since[panes] = _NEVER
            self._at[panes] = _NEVER

    def save(self, panes: np.ndarray) -> list[pa.Array]:
        self._room(panes)
        return [pa.array(v[panes], mask=v[panes] == _NEVER) for v in (self._since, self._at)]

    def restore(self, panes: np.ndarray, columns: Sequence[pa.Array]) -> None:
        self.forget(panes)
        since, at = (c.fill_null(_NEVER).to_numpy() for c in columns)
        self._since[panes] = since
        self._note(panes[at != _NEVER], at[at != _NEVER])

    def _note(self, panes: np.ndarray, times: np.ndarray) -> None:
        self._at[panes] = times
        order = np.argsort(times, kind="stable")
        distinct, starts = np.unique(times[order], return_index=True)
        for then, waiting in zip(distinct.tolist(), np.split(panes[order], starts[1:])):
            if then not in self._noted:
                heapq.heappush(self._times, then)
                self._noted[then] = []
            self._noted[then].append(waiting)

    def _room(self, panes: np.ndarray) -> None:
        size = int(panes.max()) + 1 if len(panes) else 0
        self._since, self._at = grown(self._since, size, _NEVER), grown(self._at, size, _NEVER)
