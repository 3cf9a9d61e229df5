"""What a connector implements: tables to read, to write, to look up.

The planning half (`SourceTable`, `SinkTable`, `LookupTable`) is immutable and opens nothing. The run-time half
(`SourceReader`, `SinkWriter`) is made when a job starts. Third parties register factories by entry point
(`runtime/spi/registry.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, runtime_checkable

import pyarrow as pa

from runtime.core.changelog import ChangelogBatch, ChangelogMode
from runtime.core.schema import Schema
from runtime.core.types import DataType

__all__ = [
    "ColumnStatistics",
    "CountsPositions",
    "Delivery",
    "FollowsStatements",
    "FollowsTime",
    "GrowsInParts",
    "HearsCheckpoints",
    "LooksAtEnd",
    "LookupTable",
    "ReadContext",
    "ReadsAnywhere",
    "RejectedRow",
    "SinkTable",
    "SinkWriter",
    "SourceReader",
    "SourceTable",
    "Split",
    "TableStatistics",
    "TaskWriter",
    "TellsTime",
    "TellsWaiting",
    "WritesInTasks",
]


Delivery = Literal["exactly-once", "at-least-once"]
"""How often a row is seen in a sink when a job goes on after a crash."""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known of a column's values; None is unknown.

    distinct: number of different values without NULL. nulls: number of NULLs. low, high: the least and the greatest
    value, as Python values of the column's type. average_length: of a text, in characters. lifetime: the share of the
    table, in order of time, that lies between the first and the last row of a value; ids that come and go have a small
    one.
    """

    distinct: float | None = None
    nulls: float | None = None
    low: Any = None
    high: Any = None
    average_length: float | None = None
    lifetime: float | None = None


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """What is known of a table's rows; None is unknown. `columns` holds what is known of columns, by name.

    counted: `rows` is what is there now, not a guess and not of another day.
    """

    rows: float | None = None
    columns: tuple[tuple[str, ColumnStatistics], ...] = ()
    counted: bool = False

    def column(self, name: str) -> ColumnStatistics:
        """What is known of one column."""
        return next((known for given, known in self.columns if given == name), ColumnStatistics())


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a source that one reader reads: an id, stable over restarts, and what the source needs to find it.

    `endless`: its rows may go on for ever, as those of a generator do and those of a file do not.
    """

    id: str
    where: Any = None
    endless: bool = False


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that could not be used: why, and the raw text of it as far as it is known."""

    reason: str
    raw: str


class ReadContext(Protocol):
    """What a reader may ask of the job that runs it."""

    @property
    def time_zone(self) -> str: ...

    def reject(self, rows: Sequence[RejectedRow]) -> None:
        """Count and keep rows that cannot be used; raises when the job is configured to fail on them."""
        ...


