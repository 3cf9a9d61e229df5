"""`DataTypes`: the SQL types, by the names that Flink's Python API gives them, and schemas of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from runtime.core import types as sql
from runtime.core.errors import TypeMismatchError
from runtime.core.schema import Field, Schema
from runtime.core.types import DataType, from_arrow
from sqlengine.parse import parse_type
from sqlengine.values.code import name_sql, type_sql, value_sql

__all__ = ["DataTypes", "TableSchema", "column_types", "to_type"]


class DataTypes:
    """SQL types: `DataTypes.INT()`, `DataTypes.DECIMAL(10, 2)`, `DataTypes.ROW([DataTypes.FIELD("a", ...)])`.

    Wherever a type is wanted its text will do, too: `"DECIMAL(10, 2)"`.
    """

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> DataType:
        """TRUE, FALSE or NULL."""
        return sql.BOOLEAN.with_nullable(nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> DataType:
        """An integer of 8 bits."""
        return sql.TINYINT.with_nullable(nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> DataType:
        """An integer of 16 bits."""
        return sql.SMALLINT.with_nullable(nullable)

    @staticmethod
    def INT(nullable: bool = True) -> DataType:
        """An integer of 32 bits."""
        return sql.INT.with_nullable(nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> DataType:
        """An integer of 64 bits."""
        return sql.BIGINT.with_nullable(nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> DataType:
        """A floating-point number of 32 bits."""
        return sql.FLOAT.with_nullable(nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> DataType:
        """A floating-point number of 64 bits."""
        return sql.DOUBLE.with_nullable(nullable)

    @staticmethod
    def DECIMAL(precision: int = 10, scale: int = 0, nullable: bool = True) -> DataType:
        """A decimal number of so many digits, of which `scale` are behind the point."""
        return sql.decimal(precision, scale).with_nullable(nullable)

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> DataType:
        """A text of exactly this length."""
        return sql.char(length).with_nullable(nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> DataType:
        """A text of at most this length."""
        return sql.varchar(length).with_nullable(nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> DataType:
        """A text."""
        return sql.STRING.with_nullable(nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> DataType:
        """Bytes."""
        return sql.BYTES.with_nullable(nullable)

    @staticmethod
    def VARIANT(nullable: bool = True) -> DataType:
        """A value of JSON, whatever its kind."""
        return sql.VARIANT.with_nullable(nullable)

    @staticmethod
    def BITMAP(nullable: bool = True) -> DataType:
        """A set of 32-bit integers."""
        return sql.BITMAP.with_nullable(nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> DataType:
        """So many bytes."""
        return sql.BINARY.with_(precision=length).with_nullable(nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> DataType:
        """At most so many bytes."""
        return sql.BYTES.with_(precision=length).with_nullable(nullable)

    @staticmethod
    def NULL() -> DataType:
        """The type of NULL alone."""
        return sql.NULL

    @staticmethod
    def DATE(nullable: bool = True) -> DataType:
        """A day."""
        return sql.DATE.with_nullable(nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> DataType:
        """A time of day."""
        return sql.TIME.with_(precision=precision).with_nullable(nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> DataType:
        """A date and time without a zone."""
        return sql.timestamp(precision).with_nullable(nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> DataType:
        """A point in time, shown in the session's zone."""
        return sql.timestamp_ltz(precision).with_nullable(nullable)

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision: int = 6, nullable: bool = True) -> DataType:
        """The same as `TIMESTAMP_LTZ`."""
        return sql.timestamp_ltz(precision).with_nullable(nullable)

    @staticmethod
    def YEAR(precision: int = 2) -> str:
        """A unit of `INTERVAL`."""
        return f"YEAR({precision})"

    @staticmethod
    def MONTH() -> str:
        """A unit of `INTERVAL`."""
        return "MONTH"

    @staticmethod
    def DAY(precision: int = 2) -> str:
        """A unit of `INTERVAL`."""
        return f"DAY({precision})"

    @staticmethod
    def HOUR() -> str:
        """A unit of `INTERVAL`."""
        return "HOUR"

    @staticmethod
    def MINUTE() -> str:
        """A unit of `INTERVAL`."""
        return "MINUTE"

    @staticmethod
    def SECOND(precision: int = 6) -> str:
        """A unit of `INTERVAL`."""
        return f"SECOND({precision})"

    @staticmethod
    def INTERVAL(upper_resolution: str, lower_resolution: str | None = None) -> DataType:
        """A length of time: `INTERVAL(DataTypes.DAY(), DataTypes.SECOND())`."""
        words = upper_resolution if lower_resolution is None else f"{upper_resolution} TO {lower_resolution}"
        return to_type(f"INTERVAL {words}")

    @staticmethod
    def LIST_VIEW(element_type: DataType | str) -> DataType:
        """A list in an accumulator (`ListView`)."""
        return sql.array(to_type(element_type))

    @staticmethod
    def MAP_VIEW(key_type: DataType | str, value_type: DataType | str) -> DataType:
        """A map in an accumulator (`MapView`)."""
        return sql.map_of(to_type(key_type), to_type(value_type))

    @staticmethod
    def ARRAY(element_type: DataType | str, nullable: bool = True) -> DataType:
        """An array of values of one type."""
        return sql.array(to_type(element_type)).with_nullable(nullable)

    @staticmethod
    def MAP(key_type: DataType | str, value_type: DataType | str, nullable: bool = True) -> DataType:
        """A map from keys to values."""
        return sql.map_of(to_type(key_type), to_type(value_type)).with_nullable(nullable)

    @staticmethod
    def MULTISET(element_type: DataType | str, nullable: bool = True) -> DataType:
        """A bag of values."""
        return sql.multiset(to_type(element_type)).with_nullable(nullable)

    @staticmethod
    def FIELD(name: str, data_type: DataType | str, description: str | None = None) -> tuple[str, DataType]:
        """A field of a ROW; its description is for readers of the program."""
        del description
        return name, to_type(data_type)

    @staticmethod
    def STRUCTURED(class_name: str, row_fields: Sequence[tuple[str, DataType]] = (), nullable: bool = True) -> DataType:
        """A row of named fields with the name of a class: `STRUCTURED("com.example.User", [FIELD("name", STRING())])`."""
        # The grammar knows what a class may be called.
        return to_type(f"STRUCTURED<{value_sql(class_name)}>").with_(
            fields=sql.row(*row_fields).fields, nullable=nullable
        )

    @staticmethod
    def RAW(class_name: str, serializer: str, nullable: bool = True) -> DataType:
        """Bytes that only the serializer of a class of Java can read; `serializer` is its snapshot as text."""
        return to_type(f"RAW({value_sql(class_name)}, {value_sql(serializer)})").with_nullable(nullable)

    @staticmethod
    def ROW(row_fields: Sequence[tuple[str, DataType]] = (), nullable: bool = True) -> DataType:
        """A row of named fields."""
        return sql.row(*row_fields).with_nullable(nullable)


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
    metadata: tuple[tuple[str, str], ...] = ()
    watermarks: tuple[tuple[str, str], ...] = ()
    keys: tuple[str, ...] = ()
    rowtime: str | None = field(default=None)
    order: tuple[str, ...] = ()
    """The names of all columns, as they were given."""

    @staticmethod
    def new_builder() -> TableSchema:
        """An empty schema, to which columns are added."""
        return TableSchema()

    def build(self) -> TableSchema:
        """The schema as it is: for programs of PyFlink, which build it."""
        return self

    def from_fields(self, field_names: Sequence[str], field_data_types: Sequence[DataType | str]) -> TableSchema:
        """Further columns, by their names and types."""
        made = self
        for name, type_ in zip(field_names, field_data_types, strict=True):
            made = made.column(name, type_)
        return made

    def from_row_data_type(self, data_type: DataType) -> TableSchema:
        """Further columns: the fields of a ROW."""
        return self.from_fields([f.name for f in data_type.fields], [f.type for f in data_type.fields])

    def column(self, column_name: str, data_type: DataType | str) -> TableSchema:
        """A further column."""
        return replace(self._with(column_name), columns=(*self.columns, (column_name, to_type(data_type))))

    def column_by_expression(self, column_name: str, expr: str) -> TableSchema:
        """A column that is computed from the others by SQL: `"PROCTIME()"`."""
        return replace(self._with(column_name), computed=(*self.computed, (column_name, expr)))

    def column_by_metadata(
        self, column_name: str, data_type: DataType | str, metadata_key: str | None = None, is_virtual: bool = False
    ) -> TableSchema:
        """A column that the connector tells beside the row; a virtual one is not written."""
        kind = to_type(data_type)
        text = type_sql(kind) + ("" if kind.nullable else " NOT NULL") + " METADATA"
        text += "" if metadata_key is None else f" FROM {value_sql(metadata_key)}"
        text += " VIRTUAL" if is_virtual else ""
        return replace(self._with(column_name), metadata=(*self.metadata, (column_name, text)))

    def watermark(self, column_name: str, watermark_expr: str | None = None) -> TableSchema:
        """Event time: the column, and the watermark that each row brings, or none when `advance_watermark` tells it."""
        if watermark_expr is None:
            return replace(self, rowtime=column_name)
        return replace(self, watermarks=((column_name, watermark_expr),))

    def primary_key(self, *column_names: str) -> TableSchema:
        """The columns that identify a row."""
        return replace(self, keys=column_names)

    def _with(self, name: str) -> TableSchema:
        return replace(self, order=(*self.order, name))

    @property
    def ddl(self) -> str:
        """What stands between the parentheses of CREATE TABLE."""
        not_null = set(self.keys)
        texts = {n: type_sql(t) + ("" if t.nullable and n not in not_null else " NOT NULL") for n, t in self.columns}
        texts |= {n: f"AS {e}" for n, e in self.computed}
        texts |= dict(self.metadata)
        parts = [f"{name_sql(n)} {texts[n]}" for n in self.order or texts]
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
