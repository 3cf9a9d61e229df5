"""The end of a dataflow: changes into a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.changelog import DELETE, ChangelogBatch
from runtime.core.errors import ExpressionError
from runtime.core.logs import connector_log
from runtime.operators.operator import EpochTime, Operator, OperatorContext
from runtime.plan.nodes import SinkExec
from runtime.spi.writer import (
    AtomicWriter,
    BufferingWriter,
    DictionaryWriter,
    DistributedWriter,
    FencedWriter,
    RevertibleWriter,
    TaskCommitter,
    TaskWriter,
    TimeListener,
)

__all__ = ["SinkOperator"]


class SinkOperator(Operator):
    """Checks NOT NULL columns and writes to the table's writer.

    The driver calls `finish` once, or `abort`; with checkpoints `prepare` and `publish` for each of them, and `recover`
    first when the job goes on from one.

    NULL in a NOT NULL column fails the job, or with `table.exec.sink.not-null-enforcer` = `DROP` rejects the row. A deletion
    by key alone has no other columns.
    """

    def __init__(self, node: SinkExec, context: OperatorContext) -> None:
        self._node = node
        self._context = context
        self._writer = node.table.open_writer(f"{context.job} {context.name}")
        self._timed = self._writer if isinstance(self._writer, TimeListener) else None
        self._complete = False
        self._takes_codes = isinstance(self._writer, DictionaryWriter)
        self._log = connector_log(type(node.table).__module__)
        self.rows_written = 0
        self.commits = 0
        """How often it has made visible what it had prepared."""
        self.has_half_epoch = False
        """Whether the writer has rows of an epoch that is not complete."""

    @property
    def takes_codes(self) -> bool:
        return self._takes_codes and self._writer.accepts_dictionaries  # type: ignore[attr-defined]

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        self._write(inputs, time)
        self._writer.flush(time.epoch)
        self.has_half_epoch = False
        return None

    def next_timer(self) -> int | None:
        return None if self._timed is None else self._timed.next_time()

    def takes_parts(self, position: int) -> bool:
        return True

    def part_pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        """Writes rows that are not shown before the epoch is complete."""
        self._write(inputs, time)
        yield from ()

    def _write(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> None:
        (batch,) = inputs
        if self._timed is not None:
            self._timed.advance_time(time.processing_time, time.watermark)
        if batch is not None and len(batch):
            self.write_piece(batch)

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        """The rows that the writer holds in memory, as far as it tells."""
        return self._writer.buffered if isinstance(self._writer, BufferingWriter) else ()

    def task_writer(self) -> TaskWriter | None:
        """What writes for it in another process; None when the writer takes nothing from there."""
        return self._writer.task_writer() if isinstance(self._writer, DistributedWriter) else None

    def commit_in_tasks(self, count: int, carry_out: Callable[[Sequence[Callable[[], object]]], object]) -> None:
        """Tasks may carry out commits: see `TaskCommitter`."""
        if isinstance(self._writer, TaskCommitter):
            self._writer.commit_in_tasks(count, carry_out)

    @property
    def takes_pieces(self) -> bool:
        """Whether rows of an epoch may be given before its time is told."""
        return self._timed is None

    def write_piece(self, batch: ChangelogBatch) -> None:
        """Rows of the epoch at hand, between what was written elsewhere."""
        batch = self._enforce_not_null(batch)
        if len(batch):
            self.has_half_epoch = True
            self._writer.write(batch)
            self.rows_written += len(batch)

    def adopt(self, written: Any, rows: int) -> None:
        """Rows that were written elsewhere are those of the epoch at hand."""
        assert isinstance(self._writer, DistributedWriter)
        self._writer.adopt(written)
        self.rows_written += rows

    def prepare(self) -> Any:
        """Make all that was written durable; gives what has to be published, None when there is nothing."""
        return self._writer.prepare()

    def publish(self, committable: Any) -> None:
        """Make visible what was prepared; once more changes nothing."""
        self._writer.publish(committable)
        self._committed()

    def _committed(self) -> None:
        self.commits += 1
        self._log.debug("%s: commit %d", self._node.name, self.commits, sink=self._node.name, rows=self.rows_written)

    def claim(self, place: str, history: Any, take_over: bool) -> None:
        """Before all else, with checkpoints: this run is the one that writes. See `FencedWriter`."""
        if isinstance(self._writer, FencedWriter):
            self._writer.claim(place, history, take_over)

    def recover(self, committables: Sequence[Any]) -> None:
        """Before the first epoch of a job that goes on from a checkpoint: publish what that had prepared, and remove
        what no checkpoint knows."""
        self._writer.recover(committables)

    def history(self) -> Any:
        """What has been written so far, to be saved with what is prepared; None when the system cannot take it back."""
        return self._writer.history() if isinstance(self._writer, RevertibleWriter) else None

    def take_back(self, history: Any) -> int:
        """After `recover`, from a checkpoint of the job: hide what was published after it. Gives the number of files."""
        return self._writer.revert(history) if isinstance(self._writer, RevertibleWriter) else 0

    def all_written(self) -> None:
        """The input has ended: rows that wait for that may be shown. Called before the last `prepare`."""
        if isinstance(self._writer, AtomicWriter):
            self._writer.complete()
            self._complete = True

    def finish(self) -> None:
        """The input ended or the job stops cleanly: publish all that is not yet. When it cannot be, nothing of it stays.
        Rows that are shown only when they are complete are dropped when they are not."""
        if isinstance(self._writer, AtomicWriter) and not self._complete:
            self.abort()
            return
        committable = self._writer.prepare()
        if committable is not None:
            try:
                self._writer.publish(committable)
            except BaseException:
                self._writer.discard(committable)
                raise
            self._committed()
        self._writer.close()

    def abort(self) -> None:
        """The job failed: leave nothing half-written. What is prepared stays, for a checkpoint may know of it."""
        self._writer.abort()
        self._writer.close()

    def close(self) -> None:
        """Give back what is open; rows that are not prepared are dropped."""
        self._writer.close()

    def _enforce_not_null(self, batch: ChangelogBatch) -> ChangelogBatch:
        broken = np.zeros(len(batch), dtype=bool)
        whole = batch.kinds_or_inserts() != DELETE if self._node.input.mode.key_only_deletes else None
        for position in self._node.not_null:
            column = batch.column(position)
            if whole is not None and column.null_count:
                column = column.filter(pa.array(whole))
            if column.null_count:
                if self._node.not_null_enforcer != "DROP":
                    name = self._node.schema[position].name
                    raise ExpressionError(
                        f'column "{name}" of {self._node.name} is NOT NULL, but {_counted(column.null_count)} no value for it',
                        code="E2011",
                        hint="filter them out, or SET 'table.exec.sink.not-null-enforcer' = 'DROP' to reject such rows",
                    )
                missing = column.is_null().to_numpy(zero_copy_only=False)
                if whole is None:
                    broken |= missing
                else:
                    broken[np.flatnonzero(whole)] |= missing
        if not broken.any():
            return batch
        self._context.reject("NULL in a NOT NULL column", batch.rows.filter(pa.array(broken)))
        return batch.filter(~broken)


def _counted(rows: int) -> str:
    return "1 row has" if rows == 1 else f"{rows} rows have"
