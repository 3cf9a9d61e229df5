"""An operator that runs as several tasks, each with a range of the key groups, on threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from runtime.core.cancellation import governed
from runtime.core.changelog import ChangelogBatch
from runtime.core.key_group import key_group, key_group_range, key_groups
from runtime.kernels.key_encoding import KeyEncoder
from runtime.operators.operator import EpochTime, Operator, PiecewiseOperator, StateSize

__all__ = ["PartitionedOperator"]

_FEW_ROWS = 4096
"""Fewer rows than this are computed one task after another: handing them to threads would cost more."""


class PartitionedOperator(PiecewiseOperator):
    """Divides the changes of an epoch by key group, has the tasks compute theirs, and gives their changes one after
    another.

    The answer is that of one task; only the order of changes of different keys differs.

    Args:
        tasks: the operator as often as there are tasks.
        keys: per input the columns by which it is divided (`distribution`).
        workers: threads, shared with other operators.
    """

    def __init__(self, tasks: Sequence[Operator], keys: Sequence[Sequence[int]], workers: ThreadPoolExecutor) -> None:
        self._tasks = tuple(tasks)
        self._keys = keys
        self._workers = workers
        count = len(self._tasks)
        self._groups = key_groups(count)
        sizes = [groups.stop - groups.start for groups in (key_group_range(n, count) for n in range(count))]
        self._task_of_group = np.repeat(np.arange(count, dtype=np.uint8 if count < 256 else np.uint16), sizes)

    @property
    def tasks(self) -> Sequence[Operator]:
        return self._tasks

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        given = [
            (batch, None if batch is None or not len(batch) else self._owners(batch, keys))
            for batch, keys in zip(inputs, self._keys, strict=True)
        ]
        # Each task picks its own rows out, so that this is divided, too.
        work = [_pieces(task, number, given, time) for number, task in enumerate(self._tasks)]
        few = sum(len(b) for b in inputs if b is not None) < _FEW_ROWS
        while work:
            if few or len(work) == 1:
                found = [_next(pieces) for pieces in work]
            else:
                # The last task runs here: a thread less to wake.
                waiting = [self._workers.submit(governed(_next), pieces) for pieces in work[:-1]]
                last = _next(work[-1])
                found = [*(w.result() for w in waiting), last]
            outputs = [output for output, _ in found if output is not None]
            if sum(map(len, outputs)) < _FEW_ROWS and len(outputs) > 1:
                outputs = [ChangelogBatch.concat(outputs)]
            yield from outputs
            work = [pieces for pieces, (_, more) in zip(work, found, strict=True) if more]

    def _owners(self, batch: ChangelogBatch, keys: Sequence[int]) -> np.ndarray:
        """The number of the task of each row."""
        columns = [batch.column(k) for k in keys]
        groups = key_group(KeyEncoder([c.type for c in columns]).stable_hash(columns, len(batch)), self._groups)
        return self._task_of_group[groups]

    @property
    def takes_codes(self) -> bool:
        return all(task.takes_codes for task in self._tasks)

    def takes_parts(self, position: int) -> bool:
        return all(task.takes_parts(position) for task in self._tasks)

    def output_watermark(self, time: EpochTime) -> int:
        return min(task.output_watermark(time) for task in self._tasks)

    def restored(self) -> None:
        for task in self._tasks:
            task.restored()

    def next_timer(self) -> int | None:
        return min((t for task in self._tasks if (t := task.next_timer()) is not None), default=None)

    @property
    def state_size(self) -> StateSize:
        return StateSize.total(task.state_size for task in self._tasks)

    @property
    def complete(self) -> bool:
        return all(task.complete for task in self._tasks)

    def close(self) -> None:
        for task in self._tasks:
            task.close()


def _next(pieces: Iterator[ChangelogBatch]) -> tuple[ChangelogBatch | None, bool]:
    """The next piece of a task's output, and whether there may be more."""
    # numpy's error state belongs to the thread.
    with np.errstate(all="ignore"):
        piece = next(pieces, None)
        return piece, piece is not None


def _pieces(
    task: Operator, number: int, given: Sequence[tuple[ChangelogBatch | None, np.ndarray | None]], time: EpochTime
) -> Iterator[ChangelogBatch]:
    """What a task gives for the rows that are its own."""
    yield from task.pieces([_part(batch, owners, number) for batch, owners in given], time)


def _part(batch: ChangelogBatch | None, owners: np.ndarray | None, number: int) -> ChangelogBatch | None:
    """The changes of one task, in order."""
    if batch is None or owners is None:
        return None
    rows = np.flatnonzero(owners == number)
    if len(rows) in (0, len(batch)):
        return batch if len(rows) else None
    return batch.take(rows)
