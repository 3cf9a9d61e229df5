"""What tasks do for a checkpoint: each writes what its state has become since the one before, from its own files.

Its versions are files that never change, so epochs go on meanwhile, and any process can do it. How a table lies in the files
of checkpoints (`runtime/checkpoint/table_chain.py`) the process remembers; one that does not know it reads it.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from runtime.checkpoint.away import Known, Target
from runtime.checkpoint.fitting import taking
from runtime.checkpoint.segments import SegmentReader, SegmentWriter
from runtime.checkpoint.storage import Damage
from runtime.checkpoint.store import storage_at
from runtime.checkpoint.table_chain import TableChain, known_chain
from runtime.core.errors import SqlEngineError
from runtime.state.table import TableChanges
from runtime.tasks.shipping import loads
from runtime.tasks.task import Record, chains_of, forget, plain
from runtime.tasks.versions import StateFolder, TaskChanges, decode_changes, merged

__all__ = ["SavePart", "SaveStage", "SavedPart"]

Run = Callable[["SaveStage", int, Sequence[Record]], list[Record]]

_MOST_FILES = 10_000
"""Of one task in one checkpoint: a name has nine digits."""


class SavePart(NamedTuple):
    """What a task is to write of the operators of one stage.

    Args:
        files: of its version, the first complete.
        since: by operator how many of the last of them the checkpoint before does not have.
        known: by operator and table what it has.
        figures: by operator tables that have the figure of the whole operator, which come back.
    """

    files: tuple[str, ...]
    since: Mapping[str, int]
    known: Mapping[tuple[str, str], Known]
    figures: Mapping[str, frozenset[str]]


class SavedPart(NamedTuple):
    """What a task has written. `failed`: why it could not, which the driver raises; `unseen`: it does not see the place."""

    tables: Mapping[tuple[str, str], Known]
    files: Mapping[str, int]
    figures: Mapping[str, tuple[TableChanges, ...]]
    failed: Damage | OSError | None = None
    unseen: bool = False


class SaveStage:
    """A stage in which each task writes its share of a checkpoint (see `runtime.tasks.stage.Stage`).

    Args:
        place, program: the job's, as in its orders.
    """

    def __init__(self, place: str, program: str, target: Target) -> None:
        self._place = place
        self._program = program
        self._target = target
        self.run: Run = SaveStage.done
        """What does the work: an executor may have another process do it."""

    def __call__(self, partition: int, given: Iterator[Any]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        records = [Record(*fields) for part in given for fields in part]
        return ((partition, tuple(record)) for record in self.run(self, partition, records))

    def done(self, partition: int, records: Sequence[Record]) -> list[Record]:
        """What the task has written, a record for each that it was given. An error of ours is one, too."""
        found: list[Record] = []
        for record in records:
            try:
                saved = self._saved(partition, loads(record.payload))
                found.append(Record("saved", 0, partition, pickle.dumps(saved)))
            except SqlEngineError as error:
                found.append(Record("error", 0, partition, pickle.dumps(plain(error))))
        return found

    def forget(self) -> None:
        """What this process keeps of the job is lost."""
        forget(self._place, self._program)

    def _saved(self, partition: int, parts: list[SavePart]) -> SavedPart:
        target = self._target
        storage = storage_at(target.place, "")
        try:
            if not storage.read(target.seen, 0, 1).size:
                return SavedPart({}, {}, {}, unseen=True)
        except (FileNotFoundError, Damage):
            return SavedPart({}, {}, {}, unseen=True)
        first, *more = target.folders
        writer = SegmentWriter(
            storage,
            first,
            secrets.token_hex(4),
            copies=more[0] if more else "",
            digests=target.digests,
            first=partition * _MOST_FILES,
        )
        reader = SegmentReader(storage)
        tables: dict[tuple[str, str], Known] = {}
        figures: dict[str, tuple[TableChanges, ...]] = {}
        try:
            for part in parts:
                self._write(partition, part, writer, reader, tables, figures)
            writer.close()
        except (Damage, OSError) as failed:
            return SavedPart({}, {}, {}, failed=failed)
        return SavedPart(tables, writer.files, figures)

    def _write(
        self,
        partition: int,
        part: SavePart,
        writer: SegmentWriter,
        reader: SegmentReader,
        tables: dict[tuple[str, str], Known],
        figures: dict[str, tuple[TableChanges, ...]],
    ) -> None:
        folder = StateFolder(self._place)
        read: dict[int, dict[str, tuple[TableChanges, ...]]] = {}
        chains = chains_of(self._place, self._program)

        def changes_of(operator: str, count: int) -> tuple[TableChanges, ...]:
            if count not in read:
                names = part.files[len(part.files) - count :]
                found: list[TaskChanges] = [decode_changes(folder.read(name), name) for name in names]
                with taking(f"the state of partition {partition}"):
                    read[count] = merged(found)
            return read[count].get(operator, ())

        for operator, count in part.since.items():
            shared = part.figures[operator]
            found = changes_of(operator, count)
            figures[operator] = tuple(c for c in found if c.table in shared)
            for changes in found:
                if changes.table in shared:
                    continue
                key = operator, partition, changes.table
                known = part.known.get((operator, changes.table))
                # Should this fail, it is not what the driver knows.
                mark, chain = chains.pop(key, ("", None))
                if changes.complete or known is None:
                    chain = None
                elif chain is None or mark != known.mark:
                    chain = known_chain(known.pieces, reader)
                if chain is None and not changes.complete:
                    whole = changes_of(operator, len(part.files))
                    changes = next(c for c in whole if c.table == changes.table)
                chain = chain or TableChain()
                chain.add(changes, writer, reader)
                mark = secrets.token_hex(8)
                chains[key] = mark, chain
                tables[operator, changes.table] = Known(chain.pieces, mark)
