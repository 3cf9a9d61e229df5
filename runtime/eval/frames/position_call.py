"""Window functions that ask where a row stands: ROW_NUMBER, ranks, NTILE, LAG and LEAD."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.types import DataType
from runtime.eval.aggregates.accumulator import clear_at
from runtime.eval.frames.aggregate_call import frame_call
from runtime.eval.frames.frame_call import Columns, FrameCall, Frames
from runtime.eval.frames.layout import FrameLayout
from runtime.eval.frames.value_call import NthCall
from runtime.expr.function import FunctionRegistry
from runtime.kernels.arrow_buffers import fixed_values
from runtime.kernels.grow import grown
from runtime.kernels.indexed import take_at
from runtime.plan.nodes import AggregateSpec
from runtime.plan.over_state import NTH, RANKS

__all__ = ["WHOLE_PARTITION", "PositionCall", "ShiftCall", "window_call"]

WHOLE_PARTITION = frozenset({"PERCENT_RANK", "CUME_DIST", "NTILE", "LEAD"})
"""Functions whose value depends on rows after the present one."""


class PositionCall(FrameCall):
    """ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE; the first three also go on from rows that are
    past."""

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        self._name = spec.function.upper()
        self.carries = self._name in RANKS
        self._before = np.zeros(0, np.int64)
        self._passed = np.zeros(0, np.int64)
        self._noted = np.zeros(0, np.int64)

    def values(self, frames: Frames, kept: np.ndarray) -> pa.Array:
        layout, rows = frames.layout, frames.rows
        start = layout.start[rows]
        size = layout.end[rows] - start
        match self._name:
            case "PERCENT_RANK":
                return pa.array((layout.peer_start[rows] - start) / np.maximum(size - 1, 1))
            case "CUME_DIST":
                return pa.array((layout.peer_end[rows] - start) / size)
            case "NTILE":
                parts = np.maximum(fixed_values(frames.columns[self.spec.args[0]])[rows].astype(np.int64), 1)
                least, larger = np.divmod(size, parts)
                place = rows - start
                # The first `larger` parts have one row more.
                border = larger * (least + 1)
                tile = np.where(place < border, place // (least + 1), larger + (place - border) // np.maximum(least, 1))
                return pa.array(tile + 1)
            case _:
                return pa.array(self._rank(layout, rows, start) + 1)

    def run(self, frames: Frames, kept: np.ndarray, slots: np.ndarray, first: np.ndarray) -> pa.Array:
        layout, rows = frames.layout, frames.rows
        segment = layout.segment[rows]
        before = take_at(self._before, slots)
        result = self._rank(layout, rows, first[segment]) + before[segment] + 1
        self._passed = result if self._name == "DENSE_RANK" else rows + 1 - first[segment] + before[segment]
        heads = np.flatnonzero(np.diff(layout.segment, prepend=-1))
        last = layout.end[heads] - 1
        passed = self._rank(layout, last, first) + 1 if self._name == "DENSE_RANK" else last + 1 - first
        self._before = grown(self._before, int(slots.max()) + 1)
        self._before[slots] = before + passed
        return pa.array(result)

    @property
    def resumable(self) -> bool:
        return self.carries

    def note(self, rows: np.ndarray) -> None:
        self._noted = grown(self._noted, int(rows.max()) + 1 if len(rows) else 0)
        self._noted[rows] = self._passed

    def resume(self, slots: np.ndarray, rows: np.ndarray, sent: pa.Array) -> None:
        self._before = np.zeros(int(slots.max()) + 1 if len(slots) else 0, np.int64)
        self._before[slots] = np.where(rows < 0, 0, take_at(self._noted, np.maximum(rows, 0)))

    def release(self, slots: np.ndarray) -> None:
        clear_at(self._before, slots)

    def carried(self) -> list[tuple[str, pa.DataType]]:
        return [("before", pa.int64())]

    def save(self, slots: np.ndarray) -> list[pa.Array]:
        return [pa.array(take_at(self._before, slots))]

    def restore(self, slots: np.ndarray, columns: Sequence[pa.Array]) -> None:
        if len(slots):
            self._before = grown(self._before, int(slots.max()) + 1)
            self._before[slots] = columns[0].fill_null(0).to_numpy()

    @property
    def nbytes(self) -> int:
        return self._before.nbytes + self._noted.nbytes

    def _rank(self, layout: FrameLayout, rows: np.ndarray, first: np.ndarray) -> np.ndarray:
        """How many rows (or peer groups) lie between `first` and each row."""
        match self._name:
            case "ROW_NUMBER":
                return rows - first
            case "RANK":
                return np.maximum(layout.peer_start[rows], first) - first
            case _:
                groups = np.cumsum(layout.peer_start == np.arange(len(layout)))
                return groups[rows] - groups[first]


class ShiftCall(FrameCall):
    """LAG and LEAD: the value a number of rows before or after, else the default (NULL when not given)."""

    def __init__(self, spec: AggregateSpec) -> None:
        super().__init__(spec)
        self._back = spec.function.upper() == "LAG"
        self.history = 1

    def look_at(self, columns: Columns) -> None:
        """Notes how far back the rows at hand look: so many rows must be kept."""
        if self._back and len(self.spec.args) > 1:
            offsets = columns[self.spec.args[1]]
            if len(offsets) - offsets.null_count:
                self.history = max(self.history, int(fixed_values(offsets.drop_null()).max()))

    def values(self, frames: Frames, kept: np.ndarray) -> pa.Array:
        args = self.args(frames.columns)
        layout, rows = frames.layout, frames.rows
        offset = np.ones(len(rows), np.int64)
        if len(args) > 1:
            offset = fixed_values(args[1].fill_null(0))[rows].astype(np.int64)
        place = rows - offset if self._back else rows + offset
        outside = (place < layout.start[rows]) | (place >= layout.end[rows])
        if len(args) < 3:
            return args[0].take(pa.array(place, mask=outside))
        count = len(args[0])
        both = pa.concat_arrays([args[0], args[2].cast(args[0].type)])
        return both.take(pa.array(np.where(outside, count + rows, place)))

    def run(self, frames: Frames, kept: np.ndarray, slots: np.ndarray, first: np.ndarray) -> pa.Array:
        return self.values(frames, kept)


def window_call(
    spec: AggregateSpec, types: Sequence[DataType], from_start: bool, functions: FunctionRegistry | None = None
) -> FrameCall:
    """How a call with OVER is evaluated; as `frame_call`."""
    name = spec.function.upper()
    if name in ("LAG", "LEAD"):
        return ShiftCall(spec)
    if name in RANKS or name in WHOLE_PARTITION:
        return PositionCall(spec)
    if name in NTH:
        return NthCall(spec)
    return frame_call(spec, types, from_start, functions)
