"""The end of a dataflow: changes into a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ExpressionError
from runtime.operators.operator import EpochTime, Operator, OperatorContext
from runtime.plan.nodes import SinkExec

__all__ = ["SinkOperator"]


class SinkOperator(Operator):
    """Checks NOT NULL columns and writes to the table's writer. The driver calls `finish` once, or `abort`.

    NULL in a NOT NULL column fails the job, or with `table.exec.sink.not-null-enforcer` = `DROP` rejects the row.
    """

    def __init__(self, node: SinkExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._writer = node.table.open_writer()
        self.rows_written = 0

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        (batch,) = inputs
        if batch is not None and len(batch):
            batch = self._enforce_not_null(batch)
        if batch is not None and len(batch):
            self._writer.write(batch)
            self.rows_written += len(batch)
        self._writer.flush(time.epoch)
        return None

    def finish(self) -> None:
        """The input ended or the job stops cleanly: publish what is staged."""
        self._writer.commit()
        self._writer.close()

    def abort(self) -> None:
        """The job failed: leave nothing half-written."""
        self._writer.abort()
        self._writer.close()

    def _enforce_not_null(self, batch: ChangelogBatch) -> ChangelogBatch:
        broken = np.zeros(len(batch), dtype=bool)
        for position in self._node.not_null:
            column = batch.column(position)
            if column.null_count:
                if self._node.not_null_enforcer != "DROP":
                    name = self._node.schema[position].name
                    raise ExpressionError(
                        f'column "{name}" of {self._node.name} is NOT NULL, but {_counted(column.null_count)} no value for it',
                        code="E2011",
                        hint="filter them out, or SET 'table.exec.sink.not-null-enforcer' = 'DROP' to reject such rows",
                    )
                broken |= column.is_null().to_numpy(zero_copy_only=False)
        if not broken.any():
            return batch
        self._context.reject("NULL in a NOT NULL column", batch.rows.filter(pa.array(broken)))
        return batch.filter(~broken)


def _counted(rows: int) -> str:
    return "1 row has" if rows == 1 else f"{rows} rows have"
