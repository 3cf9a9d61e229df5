"""A table in memory, or the answer of a materialized view, for a job that lasts: its rows, and then how they change, cut as the
checkpoints of the database are.

What the job is given a checkpoint of the database has. So whatever ends the process, the rows behind a position are there
again when the database is opened, and nobody has seen others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from connectors.memory.reader import MemoryReader
from connectors.memory.table import MemoryTable
from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.clock import MIN_WATERMARK
from runtime.core.schema import Schema
from runtime.spi.reader import ReadContext
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["CutReader", "FollowedTable", "Inbox", "Taken"]


@dataclass(frozen=True, slots=True)
class Taken:
    """How a table has changed between two cuts, and its watermark behind that, with whether nobody should wait for it; None:
    as before."""

    batches: Sequence[ChangelogBatch]
    time: tuple[int, bool] | None


class Inbox(Protocol):
    """What a job may read of the tables that it follows. Cuts are numbered; a table is named by its path."""

    @property
    def limit(self) -> int:
        """The cut up to which the job reads all of them in the epoch at hand."""
        ...

    def take(self, table: str, after: int | None) -> Taken | None:
        """All changes behind a cut up to `limit`; without one the rows at the first cut, and then those. None when there is
        no such cut yet."""
        ...

    def seek(self, table: str, position: object) -> int:
        """The cut from which the job goes on. Raises PlanningError E1711 when what is behind it is not there."""
        ...

    def saved(self, table: str, position: int) -> None:
        """The job needs nothing again up to a cut."""
        ...

    def available_in(self, after: int | None) -> float | None:
        """How many seconds nothing comes behind a cut; None: until the job is woken."""
        ...

    def woken_by(self, wake: Callable[[], None]) -> None:
        """A reader begins: it is told when there may be something to do."""
        ...

    def left_by(self, wake: Callable[[], None]) -> None:
        """That reader ends."""
        ...


class FollowedTable:
    """A table that a job follows. Equal to one of the same rows. Without an `inbox`, because nothing of the job is kept, it is
    read as every table in memory is that somebody follows.

    Args:
        name: the path of the table.
        contents: the rows.
    """

    bounded = False

    def __init__(self, name: str, contents: MemoryTable) -> None:
        self.name = name
        self.contents = contents
        self.schema: Schema = contents.schema
        self.inbox: Inbox | None = None

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.contents.changelog_mode

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FollowedTable) and self.contents is other.contents

    def __hash__(self) -> int:
        return hash(id(self.contents))

    def statistics(self) -> TableStatistics:
        return self.contents.statistics()

    def splits(self) -> list[Split]:
        return [Split("all")]

    def open(self, split: Split, context: ReadContext) -> CutReader | MemoryReader:
        if self.inbox is None:
            return self.contents.follow(context.wake)
        return CutReader(self.name, self.inbox, context.wake)

    def describe(self) -> dict[str, Any]:
        return {"connector": "memory", "name": self.name, "followed": True}


class CutReader:
    """Gives what an inbox has, all of it at once. `watermark`: the table's behind what `poll` has given."""

    finished = False

    def __init__(self, table: str, inbox: Inbox, wake: Callable[[], None]) -> None:
        self._table = table
        self._inbox = inbox
        self._wake = wake
        self._at: int | None = None
        self.watermark = MIN_WATERMARK
        self.idle = False
        inbox.woken_by(wake)

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        """The changes up to the cut at hand, whole."""
        if max_rows <= 0 or (self._at is not None and self._at >= self._inbox.limit):
            return None
        taken = self._inbox.take(self._table, self._at)
        if taken is None:
            return None
        self._at = self._inbox.limit
        if taken.time is not None:
            self.watermark, self.idle = max(self.watermark, taken.time[0]), taken.time[1]
        return ChangelogBatch.concat(list(taken.batches)) if taken.batches else None

    def available_in(self) -> float | None:
        """See `AvailabilityReader`."""
        return self._inbox.available_in(self._at)

    def position(self) -> int | None:
        """The cut; None before the first one."""
        return self._at

    def seek(self, position: Any) -> None:
        """Raises PlanningError E1711."""
        if position is not None:
            self._at = self._inbox.seek(self._table, position)

    def checkpoint_complete(self, position: Any) -> None:
        """See `CheckpointListener`."""
        if position is not None:
            self._inbox.saved(self._table, position)

    def close(self) -> None:
        """What it has not given stays where it is."""
        self._inbox.left_by(self._wake)
