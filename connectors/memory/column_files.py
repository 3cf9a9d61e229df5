"""Rows of tables in files of columns: mapped into memory, so that the system keeps the pages that are in use.

A file has no name as soon as it is mapped. Its room on the disk is free again when nobody has its rows any more, however
the process ends.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress

import pyarrow as pa
from pyarrow import ipc

from runtime.core.changelog import ChangelogBatch
from runtime.core.logs import Log, tell

__all__ = ["ColumnFiles", "filed", "in_memory"]

_log = Log("database")

_LEAST_BYTES = 1 << 16
"""Fewer are not worth a file."""


class ColumnFiles:
    """Keeps rows in files of a folder. Any thread may use it.

    Args:
        folder: where the files are; the system's temporary folder when not given.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._told = False

    def keep(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows, in a file. Few rows, and those for which the disk has no room, stay in memory."""
        if rows.nbytes < _LEAST_BYTES:
            return rows
        try:
            handle, path = tempfile.mkstemp(prefix="sqlengine-rows-", dir=self._folder)
            os.close(handle)
            try:
                return _mapped(rows, path)
            finally:
                # Where a mapped file cannot be deleted, the system's own cleaning of temporary files does it.
                with suppress(PermissionError):
                    os.unlink(path)
        except OSError as error:
            self._stays(error)
            return rows

    def _stays(self, error: OSError) -> None:
        if self._told:
            return
        self._told = True
        place = self._folder or tempfile.gettempdir()
        text = f"rows of tables stay in memory, because {place} cannot take them: {error.strerror or error}"
        _log.warning("%s", text, path=place)
        tell(text)


def filed(changes: ChangelogBatch, files: ColumnFiles | None) -> ChangelogBatch:
    """The same changes, their rows in a file; as they are when there are no files."""
    return changes if files is None else ChangelogBatch(files.keep(changes.rows), changes.kinds)


def in_memory(changes: Iterable[ChangelogBatch], files: ColumnFiles | None) -> list[ChangelogBatch]:
    """Those of some changes that were too few for a file."""
    return [c for c in changes if files is None or c.rows.nbytes < _LEAST_BYTES]


def _mapped(rows: pa.RecordBatch, path: str) -> pa.RecordBatch:
    with pa.OSFile(path, "wb") as file, ipc.new_file(file, rows.schema) as writer:
        writer.write_batch(rows)
    with pa.memory_map(path) as mapped:
        # The columns keep the mapping; the file itself need not stay open for it.
        return ipc.open_file(mapped).get_batch(0)
