"""What can be asked by key: the rows of a table or a materialized view, and a state table of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from connectors.memory import MemoryTable
from runtime.local.following import Following
from runtime.local.job import Job
from runtime.local.spilled_keys import read_keys
from runtime.state.mirror import MirroredTable, StateMirror
from sqlengine.database.database import Database
from sqlengine.server.lookups import Indices
from sqlengine.server.state.failures import JobEnded, Malformed, NotQueryable, NotStarted, WrongKey

__all__ = ["MOST_ROWS", "PIECE", "Asked", "Found", "JobState", "SpilledState", "TableRows", "check_running"]

MOST_ROWS = 1_000_000
"""Of the answer to one lookup."""
PIECE = 1 << 16
"""So many rows are sent at once."""
_TURNS = 4
_ENDED = ("FINISHED", "CANCELED", "FAILED")


_Read = tuple[int, np.ndarray, pa.RecordBatch]


class Found(NamedTuple):
    """Rows as of an epoch. `index`: the position of the key of each, ascending."""

    epoch: int
    index: np.ndarray
    rows: pa.RecordBatch


class Asked(Protocol):
    """Something that can be asked.

    Attributes:
        columns: of its rows.
        key: the columns by which it is asked where nobody names any; empty for a state that has one key.
    """

    columns: pa.Schema
    key: tuple[str, ...]

    def find(self, keys: pa.RecordBatch, wanted: Sequence[str]) -> Found:
        """The rows of keys, of which the columns are those of the key, in any order."""
        ...

    def scan(self) -> tuple[int, Iterator[pa.RecordBatch]]:
        """The epoch, and all rows in pieces."""
        ...


class TableRows:
    """The rows of a table in memory, or of a materialized view: by any of its columns."""

    def __init__(self, database: Database, indices: Indices, table: MemoryTable, key: tuple[str, ...]) -> None:
        self._database = database
        self._indices = indices
        self._table = table
        self.columns = pa.schema([pa.field(f.name, f.type.arrow) for f in table.schema])
        self.key = key

    def find(self, keys: pa.RecordBatch, wanted: Sequence[str]) -> Found:
        columns = self.columns
        if not keys.num_columns:
            raise WrongKey("there is no column to ask by", hint="scan gives all rows")
        typed = {name: keys.column(name) for name in _checked(keys, columns, keys.schema.names)}
        places = sorted(columns.get_field_index(name) for name in typed)
        ordered = [typed[columns.field(place).name] for place in places]
        chosen = [columns.get_field_index(name) for name in wanted]
        for turn in range(_TURNS):
            index = self._indices.made(self._table, tuple(places))
            if index is None:
                break
            # What is found may be newer than the epoch, when another one has ended meanwhile; in the end none may.
            with self._database.showing if turn == _TURNS - 1 else nullcontext():
                epoch = self._database.shown.epoch
                try:
                    found = index.find(ordered, chosen, most=MOST_ROWS)
                except OverflowError as error:
                    raise _too_many() from error
                if found is not None and epoch == self._database.shown.epoch:
                    shown = pa.schema([columns.field(place) for place in chosen])
                    return Found(epoch, found[0], pa.RecordBatch.from_arrays(found[1], schema=shown))
        raise NotStarted(f"{self._table.name} is being replaced", hint="ask again")

    def scan(self) -> tuple[int, Iterator[pa.RecordBatch]]:
        shown = self._database.shown
        rows = shown.versions[self._table].rows()
        typed = (batch.cast(self.columns) for batch in rows.to_batches(max_chunksize=PIECE))
        return shown.epoch, typed


class JobState:
    """A state table of a job, by its key, as it was after the job's last complete epoch."""

    def __init__(self, following: Following, table: MirroredTable) -> None:
        self._following = following
        self.columns = table.columns
        self.key = table.key

    def find(self, keys: pa.RecordBatch, wanted: Sequence[str]) -> Found:
        typed = {name: keys.column(name) for name in _checked(keys, self.columns, self.key)}
        try:
            found = self._mirror().find([typed[name] for name in self.key], keys.num_rows, most=MOST_ROWS)
        except OverflowError as error:
            raise _too_many() from error
        if found is None:
            raise _starting(self._following.job)
        epoch, index, rows = found
        return Found(epoch, index, rows.select(list(wanted)))

    def scan(self) -> tuple[int, Iterator[pa.RecordBatch]]:
        found = self._mirror().scan(PIECE)
        if found is None:
            raise _starting(self._following.job)
        return found

    def _mirror(self) -> StateMirror:
        check_running(self._following.job)
        mirror = self._following.mirror
        if mirror is None:
            raise _starting(self._following.job)
        return mirror


class SpilledState:
    """A state table of a job that may be larger than memory: keys are read between two epochs.

    Args:
        between: calls something between two epochs, and gives what came of it.
    """

    def __init__(
        self, job: Job, operator: str, table: MirroredTable, between: Callable[[Callable[[], _Read]], _Read]
    ) -> None:
        self._job = job
        self._operator = operator
        self._table = table
        self._between = between
        self.columns = table.columns
        self.key = table.key

    def find(self, keys: pa.RecordBatch, wanted: Sequence[str]) -> Found:
        typed = {name: keys.column(name) for name in _checked(keys, self.columns, self.key)}
        ordered = [typed[name] for name in self.key]
        try:
            epoch, index, rows = self._between(
                lambda: read_keys(self._job, self._operator, self._table, ordered, MOST_ROWS)
            )
        except OverflowError as error:
            raise _too_many() from error
        return Found(epoch, index, rows.select(list(wanted)))

    def scan(self) -> tuple[int, Iterator[pa.RecordBatch]]:
        raise NotQueryable(
            f"state of {self._job.name} that may be larger than memory is not scanned", hint="ask for keys, or by SQL"
        )


def check_running(job: Job) -> None:
    """Raises JobEnded, and NotStarted for one that has not completed an epoch."""
    if job.status in _ENDED:
        raise JobEnded(f"{job.name} has ended: {job.status}", hint="SHOW JOBS lists the jobs that run")
    if job.status == "RESTARTING" or not job.dataflow.epoch:
        raise _starting(job)


def _starting(job: Job) -> NotStarted:
    return NotStarted(f"{job.name} has not completed an epoch since it has started", hint="ask again a little later")


def _too_many() -> Malformed:
    return Malformed(f"the keys have more than {MOST_ROWS} rows", hint="ask for fewer keys, or scan")


def _checked(keys: pa.RecordBatch, columns: pa.Schema, wanted: Sequence[str]) -> Sequence[str]:
    """The names of the key. Raises WrongKey where columns or types are others."""
    names = keys.schema.names
    if sorted(names) != sorted(wanted) or len(set(names)) != len(names):
        raise WrongKey(
            f"keys have the columns {', '.join(names) or 'none'}; the state is asked by {', '.join(wanted) or 'no column'}",
            hint="name each column of the key once",
        )
    for name in names:
        place = columns.get_field_index(name)
        if place < 0:
            raise WrongKey(f'there is no column "{name}"', hint=f"the columns are: {', '.join(columns.names)}")
        if keys.schema.field(name).type != columns.field(place).type:
            raise WrongKey(
                f'the key "{name}" is of type {columns.field(place).type}, not {keys.schema.field(name).type}',
                hint="StateClient gives values their type",
            )
    return names
