"""What a task goes on from that has no version of its own: the state of an earlier run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from runtime.checkpoint.fitting import DAMAGED_HINT, taking
from runtime.checkpoint.segments import SegmentReader
from runtime.checkpoint.storage import Damage
from runtime.checkpoint.store import storage_at
from runtime.checkpoint.table_chain import Piece, read_pieces
from runtime.core.errors import CheckpointError
from runtime.core.key_group import key_group_range
from runtime.operators.operator import Operator
from runtime.state.snapshot import TaskState, restore_task
from runtime.state.table import StateTable
from runtime.tasks.program import Program
from runtime.tasks.versions import StateFolder, decode_changes, task_states
from runtime.tasks.wire import decode_rows

__all__ = ["Base", "go_on_from", "is_there", "tables_of"]


class Base(NamedTuple):
    """The state of an earlier run that a task goes on from: its key groups of it.

    Args:
        files: by operator files of the job's folder, each of one task of that run.
        pieces: by operator what one task has in a checkpoint, table by table, in `place`.
        seen: a file in that place, for who sees another one of the same name.
        figures: by operator and table the figure of the whole operator, an Arrow stream.
    """

    files: Mapping[str, tuple[str, ...]]
    pieces: Mapping[str, tuple[Mapping[str, tuple[Piece, ...]], ...]]
    place: str
    seen: str
    figures: Mapping[str, Mapping[str, bytes]]


def is_there(place: str, file: str) -> bool:
    """Whether this process sees a file at a place."""
    try:
        return storage_at(place, "").read(file, 0, 1).size > 0
    except (FileNotFoundError, Damage):
        return False


def go_on_from(
    program: Program, partition: int, operators: Mapping[int, Operator], folder: StateFolder, base: Base
) -> None:
    """Operators load what an earlier run has left of their key groups."""
    read: dict[str, dict[str, TaskState]] = {}
    reader = SegmentReader(storage_at(base.place, "")) if base.place else None
    for number, operator in operators.items():
        name = program.names[number]
        with taking(f"the state of {name}"):
            states: list[TaskState] = []
            for file in base.files.get(name, ()):
                if file not in read:
                    read[file] = task_states([decode_changes(folder.read(file), file)])
                states.append(read[file].get(name, {}))
            for pieces in base.pieces.get(name, ()):
                assert reader is not None
                try:
                    states.append({table: read_pieces(found, reader) for table, found in pieces.items()})
                except Damage as damage:
                    what = f"the state of {name} is damaged: {damage}"
                    raise CheckpointError(what, code="E3402", hint=DAMAGED_HINT) from damage
            figures = base.figures.get(name)
            if figures is not None:
                states.append({table: decode_rows(rows) for table, rows in figures.items()})
            if states:
                by_key = program.layout.placed[number].where == "keyed"
                groups = key_group_range(partition, program.partitions) if by_key else None
                restore_task(tables_of(operator), states, groups)
                operator.restored()


def tables_of(operator: Operator) -> Sequence[StateTable]:
    """The tables of an operator, guards or not."""
    (task,) = operator.tasks
    return task.tables
