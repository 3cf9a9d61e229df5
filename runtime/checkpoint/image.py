"""One checkpoint or savepoint to and from its files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from runtime.checkpoint.away import AwayState, Known, Target, UnreadTask
from runtime.checkpoint.epoch_state import EpochState, Restored
from runtime.checkpoint.keys import NO_KEYS, Keys
from runtime.checkpoint.manifest import Manifest, OperatorPieces, encode_manifest, segments_of
from runtime.checkpoint.segments import Segment, SegmentReader, SegmentWriter
from runtime.checkpoint.storage import Damage, Storage
from runtime.checkpoint.table_chain import Piece, TableChain, read_chain, read_pieces
from runtime.core.errors import CheckpointError, InternalError
from runtime.state.snapshot import SavedOperator, SavedState, TaskState
from runtime.state.table import TableChanges

__all__ = ["Chains", "ImageWriter", "TableChains", "add_changes", "read_image", "read_operators"]

TableChains = dict[tuple[str, int, str], TableChain]
"""The chains of tables by operator, task and name."""


@dataclass(slots=True)
class Chains:
    """What earlier checkpoints wrote that the next one builds on. `line`: whether the last one named the files of
    segments (0) or their copies (1). `away`: of what tasks write themselves, by operator, task and table."""

    tables: TableChains = field(default_factory=dict)
    line: int = 0
    away: Mapping[tuple[str, int, str], Known] = field(default_factory=dict)


class ImageWriter:
    """Writes one checkpoint or savepoint.

    With copies all rows are written twice, to two lines of files, and checkpoints take turns: what one names the next
    one does not. So no damage of one file, or of one folder, is that of two checkpoints in a row. The plan, which is
    small, is in each.

    Args:
        folder: a new one in the storage; copies are in one beside it.
        token: part of the names of all files.
        reader: reads older pieces that are to be merged.
        keys: who signs.
    """

    def __init__(
        self,
        storage: Storage,
        folder: str,
        token: str,
        reader: SegmentReader,
        keys: Keys = NO_KEYS,
        *,
        line: int = 0,
        copies: bool = False,
    ) -> None:
        self._storage = storage
        self._folder = folder
        self._reader = reader
        self._keys = keys
        self._line = line if copies else 0
        other = folder.replace("chk-", "copy-")
        self._folders = [folder, other] if copies else [folder]
        # The files that this checkpoint names are beside its manifest.
        first, second = (other, folder) if self._line else (folder, other)
        self._files = SegmentWriter(storage, first, token, copies=second if copies else "", digests=bool(keys))
        self._started = time.monotonic_ns()
        self._published = self._away = False

    def write(
        self, state: EpochState, chains: Chains, kind: str, number: int, job: str, sizes: Mapping[str, int]
    ) -> tuple[Manifest, int, Chains]:
        """Writes all files, the manifest last. Returns the manifest, its size, and the chains, which were changed.

        Args:
            sizes: of files that are there already, by path.

        Raises:
            OSError: the store failed.
            Damage: older files that had to be merged are damaged.
        """
        plan = self._files.text(state.plan, ".plan.json", self._folder)
        tables: TableChains = {}
        operators, away, files = self._operators(state, chains, tables, plan)
        if self._line:
            operators = tuple(operator.turned for operator in operators)
        self._files.close()
        sizes = {**sizes, **self._files.files, **files}
        named = [*segments_of(plan, operators)]
        needed = dict.fromkeys([*(s.file for s in named), *(s.copy for s in named if s.copy)])
        manifest = Manifest(
            kind,
            number,
            self._folder,
            job,
            state.epoch,
            state.processing_time,
            state.finished,
            time.time_ns() // 1_000_000,
            (time.monotonic_ns() - self._started) // 1_000_000,
            sum(self._files.files.values()) + sum(files.values()),
            plan,
            operators,
            state.sources,
            state.sinks,
            {path: sizes[path] for path in needed},
            state.counts,
        )
        data = encode_manifest(manifest, self._keys)
        self._published = True
        self._storage.publish(manifest.path, data)
        return manifest, len(data), Chains(tables, self._line, away)

    def _operators(
        self, state: EpochState, chains: Chains, tables: TableChains, plan: Segment
    ) -> tuple[tuple[OperatorPieces, ...], Mapping[tuple[str, int, str], Known], Mapping[str, int]]:
        """Writes the state of operators, or has tasks write it. Gives where it is, what the next checkpoint builds on of
        the tasks', and the sizes of their files by path."""
        away, written = state.away, None
        if away is not None and self._storage.reached:
            target = Target(self._storage.reached, self._files.folders, bool(self._keys), plan.file)
            written = away.write(target, chains.away)
        if away is None or written is None:
            given = state.operators
            if away is not None:
                # What follows what tasks have written begins anew.
                read = partial(away.changes, complete=bool(chains.away))
                given = [_with(o, away, read) for o in state.operators]
            return add_changes(given, chains.tables, tables, self._files, self._reader), {}, {}
        self._away = True
        self._check(written.files)
        figures, known = written.figures, dict(written.tables)
        given = [_with(o, away, lambda name: figures.get(name, ())) for o in state.operators]
        operators = list(add_changes(given, chains.tables, tables, self._files, self._reader))
        for place, operator in enumerate(operators):
            if operator.name not in away.tasks:
                continue
            for number, task in enumerate(operator.tasks):
                for table, pieces in task.items():
                    known[operator.name, number, table] = Known(tuple(pieces))
                    del tables[operator.name, number, table]
            found: list[dict[str, tuple[Piece, ...]]] = [{} for _ in range(away.tasks[operator.name])]
            for (name, number, table), held in known.items():
                if name == operator.name:
                    found[number][table] = held.pieces
            operators[place] = replace(operator, tasks=tuple(found))
        return tuple(operators), known, written.files

    def _check(self, files: Mapping[str, int]) -> None:
        """Raises Damage when files that tasks have written are not there."""
        there: dict[str, int] = {}
        for folder in self._files.folders:
            there.update(self._storage.files(folder))
        for path, size in files.items():
            if there.get(path) != size:
                raise Damage(f"{path} is not what a task has written: it has {there.get(path, 'no')} bytes, not {size}")

    def left(self) -> dict[str, int]:
        """The files in the folders of a checkpoint that is there, where attempts of tasks that did not count may have left
        some."""
        found: dict[str, int] = {}
        with suppress(OSError):
            for folder in self._folders if self._away else ():
                found.update(self._storage.files(folder))
        return found

    def abandon(self) -> None:
        """Takes back a checkpoint of which `write` has failed.

        Raises:
            CheckpointError: it may be complete, and it cannot be told.
            OSError: some of its files are left.
        """
        if self._published:
            try:
                self._storage.delete(f"{self._folder}/manifest.json")
            except OSError as error:
                raise CheckpointError(
                    f"it is not known whether {self._storage.place}/{self._folder} is complete: {error}",
                    code="E3408",
                    hint="when the job starts again it uses what it finds",
                ) from error
        self._files.abandon()
        for folder in self._folders:
            for path in self._storage.files(folder):
                self._storage.delete(path)
            self._storage.delete_folder(folder)


