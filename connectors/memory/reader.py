"""Who follows a table in memory: its contents first, then every published step of changes, which is a version of it. And
what the table knows of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from connectors.memory.column_files import in_memory
from connectors.memory.rows import RowStore, TableVersion
from connectors.memory.snapshot import cannot_be_read_again
from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.wakeup import nobody
from runtime.spi.source import Split

if TYPE_CHECKING:
    import runtime.state.arranged as _arranged
    from connectors.memory.table import MemoryTable
else:
    _arranged = Room("runtime.state.arranged")

__all__ = ["MemoryReader", "VersionedRows"]

_STEP_COSTS = 16
"""A step of changes counts as no fewer rows in a backlog."""
_PIECE_ROWS = 1 << 19
"""About so many rows of contents in files are given at once."""
_Step: TypeAlias = "ChangelogBatch | TableVersion | None"
"""Changes; the rows at the start, which are put together when they are given; or None, when only the watermark moves."""
_Told: TypeAlias = "tuple[_Step, int, int]"
"""A step, the watermark behind it, and the version of the table."""


class MemoryReader:
    """Follows a table: its contents at the start, then every published change. `watermark`: the table's after what
    `poll` has given."""

    def __init__(self, table: MemoryTable, wake: Callable[[], None] = nobody) -> None:
        self._table = table
        self.wake = wake
        self._steps: deque[_Told] = deque()
        self.version = -1
        """The version of the table behind what `poll` has given; -1 before what was there at the start."""
        self.kept = self._first = table.delivered
        """From which version on rows are needed as they were."""
        self._given = 0
        self.gathers = False
        self.backlog = 0
        """How much has gathered, in rows: a small step takes as long as some more."""
        self.watermark = MIN_WATERMARK
        self._aside: list[_Told] | None = None
        start = table.version()
        self.push(start if start.num_rows else None)

    def push(self, step: _Step) -> None:
        """A step of changes behind the others, or (None) the news that the table's watermark has moved."""
        told = (step, self._table.watermark, self._table.delivered)
        if self._aside is None:
            self._add(*told)
        else:
            self._aside.append(told)
        self.wake()

    def _add(self, step: _Step, watermark: int, version: int) -> None:
        if self._steps and (step is None or self._steps[-1][0] is None):
            last, _, _ = self._steps.pop()
            step = last if step is None else step
        self._steps.append((step, watermark, version))
        if self.gathers:
            self.backlog += _STEP_COSTS if step is None else max(_STEP_COSTS, _rows_of(step))

    def in_pieces(self) -> None:
        """Contents that are in files are given piece by piece, each as an epoch: together they need not fit into memory.
        For whoever does not mind in how many epochs they come."""
        if self._steps and isinstance(self._steps[0][0], TableVersion):
            contents, watermark, version = self._steps.popleft()
            assert isinstance(contents, TableVersion)
            *pieces, last = contents.pieces(_PIECE_ROWS)
            self._steps.appendleft((last, watermark, version))
            self._steps.extendleft((piece, MIN_WATERMARK, version) for piece in reversed(pieces))

    def set_aside(self) -> None:
        """From now on steps that come are kept apart: `poll` gives none of them before `let_in`. So one thread may poll
        while another pushes."""
        self._aside = []

    def take_aside(self) -> Sequence[_Told]:
        """What was set aside since the last time. Not while others push."""
        if not self._aside:
            return ()
        taken, self._aside = self._aside, []
        return taken

    def let_in(self, steps: Sequence[_Told]) -> None:
        """Steps that were set aside are given next. By the thread that polls."""
        for told in steps:
            self._add(*told)

    def go_on(self) -> None:
        """From now on nothing is set aside. Not while others push."""
        steps, self._aside = self._aside or [], None
        self.let_in(steps)

    def gather(self) -> None:
        """From now on all steps that wait are given as one."""
        self.gathers = True
        self.backlog = sum(_rows_of(step) for step, _, _ in self._steps if step is not None)

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        """The next published step, whole: a statement is an epoch, whatever its size. None when there is none, also
        when only the watermark has moved."""
        if not self._steps or max_rows <= 0:
            return None
        if self.gathers:
            found = [_changes(step) for step, _, _ in self._steps if step is not None]
            _, self.watermark, self.version = self._steps[-1]
            self._steps.clear()
            self._given += len(found)
            self.backlog = 0
            return ChangelogBatch.concat(found) if found else None
        step, self.watermark, self.version = self._steps.popleft()
        self._given += step is not None
        return None if step is None else _changes(step)

    @property
    def waiting(self) -> bool:
        return bool(self._steps)

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        """The steps that wait, without what is in files. From any thread."""
        found: list[ChangelogBatch] = []
        for step, _, _ in (*self._steps, *(self._aside or ())):
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

    def keep(self) -> None:
        """See `VersionedReader`."""
        self.kept = max(self.kept, self.version)

    def position(self) -> int:
        """The number of steps given."""
        return self._given

    def seek(self, position: Any) -> None:
        """To the start; or to the token of the table, by somebody who has the rows that it has now: then changes alone
        follow. Raises PlanningError E1711: earlier changes are not kept."""
        if position == self._table.token:
            self._steps.clear()
            self.version = self._first
        elif position:
            raise cannot_be_read_again(self._table.name)

    def close(self) -> None:
        self._table.forget(self)


