"""Who follows a table in memory: its contents first, then every published step of changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from connectors.memory.column_files import in_memory
from connectors.memory.rows import TableVersion
from connectors.memory.snapshot import cannot_be_read_again
from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.core.wakeup import nobody

if TYPE_CHECKING:
    from connectors.memory.table import MemoryTable

__all__ = ["MemoryReader"]

_STEP_COSTS = 16
"""A step of changes counts as no fewer rows in a backlog."""
_PIECE_ROWS = 1 << 19
"""About so many rows of contents in files are given at once."""
_Step: TypeAlias = "ChangelogBatch | TableVersion | None"
"""Changes; the rows at the start, which are put together when they are given; or None, when only the watermark moves."""


class MemoryReader:
    """Follows a table: its contents at the start, then every published change. `watermark`: the table's after what
    `poll` has given."""

    def __init__(self, table: MemoryTable, wake: Callable[[], None] = nobody) -> None:
        self._table = table
        self.wake = wake
        self._steps: deque[tuple[_Step, int]] = deque()
        self._given = 0
        self.gathers = False
        self.backlog = 0
        """How much has gathered, in rows: a small step takes as long as some more."""
        self.watermark = MIN_WATERMARK
        self._aside: list[tuple[_Step, int]] | None = None
        start = table.version()
        self.push(start if start.num_rows else None)

    def push(self, step: _Step) -> None:
        """A step of changes behind the others, or (None) the news that the table's watermark has moved."""
        if self._aside is None:
            self._add(step, self._table.watermark)
        else:
            self._aside.append((step, self._table.watermark))
        self.wake()

    def _add(self, step: _Step, watermark: int) -> None:
        if self._steps and (step is None or self._steps[-1][0] is None):
            last, _ = self._steps.pop()
            step = last if step is None else step
        self._steps.append((step, watermark))
        if self.gathers:
            self.backlog += _STEP_COSTS if step is None else max(_STEP_COSTS, _rows_of(step))

    def in_pieces(self) -> None:
        """Contents that are in files are given piece by piece, each as an epoch: together they need not fit into memory.
        For whoever does not mind in how many epochs they come."""
        if self._steps and isinstance(self._steps[0][0], TableVersion):
            contents, watermark = self._steps.popleft()
            assert isinstance(contents, TableVersion)
            *pieces, last = contents.pieces(_PIECE_ROWS)
            self._steps.appendleft((last, watermark))
            self._steps.extendleft((piece, MIN_WATERMARK) for piece in reversed(pieces))

    def set_aside(self) -> None:
        """From now on steps that come are kept apart: `poll` gives none of them before `let_in`. So one thread may poll
        while another pushes."""
        self._aside = []

    def take_aside(self) -> Sequence[tuple[_Step, int]]:
        """What was set aside since the last time. Not while others push."""
        if not self._aside:
            return ()
        taken, self._aside = self._aside, []
        return taken

    def let_in(self, steps: Sequence[tuple[_Step, int]]) -> None:
        """Steps that were set aside are given next. By the thread that polls."""
        for step, watermark in steps:
            self._add(step, watermark)

    def go_on(self) -> None:
        """From now on nothing is set aside. Not while others push."""
        steps, self._aside = self._aside or [], None
        self.let_in(steps)

    def gather(self) -> None:
        """From now on all steps that wait are given as one."""
        self.gathers = True
        self.backlog = sum(_rows_of(step) for step, _ in self._steps if step is not None)

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        """The next published step, whole: a statement is an epoch, whatever its size. None when there is none, also
        when only the watermark has moved."""
        if not self._steps or max_rows <= 0:
            return None
        if self.gathers:
            found = [_changes(step) for step, _ in self._steps if step is not None]
            self.watermark = self._steps[-1][1]
            self._steps.clear()
            self._given += len(found)
            self.backlog = 0
            return ChangelogBatch.concat(found) if found else None
        step, self.watermark = self._steps.popleft()
        self._given += step is not None
        return None if step is None else _changes(step)

    @property
    def waiting(self) -> bool:
        return bool(self._steps)

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        """The steps that wait, without what is in files. From any thread."""
        found: list[ChangelogBatch] = []
        for step, _ in (*self._steps, *(self._aside or ())):
            if isinstance(step, TableVersion):
                found += map(ChangelogBatch, step.in_memory)
            elif step is not None:
                found += in_memory((step,), self._table.files)
        return found

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
        """To the start; or to the token of the table, by somebody who has the rows that it has now: then changes alone
        follow. Raises PlanningError E1711: earlier changes are not kept."""
        if position == self._table.token:
            self._steps.clear()
        elif position:
            raise cannot_be_read_again(self._table.name)

    def close(self) -> None:
        self._table.forget(self)


def _rows_of(step: ChangelogBatch | TableVersion) -> int:
    return step.num_rows if isinstance(step, TableVersion) else len(step)


def _changes(step: ChangelogBatch | TableVersion) -> ChangelogBatch:
    if isinstance(step, TableVersion):
        return ChangelogBatch(step.rows().combine_chunks().to_batches()[0])
    return step
