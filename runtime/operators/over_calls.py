"""What the OVER operators share: the calls of a node, their filters and frames, and the numbers that RANGE offsets
count in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from runtime.core.cancellation import look
from runtime.core.errors import UnsupportedError
from runtime.eval.frames.frame_call import FrameCall, Frames
from runtime.eval.frames.layout import FrameLayout, frame_bounds
from runtime.eval.frames.position_call import PositionCall, ShiftCall, window_call
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import Frame
from runtime.kernels.arrow_buffers import fixed_values
from runtime.operators.window_assign import milliseconds
from runtime.plan.nodes import OverAggregateExec
from runtime.plan.over_state import begins_with_partition, over_names
from runtime.state.table import StateTable, shared_value

__all__ = ["OverCalls", "range_numbers"]


class OverCalls:
    """The calls of an OVER node.

    Args:
        node: the plan node.
        frame: its frame, or what stands for it.
        functions: those of the job.
    """

    def __init__(self, node: OverAggregateExec, frame: Frame | None, functions: FunctionRegistry) -> None:
        types = node.input.schema.types
        self.frame = frame
        self.exclude = None if frame is None else frame.exclude
        self.from_start = begins_with_partition(frame)
        self.calls: list[FrameCall] = [window_call(spec, types, self.from_start, functions) for spec in node.calls]
        columns = {i for spec in node.calls for i in (*spec.args, *(o.index for o in spec.order_by))}
        columns |= {spec.filter for spec in node.calls if spec.filter is not None}
        self.needed = sorted(columns)
        """The columns of the input that the calls read."""
        self.names = over_names(node.calls)
        """A name of each call, no two the same."""

    @property
    def history(self) -> int:
        """How many rows before the present one LAG looks at."""
        return max((call.history for call in self.calls), default=0)

    @property
    def nbytes(self) -> int:
        return sum(call.nbytes for call in self.calls)

    def saved_calls(self, carries: bool) -> list[tuple[str, FrameCall]]:
        """The calls, with their names, that carry something over in `run`."""
        return [
            (name, call)
            for name, call in zip(self.names, self.calls, strict=True)
            if carries or isinstance(call, PositionCall)
        ]

    def history_table(self) -> StateTable | None:
        """How far back LAG has been seen to look; nothing without LAG."""
        shifts = [call for call in self.calls if isinstance(call, ShiftCall)]
        if not shifts:
            return None

        def restore(rows: list[object]) -> None:
            for call in shifts:
                call.history = max(call.history, *cast("list[int]", rows))

        return shared_value("history", pa.int64(), lambda: self.history, restore)

    def look_at(self, columns: Sequence[pa.Array]) -> None:
        """Notes how far back the rows at hand look."""
        for call in self.calls:
            if isinstance(call, ShiftCall):
                call.look_at(columns)

    def bounds(
        self, layout: FrameLayout, numbers: np.ndarray | None, missing: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The frames of all rows; see `frame_bounds`."""
        return frame_bounds(layout, self.frame, numbers, missing)

    def values(self, frames: Frames) -> list[pa.Array]:
        """One column per call, a value for each frame."""
        results: list[pa.Array] = []
        for call in self.calls:
            look()
            results.append(_typed(call, call.values(frames, _kept(call, frames))))
        return results

    def run(self, frames: Frames, slots: np.ndarray, first: np.ndarray, carries: bool) -> list[pa.Array]:
        """The same with what partitions carry over: all calls if `carries` (then frames begin at `first`), else only
        those that count positions, because the rows past may be gone."""
        results: list[pa.Array] = []
        for call in self.calls:
            look()
            kept = _kept(call, frames)
            if carries or isinstance(call, PositionCall):
                values = call.run(frames, kept, slots, first)
            else:
                values = call.values(frames, kept)
            results.append(_typed(call, values))
        return results

    def resume(self, rows: np.ndarray, sent: Sequence[pa.Array]) -> None:
        """Makes the partitions of the next `run`, slots 0, 1, ..., carry what was noted at row ids (-1: nothing)."""
        for call, values in zip(self.calls, sent, strict=True):
            call.resume(np.arange(len(rows), dtype=np.int64), rows, values)

    def note(self, rows: np.ndarray) -> None:
        """Notes for row ids what their partition carries after each, as the last `run` found it."""
        for call in self.calls:
            call.note(rows)

    def release(self, slots: np.ndarray) -> None:
        for call in self.calls:
            call.release(slots)


def range_numbers(column: pa.Array, descending: bool, nulls_last: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """The numbers that RANGE offsets count in (milliseconds for times, negated when descending), and where they are
    NULL.

    Raises:
        UnsupportedError: the order column has no distances.
    """
    missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    if pt.is_timestamp(column.type):
        numbers = milliseconds(column)
    elif pt.is_date(column.type):
        numbers = fixed_values(column).astype(np.int64) * 86_400_000
    elif pt.is_integer(column.type) or pt.is_time(column.type) or pt.is_duration(column.type):
        numbers = fixed_values(column).astype(np.int64)
    elif pt.is_floating(column.type) or pt.is_decimal(column.type):
        numbers = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    else:
        raise UnsupportedError(
            "RANGE with an offset needs a number or a time to order by", hint="use ROWS, or order by another column"
        )
    numbers = -numbers if descending else numbers
    if missing is not None:
        # NULLs stand at one end of their partition, at a number that no offset reaches.
        far = np.iinfo(np.int64).max // 2 if numbers.dtype.kind == "i" else np.inf
        numbers = np.where(missing, far if nulls_last else -far, numbers)
    return numbers, missing


def _kept(call: FrameCall, frames: Frames) -> np.ndarray:
    condition = call.spec.filter
    if condition is None:
        return np.ones(len(frames.layout), np.bool_)
    return frames.columns[condition].fill_null(False).to_numpy(zero_copy_only=False)


def _typed(call: FrameCall, values: pa.Array) -> pa.Array:
    wanted = call.spec.type.arrow
    return values if values.type == wanted else values.cast(wanted)
