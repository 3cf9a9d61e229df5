"""What the driver knows of the state that tasks keep: which files make up the version of each task.

What a checkpoint holds of them tasks write (`runtime/tasks/saving.py`), and what a job goes on from tasks read. The driver
reads files only when a query asks for state, or tasks do not see the place of checkpoints.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from runtime.checkpoint.away import Target, UnreadTask, unread
from runtime.checkpoint.fitting import taking
from runtime.core.key_group import KeyGroups, key_group_range, tasks_with_keys_of
from runtime.operators.operator import Operator
from runtime.state.snapshot import SavedOperator, SavedState, TaskState, single_batch
from runtime.state.table import Moved, StateTable, TableChanges
from runtime.tasks.base import Base
from runtime.tasks.compacting import Compacted, Compaction
from runtime.tasks.layout import PREFIX, Layout
from runtime.tasks.saved_away import SavedAway, Share
from runtime.tasks.task import Record, Report
from runtime.tasks.versions import Lineage, StateFolder, TaskChanges, decode_changes, encode_changes, merged
from runtime.tasks.wire import encode_rows

__all__ = ["Kept"]

MOST_FILES = 64
MOST_EVER = 8 * MOST_FILES
SMALL_BYTES = 1 << 20


@dataclass(slots=True)
class _Part:
    """The state of one task of a stage: its version, and by operator the files since the last save (none of an operator
    that was not saved yet)."""

    lineage: Lineage = field(default_factory=Lineage)
    unsaved: dict[str, tuple[str, ...]] = field(default_factory=dict)
    read: tuple[tuple[str, ...], Mapping[str, tuple[TableChanges, ...]]] = field(default=((), MappingProxyType({})))
    """The files that were read last, and what they add up to: operators of one task are saved one after another."""


class Kept:
    """See the module.

    Args:
        shadow: an operator as tasks have it, by its name.
        folder: the folder of the job's versions, made when it is first asked for.
    """

    def __init__(self, shadow: Callable[[str], Operator], folder: Callable[[], StateFolder]) -> None:
        self._shadow = shadow
        self._folder = folder
        self._layout = Layout((), (), frozenset())
        self._names: Sequence[str] = ()
        self._number: dict[str, int] = {}
        self._partitions = 1
        self._parts: dict[tuple[int, int, int], _Part] = {}
        self._base: dict[str, SavedState] = {}
        self._shared: dict[str, frozenset[str]] = {}
        """By operator the tables that are a figure of all of it."""
        self._saving = 0
        self._unneeded: list[str] = []

    def begin(self, layout: Layout, names: Sequence[str], partitions: int) -> None:
        """Which operator is where is known."""
        self._layout, self._names, self._partitions = layout, names, partitions
        self._shared.clear()
        self._number = {name: number for number, name in enumerate(names)}

    def forget(self) -> None:
        """Nothing is kept: operators are made anew."""
        for part in self._parts.values():
            for name in part.lineage.files:
                self._folder().delete(name)
        self._parts.clear()
        self._base.clear()

    # --- versions

    def version(self, phase: int, stage: int, partition: int) -> Lineage:
        """What a task starts from."""
        return self._part(phase, stage, partition).lineage

    def too_long(self, phase: int, *, beside: bool) -> frozenset[tuple[int, int]]:
        """Tasks, by stage and partition, that are to write all of their state with the next epoch: it is small, or is made
        of far too many files. `beside`: long versions are compacted beside epochs."""
        return frozenset(
            (stage, partition)
            for (of, stage, partition), part in self._parts.items()
            if of == phase and (_is_small(part.lineage) or (not beside and _is_long(part.lineage)))
        )

    def to_compact(self) -> list[Compaction]:
        """What tasks are to compact of versions of so many files, or so large ones, that it pays. Their files stay until
        `compacted`."""
        found = [
            Compaction(self._folder().place, task, part.lineage.files[: _saved_of(part)])
            for task, part in sorted(self._parts.items())
            if _is_long(part.lineage)
        ]
        self._saving += bool(found)
        return found

    def compacted(self, found: Sequence[Compacted]) -> None:
        """Tasks have compacted what they were to, or never will. A version that was written anew meanwhile, or begun anew,
        stays as it is."""
        for one in found:
            part = self._parts.get(one.task)
            if part is None or part.lineage.files[: len(one.files)] != one.files:
                self._folder().delete(one.file)
                continue
            gone = set(one.files)
            part.unsaved = {
                name: files if gone.isdisjoint(files) else (one.file, *(file for file in files if file not in gone))
                for name, files in part.unsaved.items()
            }
            part.lineage = part.lineage.compacted(len(one.files), one.file, one.bytes)
            part.read = ((), {})
            self._drop(one.files)
        self._saved()

    def note(self, phase: int, report: Report) -> None:
        """A task has written its next version, and the epoch counts."""
        if not report.file:
            return
        part = self._part(phase, report.stage, report.partition)
        if report.complete:
            self._drop(part.lineage.files)
        part.lineage = part.lineage.then(report.file, report.bytes, report.complete)
        part.unsaved = {
            name: (*(() if report.complete else files), report.file) for name, files in part.unsaved.items()
        }
        part.read = ((), {})

    def _part(self, phase: int, stage: int, partition: int) -> _Part:
        found = self._parts.get((phase, stage, partition))
        if found is None:
            found = self._parts[phase, stage, partition] = _Part()
        return found

    def _drop(self, files: Sequence[str]) -> None:
        """Nobody goes on from these files; what tasks write of a checkpoint, or compact, may need them for a while."""
        if self._saving:
            self._unneeded += files
            return
        for name in files:
            self._folder().delete(name)

    # --- what a job goes on from

    @property
    def is_to_open(self) -> bool:
        """Whether there is state from an earlier run that no task has opened yet."""
        return bool(self._base)

    def bases(self, phase: int, stage: int, *, read: bool) -> list[Base] | None:
        """What each task of a stage goes on from; None when its operators have saved nothing. `read`: this process reads
        it, and puts it into the job's folder."""
        held = {name for name, state in self._base.items() if any(len(task) for task in state.tasks)}
        places = [v for v in self._layout.vertices(phase, stage) if self._names[v] in held]
        if not places:
            return None
        found: list[Base] = []
        pieces: dict[str, Sequence[UnreadTask]] = {}
        files: dict[str, list[str]] = {}
        figures: dict[str, dict[str, bytes]] = {}
        place = seen = ""
        for number in places:
            name, state = self._names[number], self._base[self._names[number]]
            shared = {t.name for t in self._shadow(name).tables if t.shared}
            figures[name] = self._figures(name, state)
            there = () if read else unread(state.tasks)
            if there:
                pieces[name] = there
                place, seen = there[0].place, there[0].seen
            else:
                files[name] = [self._written(name, task, shared) for task in state.tasks]
        for partition in range(self._partitions):
            groups = key_group_range(partition, self._partitions)

            def mine(name: str, groups: KeyGroups = groups, partition: int = partition) -> list[int]:
                where = self._layout.placed[self._number[name]].where
                count = len(self._base[name].tasks)
                if where == "keyed":
                    return tasks_with_keys_of(groups, count)
                return list(range(count)) if where != "one" or partition == 0 else []

            found.append(
                Base(
                    {name: tuple(f for n in mine(name) if (f := of[n])) for name, of in files.items()},
                    {
                        name: tuple(
                            {t: p for t, p in of[n].pieces.items() if t not in figures[name]} for n in mine(name)
                        )
                        for name, of in pieces.items()
                    },
                    place,
                    seen,
                    figures,
                )
            )
        return found

    def _figures(self, name: str, state: SavedState) -> dict[str, bytes]:
        """The figures of the whole operator that its tasks have saved, each as one."""
        found: dict[str, bytes] = {}
        for table in self._shadow(name).tables:
            values = [task[table.name] for task in state.tasks if table.name in task] if table.shared else []
            if values:
                with taking(f"the state of {name}"):
                    table.restore(single_batch(values), None, {})
                    found[table.name] = encode_rows(table.image().rows)
        return found

    def _written(self, name: str, task: TaskState, shared: Collection[str]) -> str:
        """The file with what one task has saved of an operator, without figures; "" for nothing."""
        with taking(f"the state of {name}"):
            tables = tuple(_whole(table, rows) for table, rows in task.items() if table not in shared)
        if not tables:
            return ""
        return self._folder().write(f"base-{uuid.uuid4().hex[:12]}.state", encode_changes({name: tables}))

    def opened_base(self) -> None:
        """All tasks have a version of their own of what they go on from."""
        self._base.clear()

    # --- state by operator

    def load(self, name: str, state: SavedState) -> None:
        """The job goes on from this state of an operator. Before the first epoch."""
        self._base[name] = state

    def away(
        self, complete: bool, run: Callable[[Target, Sequence[Sequence[Record]]], list[Record]], *, image: bool = False
    ) -> SavedAway:
        """What has become of all operators since the last save, or all that they hold, for tasks to write. `image`: not
        noted as saved."""
        shares: list[Share] = []
        for (phase, stage, partition), part in sorted(self._parts.items()):
            files = part.lineage.files
            since: dict[str, int] = {}
            for number in self._layout.vertices(phase, stage):
                name = self._names[number]
                if not files or (partition and self._layout.placed[number].where == "one"):
                    continue
                unsaved = part.unsaved.get(name)
                since[name] = len(files if complete or unsaved is None else unsaved)
                if not image:
                    part.unsaved[name] = ()
            if since:
                shares.append(Share(partition, files, since))
        remote = [n for n, p in enumerate(self._layout.placed) if p.phase % 2 and p.stage != PREFIX]
        tasks = {self._names[n]: 1 if self._layout.placed[n].where == "one" else self._partitions for n in remote}
        for name in tasks.keys() - self._shared.keys():
            self._shared[name] = frozenset(t.name for t in self._shadow(name).tables if t.shared)
        figures = {name: self._shared[name] for name in tasks}
        self._saving += 1
        return SavedAway(shares, tasks, figures, self._partitions, run, self.read, self._saved)

    def _saved(self) -> None:
        """Tasks have read what they read beside epochs, or never will."""
        self._saving -= 1
        unneeded, self._unneeded = self._unneeded, []
        self._drop(unneeded)

    def save(self, name: str, complete: bool) -> tuple[tuple[TableChanges, ...], ...]:
        """What has become of an operator's tables since the last save, or all that they hold."""
        tasks: list[tuple[TableChanges, ...]] = []
        for part in self._parts_of(name):
            files = part.lineage.files
            since = part.unsaved.get(name)
            tasks.append(self._changes(name, part, files if complete or since is None else since))
            if files:
                part.unsaved[name] = ()
        return self._all_of(name, tasks)

    def image(self, name: str) -> tuple[tuple[TableChanges, ...], ...]:
        """All that an operator's tables hold."""
        return self._all_of(name, [self._changes(name, part, part.lineage.files) for part in self._parts_of(name)])

    def opened(self, name: str) -> Sequence[StateTable]:
        """The tables of an operator with what all of its tasks keep."""
        state = SavedState.of([SavedOperator(name, 0, 0, self.image(name))])
        operator = self._shadow(name)
        for task in state.tasks:
            moved: dict[str, Moved] = {}
            for table in operator.tables:
                if table.name in task:
                    table.restore(task[table.name], None, moved)
        return operator.tables

    def follow(self, name: str) -> FollowedFiles:
        """What becomes of an operator's tables from now on, beside `save`."""
        return FollowedFiles(self, name)

    def versions(self, name: str) -> list[tuple[str, ...]]:
        """The files of each task of an operator that has run."""
        return [part.lineage.files for part in self._parts_of(name)]

    def read(self, name: str, files: Sequence[str]) -> tuple[TableChanges, ...]:
        """What files of one task add up to for an operator."""
        folder = self._folder()
        return merged([decode_changes(folder.read(file), file) for file in files]).get(name, ())

    def _parts_of(self, name: str) -> Iterator[_Part]:
        """The tasks of an operator that have run."""
        placed = self._layout.placed[self._number[name]]
        for partition in range(1 if placed.where == "one" else self._partitions):
            part = self._parts.get((placed.phase, placed.stage, partition))
            if part is not None:
                yield part

    def _changes(self, name: str, part: _Part, files: tuple[str, ...]) -> tuple[TableChanges, ...]:
        """What files add up to for an operator; when there are none, that no table has changed."""
        if files:
            if part.read[0] != files:
                folder = self._folder()
                chain: list[TaskChanges] = [decode_changes(folder.read(file), file) for file in files]
                part.read = files, merged(chain)
            return part.read[1].get(name, ())
        if not part.lineage.files:
            return ()
        none = np.empty(0, np.int64)
        return tuple(
            TableChanges(t.name, t.saved_rows(none, [pa.nulls(0, f.type) for f in t.schema]), none, False)
            for t in self._shadow(name).tables
        )

    def _all_of(self, name: str, tasks: Sequence[tuple[TableChanges, ...]]) -> tuple[tuple[TableChanges, ...], ...]:
        """The same number of tasks in each save, also before the first of them has run."""
        found = tuple(tasks) if any(tasks) else ()
        if not found and name in self._base:
            found = tuple(tuple(_whole(table, rows) for table, rows in task.items()) for task in self._base[name].tasks)
        placed = self._layout.placed[self._number[name]]
        return found + ((),) * ((1 if placed.where == "one" else self._partitions) - len(found))


