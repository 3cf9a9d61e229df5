"""What an operator is: one function from the changes of an epoch to its own changes.

    step(inputs, time) -> output

It gets all changes of the epoch at once, in columns, updates its state, and returns its changes. After every epoch the
sum of all it has returned equals the batch answer over the input so far.

What few rows cause may be many: one key that matches a million rows. So an operator whose output can be larger than its
input gives it in pieces, `pieces(inputs, time)`, and one that can take a part of an epoch's changes before the rest is
there says so (`takes_parts`). Then no more than a piece is in memory between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK
from runtime.core.errors import StateQueryError
from runtime.core.key_group import key_group_range
from runtime.core.options import Options, int_option
from runtime.eval.context import Chance
from runtime.expr.function import FunctionRegistry
from runtime.state.keyed_state import KeyedState
from runtime.state.snapshot import SavedState, restore_task
from runtime.state.table import StateTable, TableChanges

if TYPE_CHECKING:
    from runtime.state.arrangement import Span

__all__ = [
    "PIECE_MAX_ROWS",
    "CacheFigures",
    "EpochTime",
    "Followed",
    "Operator",
    "OperatorContext",
    "PiecewiseOperator",
    "Rejected",
    "Rejections",
    "SplitRows",
    "StateSize",
]

PIECE_MAX_ROWS = int_option(
    "sqlengine.batch.max-rows",
    262_144,
    "the most rows that a join or UNNEST gives on at once; more go in several batches",
)


@dataclass(frozen=True, slots=True)
class SplitRows:
    """Where the rows of an epoch come from, of a source with several splits.

    `pieces`: (split, number of rows) in order of the rows; None when rows were left out or added since they were read,
    so that nobody can tell. At the end of the epoch `open` are the splits that were begun and may give more, `idle`
    those of them that have given nothing for so long that time does not wait for them; `waiting` says that splits are
    known which were not begun, and that time waits for those.
    """

    pieces: tuple[tuple[str, int], ...] | None
    open: frozenset[str]
    idle: frozenset[str] = frozenset()
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class EpochTime:
    """The time of one epoch at one operator, milliseconds since the epoch.

    `watermark`: the least of the inputs' watermarks at the end of this epoch (it includes the epoch's rows);
    `previous_watermark`: the same after the epoch before, against which rows are late. `processing_time` is read once
    per epoch. `splits` is for the operator that makes the watermark of a source with several splits. `inputs`: the
    watermark of each input, for an operator that no task runs. `chance`: where random functions draw from in a task that
    may be carried out again. `spans`: from which version to which one the epoch takes each table that the operator reads
    as of versions.
    """

    epoch: int
    watermark: int
    previous_watermark: int
    processing_time: int
    splits: SplitRows | None = None
    inputs: tuple[int, ...] = ()
    chance: Chance | None = None
    spans: tuple[Span, ...] = ()

    @property
    def ends(self) -> bool:
        """Whether the inputs come to their end with this epoch."""
        return self.watermark == MAX_WATERMARK and self.previous_watermark != MAX_WATERMARK


@dataclass(frozen=True, slots=True)
class StateSize:
    """How much an operator keeps: rows (entries) and bytes; `disk_bytes` of these are on the local disk."""

    rows: int
    bytes: int
    disk_bytes: int = 0

    @staticmethod
    def total(sizes: Iterable[StateSize]) -> StateSize:
        """That of several operators together."""
        known = list(sizes)
        return StateSize(sum(s.rows for s in known), sum(s.bytes for s in known), sum(s.disk_bytes for s in known))


class Followed(Protocol):
    """What becomes of an operator's state: asked between epochs, by the thread that computes."""

    def changes(self) -> Sequence[Sequence[TableChanges]] | None:
        """What the tables of each task have become since the last call; all that they hold the first time. None: tasks are
        others than before, and it is to be followed anew."""
        ...

    def close(self) -> None:
        """Nobody asks any more."""
        ...


@dataclass(slots=True)
class CacheFigures:
    """What a cache has done, by the names of Flink: `hits` are rows that were answered without asking, `misses` keys that
    were asked for, `loads` answers that were taken in."""

    hits: int = 0
    misses: int = 0
    loads: int = 0
    failures: int = 0
    latest_load: float = 0.0
    rows: int = 0
    nbytes: int = 0


class Rejected(NamedTuple):
    """Rows that an operator could not use, with their columns as they came. `event_time`: their time as a timestamp array
    where they have one; `errors`: what went wrong with each where somebody else's code tells."""

    operator: str
    reason: str
    rows: pa.RecordBatch
    watermark: int | None = None
    event_time: pa.Array | None = None
    errors: pa.Array | None = None


class Rejections(Protocol):
    """Where rows go that cannot be used: counted, and kept in `system.rejected` up to a limit."""

    def reject(self, rejected: Rejected) -> None: ...


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """What an operator is given when it is made. `name` is its id in the plan; `functions` evaluates its
    expressions; `job` names the job, the same when it goes on after a crash."""

    name: str
    options: Options
    functions: FunctionRegistry
    time_zone: str
    rejections: Rejections
    job: str = ""

    def reject(
        self,
        reason: str,
        rows: pa.RecordBatch,
        watermark: int | None = None,
        event_time: pa.Array | None = None,
        errors: pa.Array | None = None,
    ) -> None:
        """Rows that cannot be used; `event_time` is their time as a timestamp array where they have one, `errors` what went
        wrong with each where somebody else's code tells."""
        if rows.num_rows:
            plain = ChangelogBatch(rows).decoded().rows
            self.rejections.reject(Rejected(self.name, reason, plain, watermark, event_time, errors))


