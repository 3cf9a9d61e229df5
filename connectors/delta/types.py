"""Columns of Delta tables."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from runtime.core.errors import UnsupportedError, did_you_mean
from runtime.core.schema import Field, Schema
from runtime.core.types import DataType, TypeRoot, from_arrow

__all__ = ["arrow_schema", "checked_columns", "partition_array", "schema_of", "text_of"]

_MOST_DIGITS = 6


def schema_of(table: DeltaTable) -> Schema:
    """The columns of a table."""
    return Schema(tuple(Field(f.name, from_arrow(f.type).with_nullable(f.nullable)) for f in pa.schema(table.schema())))


def checked_columns(schema: Schema, table: DeltaTable, place: str) -> None:
    """Raises UnsupportedError where a column is not there, or has another type."""
    there = {f.name: f.type for f in schema_of(table)}
    for field in schema:
        if field.name not in there:
            raise UnsupportedError(
                f'the Delta table {place} has no column "{field.name}"',
                hint=did_you_mean(field.name, there) or "it has: " + ", ".join(there),
            )
        if not _alike(there[field.name], field.type):
            raise UnsupportedError(
                f'column "{field.name}" of {place} is {there[field.name].with_nullable(True)}, and declared as '
                f"{field.type.with_nullable(True)}",
                hint="declare it with the type that it has, or no columns at all",
            )


def _alike(stored: DataType, declared: DataType) -> bool:
    return (
        stored.arrow == declared.arrow
        or (stored.is_integer and declared.is_integer)
        or (stored.is_nested and stored.root is declared.root)
    )


def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns as Delta keeps them. Raises UnsupportedError E1616 for a type that it does not have."""
    for field in schema:
        _check(field.type, field.name)
    return pa.schema([pa.field(f.name, f.type.arrow, nullable=f.type.nullable) for f in schema])


def _check(type_: DataType, name: str) -> None:
    if type_.root is TypeRoot.TIME or (type_.is_timestamp and type_.precision > _MOST_DIGITS) or type_.is_interval:
        raise UnsupportedError(
            f'column "{name}" has the type {type_}, which Delta does not have',
            code="E1616",
            hint="CAST it to TIMESTAMP(6)" if type_.is_timestamp else "CAST it to STRING",
        )
    for child in (*type_.children, *(f.type for f in type_.fields)):
        _check(child, name)


def partition_array(text: str | None, type_: pa.DataType, count: int) -> pa.Array:
    """The column of a partition: its value is a text in the log, nothing and the empty text are NULL."""
    if text is None or text == "":
        return pa.nulls(count, type_)
    if pa.types.is_binary(type_):
        return pa.repeat(pa.scalar(text.encode("utf-8"), type_), count)
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        moment = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
        return pa.repeat(pa.scalar(moment, type_), count)
    return pa.repeat(pa.array([text], pa.string()).cast(type_)[0], count)


def text_of(value: Any) -> str | None:
    """A value of a partition as the log has it."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            if value.tzinfo is not None:
                return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            return value.isoformat(" ")
        case bytes():
            return value.decode("utf-8")
        case decimal.Decimal():
            return f"{value:f}"
        case _:
            return str(value)
