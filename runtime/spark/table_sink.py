"""A table of Spark as a sink: rows are staged in files, and each commit is one job of Spark that reads them.

A committable is `{"commits": [{"run": name, "number": n, "files": [names]}]}`, files as `StagedRows` names them.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runtime.checkpoint.storage import below
from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import CheckpointError, SparkError
from runtime.core.schema import Schema
from runtime.core.types import TypeRoot
from runtime.spark.staged_rows import StagedRows, frame_of_files
from runtime.spark.table_commits import Commits, FileCommits
from runtime.spi.sink import Delivery

__all__ = ["SparkTableSink", "StagedFields", "staged_fields"]

_FILE_BYTES = 64 << 20
_TEXTS = (TypeRoot.CHAR, TypeRoot.VARCHAR)


@dataclass(frozen=True)
class StagedFields:
    """How columns travel: the schema of what is staged, as JSON of Spark, and the expressions that make the table's
    columns of it."""

    schema: Mapping[str, Any]
    expressions: tuple[str, ...]


def staged_fields(schema: Mapping[str, Any]) -> StagedFields:
    """Of the schema of a table, as JSON of Spark."""
    fields: list[dict[str, Any]] = []
    expressions: list[str] = []
    for given in schema["fields"]:
        name = "`" + given["name"].replace("`", "``") + "`"
        kind, read = given["type"], name
        note = given.get("metadata", {}).get("__CHAR_VARCHAR_TYPE_STRING", "")
        if kind == "variant":
            kind, read = "string", f"parse_json({name})"
        elif isinstance(kind, str) and kind.startswith(("interval year", "interval month")):
            kind, read = "integer", f"CAST(make_ym_interval(0, {name}) AS {kind.upper()})"
        elif kind == "string" and note.startswith("char("):
            read = f"rpad({name}, {int(note[5:-1])}, ' ')"
        fields.append({"name": given["name"], "type": kind, "nullable": True, "metadata": {}})
        expressions.append(read if read == name else f"{read} AS {name}")
    return StagedFields({"type": "struct", "fields": fields}, tuple(expressions))


@dataclass(frozen=True)
class SparkTableSink:
    """See the module. Append only.

    Args:
        place: its name in Spark, for messages.
        staging: the folder in which each job has one for its rows.
    """

    name: str
    schema: Schema
    place: str
    session: Any = field(repr=False, compare=False)
    commits: Commits = field(repr=False, compare=False)
    fields: StagedFields = field(repr=False, compare=False)
    staging: str = field(repr=False)

    @property
    def primary_key(self) -> tuple[str, ...]:
        return ()

    @property
    def delivery(self) -> Delivery:
        return self.commits.delivery

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return APPEND

    def open_writer(self, job: str) -> TableWriter:
        folder = below(
            self.staging, f"for-{hashlib.blake2b(f'{job} {self.place}'.encode(), digest_size=8).hexdigest()}"
        )
        return TableWriter(self, StagedRows(folder))

    def describe(self) -> dict[str, Any]:
        return {"connector": "spark", "table": self.place, "delivery": self.delivery}

    def frame(self, folder: str, names: Sequence[str]) -> Any:
        """The rows of staged files with the table's columns."""
        from pyspark.sql.types import StructType

        schema = StructType.fromJson(dict(self.fields.schema))
        return frame_of_files(self.session, folder, names, schema).selectExpr(*self.fields.expressions)


@dataclass(frozen=True)
class StagedTaskWriter:
    """Stages rows (`runtime.spi.writer.TaskWriter`), for columns of a schema."""

    folder: str
    stem: str
    schema: Schema
    place: str

    def write(self, batch: ChangelogBatch) -> list[str]:
        rows = pa.RecordBatch.from_arrays(list(batch.columns), names=list(self.schema.names))
        self._check(rows)
        return [StagedRows(self.folder).put(self.stem, rows)]

    def _check(self, rows: pa.RecordBatch) -> None:
        """What Spark would refuse is refused before it is part of a checkpoint, which would never be complete."""
        for column in self.schema:
            values = rows.column(column.name)
            if column.type.root in _TEXTS and column.type.precision < 2**31 - 1:
                longest = pc.max(pc.utf8_length(values)).as_py() or 0
                if longest > column.type.precision:
                    raise SparkError(
                        f'"{column.name}" of {self.place} is {column.type}, and a row has {longest} characters for it',
                        code="E3611",
                        hint=f"cut it: CAST({column.name} AS {column.type})",
                    )