class Operator:
    """Base of all operators. State is made in the constructor; `step` is called once per epoch, in order."""

    @property
    def takes_codes(self) -> bool:
        """Whether text columns of the inputs may come coded (see `ChangelogBatch`)."""
        return False

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        """The changes that this epoch's changes cause. `inputs` has an entry per input of the plan node, None when
        nothing came; an operator whose output may follow time alone is called in every epoch, so all of them may be
        None."""
        raise NotImplementedError

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        """`step`, with the output in pieces: one after another they are what `step` would give, up to changes that
        cancel. Whoever calls takes all of them before anything else is asked of the operator."""
        output = self.step(inputs, time)
        if output is not None and len(output):
            yield output

    def takes_parts(self, position: int) -> bool:
        """Whether the changes of this input may come in several parts within an epoch, each in a call of
        `part_pieces`: then it matters neither to the state nor to what the output adds up to where they are cut.
        False: they are collected."""
        return False

    def part_pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        """What a part of the epoch's changes causes, before the call of `pieces` with the rest. The watermark of `time`
        is still that of the epoch before."""
        return self.pieces(inputs, time)

    def output_watermark(self, time: EpochTime) -> int:
        """The watermark after this operator, asked for after `step`; an operator that gives rows older than its input's
        watermark holds it back."""
        return time.watermark

    def next_timer(self) -> int | None:
        """The processing time, milliseconds, at which `step` has something to do although nothing comes; None: never.
        Not asked of an operator that holds rows and whose node follows the clock, unless the node says that it
        `knows_timers`: others have steps often."""
        return None

    @property
    def state_size(self) -> StateSize:
        return StateSize(0, 0)

    @property
    def cache_figures(self) -> CacheFigures | None:
        """Of what it remembers of a table outside; None when that is nothing."""
        return None

    @property
    def tables(self) -> Sequence[StateTable]:
        """The tables of the operator's state, made with it; an owner stands before what belongs to it."""
        return ()

    @property
    def keyed(self) -> KeyedState | None:
        """The keys of the state, where all of it belongs to keys and follows their rows alone: then keys that are not
        in use may leave memory. None: all state stays in memory."""
        return None

    @property
    def tasks(self) -> Sequence[Operator]:
        """The operators that do the work, each for a range of the key groups (`key_group_range`): itself when there is
        only one."""
        return (self,)

    def save(self, complete: bool, *, hold: bool = False) -> tuple[tuple[TableChanges, ...], ...]:
        """What the tables of each task have become since they were last saved; all of them the first time, or when asked
        for. `hold`: see `StateTable.changes`."""
        return tuple(tuple(t.changes(complete, hold=hold) for t in task.tables) for task in self.tasks)

    def image(self) -> tuple[tuple[TableChanges, ...], ...]:
        """All state of each task as it is, without a note that it was saved."""
        return tuple(tuple(table.image() for table in task.tables) for task in self.tasks)

    @property
    def declared_tables(self) -> Sequence[StateTable]:
        """The tables of one task, for what they are: what they hold may be elsewhere."""
        return self.tasks[0].tables

    def follow(self, tables: Sequence[str]) -> Followed:
        """What becomes of some tables from now on, beside `save`. Between epochs.

        Raises StateQueryError E4110 for state that may leave memory.
        """
        return WatchedTasks(self.tasks, tables)

    def load(self, state: SavedState) -> None:
        """Go on from saved state, whatever the number of tasks that saved it. Once, before the first `step`."""
        for number, task in enumerate(tasks := self.tasks):
            groups = key_group_range(number, len(tasks)) if len(tasks) > 1 else None
            alone = groups is None and len(state.tasks) == 1
            restore_task(task.tables, state.tasks, groups, goes_on=state.goes_on if alone else ())
        self.restored()

    def restored(self) -> None:
        """All tables have been loaded; called once, before the first `step`, on an operator that goes on from saved
        state."""

    @property
    def complete(self) -> bool:
        """Nothing will come out any more, whatever comes in: a LIMIT that is reached."""
        return False

    def close(self) -> None:
        """Give back what is not memory."""


class WatchedTasks:
    """See `Followed`: of tasks in this process."""

    def __init__(self, tasks: Sequence[Operator], tables: Sequence[str]) -> None:
        found = [[table for table in task.tables if table.name in tables] for task in tasks]
        if any(table.outside is not None for task in found for table in task):
            raise StateQueryError(
                "state that may leave memory is not followed", code="E4110", hint="ask for its keys between epochs"
            )
        self._watches = [[table.watch() for table in task] for task in found]

    def changes(self) -> Sequence[Sequence[TableChanges]]:
        return [[watch.changes() for watch in task] for task in self._watches]

    def close(self) -> None:
        for task in self._watches:
            for watch in task:
                watch.close()


class PiecewiseOperator(Operator):
    """Base of those whose output may be larger than their input: they define `pieces`."""

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        found = list(self.pieces(inputs, time))
        return ChangelogBatch.concat(found) if found else None

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        raise NotImplementedError