class SourceReader(Protocol):
    """Reads one split. Called from one thread, never after `close`."""

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        """At most `max_rows` changes (one that is a pair may exceed it by one), None when there is nothing now. Never
        blocks for longer than it takes to read what is there."""
        ...

    @property
    def finished(self) -> bool:
        """Nothing will come any more; only true after `poll` gave the last row."""
        ...

    def position(self) -> Any:
        """Where reading would go on after the last row that `poll` returned: a JSON value."""
        ...

    def seek(self, position: Any) -> None:
        """Go to a position given by an earlier reader of the same split; called before the first `poll`."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class GivesCodes(Protocol):
    """A reader that can give text columns as Arrow dictionaries, where they are stored so."""

    def give_codes(self) -> None:
        """From now on; called before the first `poll`."""
        ...


@runtime_checkable
class TellsTime(Protocol):
    """A reader that knows the watermark of its rows: those of its columns that are event time were that already where
    the rows come from."""

    @property
    def watermark(self) -> int:
        """After what `poll` has given; it may move also when that gives None."""
        ...

    @property
    def idle(self) -> bool:
        """Nobody should wait for the watermark to move."""
        ...


@runtime_checkable
class TellsWaiting(Protocol):
    """A reader of what statements of the session have changed, which knows whether it has more of that."""

    @property
    def waiting(self) -> bool:
        """Whether `poll` would give rows, or news of time, now."""
        ...

    def gather(self) -> None:
        """From now on `poll` gives all that waits, of however many statements, as one batch."""

    @property
    def backlog(self) -> int:
        """How much has gathered: rows, where each statement counts as several."""
        ...


@runtime_checkable
class HearsCheckpoints(Protocol):
    """A reader that keeps rows until they are not needed again."""

    def saved(self, position: Any) -> None:
        """A checkpoint is complete that holds this position of it."""
        ...


@runtime_checkable
class LooksAtEnd(Protocol):
    """A reader that hears of new rows some time after they are there."""

    def look_at_end(self) -> None:
        """Rows that are there now are given before `poll` gives None."""
        ...


@runtime_checkable
class SourceTable(Protocol):
    """A table that can be read. Two equal tables are read once and shared.

    `schema` holds the columns the readers give, in order (after push-down, what is left of them). `primary_key`: column
    names, empty when there is none.
    """

    @property
    def schema(self) -> Schema: ...

    @property
    def changelog_mode(self) -> ChangelogMode: ...

    @property
    def bounded(self) -> bool: ...

    def statistics(self) -> TableStatistics: ...

    def splits(self) -> list[Split]:
        """The parts known now; asked again while the job runs when the source is unbounded. A split's id never changes
        meaning."""
        ...

    def open(self, split: Split, context: ReadContext) -> SourceReader: ...

    def describe(self) -> dict[str, Any]:
        """A JSON object for EXPLAIN: connector and what was pushed into it. Under `options` what decides which rows are
        read, and how: it may change while state stays, but the result is not exact then."""
        ...


@runtime_checkable
class SupportsWiderTypes(Protocol):
    """The source gives what lies somewhere, so that a column may be declared with a wider type later."""

    def reads_alike(self, wide: DataType, narrow: DataType) -> bool:
        """Whether a row that could be read with the narrow type would have given the same value with the wide one."""
        ...


@runtime_checkable
class SupportsProjection(Protocol):
    """The source can leave out columns it does not have to read."""

    def with_columns(self, names: Sequence[str]) -> Self: ...


@runtime_checkable
class SupportsFilters(Protocol):
    """The source can drop rows early. Filters are expressions whose columns are `InputRef`s into `schema`."""

    def with_filters(self, filters: Sequence[Any]) -> tuple[Self, list[Any]]:
        """The table with what it took, and the filters that must still be applied."""
        ...


@runtime_checkable
class SupportsLimit(Protocol):
    """The source can stop after so many rows."""

    def with_limit(self, rows: int) -> Self: ...


@runtime_checkable
class ReadsAnywhere(Protocol):
    """A source whose splits can be read in other processes, on machines that see the same files: it can be pickled, and
    so can its splits and positions. Readers do not know the watermark of their rows."""

    @property
    def reads_anywhere(self) -> bool: ...


@runtime_checkable
class CountsPositions(Protocol):
    """A source that knows without reading where its rows lie, so that several readers can share a split."""

    def position_after(self, split: Split, position: Any, rows: int) -> Any:
        """The position so many rows behind another one (None: the beginning); None when there are not so many, or when
        nobody can tell."""
        ...


@runtime_checkable
class GrowsInParts(Protocol):
    """A source whose splits all grow at the same time, as the partitions of a log do: all are open, and each gets its
    share of every read."""

    def begun_later(self, split: Split) -> Split:
        """A split that was not there when the job began: all of it is to be read."""
        ...


@runtime_checkable
class FollowsStatements(Protocol):
    """A source that gives what statements of the session have changed, as whole steps: it is never slowed down, for the
    next statement expects to see them."""

    @property
    def follows_statements(self) -> bool: ...


class SinkWriter(Protocol):
    """Writes the changes of a job's epochs, and shows them in two steps, so that they can be part of a checkpoint.

    `prepare` makes what was written durable, still hidden, and gives a *committable*: a JSON value that says what there
    is to show. Once the checkpoint that holds it is complete, `publish` shows it. A job without checkpoints does both
    at its end. Sinks that show rows as they come (`delivery` is at-least-once) prepare nothing.

    After a crash another writer of the same job publishes what the checkpoint had prepared (`recover`).
    """

    def write(self, batch: ChangelogBatch) -> None:
        """Changes of one epoch, in order: all of them, or in several calls a part each."""
        ...

    def flush(self, epoch: int) -> None:
        """The epoch is complete: make it visible if the sink shows rows as they come."""
        ...

    def prepare(self) -> Any:
        """All rows written so far are durable when this returns, and hidden; later ones go elsewhere. Gives what has to
        be published, together with whatever was prepared before and not yet published; None when there is nothing."""
        ...

    def publish(self, committable: Any) -> None:
        """Make visible what was prepared, by this writer or by an earlier one of the job; what is visible already stays
        as it is, so a publish that was cut short is simply done again.

        Raises ConnectorError when something of it is gone.
        """
        ...

    def recover(self, committables: Sequence[Any]) -> None:
        """The job goes on from a checkpoint: publish what it had prepared, in order, and remove what earlier writers of
        this job (and of no other) have hidden and no checkpoint knows. Called at most once, before the first write."""
        ...

    def discard(self, committable: Any) -> None:
        """Take back what was prepared, published or not: the job has failed and no checkpoint knows of it."""
        ...

    def abort(self) -> None:
        """The job has failed: leave nothing behind of what is not prepared."""
        ...

    def close(self) -> None:
        """Give back what is open; rows that are not prepared are dropped."""
        ...


@runtime_checkable
class HearsFailure(Protocol):
    """A reader that is told why its job reads no more."""

    def failed(self, error: BaseException) -> None:
        """The job has failed; `close` follows."""
        ...


@runtime_checkable
class ShowsAtEnd(Protocol):
    """A writer of which nothing is visible before all rows are written: they take the place of those that are there
    (`SupportsOverwrite`), or are one change. Until `complete`, what `publish` is given stays hidden, and is part of what is
    prepared next."""

    def complete(self) -> None:
        """All rows are written: what is prepared from now on is shown."""
        ...


@runtime_checkable
class TakesCodes(Protocol):
    """A writer that takes text columns as Arrow dictionaries, too."""

    @property
    def takes_codes(self) -> bool: ...


@runtime_checkable
class FollowsTime(Protocol):
    """A writer that does things at certain times: closes files, commits partitions."""

    def advance(self, processing_time: int, watermark: int) -> None:
        """The time of the epoch that comes next, milliseconds since the epoch; called before its rows are written."""
        ...


class TaskWriter(Protocol):
    """Writes rows for a writer in another process; it can be pickled, and keeps nothing open between calls."""

    def write(self, batch: ChangelogBatch) -> Any:
        """Changes are durable and hidden when this returns; gives what `adopt` takes. May be called twice for the same
        changes: what is never adopted is never seen."""
        ...


@runtime_checkable
class WritesInTasks(Protocol):
    """A writer for which other processes can write, on machines that see the same files."""

    def task_writer(self) -> TaskWriter | None:
        """None when they cannot, with these options."""
        ...

    def adopt(self, written: Any) -> None:
        """What a task has written belongs to the epoch at hand, as if `write` had got its changes: after all that it has
        got so far, before what it gets next."""
        ...


@runtime_checkable
class TakesBack(Protocol):
    """A writer that can hide what it has published, for a job that has to go back behind a checkpoint that is damaged
    or gone. Writers without this then publish rows twice."""

    def history(self) -> Any:
        """After `prepare`: what it has written so far, a JSON value that is saved with the checkpoint."""
        ...

    def take_back(self, history: Any) -> int:
        """After `recover`: the job goes on from the checkpoint that `history` was saved with; what was published after
        it, by whichever run, is hidden. Gives the number of files, or whatever the system has."""
        ...


@runtime_checkable
class Fenced(Protocol):
    """A writer whose system remembers which run writes, by a token: so that of two runs that go on from the same
    checkpoint, one of them from a copy, only one shows rows. Writers without this show them twice."""

    def claim(self, place: str, history: Any, take_over: bool) -> None:
        """The run becomes the one that writes: called before all else. From then on `publish` of any other run fails.

        Args:
            place: names the checkpoints of the job, and no copy of them.
            history: what `TakesBack.history` gave for the checkpoint from which the job goes on, None when it begins
                anew. Another run that has shown rows since then is the newest one, unless it had the same place: then
                the job goes back, and takes back what was shown.
            take_over: go on although another run is the newest one.

        Raises FencedError when another run is the newest one; `publish` raises it when another one has become it.
        """
        ...


@runtime_checkable
class SinkTable(Protocol):
    """A table that can be written. `schema` holds the columns to write, in order."""

    @property
    def schema(self) -> Schema: ...

    @property
    def primary_key(self) -> tuple[str, ...]: ...

    @property
    def delivery(self) -> Delivery:
        """What a job that goes on from a checkpoint makes of the rows it had written after it: `exactly-once` when they
        are hidden and written anew, or written over by key; `at-least-once` when they come twice."""
        ...

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        """The row kinds the sink wants when the query could give `requested`; a sink for inserts only answers APPEND
        whatever is asked."""
        ...

    def open_writer(self, job: str) -> SinkWriter:
        """A writer for one sink of a job. `job` names that sink, is the same when the job goes on after a crash, and is
        that of no other sink."""
        ...

    def describe(self) -> dict[str, Any]: ...


@runtime_checkable
class SupportsOverwrite(Protocol):
    """The sink can put rows in the place of those that are there. Its writers are `ShowsAtEnd`."""

    def with_overwrite(self, partition: Mapping[str, Any]) -> SinkTable:
        """The sink for INSERT OVERWRITE; `partition` holds the values of the partition columns that the statement gives,
        as Python values of their types."""
        ...


@runtime_checkable
class LookupTable(Protocol):
    """A table that can be asked for the rows of given keys."""

    @property
    def schema(self) -> Schema: ...

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        """The rows that match each key row by equality: an int64 array of positions in `keys`, ascending, and the
        matching rows beside it."""
        ...

    def describe(self) -> dict[str, Any]: ...


__all__ += ["HearsFailure", "ShowsAtEnd", "SupportsFilters", "SupportsLimit", "SupportsOverwrite", "SupportsProjection"]
