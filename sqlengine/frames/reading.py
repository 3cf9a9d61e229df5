"""DataFrames of PySpark as sources: their columns in SQL types, and their rows in the Arrow types that carry these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.schema import Schema
from runtime.core.types import DataType
from runtime.spark.column_types import SparkColumns, columns_of
from runtime.spark.frame import FrameSource
from sqlengine.values.data_types import schema_of
from sqlengine.values.python_data import arrow_of_frame

__all__ = ["frame_source", "opened", "schema_of_columns"]

_TIME_PRECISION = 3


def frame_source(name: str, frame: Any) -> FrameSource:
    """A DataFrame as Spark describes it. Raises as `columns_of`."""
    found = columns_of(frame)
    return opened(name, found, schema_of_columns(found))


def schema_of_columns(found: SparkColumns) -> Schema:
    """Columns as a schema."""
    return schema_of([name for name, _ in found.types], [type_ for _, type_ in found.types])


def opened(name: str, found: SparkColumns, schema: Schema, checkpoint: str = "") -> FrameSource:
    """A DataFrame with the types of a schema, which may be others than Spark's."""
    return FrameSource(name, schema, found.frame, _conversion({f.name: f.type for f in schema}), checkpoint=checkpoint)


def _conversion(types: Mapping[str, DataType]) -> Callable[[pa.Table], pa.Table]:
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