class TableWriter:
    """Stages rows, and commits those of a checkpoint when it is complete."""

    def __init__(self, sink: SparkTableSink, staged: StagedRows) -> None:
        self._sink = sink
        self._staged = staged
        self._run = uuid.uuid4().hex[:16]
        self._number = 0
        self._rows: list[ChangelogBatch] = []
        self._bytes = 0
        self._files: list[str] = []
        self._waiting: list[dict[str, Any]] = []

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        return tuple(self._rows)

    def write(self, batch: ChangelogBatch) -> None:
        self._rows.append(batch)
        self._bytes += sum(column.nbytes for column in batch.columns)
        if self._bytes >= _FILE_BYTES:
            self._stage()

    def _stage(self) -> None:
        if self._rows:
            rows, self._rows, self._bytes = ChangelogBatch.concat(self._rows), [], 0
            self._files += self.task_writer().write(rows)

    def task_writer(self) -> StagedTaskWriter:
        sink = self._sink
        return StagedTaskWriter(self._staged.folder, f"rows-{self._run}", sink.schema, sink.place)

    def adopt(self, written: Any) -> None:
        self._stage()
        self._files += written

    def flush(self, epoch: int) -> None:
        """Rows are shown by `publish`."""

    def prepare(self) -> Any:
        self._stage()
        if self._files:
            self._number += 1
            self._waiting.append({"run": self._run, "number": self._number, "files": self._files})
            self._files = []
        return {"commits": [dict(commit) for commit in self._waiting]} if self._waiting else None

    def publish(self, committable: Any) -> None:
        for run, number, files in _commits(committable):
            if self._staged.done(run) < number:
                self._sink.commits.commit(self._sink.frame(self._staged.folder, files), run, number)
                self._staged.set_done(run, number)
            self._staged.delete(files)
            if isinstance(self._sink.commits, FileCommits):
                self._sink.commits.forget(run, number)
            self._waiting = [w for w in self._waiting if (w["run"], w["number"]) != (run, number)]

    def recover(self, committables: Sequence[Any]) -> None:
        """Raises CheckpointError E3402, before anything is done, when these are no commits or files are damaged."""
        found = [commit for committable in committables for commit in _commits(committable)]
        for run, number, files in found:
            if self._staged.done(run) < number:
                for name in files:
                    self._staged.read(name)
        for committable in committables:
            self.publish(committable)
        self._staged.delete([name for name in self._staged.names() if name not in self._files])

    def discard(self, committable: Any) -> None:
        """What is in the table stays there: Spark cannot take it back."""
        for _, _, files in _commits(committable):
            self._staged.delete(files)
        self._waiting = []
        self.abort()

    def abort(self) -> None:
        self._staged.delete(self._files)
        self._rows, self._bytes, self._files = [], 0, []

    def close(self) -> None:
        self._rows, self._bytes = [], 0


def _commits(committable: Any) -> list[tuple[str, int, list[str]]]:
    """Raises CheckpointError E3402 for what is no committable."""
    try:
        found = [(c["run"], c["number"], c["files"]) for c in committable["commits"]]
        wrong = next(
            (run for run, number, _ in found if not (isinstance(run, str) and run.isalnum() and type(number) is int)),
            None,
        )
        if wrong is not None or not all(isinstance(f, str) for _, _, files in found for f in files):
            raise ValueError("its parts are of other types")
        return found
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"the checkpoint names no commits of a table of Spark: {error}",
            code="E3402",
            hint="resume from another one",
        ) from error
