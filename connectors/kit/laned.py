"""Exactly once for large epochs: tasks write the rows into files, and tasks commit them, each a lane of all files.

    epoch      tasks write files, each with all lanes (`lane_files`); the driver hears their names
    prepare    commit n is named, with the names of its files
    publish    each lane in a transaction of its own, with n; then the commit itself, with nothing but n

A commit of few rows, which the driver has written alone, is one transaction as ever (`CommittingWriter`). As soon as a
task has written a part of a commit, the rest goes into files, too: what is in one lane is committed in the order in which
it was written. Whoever goes on has each lane look whether it has n already, and in any runtime: without tasks the driver
commits the lanes itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from connectors.kit.commits import EpochCommits, StagedWriter, commits_of
from connectors.kit.lane_files import MOST_LANES, LaneFiles, lanes_of, new_run
from connectors.kit.spool import Spool, spooled
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.core.key_group import key_group
from runtime.kernels.key_encoding import KeyEncoder

__all__ = ["CarryOut", "Laned", "LanedWriter", "in_lanes"]

_FILE = "file:"
CarryOut = Callable[[Sequence[Callable[[], object]]], object]
"""Carries out pieces of work, in any order, once or more often."""


class Laned(NamedTuple):
    """The rows of a commit: in the lanes of files, or those that the checkpoint holds. `files`: their names, in order."""

    files: tuple[str, ...]
    batches: Iterable[ChangelogBatch]

    @property
    def lanes(self) -> int:
        return lanes_of(self.files[0]) if self.files else 0


def in_lanes(rows: pa.RecordBatch, key: pa.Array | None, lanes: int) -> list[pa.RecordBatch]:
    """Rows by lane, in their order: those of a key together; those without one in parts of about equal size.

    Args:
        key: the key of each row; None: there is none.
    """
    count = rows.num_rows
    spread = np.arange(count) * lanes // max(count, 1)
    if lanes == 1:
        return [rows]
    if key is not None:
        of = 1 << (MOST_LANES - 1).bit_length()
        groups = key_group(KeyEncoder([key.type]).stable_hash([key], count), of).astype(np.int64)
        spread = np.where(key.is_valid().to_numpy(zero_copy_only=False), groups * lanes // of, spread)
    order = np.argsort(spread, kind="stable")
    bounds = np.searchsorted(spread[order], np.arange(lanes + 1))
    sorted_rows = rows.take(pa.array(order))
    return [sorted_rows.slice(bounds[i], bounds[i + 1] - bounds[i]) for i in range(lanes)]


class PutsRows(Protocol):
    """What `LanedWriter` has tasks use (`runtime.spi.writer.TaskWriter`)."""

    def write(self, batch: ChangelogBatch) -> str | None: ...

    def put(self, rows: pa.RecordBatch) -> str:
        """Rows as they are staged, as a file."""
        ...


class LanedWriter(StagedWriter[Laned]):
    """A `StagedWriter` whose rows are in the checkpoint, or in files of lanes.

    Args:
        names: of the columns that are staged.
        folder: for files, which lasts as long as the checkpoints that name them; "": tasks write nothing.
        most: bytes of compressed rows between two checkpoints.
    """

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        commits: EpochCommits[Laned],
        *,
        folder: str,
        most: int = 1 << 30,
    ) -> None:
        self.run = new_run()
        self.files = LaneFiles(folder) if folder else None
        self._spool = _LanedSpool(name, names, most, self.files)
        self._marked = False
        super().__init__(name, self._spool, commits)

    def staged_by(self, puts: PutsRows) -> None:
        """Tasks write rows with this from now on, and so does the driver what comes between theirs."""
        assert self.files is not None
        self._spool.puts = puts
        self.files.mark(self.run)
        self._marked = True

    def adopt(self, written: Any) -> None:
        self._spool.adopt(written)

    def publish(self, committable: Any) -> None:
        super().publish(committable)
        self._forget([committable])

    def recover(self, committables: Sequence[Any]) -> None:
        super().recover(committables)
        if self.files is not None:
            self.files.clear(but=[f"{self.run}.here", *self._spool.adopted])

    def discard(self, committable: Any) -> None:
        super().discard(committable)
        self._forget([committable])

    def close(self) -> None:
        if self._marked and self.files is not None:
            self._marked = False
            self.files.clear_mark(self.run)
        super().close()

    def _forget(self, committables: Sequence[Any]) -> None:
        """Files of commits that are there, or never will be."""
        if self.files is not None:
            texts = [text for c in committables for _, found in commits_of(c) for text in found]
            self.files.delete(_names(texts))


class _LanedSpool(Spool):
    def __init__(self, name: str, names: Sequence[str], most: int, files: LaneFiles | None) -> None:
        super().__init__(name, most)
        self._names = tuple(names)
        self._files = files
        self._parts: list[str] = []
        self.puts: PutsRows | None = None

    @property
    def adopted(self) -> list[str]:
        return _names(self._parts)

    def adopt(self, name: str) -> None:
        """A file is the next part."""
        self._parts += [*super().take(), _FILE + name]

    def take(self) -> list[str]:
        parts, self._parts = [*self._parts, *super().take()], []
        if not any(part.startswith(_FILE) for part in parts):
            return parts
        assert self.puts is not None
        found: list[str] = []
        for part in parts:
            rows = [] if part.startswith(_FILE) else spooled([part], self._names)
            found += [_FILE + self.puts.put(batch.rows) for batch in rows] or [part]
        return found

    def rows(self, texts: Sequence[str]) -> Laned:
        """Raises ConnectorError E3113 for files when nobody knows where these are."""
        if self._files is None and _names(texts):
            raise ConnectorError(
                "a checkpoint names rows in files of its folder, and the job has none",
                code="E3113",
                hint="SET 'execution.checkpointing.dir' to the folder that the checkpoint is in, without a key file",
            )
        return Laned(tuple(_names(texts)), spooled([t for t in texts if not t.startswith(_FILE)], self._names))

    def drop(self) -> None:
        """Files of this commit go, too."""
        names, self._parts = self.adopted, []
        super().take()
        if self._files is not None:
            self._files.delete(names)


def _names(texts: Iterable[str]) -> list[str]:
    return [text.removeprefix(_FILE) for text in texts if text.startswith(_FILE)]
