"""`DataTypes`: the SQL types, by the names that Flink's Python API gives them, and schemas of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from runtime.core import types as sql
from runtime.core.errors import TypeMismatchError
from runtime.core.schema import Field, Schema
from runtime.core.types import DataType, from_arrow
from sqlengine.parse import parse_type
from sqlengine.table_api.code import name_sql, type_sql

__all__ = ["DataTypes", "TableSchema", "column_types", "to_type"]


class DataTypes:
    """SQL types: `DataTypes.INT()`, `DataTypes.DECIMAL(10, 2)`, `DataTypes.ROW([DataTypes.FIELD("a", ...)])`.

    Wherever a type is wanted its text will do, too: `"DECIMAL(10, 2)"`.
    """

    @staticmethod
    def BOOLEAN() -> DataType:
        """TRUE, FALSE or NULL."""
        return sql.BOOLEAN

    @staticmethod
    def TINYINT() -> DataType:
        """An integer of 8 bits."""
        return sql.TINYINT

    @staticmethod
    def SMALLINT() -> DataType:
        """An integer of 16 bits."""
        return sql.SMALLINT

    @staticmethod
    def INT() -> DataType:
        """An integer of 32 bits."""
        return sql.INT

    @staticmethod
    def BIGINT() -> DataType:
        """An integer of 64 bits."""
        return sql.BIGINT

    @staticmethod
    def FLOAT() -> DataType:
        """A floating-point number of 32 bits."""
        return sql.FLOAT

    @staticmethod
    def DOUBLE() -> DataType:
        """A floating-point number of 64 bits."""
        return sql.DOUBLE

    @staticmethod
    def DECIMAL(precision: int = 10, scale: int = 0) -> DataType:
        """A decimal number of so many digits, of which `scale` are behind the point."""
        return sql.decimal(precision, scale)

    @staticmethod
    def CHAR(length: int) -> DataType:
        """A text of exactly this length."""
        return sql.char(length)

    @staticmethod
    def VARCHAR(length: int) -> DataType:
        """A text of at most this length."""
        return sql.varchar(length)

    @staticmethod
    def STRING() -> DataType:
        """A text."""
        return sql.STRING

    @staticmethod
    def BYTES() -> DataType:
        """Bytes."""
        return sql.BYTES

    @staticmethod
    def DATE() -> DataType:
        """A day."""
        return sql.DATE

    @staticmethod
    def TIME(precision: int = 0) -> DataType:
        """A time of day."""
        return sql.TIME.with_(precision=precision)

    @staticmethod
    def TIMESTAMP(precision: int = 6) -> DataType:
        """A date and time without a zone."""
        return sql.timestamp(precision)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6) -> DataType:
        """A point in time, shown in the session's zone."""
        return sql.timestamp_ltz(precision)

    @staticmethod
    def ARRAY(element: DataType | str) -> DataType:
        """An array of values of one type."""
        return sql.array(to_type(element))

    @staticmethod
    def MAP(key: DataType | str, value: DataType | str) -> DataType:
        """A map from keys to values."""
        return sql.map_of(to_type(key), to_type(value))

    @staticmethod
    def MULTISET(element: DataType | str) -> DataType:
        """A bag of values."""
        return sql.multiset(to_type(element))

    @staticmethod
    def FIELD(name: str, data_type: DataType | str) -> tuple[str, DataType]:
        """A field of a ROW."""
        return name, to_type(data_type)

    @staticmethod
    def ROW(fields: Sequence[tuple[str, DataType]]) -> DataType:
        """A row of named fields."""
        return sql.row(*fields)


