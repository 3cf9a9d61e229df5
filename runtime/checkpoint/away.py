"""State of a checkpoint that is not in this process: tasks write their shares of it themselves, and read them again.

The driver names files. It writes and reads only the figures of whole operators, of which each task has one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from runtime.checkpoint.segments import SegmentReader
from runtime.checkpoint.table_chain import Piece, read_pieces
from runtime.state.table import TableChanges

__all__ = ["AwayState", "Known", "Target", "UnreadTask", "Written", "unread"]


class Target(NamedTuple):
    """Where tasks write the files of a checkpoint.

    Args:
        place: the folder of the job's checkpoints, as `storage_at` takes it in any process.
        folders: that of the checkpoint in it; and another one where all rows are written twice.
        digests: segments carry their SHA-256.
        seen: a file in the first folder. Who does not find it is at another place of the same name.
    """

    place: str
    folders: tuple[str, ...]
    digests: bool
    seen: str


class Known(NamedTuple):
    """What earlier checkpoints hold of a table of a task, and the mark by which the task knows it again."""

    pieces: tuple[Piece, ...]
    mark: str = ""


@dataclass(slots=True)
class Written:
    """What tasks have written, by operator, number of the task and table. `files`: their sizes by path. `figures`: by
    operator and task the figures of whole operators that have changed, which the driver writes."""

    tables: dict[tuple[str, int, str], Known] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    figures: dict[str, tuple[tuple[TableChanges, ...], ...]] = field(default_factory=dict)


class AwayState(Protocol):
    """How the state of some operators, in tasks elsewhere, has changed up to the end of an epoch. `tasks`: how many tasks
    each operator has, by name."""

    tasks: Mapping[str, int]

    def write(self, target: Target, known: Mapping[tuple[str, int, str], Known]) -> Written | None:
        """Has tasks write it; what has not changed is as it is `known`. In any thread. None: they do not see the place.

        Raises:
            OSError: the store failed.
            Damage: older files that had to be merged are damaged.
        """
        ...

    def changes(self, name: str, complete: bool) -> tuple[tuple[TableChanges, ...], ...]:
        """The same of one operator, or all of its state, read by this process."""
        ...

    def release(self) -> None:
        """It is written, or never will be. In the job's thread."""
        ...


class UnreadTask(Mapping[str, pa.RecordBatch]):
    """What the tables of one saved task held, read when somebody asks: see `runtime.state.snapshot.TaskState`.

    `place`: the folder that the files are named in, as `storage_at` takes it; `seen`: a file in it.
    """

    def __init__(self, pieces: Mapping[str, Sequence[Piece]], reader: SegmentReader, place: str, seen: str) -> None:
        self.pieces = {name: tuple(found) for name, found in pieces.items() if found}
        self.place = place
        self.seen = seen
        self._reader = reader

    def __getitem__(self, name: str) -> pa.RecordBatch:
        """Raises Damage, and OSError when the store cannot be read."""
        return read_pieces(self.pieces[name], self._reader)

    def __contains__(self, name: object) -> bool:
        return name in self.pieces

    def __iter__(self) -> Iterator[str]:
        return iter(self.pieces)

    def __len__(self) -> int:
        return len(self.pieces)


def unread(tasks: Sequence[Mapping[str, pa.RecordBatch]]) -> Sequence[UnreadTask]:
    """The tasks, where none of them has been read; none otherwise."""
    found = [task for task in tasks if isinstance(task, UnreadTask)]
    return found if len(found) == len(tasks) else ()
