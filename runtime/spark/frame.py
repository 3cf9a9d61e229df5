"""DataFrames of Spark as sources, and Arrow tables as DataFrames."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, Queue
from typing import Any

import pyarrow as pa

from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import ConnectorError, SqlEngineError
from runtime.core.schema import Schema
from runtime.core.strict_json import as_count
from runtime.core.types import TypeRoot
from runtime.expr.nodes import Call, Expr, InputRef, Literal
from runtime.spark.column_types import is_pandas_frame
from runtime.spark.kept_stream import KeptStream
from runtime.spark.session import reached, spark_session
from runtime.spi.reader import ReadContext
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["FrameSource", "frame_of", "is_frame"]

_WAITING_BATCHES = 4
_COMPARISONS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_PUSHED = frozenset(
    (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.VARCHAR, TypeRoot.DATE)
)
"""Types of which Spark compares values as the engine does."""

_Filter = tuple[str, str, Any]


def is_frame(thing: object) -> bool:
    """Whether something is a DataFrame of PySpark, or of pandas on Spark, told without importing it."""
    return type(thing).__module__.startswith("pyspark.") and (hasattr(thing, "toArrow") or is_pandas_frame(thing))


def frame_of(rows: pa.Table, session: Any = None) -> Any:
    """An Arrow table as a DataFrame.

    Raises:
        SparkError: there is no session and none can be started; or a type is none of Spark's.
    """
    try:
        return (session or spark_session()).createDataFrame(rows)
    except SqlEngineError:
        raise
    except Exception as error:
        raise reached(error) from error


@dataclass(frozen=True)
class FrameSource:
    """A DataFrame, batch or streaming. Columns, simple filters and limits go into Spark.

    Args:
        convert: gives rows of the frame in the engine's Arrow types.
        checkpoint: the folder in which rows of a streaming one are kept until a checkpoint is behind them; "": nowhere.
    """

    name: str
    schema: Schema
    frame: Any = field(repr=False)
    convert: Callable[[pa.Table], pa.Table] = field(compare=False, repr=False)
    filters: tuple[_Filter, ...] = ()
    limit: int | None = None
    checkpoint: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameSource) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[Any, ...]:
        return id(self.frame), self.schema, self.filters, self.limit

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    @property
    def bounded(self) -> bool:
        return not self.frame.isStreaming

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        return [Split("frame", endless=not self.bounded)]

    def open(self, split: Split, context: ReadContext) -> FrameReader | StreamReader | KeptStream:
        if self.bounded:
            return FrameReader(self)
        return KeptStream(self, self.checkpoint) if self.checkpoint else StreamReader(self)

    def with_columns(self, names: Sequence[str]) -> FrameSource:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    def with_filters(self, filters: Sequence[Expr]) -> tuple[FrameSource, list[Expr]]:
        taken: list[_Filter] = []
        left: list[Expr] = []
        for expression in filters:
            found = _filter(expression, self.schema)
            taken += [found] if found is not None else []
            left += [expression] if found is None else []
        return replace(self, filters=(*self.filters, *taken)), left

    def with_limit(self, rows: int) -> FrameSource:
        return replace(self, limit=rows) if self.bounded else self

    def describe(self) -> dict[str, Any]:
        shown = [f"{column} {operator} {value!r}" for column, operator, value in self.filters]
        found: dict[str, Any] = {"connector": "spark", "name": self.name, "columns": list(self.schema.names)}
        return {**found, **({"filters": shown} if shown else {}), **({"limit": self.limit} if self.limit else {})}

    def selected(self) -> Any:
        """The frame with what was pushed into it."""
        frame = self.frame
        for column, operator, value in self.filters:
            left = frame[_quoted(column)]
            frame = frame.filter(_compared(left, operator, value))
        frame = frame.select([frame[_quoted(name)] for name in self.schema.names])
        return frame if self.limit is None else frame.limit(self.limit)

    def batch(self, rows: pa.Table) -> ChangelogBatch:
        """Rows of the frame as insertions."""
        found = self.convert(rows).combine_chunks()
        columns = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in found.columns]
        return ChangelogBatch.of(columns, self.schema)


class FrameReader:
    """Reads a batch DataFrame, which Spark computes when the first row is asked for. A position is the number of rows
    given: it means the same only if the frame has its rows in the same order each time."""

    def __init__(self, source: FrameSource) -> None:
        self._source = source
        self._rows: ChangelogBatch | None = None
        self._at = 0

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if self._rows is None:
            try:
                self._rows = self._source.batch(self._source.selected().toArrow())
            except SqlEngineError:
                raise
            except Exception as error:
                raise reached(error) from error
        if self.finished or max_rows <= 0:
            return None
        part = self._rows.slice(self._at, min(max_rows, len(self._rows) - self._at))
        self._at += len(part)
        return part

    @property
    def finished(self) -> bool:
        return self._rows is not None and self._at >= len(self._rows)

    def position(self) -> Any:
        return self._at

    def seek(self, position: Any) -> None:
        self._at = as_count(position)

    def close(self) -> None:
        self._rows = None


class StreamReader:
    """Follows a streaming DataFrame: a query of Spark hands its micro-batches over, and waits while a few of them are
    not taken. What it reads begins anew with every job."""

    def __init__(self, source: FrameSource) -> None:
        self._source = source
        self._waiting: Queue[pa.Table] = Queue(_WAITING_BATCHES)
        self._rest: ChangelogBatch | None = None
        self._given = 0
        self._closed = False
        self._folder = tempfile.TemporaryDirectory(prefix="sqlengine-stream-", ignore_cleanup_errors=True)
        writer = source.selected().writeStream.foreachBatch(self._hand_over)
        self._query = writer.option("checkpointLocation", self._folder.name).start()

    def _hand_over(self, frame: Any, number: int) -> None:
        if not self._closed:
            self._waiting.put(frame.toArrow())

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0:
            return None
        if self._rest is None:
            failure = self._query.exception() if not self._query.isActive else None
            if failure is not None:
                raise reached(failure) from failure
            try:
                rows = self._waiting.get_nowait()
            except Empty:
                return None
            self._rest = self._source.batch(rows)
        part = self._rest.slice(0, min(max_rows, len(self._rest)))
        left = len(self._rest) - len(part)
        self._rest = self._rest.slice(len(part), left) if left else None
        self._given += len(part)
        return part if len(part) else None

    @property
    def finished(self) -> bool:
        return False

    def position(self) -> Any:
        return self._given

    def seek(self, position: Any) -> None:
        raise ConnectorError(
            f"{self._source.name} is a streaming DataFrame, which cannot be read again from where a job stopped",
            code="E3108",
            hint="declare it with a folder to keep its rows in: create_temporary_view(..., checkpoint=...); "
            "or start anew with --fresh",
        )

    def close(self) -> None:
        self._closed = True
        with suppress(Empty):
            while True:
                self._waiting.get_nowait()
        with suppress(Exception):
            self._query.stop()
        self._folder.cleanup()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _compared(column: Any, operator: str, value: Any) -> Any:
    match operator:
        case "==":
            return column == value
        case "!=":
            return column != value
        case "<":
            return column < value
        case "<=":
            return column <= value
        case ">":
            return column > value
        case ">=":
            return column >= value
        case "is null":
            return column.isNull()
        case _:
            return column.isNotNull()


def _filter(expression: Expr, schema: Schema) -> _Filter | None:
    """A filter that Spark can apply, None for another."""
    match expression:
        case Call(function=name, args=(InputRef() as ref, Literal() as constant)) if name in _COMPARISONS:
            return _comparison(ref, name, constant, schema)
        case Call(function=name, args=(Literal() as constant, InputRef() as ref)) if name in _COMPARISONS:
            return _comparison(ref, _MIRRORED[name], constant, schema)
        case Call(function="IS NULL" | "IS NOT NULL" as name, args=(InputRef() as ref,)):
            return schema[ref.index].name, name.lower(), None
        case _:
            return None


def _comparison(ref: InputRef, operator: str, constant: Literal, schema: Schema) -> _Filter | None:
    type_ = schema[ref.index].type
    if type_.root not in _PUSHED or constant.value is None or constant.type.arrow != type_.arrow:
        return None
    return schema[ref.index].name, _COMPARISONS[operator], constant.value