def to_type(data_type: DataType | str | pa.DataType) -> DataType:
    """A SQL type given as such, as text, or as the Arrow type that carries it."""
    if isinstance(data_type, DataType):
        return data_type
    if isinstance(data_type, str):
        return parse_type(data_type)
    if isinstance(data_type, pa.DataType):
        return from_arrow(data_type)
    raise TypeMismatchError(
        f"{data_type!r} is no SQL type", code="E1324", hint='for example DataTypes.INT() or "DECIMAL(10, 2)"'
    )


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table that Python fills, as Flink's `Schema`:

        TableSchema().column("id", "BIGINT").column("ts", "TIMESTAMP(3)").watermark("ts", "ts - INTERVAL '5' SECOND")

    `columns`: name and type; `computed`: name and SQL expression; a watermark is a column and the SQL expression of
    it; `rowtime` names a column whose watermark is told by whoever pushes the rows.
    """

    columns: tuple[tuple[str, DataType], ...] = ()
    computed: tuple[tuple[str, str], ...] = ()
    watermarks: tuple[tuple[str, str], ...] = ()
    keys: tuple[str, ...] = ()
    rowtime: str | None = field(default=None)

    @staticmethod
    def new_builder() -> TableSchema:
        """An empty schema, to which columns are added."""
        return TableSchema()

    def build(self) -> TableSchema:
        """The schema as it is: for programs of PyFlink, which build it."""
        return self

    def column(self, name: str, data_type: DataType | str) -> TableSchema:
        """A further column."""
        return TableSchema(
            (*self.columns, (name, to_type(data_type))), self.computed, self.watermarks, self.keys, self.rowtime
        )

    def column_by_expression(self, name: str, expression: str) -> TableSchema:
        """A column that is computed from the others: `"PROCTIME()"`."""
        return TableSchema(self.columns, (*self.computed, (name, expression)), self.watermarks, self.keys, self.rowtime)

    def watermark(self, column: str, expression: str | None = None) -> TableSchema:
        """Event time: the column, and the watermark that each row brings, or none when `advance_watermark` tells it."""
        if expression is None:
            return TableSchema(self.columns, self.computed, self.watermarks, self.keys, column)
        return TableSchema(self.columns, self.computed, ((column, expression),), self.keys, self.rowtime)

    def primary_key(self, *columns: str) -> TableSchema:
        """The columns that identify a row."""
        return TableSchema(self.columns, self.computed, self.watermarks, columns, self.rowtime)

    @property
    def ddl(self) -> str:
        """What stands between the parentheses of CREATE TABLE."""
        not_null = set(self.keys)
        parts = [
            f"{name_sql(n)} {type_sql(t)}" + ("" if t.nullable and n not in not_null else " NOT NULL")
            for n, t in self.columns
        ]
        parts += [f"{name_sql(n)} AS {e}" for n, e in self.computed]
        parts += [f"WATERMARK FOR {name_sql(c)} AS {e}" for c, e in self.watermarks]
        if self.keys:
            parts.append(f"PRIMARY KEY ({', '.join(map(name_sql, self.keys))}) NOT ENFORCED")
        return ", ".join(parts)


def column_types(schema: Any) -> tuple[list[str], list[DataType | None]]:
    """Names and types of a schema as Python gives it: names alone (types None), a mapping of names to types, pairs, a
    ROW type, a pyarrow schema, or a schema of this engine."""
    match schema:
        case Schema():
            return list(schema.names), list(schema.types)
        case TableSchema():
            return [n for n, _ in schema.columns], [t for _, t in schema.columns]
        case DataType() if schema.fields:
            return [f.name for f in schema.fields], [f.type for f in schema.fields]
        case pa.Schema():
            return list(schema.names), [from_arrow(t) for t in schema.types]
        case Mapping():
            return list(schema), [to_type(t) for t in schema.values()]
        case [*_] if all(isinstance(name, str) for name in schema):
            return list(schema), [None] * len(schema)
        case [*_]:
            return [pair[0] for pair in schema], [to_type(pair[1]) for pair in schema]
        case _:
            raise TypeMismatchError(
                f"{schema!r} is no schema",
                code="E1324",
                hint='for example ["id", "name"] or {"id": "BIGINT", "name": "STRING"}',
            )


def schema_of(names: Sequence[str], types: Sequence[DataType]) -> Schema:
    return Schema(tuple(Field(n, t) for n, t in zip(names, types, strict=True)))


__all__ += ["schema_of"]
