"""INSERT OVERWRITE: files that take the place of others.

    old files stay -> all rows are written -> old files are hidden, new ones named -> the hidden ones are removed

Until the job has ended well nothing is visible of it, at checkpoints neither: what a checkpoint has prepared is held, and
is part of what the next one prepares. When something goes wrong while files change places, the old ones come back.

As in Flink the whole table is replaced when it has no partitions; else the partitions that rows are written to, and the
one that the statement names in full, rows or not. REPLACE TABLE AS replaces the whole table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from connectors.filesystem.saved_names import check_path
from connectors.filesystem.sink import FileSink, FileWriter
from connectors.filesystem.staged_files import remove_file
from runtime.core.errors import ConnectorError

__all__ = ["OverwritableFileSink", "OverwritingFileWriter"]

_HIDDEN = ".replaced-"


@dataclass(frozen=True)
class OverwritableFileSink(FileSink):
    """Files that are added to, or replaced (`overwrites`). `replaced_partition`: the folder of a partition that is
    replaced whether rows are written to it or not; `replaces_all`: all files are replaced, whatever the partitions."""

    overwrites: bool = False
    replaces_all: bool = False
    replaced_partition: str | None = None

    def with_overwrite(self, partition: Mapping[str, Any]) -> OverwritableFileSink:
        folder = None
        if self.partitions and all(c in partition for c in self.partitions):
            types = {f.name: f.type.arrow for f in self.schema}
            folder = os.path.join(
                *(self.folder_names(pa.array([partition[c]], types[c]), c)[0] for c in self.partitions)
            )
        return replace(self, overwrites=True, replaced_partition=folder)

    def with_replacement(self) -> OverwritableFileSink:
        return replace(self, overwrites=True, replaces_all=True)

    def open_writer(self, job: str) -> FileWriter:
        """Raises ConnectorError E3110 when the folder cannot be written."""
        return OverwritingFileWriter(self, job) if self.overwrites else FileWriter(self, job)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "overwrite": True} if self.overwrites else super().describe()


class OverwritingFileWriter(FileWriter):
    """A committable is `{"files": ..., "held": true}` before all rows are written, then `{"files": ..., "replaced": [path,
    ...]}`; paths are relative to the table's folder."""

    def __init__(self, sink: OverwritableFileSink, job: str) -> None:
        super().__init__(sink, job)
        self._replaced_partition = sink.replaced_partition
        self._replaces_all = sink.replaces_all
        self._complete = False
        self._done = False

    def complete(self) -> None:
        """All rows are written: what is prepared from now on replaces what is there."""
        self._complete = True

    def prepare(self) -> Any:
        """Raises ConnectorError E3110 when what is to be replaced cannot be listed."""
        files = self._files.prepare()
        if self._done:
            # What is visible now are the new files.
            return None
        if not self._complete:
            return {"files": files, "held": True} if files else None
        folders = written = {os.path.dirname(final) for _, final in files}
        if self._replaces_all or not self._sink.partitions:
            folders = {""}
        elif self._replaced_partition is not None:
            folders.add(self._replaced_partition)
        root = self._sink.path
        for folder in folders:
            self._sink.system.refuse_links(root, folder)
        try:
            visible = self._sink.system.visible
            seen = [os.path.relpath(p, root) for f in sorted(folders) for p in visible(os.path.join(root, f))]
        except OSError as error:
            raise ConnectorError(f"cannot list {error.filename or root}: {error.strerror}", code="E3110") from error
        # An earlier run may have shown some of these, when the job has gone back to an older checkpoint.
        ours = {final for _, final in files}
        old = [path for path in seen if path not in ours]
        return {"files": files, "replaced": old, "commit": sorted((folders | written) - {""})} if files or old else None

    def publish(self, committable: Any) -> None:
        """Raises ConnectorError E3112 when files cannot change places now, E3113 when a new one is gone, FencedError E3413
        when another run has taken over."""
        if committable.get("held"):
            return
        # Before anything is hidden: the files that are there may be those of the other run.
        self._files.check_owner()
        if self._sink.system.local:
            self._replace_hiding(committable)
        else:
            self._replace_removing(committable)
        if self._partitions is not None:
            self._partitions.commit(committable["commit"])

    def _replace_removing(self, committable: Any) -> None:
        """Where to rename is to copy: the old files go when the new ones are there."""
        system, root = self._sink.system, self._sink.path
        for path in committable["replaced"]:
            check_path(path, root, system)
        self._files.publish(committable["files"])
        self._done = True
        try:
            for path in committable["replaced"]:
                system.remove(os.path.join(root, path))
        except OSError as error:
            message = f"cannot replace the files of {root}: {error.strerror}"
            raise ConnectorError(message, code="E3112", hint="the new files are there beside old ones") from error

    def _replace_hiding(self, committable: Any) -> None:
        hidden: list[tuple[str, str]] = []
        try:
            for path in committable["replaced"]:
                check_path(path, self._sink.path, self._sink.system)
                shown = os.path.join(self._sink.path, path)
                away = os.path.join(os.path.dirname(shown), _HIDDEN + os.path.basename(shown))
                with suppress(FileNotFoundError):
                    os.rename(shown, away)
                hidden.append((shown, away))
            self._files.publish(committable["files"])
        except BaseException as error:
            for shown, away in hidden:
                with suppress(OSError):
                    os.rename(away, shown)
            if isinstance(error, OSError):
                message = f"cannot replace the files of {self._sink.path}: {error.strerror}"
                raise ConnectorError(message, code="E3112", hint="the files are as they were") from error
            raise
        self._done = True
        for _, away in hidden:
            with suppress(OSError):
                remove_file(away)

    def revert(self, history: Any) -> int:
        """Nothing: what was published is replaced by all rows anew."""
        return 0

    def recover(self, committables: Sequence[Any]) -> None:
        for committable in committables:
            self._files.check(committable["files"])
            for path in committable.get("replaced", ()):
                check_path(path, self._sink.path, self._sink.system)
        for committable in committables:
            if committable.get("held"):
                self._files.adopt(committable["files"])
            else:
                self.publish(committable)
        self._files.remove_leftovers()
