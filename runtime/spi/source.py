"""A table that can be read, as the planner sees it. It is immutable and opens nothing; its readers are in `reader.py`,
what it may support beyond this in `abilities.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.schema import Schema
from runtime.spi.reader import ReadContext, SourceReader
from runtime.spi.statistics import TableStatistics

__all__ = ["EndingInserts", "SourceTable", "Split"]


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a source that one reader reads: a file, a partition.

    Args:
        id: names the split. It is saved in checkpoints, so it must be the same after a restart.
        where: what the source needs to open the split.
        endless: its rows may go on for ever, as those of a generator do and those of a file do not.
    """

    id: str
    where: Any = None
    endless: bool = False


@runtime_checkable
class SourceTable(Protocol):
    """A table that can be read. Two equal tables are read once and shared."""

    @property
    def schema(self) -> Schema:
        """The columns that readers give, in order; after projection push-down, those that are left."""
        ...

    @property
    def changelog_mode(self) -> ChangelogMode:
        """The kinds of changes that readers give."""
        ...

    @property
    def bounded(self) -> bool:
        """Whether the input ends."""
        ...

    def statistics(self) -> TableStatistics:
        """What is known of the rows without reading them; `TableStatistics()` when nothing is."""
        ...

    def splits(self) -> list[Split]:
        """The splits known now. Of an unbounded source this is called again and again while the job runs, before each
        epoch, so it should be cheap; the id of a split never changes meaning."""
        ...

    def open(self, split: Split, context: ReadContext) -> SourceReader:
        """A reader of one split. Raises ConnectorError when the split cannot be read."""
        ...

    def describe(self) -> dict[str, Any]:
        """A JSON object for EXPLAIN: the connector and what was pushed down into it. The entry `options` holds the
        options that decide which rows are read, and how: when they change, a job keeps its state, but its result is no
        longer exact."""
        ...


class EndingInserts:
    """What the sources say whose input ends and has nothing but insertions: a base for a `SourceTable`."""

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    @property
    def bounded(self) -> bool:
        return True

    def statistics(self) -> TableStatistics:
        """Nothing is known."""
        return TableStatistics()
