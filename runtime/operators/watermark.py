"""Event time enters the dataflow: the watermark of a source, from an expression over its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.core.errors import ExpressionError
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.kernels.arrow_buffers import null_mask
from runtime.operators.operator import EpochTime, Operator, OperatorContext, SplitRows
from runtime.operators.window_assign import milliseconds
from runtime.operators.window_columns import reject_null_times
from runtime.plan.nodes import WatermarkExec
from runtime.state.table import StateTable, shared_value

__all__ = ["WatermarkOperator"]


class WatermarkOperator(Operator):
    """Passes rows unchanged and keeps the watermark.

    The watermark of a split is the greatest value of the watermark expression among its rows, and that of a source the
    least of its splits' (Flink: per-split watermarks of FLIP-27 sources):

    - a split counts from when it is known until it has ended; one that was not begun has no watermark yet, so that time
      waits for it: its rows are there, and would be late otherwise (unless the table says that its splits are in order
      of time);
    - an idle split does not count, until it gives rows again; while all that are not at their end are idle, time stands
      still;
    - when all known splits have ended, the watermark is the greatest of all rows, in whatever order the splits were
      read; splits that a watched source finds later simply come later.

    It never goes back. Where rows cannot be told by split (they were added or left out since they were read), a source
    of several splits has a watermark when all of them have ended.

    Rows whose rowtime is NULL: `FAIL` stops the job, `DROP` rejects them, `SKIP_WATERMARK` passes them without moving
    the watermark (option table.exec.source.rowtime-null-handling).
    """

    def __init__(self, node: WatermarkExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._evaluator = Evaluator((node.expr,), context.functions)
        self._watermark = MIN_WATERMARK
        self._greatest = MIN_WATERMARK
        self._marks: dict[str, int] = {}
        self._table = shared_value(
            "watermarks", pa.list_(pa.struct({"split": pa.string(), "mark": pa.int64()})), self._saved, self._load
        )

    @property
    def takes_codes(self) -> bool:
        return True

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        splits = time.splits
        output = None
        if batch is not None and len(batch):
            pieces = None if splits is None else splits.pieces
            output = self._pass(batch, pieces, time)
        self._move(splits)
        return output

    def greatest(self, batch: ChangelogBatch, time: EpochTime) -> int | None:
        """The greatest watermark of rows that somebody else passes; None when rows without event time are among them
        that must not pass. Changes nothing."""
        if batch.column(self._node.rowtime).null_count and self._node.null_handling != "SKIP_WATERMARK":
            return None
        return _greatest(self._watermarks_of(batch, time))

    def _watermarks_of(self, batch: ChangelogBatch, time: EpochTime) -> pa.Array:
        """The watermark of each row; NULL where it is out of range: five seconds before the first moment of the year 1."""
        context = BatchContext.at(time, len(batch), self._context.time_zone).leniently()
        return self._evaluator.evaluate(batch.rows, context)[0]

    def observe(self, marks: Sequence[tuple[str, int]], time: EpochTime) -> None:
        """An epoch whose rows were passed elsewhere: splits, and the greatest watermark of what each has given."""
        told_apart = time.splits is not None and time.splits.pieces is not None
        for split, mark in marks:
            self._greatest = max(self._greatest, mark)
            if told_apart and mark > self._marks.get(split, MIN_WATERMARK):
                self._marks[split] = mark
        self._move(time.splits)

    def _move(self, splits: SplitRows | None) -> None:
        """The watermark after the rows of an epoch."""
        if splits is None:
            self._watermark = max(self._watermark, self._greatest)
        else:
            self._marks = {split: mark for split, mark in self._marks.items() if split in splits.open}
            self._watermark = max(self._watermark, self._least(splits))

    def output_watermark(self, time: EpochTime) -> int:
        # A source that knows more of time than its rows tell has a watermark of its own.
        return max(self._watermark, time.watermark)

    @property
    def watermark(self) -> int:
        """That of the rows so far, also when the input has ended."""
        return self._watermark

    @property
    def split_watermarks(self) -> Mapping[str, int]:
        """The watermarks of the splits that were begun and have not ended, as far as they have one, for a source of
        several splits."""
        return self._marks

    @property
    def tables(self) -> Sequence[StateTable]:
        return (self._table,)

    def _pass(
        self, batch: ChangelogBatch, pieces: tuple[tuple[str, int], ...] | None, time: EpochTime
    ) -> ChangelogBatch | None:
        kept = self._without_null_times(batch)
        if pieces is not None and len(kept) != len(batch):
            pieces = _of_timed_rows(pieces, batch.column(self._node.rowtime))
        if not len(kept):
            return None
        marks = self._watermarks_of(kept, time)
        if pieces is None:
            self._greatest = max(self._greatest, _greatest(marks))
            return kept
        start = 0
        for split, rows in pieces:
            mark = _greatest(marks.slice(start, rows))
            start += rows
            self._greatest = max(self._greatest, mark)
            if mark > self._marks.get(split, MIN_WATERMARK):
                self._marks[split] = mark
        return kept

    def _least(self, splits: SplitRows) -> int:
        """The watermark of a source by those of its splits."""
        if not splits.open and not splits.waiting:
            return self._greatest
        if splits.waiting or splits.pieces is None:
            return MIN_WATERMARK
        active = splits.open - splits.idle
        return min((self._marks.get(split, MIN_WATERMARK) for split in active), default=MIN_WATERMARK)

    def _without_null_times(self, batch: ChangelogBatch) -> ChangelogBatch:
        times = batch.column(self._node.rowtime)
        if not times.null_count or self._node.null_handling == "SKIP_WATERMARK":
            return batch
        name = self._node.schema[self._node.rowtime].name
        if self._node.null_handling == "FAIL":
            raise ExpressionError(
                f'the event-time column "{name}" is NULL in {times.null_count} of {len(batch)} rows',
                code="E2010",
                hint="SET 'table.exec.source.rowtime-null-handling' = 'DROP' to reject such rows, or 'SKIP_WATERMARK' to keep them",
            )
        return reject_null_times(batch, self._node.rowtime, self._context)

    def _saved(self) -> list[dict[str, object]]:
        marks = {None: self._watermark, "": self._greatest, **self._marks}
        return [{"split": split, "mark": mark} for split, mark in marks.items()]

    def _load(self, saved: list[object]) -> None:
        for marks in saved:
            assert isinstance(marks, list)
            for entry in marks:
                match entry["split"]:
                    case None:
                        self._watermark = max(self._watermark, entry["mark"])
                    case "":
                        self._greatest = max(self._greatest, entry["mark"])
                    case split:
                        self._marks[split] = entry["mark"]


def _greatest(marks: pa.Array) -> int:
    marks = marks.drop_null() if marks.null_count else marks
    return int(milliseconds(marks).max()) if len(marks) else MIN_WATERMARK


def _of_timed_rows(pieces: tuple[tuple[str, int], ...], times: pa.Array) -> tuple[tuple[str, int], ...]:
    """The pieces without their rows that have no time."""
    missing = null_mask(times)
    if missing is None:
        return pieces
    ends = np.cumsum([rows for _, rows in pieces])
    gone = np.concatenate(([0], np.cumsum(missing)))[np.concatenate(([0], ends))]
    return tuple((split, rows - int(lost)) for (split, rows), lost in zip(pieces, np.diff(gone), strict=True))
