"""Rejected rows of a job in a table of the user's: each with the epoch in which it was rejected, so that they are there as
often as the job's other output, whatever fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.changelog import APPEND, ChangelogBatch
from runtime.core.errors import CheckpointError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, timestamp_ltz
from runtime.expr.function import FunctionRegistry
from runtime.local.rejected import REJECTED_SCHEMA, REJECTED_TABLE, JobRejections
from runtime.operators.operator import EpochTime, OperatorContext
from runtime.operators.sink import SinkOperator
from runtime.plan.nodes import SinkExec, ValuesExec
from runtime.spi.sink import SinkTable

__all__ = ["LETTER_SCHEMA", "NEVER_NULL", "DeadLetters", "LetterTable", "check_prepared"]

LETTER_SCHEMA = Schema((*REJECTED_SCHEMA, *Schema.of(("epoch", BIGINT), ("rejected_at", timestamp_ltz(3)))))
"""What may be a column: those of `system.rejected`, the number of the epoch, and its processing time."""
NEVER_NULL = frozenset(("job", "operator", "reason", "row", "epoch", "rejected_at"))
_SINK = "rejected rows: "


@dataclass(frozen=True, slots=True)
class LetterTable:
    """Where rejected rows go: the table's name, and some columns of `LETTER_SCHEMA`."""

    name: str
    table: SinkTable


class DeadLetters:
    """The end of what a job rejects. Rows gather in an epoch, and are written when it has been computed.

    Args:
        job: names the job for the sink; the same when it goes on from a checkpoint.
    """

    def __init__(
        self, to: LetterTable, options: Options, functions: FunctionRegistry, rejections: JobRejections, job: str
    ) -> None:
        schema = to.table.schema
        node = SinkExec(ValuesExec((), schema, APPEND), to.table, to.name, (), "ERROR", schema, APPEND)
        context = OperatorContext("rejected-rows", options, functions, rejections.time_zone, rejections, job)
        self.name = _SINK + to.name
        """Of the sink, among those that a checkpoint names."""
        self.sink = SinkOperator(node, context)
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        rejections.keep_all(self._waiting.append)

    def step(self, epoch: int, watermark: int, processing_time: int) -> None:
        """An epoch has been computed: what it has rejected is part of it."""
        rows = None
        if self._waiting:
            found = pa.Table.from_batches(self._waiting).combine_chunks().to_batches()
            rows = ChangelogBatch.concat([self._columns(batch, epoch, processing_time) for batch in found])
            self._waiting.clear()
        self.sink.step([rows], EpochTime(epoch, watermark, watermark, processing_time))

    def _columns(self, rows: pa.RecordBatch, epoch: int, processing_time: int) -> ChangelogBatch:
        known = {name: rows.column(name) for name in rows.schema.names}
        known["epoch"] = pa.array(np.full(rows.num_rows, epoch))
        moments = pa.array(np.full(rows.num_rows, processing_time), pa.int64())
        known["rejected_at"] = moments.cast(pa.timestamp("ms")).cast(LETTER_SCHEMA.arrow.field("rejected_at").type)
        return ChangelogBatch.of([known[name] for name in self._schema.names], self._schema)


def check_prepared(letters: DeadLetters | None, sinks: Mapping[str, Any]) -> None:
    """Raises CheckpointError E3414 when a checkpoint has rejected rows for another table than the job's now."""
    for name in sinks:
        if name.startswith(_SINK) and (letters is None or letters.name != name):
            table = name.removeprefix(_SINK)
            raise CheckpointError(
                f"the checkpoint has rejected rows that are not in {table} yet",
                code="E3414",
                hint=f"SET '{REJECTED_TABLE.key}' = '{table}' as it was, or start anew (--fresh)",
            )