class FollowedFiles:
    """What becomes of an operator's state in tasks, from the files in which they write it: see `Followed`. An epoch counts
    when the driver has taken the files, so nothing is told that may be taken back."""

    def __init__(self, kept: Kept, name: str) -> None:
        self._kept = kept
        self._name = name
        self._seen: list[tuple[str, ...]] | None = None

    def changes(self) -> Sequence[Sequence[TableChanges]] | None:
        kept, name = self._kept, self._name
        versions, seen = kept.versions(name), self._seen
        self._seen = versions
        if seen is None:
            return kept.image(name)
        if len(seen) != len(versions):
            return None
        return [self._since(before, now) for before, now in zip(seen, versions, strict=True)]

    def _since(self, before: tuple[str, ...], now: tuple[str, ...]) -> tuple[TableChanges, ...]:
        if now == before:
            return ()
        new = now[len(before) :] if now[: len(before)] == before else now
        return self._kept.read(self._name, new)

    def close(self) -> None:
        """Nothing is held."""


def _whole(table: str, rows: pa.RecordBatch) -> TableChanges:
    return TableChanges(table, rows, np.empty(0, np.int64), True)


def _is_small(lineage: Lineage) -> bool:
    """Whether writing all of it with an epoch costs next to nothing, or has to be."""
    count = len(lineage.files)
    return (lineage.bytes < SMALL_BYTES and count > 16) or count > MOST_EVER


def _is_long(lineage: Lineage) -> bool:
    return len(lineage.files) > MOST_FILES and lineage.bytes > lineage.complete_bytes * 1.5


def _saved_of(part: _Part) -> int:
    """How many files to make one: those that the last checkpoint has, so that the next has to have changes only, if these are
    half of them."""
    count = len(part.lineage.files)
    saved = count - max((len(files) for files in part.unsaved.values()), default=0)
    return saved if saved > count // 2 else count
