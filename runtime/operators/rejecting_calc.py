"""Filter and project with functions that reject the rows for which they fail."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ExpressionError
from runtime.eval.context import RowFailures
from runtime.eval.evaluator import BatchContext, Stage
from runtime.kernels.grow import grown
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.plan.nodes import RejectingCalcExec
from runtime.plan.state import column_names
from runtime.state.keyed import KeyIndex
from runtime.state.table import StateTable, every_row

__all__ = ["RejectingCalcOperator"]

Rows = np.ndarray[Any, np.dtype[np.int64]]


class RejectingCalcOperator(Operator):
    """`RejectingCalcExec`: what `CalcOperator` does, without the rows for which a function fails.

    A row that is taken back is left out if it was rejected when it came: then it is in the table of rejected rows, and no
    function is asked. One that was taken is computed again, as by every projection; a function that fails for it now,
    and did not then, cannot say what is to be taken back, so the job fails.

    State: the rejected rows of an input that takes rows back, with how often each was rejected; none for other inputs.

    Raises:
        ExpressionError: E2115 a function fails for a row that is taken back, and has not failed when the row came.
    """

    def __init__(self, node: RejectingCalcExec, context: OperatorContext) -> None:
        self._node = node
        self._schema = node.schema
        self._context = context
        self._stage = Stage(node.condition, node.projections, context.functions)
        self._types = [f.type.arrow for f in node.input.schema]
        self._rejected = KeyIndex(self._types)
        self._counts = np.zeros(0, np.int64)
        self._tables: list[StateTable] = []
        if not node.input.mode.is_append_only:
            kept = node.kept("rejected")
            self._tables.append(
                StateTable(
                    kept.name,
                    [*zip(column_names(node.input.schema), self._types, strict=True), ("$rejected", pa.int64())],
                    live=self._rejected.live_slots,
                    read=lambda slots: [*self._rejected.columns(slots), pa.array(self._counts[slots])],
                    load=self._load,
                    key=kept.key_names,
                    of=every_row,
                )
            )

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    @property
    def state_size(self) -> StateSize:
        return StateSize(len(self._rejected), self._rejected.nbytes + self._counts.nbytes)

    def _load(self, columns: list[pa.Array]) -> Rows:
        *rows, counts = columns
        slots, _ = self._rejected.insert(rows, len(counts))
        self._counts = grown(self._counts, self._rejected.capacity)
        self._counts[slots] = counts.to_numpy()
        return slots

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is None or not len(batch):
            return None
        asked = np.ones(len(batch), np.bool_)
        removed = batch.signs() < 0
        if self._tables and len(self._rejected):
            asked[self._taken_back(batch, np.flatnonzero(removed))] = False
            batch, removed = batch.filter(asked), removed[asked]
        if not len(batch):
            return None
        failures = RowFailures(len(batch))
        at = BatchContext.at(time, len(batch), self._context.time_zone).rejecting(failures)
        kept, columns = self._stage.run(batch.rows, at)
        kept = np.arange(len(batch), dtype=np.int64) if kept is None else kept
        if failures.errors:
            gone = self._reject(batch, failures, removed)
            good = ~gone[kept]
            columns = [c.filter(pa.array(good)) for c in columns]
            kept = kept[good]
        if not len(kept):
            return None
        return ChangelogBatch.of(columns, self._schema, None if batch.kinds is None else batch.kinds[kept])

    def _taken_back(self, batch: ChangelogBatch, removed: Rows) -> Rows:
        """Those of the removed rows of a batch that had been rejected; they are forgotten."""
        found = self._rejected.find(_columns(batch, removed), len(removed))
        known = found >= 0
        rows, slots = removed[known], found[known]
        first = _ordinals(slots) < self._counts[slots]
        rows, slots = rows[first], slots[first]
        np.subtract.at(self._counts, slots, 1)
        self._note(np.unique(slots))
        return rows

    def _reject(self, batch: ChangelogBatch, failures: RowFailures, removed: np.ndarray) -> np.ndarray:
        """Tells of the rows that have failed, and gives which ones of the batch are left out: of those that are taken back
        also such as were rejected in this batch, whatever the function says of them now."""
        gone = failures.mask.copy()
        came = np.flatnonzero(failures.mask & ~removed)
        self._tell(batch, failures, came)
        if not self._tables:
            return gone
        if len(came):
            slots, _ = self._rejected.insert(_columns(batch, came), len(came))
            self._counts = grown(self._counts, self._rejected.capacity)
            np.add.at(self._counts, slots, 1)
            touched = np.unique(slots)
            took = self._taken_back(batch, np.flatnonzero(removed))
            gone[took] = True
            self._note(touched[self._counts[touched] > 0])
            failures.mask[took] = False
        lost = np.flatnonzero(failures.mask & removed)
        if len(lost):
            raise _cannot_take_back(failures.errors[int(lost[0])])
        return gone

    def _tell(self, batch: ChangelogBatch, failures: RowFailures, came: Rows) -> None:
        """The rejected rows for `system.rejected`, by what they failed with. One after another: each has failed with a Python
        exception of its own."""
        by_reason: dict[str, list[int]] = defaultdict(list)
        for row in came.tolist():
            by_reason[_reason(failures.errors[row])].append(row)
        for reason, rows in by_reason.items():
            errors = pa.array([_told(failures.errors[row]) for row in rows], pa.string())
            self._context.reject(reason, batch.rows.take(pa.array(rows)), errors=errors)

    def _note(self, touched: Rows) -> None:
        """Rows whose count has changed; those that are all taken back are forgotten."""
        (table,) = self._tables
        gone = touched[self._counts[touched] == 0]
        table.wrote(touched)
        self._rejected.remove(gone)
        table.freed(gone)


def _columns(batch: ChangelogBatch, rows: Rows) -> list[pa.Array]:
    return list(batch.rows.take(pa.array(rows)).columns)


def _ordinals(slots: Rows) -> Rows:
    """The how manieth of its slot each one is, from 0, in their order."""
    order = np.argsort(slots, kind="stable")
    ranked = slots[order]
    starts = (
        np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1]))) if len(ranked) else np.zeros(0, np.int64)
    )
    lengths = np.diff(np.append(starts, len(ranked)))
    found = np.empty(len(slots), np.int64)
    found[order] = np.arange(len(slots)) - np.repeat(starts, lengths)
    return found


def _reason(error: ExpressionError) -> str:
    """What rows with the same error are counted by: without what the function was called with."""
    return error.reason or error.message


def _told(error: ExpressionError) -> str:
    return "\n".join((error.message, *(f"  {place}" for place in error.trace)))


def _cannot_take_back(error: ExpressionError) -> ExpressionError:
    made = ExpressionError(
        f"a row is taken back for which the function has given a value, and now it fails: {error.message}",
        code="E2115",
        span=error.span,
        hint="what a function gives for a row must not depend on when it is called",
    )
    made.trace = error.trace
    return made
