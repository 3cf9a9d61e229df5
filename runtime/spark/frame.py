"""DataFrames of Spark as sources, and Arrow tables as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.schema import Schema
from runtime.core.wakeup import nobody
from runtime.expr.nodes import Expr
from runtime.spark.chunks import Chunk, chunks_of, into_files, is_here
from runtime.spark.column_types import is_pandas_frame
from runtime.spark.frame_filters import Pushed, column_kinds, quoted, split
from runtime.spark.frame_readers import FiledFrame, FrameReader, RowsOf, StreamReader
from runtime.spark.frame_statistics import statistics_of
from runtime.spark.kept_stream import KeptStream
from runtime.spark.session import asked, spark_session, temporary_place
from runtime.spi.reader import ReadContext
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics
from runtime.tasks.versions import StateFolder

__all__ = ["FrameSource", "frame_columns", "frame_of", "is_frame"]


def is_frame(thing: object) -> bool:
    """Whether something is a DataFrame of PySpark, or of pandas on Spark, told without importing it."""
    return type(thing).__module__.startswith("pyspark.") and (hasattr(thing, "toArrow") or is_pandas_frame(thing))


def frame_of(rows: pa.Table, session: Any = None) -> Any:
    """An Arrow table as a DataFrame.

    Raises:
        SparkError: there is no session and none can be started; or a type is none of Spark's.
    """

    def made() -> Any:
        spark = session or spark_session()
        return spark.createDataFrame(rows) if rows.num_rows else spark.createDataFrame([], _columns(rows.schema, spark))

    return asked(made)


def frame_columns(columns: pa.Schema, session: Any) -> Any:
    """The columns that `frame_of` gives, as a StructType of Spark. Raises as `frame_of`."""
    return asked(lambda: _columns(columns, session))


def _columns(columns: pa.Schema, session: Any) -> Any:
    # Spark Connect takes no table without rows.
    row = [pa.nulls(1, column.type) for column in columns]
    return session.createDataFrame(pa.Table.from_arrays(row, names=columns.names)).schema


@dataclass(frozen=True)
class FrameSource:
    """A DataFrame, batch or streaming. Columns, simple filters and limits go into Spark.

    Args:
        convert: gives rows of the frame in the engine's Arrow types.
        checkpoint: the folder in which rows of a streaming one are kept until a checkpoint is behind them; "": nowhere.
        place: the folder of the job that reads it, where that is one which Spark's tasks see.
    """

    name: str
    schema: Schema
    frame: Any = field(repr=False)
    convert: Callable[[pa.Table], pa.Table] = field(compare=False, repr=False)
    filters: tuple[Pushed, ...] = ()
    limit: int | None = None
    checkpoint: str = ""
    place: str = ""

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
        """As Spark estimates them for what is left of the frame."""
        return self._known

    @cached_property
    def _known(self) -> TableStatistics:
        return statistics_of(self.selected(), self.schema) if self.bounded else TableStatistics()

    def splits(self) -> list[Split]:
        return [Split("frame", endless=not self.bounded)]

    def open(self, split: Split, context: ReadContext) -> FrameReader | StreamReader | KeptStream:
        rows = RowsOf(self.name, self.schema, self.convert)
        if self.checkpoint and not self.bounded:
            return KeptStream(self, rows, self.checkpoint)
        folder = StateFolder.new(temporary_place("frames")) if not self.place and is_here(self.frame) else None
        place = self.place if folder is None else folder.place
        end = nobody if folder is None else folder.remove
        if not self.bounded:
            return StreamReader(rows, self.selected(), place, context, end)

        def begin() -> Iterator[Chunk]:
            return chunks_of(self.selected(), place)

        return FrameReader(rows, begin, place, end)

    def filed_reads(self, here: bool) -> bool:
        return is_here(self.frame) or not here

    def in_folder(self, place: str) -> FrameSource:
        return replace(self, place=place)

    def filed(self) -> FiledFrame:
        rows = RowsOf(self.name, self.schema, self.convert)
        return FiledFrame(rows, self.place, tuple(into_files(self.selected(), self.place)))

    def with_columns(self, names: Sequence[str]) -> FrameSource:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    def with_filters(self, filters: Sequence[Expr]) -> tuple[FrameSource, list[Expr]]:
        taken, left = split(filters, self.schema, column_kinds(self.frame))
        return replace(self, filters=(*self.filters, *taken)), left

    def with_limit(self, rows: int) -> FrameSource:
        return replace(self, limit=rows) if self.bounded else self

    def describe(self) -> dict[str, Any]:
        shown = [pushed.text for pushed in self.filters]
        found: dict[str, Any] = {"connector": "spark", "name": self.name, "columns": list(self.schema.names)}
        return {**found, **({"filters": shown} if shown else {}), **({"limit": self.limit} if self.limit else {})}

    def selected(self) -> Any:
        """The frame with what was pushed into it."""
        frame = self.frame
        for pushed in self.filters:
            frame = frame.filter(pushed.condition(frame))
        frame = frame.select([frame[quoted(name)] for name in self.schema.names])
        return frame if self.limit is None else frame.limit(self.limit)
