"""DataFrames of PySpark as tables of the catalog with what a DataFrame cannot say: types, event time, a primary key."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runtime.core.errors import BindError, TypeMismatchError, did_you_mean
from runtime.core.schema import Schema
from runtime.core.types import DataType
from runtime.spark.column_types import SparkColumns, columns_of
from runtime.spark.frame import FrameSource
from runtime.spi.registry import ConnectorFactory, TableRequest
from sqlengine.frames.reading import opened
from sqlengine.values.data_types import TableSchema, column_types

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

    @property
    def types(self) -> dict[str, DataType]:
        """The types that are given, by column."""
        if self.schema is None:
            return {}
        names, types = column_types(self.schema)
        return {n: t for n, t in zip(names, types, strict=True) if t is not None}

    def table(self, frame: Any) -> tuple[SparkColumns, TableSchema]:
        """A DataFrame, and its columns with all that.

        Raises:
            BindError: E1201 for a column that it does not have.
            TypeMismatchError: E1312 for an event time that is none.
            SparkError: as of `columns_of`.
        """
        if self.watermark is not None and self.rowtime is None:
            raise BindError(
                "a watermark needs the column that it is about", code="E1201", hint='rowtime="at", watermark="..."'
            )
        given = self.types
        found = columns_of(frame, given)
        types = dict(found.types)
        for name in (*given, *((self.rowtime,) if self.rowtime else ()), *self.primary_key):
            if name not in types:
                raise BindError(
                    f'the DataFrame has no column "{name}"', code="E1201", hint=did_you_mean(name, list(types))
                )
        if self.rowtime is not None:
            types[self.rowtime] = _event_time(self.rowtime, types[self.rowtime])
        marks = () if self.rowtime is None else ((self.rowtime, self.watermark or f"`{self.rowtime}`"),)
        columns = TableSchema(tuple(types.items()), watermarks=marks, keys=tuple(self.primary_key))
        return found, columns


class Frames:
    """The DataFrames that an environment knows by name."""

    def __init__(self) -> None:
        self._frames: dict[str, tuple[SparkColumns, str]] = {}
        self._numbers = itertools.count(1)

    def connector(self) -> ConnectorFactory:
        """Opens them as tables."""
        return ConnectorFactory(name=CONNECTOR, document="a DataFrame of PySpark", source=self._open)

    def statement(self, path: str, frame: Any, declared: Declared) -> str:
        """The CREATE TEMPORARY TABLE of a DataFrame; `path` is SQL."""
        found, columns = declared.table(frame)
        number = f"frame_{next(self._numbers)}"
        self._frames[number] = found, declared.checkpoint
        return (
            f"CREATE TEMPORARY TABLE {path} ({columns.ddl}) WITH ('connector' = '{CONNECTOR}', '{_FRAME}' = '{number}')"
        )

    def _open(self, request: TableRequest) -> FrameSource:
        plain = Schema(tuple(f.with_(type=f.type.materialized()) for f in request.schema))
        found, checkpoint = self._frames[request.options[_FRAME]]
        return opened(request.name, found, plain, checkpoint)


def _event_time(name: str, type_: DataType) -> DataType:
    if not type_.is_timestamp:
        raise TypeMismatchError(
            f'the event-time column "{name}" is {type_}',
            code="E1312",
            hint="it takes a time: df.withColumn(..., col.cast('timestamp'))",
        )
    return type_.with_(precision=min(type_.precision, _TIME_PRECISION))