class VersionedRows:
    """What a table knows of its followers. `_rows` are the table's."""

    schema: Schema
    primary_key: tuple[str, ...]
    append_only: bool
    _rows: RowStore

    statement_changes = True
    bounded = False

    def splits(self) -> list[Split]:
        return [Split("all")]

    def watch_splits(self, wake: Callable[[], None]) -> Callable[[], None]:
        return nobody

    def __init__(self) -> None:
        self._readers: list[MemoryReader] = []
        self.watermark = MIN_WATERMARK
        self.idle = False
        self.delivered = 0
        """The version that followers have been told of."""
        self.arranged: _arranged.ArrangedRows | None = None
        """The indices of those who join it, while there are any."""

    @property
    def row_key(self) -> Sequence[str]:
        """See `SupportsArrangements`."""
        return () if self.append_only else self.primary_key

    def arrangement(self, columns: Sequence[int], user: str) -> _arranged.Arranged:
        """See `SupportsArrangements`. Called with the lock held."""
        if self.arranged is None:
            self._complete_version()
            types = self._rows.schema.types
            self.arranged = _arranged.ArrangedRows(types, self._rows, self.delivered, self._left)
        return self.arranged.index(columns, user)

    @property
    def indices(self) -> list[_arranged.DescribedIndex]:
        """The indices of those who join it. From any thread."""
        arranged = self.arranged
        return [] if arranged is None else arranged.described()

    def columns_text(self, columns: Sequence[int]) -> str:
        """Columns by position, for people."""
        return ", ".join(self.schema.names[c] for c in columns)

    def users(self, columns: Sequence[int]) -> list[str]:
        """See `SupportsArrangements`."""
        return next((index.users for index in self.indices if index.columns == tuple(columns)), [])

    def deliver(self, step: ChangelogBatch) -> None:
        """Give a step of changes to every follower."""
        self._complete_version()
        for reader in tuple(self._readers):
            reader.push(step)

    def tell_time(self, watermark: int, idle: bool) -> None:
        """The watermark that holds behind all changes so far, and whether nobody should wait for it to move."""
        turned, moved = idle != self.idle, watermark > self.watermark
        self.idle, self.watermark = idle, max(watermark, self.watermark)
        for reader in tuple(self._readers) if turned or moved else ():
            reader.push(None) if moved else reader.wake()

    def _complete_version(self) -> None:
        """What has changed so far is one version."""
        self.delivered += 1
        if self.arranged is not None and self.arranged.used:
            self.arranged.delivered(self.delivered)
        else:
            self._forget_arranged()

    def _compacted(self) -> tuple[np.ndarray, np.ndarray] | None:
        """See `RowStore.compact`; None when it cannot be now."""
        if self.arranged is not None and not self.arranged.used:
            self._forget_arranged()
        return self._rows.compact() if self.arranged is None else self.arranged.compact()

    def _forget_arranged(self) -> None:
        self.arranged = self._rows.listener = None

    def _left(self) -> int:
        return min((reader.kept for reader in tuple(self._readers)), default=self.delivered)


def _rows_of(step: ChangelogBatch | TableVersion) -> int:
    return step.num_rows if isinstance(step, TableVersion) else len(step)


def _changes(step: ChangelogBatch | TableVersion) -> ChangelogBatch:
    if isinstance(step, TableVersion):
        return ChangelogBatch(step.rows().combine_chunks().to_batches()[0])
    return step
