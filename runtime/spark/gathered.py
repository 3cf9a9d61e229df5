"""The rows of a query as a DataFrame, without passing the driver: its tasks write them into files, Spark's tasks read those.

Few rows stay in memory, and become a DataFrame from there.
"""

from __future__ import annotations

import atexit
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from runtime.checkpoint.storage import below
from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import SparkError, SqlEngineError
from runtime.core.logs import Log
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.spark.cluster import staging_place
from runtime.spark.frame import frame_columns, frame_of
from runtime.spark.session import asked, spark_session
from runtime.spark.staged_rows import StagedRows, frame_of_files
from runtime.spi.sink import Delivery, SinkTable

__all__ = ["gathered_frame"]

_FILE_BYTES = 16 << 20
_STEM = "rows"
_log = Log("spark")


def gathered_frame(write: Callable[[SinkTable], bool], schema: Schema, options: Options, session: Any) -> Any:
    """A DataFrame of the rows that `write` writes into a table; None when it cannot, or nowhere is a place for files.

    Args:
        write: has a job write into a table, to its end; False when that cannot be done.
        options: say where files may be that all machines of the cluster see.
        session: of Spark, the active one, or a new one when None.
    Raises:
        SparkError: there is no session and none can be started; or a type is none of Spark's.
    """
    spark = session or asked(spark_session)
    nothing = ChangelogBatch.empty(schema).columns
    empty = pa.Table.from_batches([pa.RecordBatch.from_arrays(list(nothing), names=list(schema.names))])
    columns = frame_columns(empty.schema, spark)
    try:
        place = below(staging_place(spark, options), f"frame-{uuid.uuid4().hex[:16]}")
    except SparkError as error:
        if error.code != "E3606":
            raise
        return None
    sink = _Gathering("rows", schema, place)
    if not write(sink):
        return None
    if sink.files:
        atexit.register(_removed, place, tuple(sink.files))
        return asked(lambda: frame_of_files(spark, place, sink.files, columns))
    return frame_of(pa.Table.from_batches([b.rows for b in sink.rows]) if sink.rows else empty, spark)


def _removed(place: str, files: Sequence[str]) -> None:
    """When the program ends. A store that is not there then keeps them, and that is told."""
    try:
        StagedRows(place).delete(files)
    except (OSError, SqlEngineError) as error:
        _log.warning("files of a DataFrame stay in %s: %s", place, error)


@dataclass(frozen=True)
class _Gathering:
    """A sink of insertions whose rows are in `files`, or in `rows`, when its job has ended."""

    name: str
    schema: Schema
    place: str
    files: list[str] = field(default_factory=list, compare=False)
    rows: list[ChangelogBatch] = field(default_factory=list, compare=False)

    @property
    def primary_key(self) -> tuple[str, ...]:
        return ()

    @property
    def delivery(self) -> Delivery:
        return "exactly-once"

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return APPEND

    def open_writer(self, job: str) -> _Writer:
        return _Writer(self)

    def describe(self) -> dict[str, Any]:
        return {"connector": "dataframe"}


@dataclass(frozen=True)
class _TaskWriter:
    """Writes rows in a task (`runtime.spi.writer.TaskWriter`)."""

    place: str
    names: tuple[str, ...]

    def write(self, batch: ChangelogBatch) -> list[str]:
        rows = pa.RecordBatch.from_arrays(list(batch.columns), names=list(self.names))
        return [StagedRows(self.place).put(_STEM, rows)]


class _Writer:
    def __init__(self, sink: _Gathering) -> None:
        self._sink = sink
        self._bytes = 0
        self._task_writer = _TaskWriter(sink.place, sink.schema.names)

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        return tuple(self._sink.rows)

    def write(self, batch: ChangelogBatch) -> None:
        self._sink.rows.append(batch.decoded())
        self._bytes += batch.nbytes
        if self._bytes >= _FILE_BYTES:
            self._stage()

    def _stage(self) -> None:
        if self._sink.rows:
            rows = ChangelogBatch.concat(self._sink.rows)
            self._sink.rows.clear()
            self._bytes = 0
            self._sink.files.extend(self._task_writer.write(rows))

    def task_writer(self) -> _TaskWriter:
        return self._task_writer

    def adopt(self, written: Any) -> None:
        self._stage()
        self._sink.files.extend(written)

    def flush(self, epoch: int) -> None:
        """Rows are wanted when the job has ended."""

    def prepare(self) -> Any:
        if self._sink.files:
            self._stage()
        return None

    def publish(self, committable: Any) -> None:
        """Nothing is hidden."""

    def recover(self, committables: Sequence[Any]) -> None:
        """It has no earlier run."""

    def discard(self, committable: Any) -> None:
        self.abort()

    def abort(self) -> None:
        StagedRows(self._sink.place).delete(self._sink.files)
        self._sink.files.clear()
        self._sink.rows.clear()

    def close(self) -> None:
        """It holds nothing open."""
