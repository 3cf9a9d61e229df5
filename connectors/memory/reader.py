"""Who follows a table in memory: its contents first, then every published step of changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from connectors.memory.snapshot import cannot_be_read_again
from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.core.wakeup import nobody

if TYPE_CHECKING:
    from connectors.memory.table import MemoryTable

__all__ = ["MemoryReader"]

_STEP_COSTS = 16
"""A step of changes counts as no fewer rows in a backlog."""


class MemoryReader:
    """Follows a table: its contents at the start, then every published change. `watermark`: the table's after what
    `poll` has given."""

    def __init__(self, table: MemoryTable, wake: Callable[[], None] = nobody) -> None:
        self._table = table
        self.wake = wake
        self._steps: deque[tuple[ChangelogBatch | None, int]] = deque()
        self._given = 0
        self.gathers = False
        self.backlog = 0
        """How much has gathered, in rows: a small step takes as long as some more."""
        self.watermark = MIN_WATERMARK
        start = table.contents()
        self.push(ChangelogBatch(start.combine_chunks().to_batches()[0]) if start.num_rows else None)

    def push(self, step: ChangelogBatch | None) -> None:
        """A step of changes behind the others, or (None) the news that the table's watermark has moved."""
        if self._steps and (step is None or self._steps[-1][0] is None):
            last, _ = self._steps.pop()
            step = last if step is None else step
        self._steps.append((step, self._table.watermark))
        if self.gathers:
            self.backlog += _STEP_COSTS if step is None else max(_STEP_COSTS, len(step))
        self.wake()

    def gather(self) -> None:
        """From now on all steps that wait are given as one."""
        self.gathers = True
        self.backlog = sum(len(step) for step, _ in self._steps if step is not None)

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        """The next published step, whole: a statement is an epoch, whatever its size. None when there is none, also
        when only the watermark has moved."""
        if not self._steps or max_rows <= 0:
            return None
        if self.gathers:
            found = [step for step, _ in self._steps if step is not None]
            self.watermark = self._steps[-1][1]
            self._steps.clear()
            self._given += len(found)
            self.backlog = 0
            return ChangelogBatch.concat(found) if found else None
        step, self.watermark = self._steps.popleft()
        self._given += step is not None
        return step

    @property
    def waiting(self) -> bool:
        return bool(self._steps)

    def available_in(self) -> float | None:
        return 0.0 if self._steps else None

    @property
    def idle(self) -> bool:
        return self._table.idle

    @property
    def finished(self) -> bool:
        return False

    def position(self) -> int:
        """The number of steps given."""
        return self._given

    def seek(self, position: Any) -> None:
        """Only to the start. Raises PlanningError E1711: earlier changes are not kept."""
        if position:
            raise cannot_be_read_again(self._table.name)

    def close(self) -> None:
        self._table.forget(self)
