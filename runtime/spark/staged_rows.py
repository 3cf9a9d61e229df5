"""Rows on their way into Spark: files of Arrow that the driver or tasks of ours write, and tasks of Spark read.

    <folder>/<stem>-<size>-<SHA-256>.arrow     rows
    <folder>/<stem>.done                       the last number that is done with

A name says what is in the file, so that whoever names one names its rows, and damage is told.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from runtime.checkpoint.arrow_streams import read_streams
from runtime.checkpoint.storage import Damage, Storage
from runtime.checkpoint.store import storage_at
from runtime.core.errors import CheckpointError, ConnectorError
from runtime.spark.data_source import fitted
from runtime.spark.shipping import attribute

__all__ = ["StagedRows", "frame_of_files", "read_rows"]

_FILE = re.compile(r"[0-9a-z.-]{1,80}-([0-9]{1,18})-([0-9a-f]{64})\.arrow")
_NUMBER = re.compile(rb"[0-9]{1,18}")
_BATCH_ROWS = 65_536
_HINT = "all machines must see the folder under the same name: SET 'sqlengine.spark.state-dir' to one that they share"


class StagedRows:
    """The files of a folder.

    Args:
        folder: a path, or a URI that pyarrow knows (`s3a://`, as Spark has it, is `s3://`).
    Raises:
        CheckpointError: E3406 it cannot be reached.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        above, mark, options = folder.partition("?") if "://" in folder else (folder, "", "")
        above, _, last = above.rstrip("/").rpartition("/")
        place = f"{above or '/'}{mark}{options}"
        self._storage: Storage = storage_at("s3://" + place[6:] if place.startswith("s3a://") else place, last)

    def put(self, stem: str, rows: pa.RecordBatch) -> str:
        """Rows as a file that survives a crash. Gives its name.

        Raises:
            ConnectorError: E3111 it cannot be written.
        """
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        data = sink.getvalue().to_pybytes()
        name = f"{stem}-{len(data)}-{hashlib.sha256(data).hexdigest()}.arrow"
        try:
            self._storage.publish(name, data)
        except OSError as error:
            raise ConnectorError(f"cannot write {self.folder}: {error.strerror or error}", code="E3111") from error
        return name

    def read(self, name: str) -> pa.RecordBatch:
        """The rows of a file.

        Raises:
            ConnectorError: E3113 it is gone.
            CheckpointError: E3402 it holds something else.
        """
        found = _FILE.fullmatch(name)
        try:
            if found is None:
                raise ValueError("it is no file of rows")
            data = self._storage.read(name, 0, int(found[1]) + 1)
            if data.size != int(found[1]) or hashlib.sha256(data).hexdigest() != found[2]:
                raise ValueError("its size or SHA-256 differs")
            (rows,) = read_streams(data)
            return rows
        except FileNotFoundError as error:
            raise ConnectorError(f"{name} is not in {self.folder}", code="E3113", hint=_HINT) from error
        except (Damage, ValueError) as error:
            raise CheckpointError(
                f"{name[:120]} in {self.folder} holds other bytes than were written: {error}", code="E3402"
            ) from error

    def names(self) -> list[str]:
        """The files of rows."""
        return sorted(name for name in self._storage.files() if _FILE.fullmatch(name))

    def delete(self, names: Sequence[str]) -> None:
        """Files are gone; they may have been before. Raises ValueError for what is no file of rows."""
        for name in names:
            if _FILE.fullmatch(name) is None:
                raise ValueError(f"{name[:80]!r} is no file of rows")
        for name in names:
            self._storage.delete(name)

    def done(self, stem: str) -> int:
        """The last number of a stem that is done with; 0 when none is."""
        try:
            found = self._storage.read(f"{stem}.done", 0, 20).to_pybytes()
        except FileNotFoundError:
            return 0
        if _NUMBER.fullmatch(found) is None:
            raise CheckpointError(f"{stem}.done in {self.folder} holds other bytes than were written", code="E3402")
        return int(found)

    def set_done(self, stem: str, number: int) -> None:
        """So far all is done with."""
        self._storage.publish(f"{stem}.done", str(number).encode())


def frame_of_files(session: Any, folder: str, names: Sequence[str], schema: Any) -> Any:
    """A DataFrame whose rows tasks read from files of a folder.

    Args:
        schema: a StructType of Spark; columns of the files are found by name.
    """
    if not names:
        return session.createDataFrame([], schema)
    read = attribute(f"{__name__}:{read_rows.__name__}")

    def rows(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            for name in batch.column(0).to_pylist():
                yield from read()(folder, name, schema)

    return session.createDataFrame([(name,) for name in names], "name STRING").mapInArrow(rows, schema)


def read_rows(folder: str, name: str, schema: Any) -> Iterator[pa.RecordBatch]:
    """The rows of a file in the Arrow types that Spark wants."""
    rows = fitted(StagedRows(folder).read(name), schema)
    for start in range(0, rows.num_rows, _BATCH_ROWS):
        yield rows.slice(start, _BATCH_ROWS)