def add_changes(
    operators: Sequence[SavedOperator],
    known: Mapping[tuple[str, int, str], TableChain],
    tables: TableChains,
    writer: SegmentWriter,
    reader: SegmentReader,
) -> tuple[OperatorPieces, ...]:
    """Write how operators have changed.

    Args:
        known: the chains that saves before have made; those that are used change.
        tables: gets the chains that the next save goes on from.
        reader: reads older pieces that are to be merged.

    Raises:
        OSError: the store failed.
        Damage: older files that had to be merged are damaged.
    """
    return tuple(_add(saved, known, tables, writer, reader) for saved in operators)


def _add(
    saved: SavedOperator,
    known: Mapping[tuple[str, int, str], TableChain],
    tables: TableChains,
    writer: SegmentWriter,
    reader: SegmentReader,
) -> OperatorPieces:
    tasks: list[dict[str, tuple[Piece, ...]]] = []
    for number, task in enumerate(saved.tasks):
        pieces: dict[str, tuple[Piece, ...]] = {}
        for changes in task:
            key = (saved.name, number, changes.table)
            chain = known.get(key)
            if chain is None or changes.complete:
                chain = TableChain()
                if not changes.complete:
                    raise InternalError(
                        f"changes of the state table {changes.table} of {saved.name} follow no complete save"
                    )
            if key in tables:
                raise InternalError(f"the state table {changes.table} of {saved.name} was saved twice")
            chain.add(changes, writer, reader)
            tables[key] = chain
            pieces[changes.table] = chain.pieces
        tasks.append(pieces)
    return OperatorPieces(saved.name, saved.watermark, saved.input_watermark, tuple(tasks))


def _with(
    saved: SavedOperator, away: AwayState, tasks: Callable[[str], tuple[tuple[TableChanges, ...], ...]]
) -> SavedOperator:
    """An operator that is elsewhere with what its tasks have."""
    return replace(saved, tasks=tasks(saved.name)) if saved.name in away.tasks else saved


def read_image(storage: Storage, manifest: Manifest, *, unread: bool = False) -> Restored:
    """All that a checkpoint or savepoint holds. `unread`: state is read by whoever asks for it, where it can be reached
    from elsewhere.

    Raises:
        Damage: a file is missing or holds other bytes than were written.
        OSError: the store cannot be read.
    """
    reader = SegmentReader(storage)
    if unread and storage.reached:
        operators = {
            o.name: SavedState(
                o.watermark,
                o.input_watermark,
                tuple(UnreadTask(task, reader, storage.reached, manifest.path) for task in o.tasks),
                unread=True,
            )
            for o in manifest.operators
        }
    else:
        operators = read_operators(manifest.operators, reader)
    try:
        plan = reader.text(manifest.plan)
    except UnicodeDecodeError as error:
        raise Damage(f"{manifest.plan.file} is no text") from error
    return Restored(
        manifest.id,
        manifest.epoch,
        manifest.processing_time,
        plan,
        operators,
        manifest.sources,
        manifest.sinks,
        manifest.finished,
        f"{storage.place}/{manifest.folder}",
        counts=manifest.counts,
    )


def read_operators(
    operators: Sequence[OperatorPieces], reader: SegmentReader, chains: TableChains | None = None
) -> dict[str, SavedState]:
    """The whole state of operators, by name; a table without rows is left out. Raises as `read_image`.

    Args:
        chains: gets the chains that the next save may go on from.
    """
    found: dict[str, SavedState] = {}
    for operator in operators:
        tasks = tuple(_task(operator.name, number, task, reader, chains) for number, task in enumerate(operator.tasks))
        goes_on = {name for of, _, name in chains or () if of == operator.name}
        found[operator.name] = SavedState(operator.watermark, operator.input_watermark, tasks, goes_on)
    return found


def _task(
    operator: str,
    number: int,
    task: Mapping[str, Sequence[Piece]],
    reader: SegmentReader,
    chains: TableChains | None,
) -> TaskState:
    if chains is None:
        return {name: read_pieces(pieces, reader) for name, pieces in task.items() if pieces}
    found: dict[str, pa.RecordBatch] = {}
    for name, pieces in task.items():
        if pieces:
            found[name], chain = read_chain(pieces, reader)
            if chain is not None:
                chains[operator, number, name] = chain
    return found
