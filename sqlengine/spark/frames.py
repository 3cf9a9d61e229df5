"""DataFrames of PySpark as tables of the catalog with what a DataFrame cannot say: types, event time, a primary key."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import BindError, TypeMismatchError, did_you_mean
from runtime.core.schema import Schema
from runtime.core.types import DataType
from runtime.spark.frame import FrameSource, sample_of
from runtime.spi.registry import ConnectorFactory, TableRequest
from sqlengine.table_api.data_types import TableSchema, column_types
from sqlengine.table_api.python_data import arrow_of_frame

__all__ = ["Declared", "Frames"]

CONNECTOR = "dataframe"
_FRAME = "frame"
_TIME_PRECISION = 3


@dataclass(frozen=True, slots=True)
class Declared:
    """What is said of a DataFrame.

    Args:
        schema: types of columns, by name, for those that Spark's type is not right for; columns that are not named keep
            theirs.
        rowtime: the column that holds the event time, in milliseconds from now on.
        watermark: SQL expression of the watermark; the event time itself when not given.
        primary_key: the columns that identify a row.
        checkpoint: a folder for the rows of a streaming one, until a checkpoint of the job that reads it is behind them:
            such a job can go on where it stopped. For one job.
    """

    schema: Any = None
    rowtime: str | None = None
    watermark: str | None = None
    primary_key: Sequence[str] = ()
    checkpoint: str = ""

    def __bool__(self) -> bool:
        return any((self.schema, self.rowtime, self.watermark, self.primary_key, self.checkpoint))

    def table(self, frame: Any) -> TableSchema:
        """The columns of a DataFrame with all that.

        Raises:
            BindError: E1201 for a column that it does not have.
            TypeMismatchError: E1312 for an event time that is none.
        """
        found, _ = arrow_of_frame(sample_of(frame), None)
        types = dict(zip(found.names, found.types, strict=True))
        known = list(types)
        if self.watermark is not None and self.rowtime is None:
            raise BindError(
                "a watermark needs the column that it is about", code="E1201", hint='rowtime="at", watermark="..."'
            )
        names, given = column_types(self.schema) if self.schema is not None else ([], [])
        for name in (*names, *((self.rowtime,) if self.rowtime else ()), *self.primary_key):
            if name not in types:
                raise BindError(f'the DataFrame has no column "{name}"', code="E1201", hint=did_you_mean(name, known))
        types.update({n: t for n, t in zip(names, given, strict=True) if t is not None})
        if self.rowtime is not None:
            types[self.rowtime] = _event_time(self.rowtime, types[self.rowtime])
        marks = () if self.rowtime is None else ((self.rowtime, self.watermark or f"`{self.rowtime}`"),)
        return TableSchema(tuple(types.items()), watermarks=marks, keys=tuple(self.primary_key))


class Frames:
    """The DataFrames that an environment knows by name."""

    def __init__(self) -> None:
        self._frames: dict[str, tuple[Any, str]] = {}
        self._numbers = itertools.count(1)

    def connector(self) -> ConnectorFactory:
        """Opens them as tables."""
        return ConnectorFactory(name=CONNECTOR, document="a DataFrame of PySpark", source=self._open)

    def statement(self, path: str, frame: Any, declared: Declared) -> str:
        """The CREATE TEMPORARY TABLE of a DataFrame; `path` is SQL."""
        columns = declared.table(frame).ddl
        number = f"frame_{next(self._numbers)}"
        self._frames[number] = frame, declared.checkpoint
        return f"CREATE TEMPORARY TABLE {path} ({columns}) WITH ('connector' = '{CONNECTOR}', '{_FRAME}' = '{number}')"

    def _open(self, request: TableRequest) -> FrameSource:
        plain = Schema(tuple(f.with_(type=f.type.materialized()) for f in request.schema))
        frame, checkpoint = self._frames[request.options[_FRAME]]
        convert = _conversion({f.name: f.type for f in plain})
        return FrameSource(request.name, plain, frame, convert, checkpoint=checkpoint)


def _conversion(types: dict[str, DataType]) -> Any:
    """Rows of Spark in declared types: times that are declared with fewer digits are cut. Which columns there are
    depends on what was pushed into Spark."""

    def convert(rows: pa.Table) -> pa.Table:
        columns = [_cut(rows.column(name), types[name]) for name in rows.column_names]
        cut = pa.Table.from_arrays(columns, names=rows.column_names)
        return arrow_of_frame(cut, [(name, types[name]) for name in rows.column_names])[1]

    return convert


def _cut(column: pa.ChunkedArray, type_: DataType) -> pa.ChunkedArray:
    if type_.is_timestamp and type_.precision <= _TIME_PRECISION and pa.types.is_timestamp(column.type):
        return pc.floor_temporal(column, 10 ** (_TIME_PRECISION - type_.precision), "millisecond")
    return column


def _event_time(name: str, type_: DataType) -> DataType:
    if not type_.is_timestamp:
        raise TypeMismatchError(
            f'the event-time column "{name}" is {type_}',
            code="E1312",
            hint="it takes a time: df.withColumn(..., col.cast('timestamp'))",
        )
    return type_.with_(precision=min(type_.precision, _TIME_PRECISION))
