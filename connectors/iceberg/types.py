"""Types of Iceberg and types here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import pyarrow as pa
from pyiceberg import types as it
from pyiceberg.schema import Schema as IcebergSchema

from runtime.core.errors import UnsupportedError, did_you_mean
from runtime.core.schema import Field, Schema
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIME,
    DataType,
    TypeRoot,
    array,
    decimal,
    map_of,
    row,
    timestamp,
    timestamp_ltz,
)

__all__ = ["iceberg_schema", "iceberg_type", "key_of", "of_file", "schema_of", "type_of", "typed"]

_R = TypeRoot
_PLAIN: dict[TypeRoot, it.IcebergType] = {
    _R.BOOLEAN: it.BooleanType(), _R.TINYINT: it.IntegerType(), _R.SMALLINT: it.IntegerType(), _R.INT: it.IntegerType(),
    _R.BIGINT: it.LongType(), _R.FLOAT: it.FloatType(), _R.DOUBLE: it.DoubleType(), _R.CHAR: it.StringType(),
    _R.VARCHAR: it.StringType(), _R.BINARY: it.BinaryType(), _R.VARBINARY: it.BinaryType(), _R.DATE: it.DateType(),
    _R.TIME: it.TimeType(), _R.TIMESTAMP: it.TimestampType(), _R.TIMESTAMP_LTZ: it.TimestamptzType(),
}  # fmt: skip
_OURS: dict[type[it.IcebergType], DataType] = {
    it.BooleanType: BOOLEAN, it.IntegerType: INT, it.LongType: BIGINT, it.FloatType: FLOAT, it.DoubleType: DOUBLE,
    it.StringType: STRING, it.BinaryType: BYTES, it.FixedType: BYTES, it.UUIDType: BYTES, it.DateType: DATE, it.TimeType: TIME,
    it.TimestampType: timestamp(6), it.TimestamptzType: timestamp_ltz(6), it.TimestampNanoType: timestamp(9),
    it.TimestamptzNanoType: timestamp_ltz(9),
}  # fmt: skip
_MOST_DIGITS = 6


def type_of(found: it.IcebergType, name: str) -> DataType:
    """The type here of a column there, nullable. Raises UnsupportedError E1616 for one that has no equal."""
    plain = _OURS.get(type(found))
    if plain is not None:
        return plain
    match found:
        case it.DecimalType():
            return decimal(found.precision, found.scale)
        case it.ListType():
            return array(_inner(found.element_type, found.element_required, name))
        case it.MapType():
            return map_of(
                type_of(found.key_type, name).not_null(), _inner(found.value_type, found.value_required, name)
            )
        case it.StructType():
            return row(*((f.name, _inner(f.field_type, f.required, name)) for f in found.fields))
        case _:
            raise UnsupportedError(
                f'column "{name}" has the type {found} of Iceberg, which has no equal here',
                code="E1616",
                hint="read the other columns of the table: declare them",
            )


def _inner(found: it.IcebergType, required: bool, name: str) -> DataType:
    type_ = type_of(found, name)
    return type_.not_null() if required else type_


def schema_of(found: IcebergSchema) -> Schema:
    """The columns of a table."""
    key = set(key_of(found))
    return Schema(
        tuple(
            Field(f.name, type_of(f.field_type, f.name).with_nullable(not f.required and f.name not in key))
            for f in found.fields
        )
    )


def key_of(found: IcebergSchema) -> tuple[str, ...]:
    """The names of the identifier fields: the primary key. Empty where a field is not a column of its own."""
    own = {f.field_id: f.name for f in found.fields}
    ids = found.identifier_field_ids
    return tuple(own[f.field_id] for f in found.fields if f.field_id in ids) if set(ids) <= set(own) else ()


def iceberg_type(type_: DataType, number: Callable[[], int], name: str) -> it.IcebergType:
    """The type there of a column here, its fields numbered. Raises UnsupportedError E1616."""
    if type_.is_timestamp and type_.precision > _MOST_DIGITS:
        raise UnsupportedError(
            f'column "{name}" has the type {type_}, and Iceberg keeps six digits',
            code="E1616",
            hint=f"CAST({name} AS TIMESTAMP(6))",
        )
    plain = _PLAIN.get(type_.root)
    if plain is not None:
        return plain
    match type_.root:
        case _R.DECIMAL:
            return it.DecimalType(type_.precision, type_.scale)
        case _R.ARRAY:
            (element,) = type_.children
            return it.ListType(number(), iceberg_type(element, number, name), element_required=not element.nullable)
        case _R.MAP:
            key, value = type_.children
            ids = number(), number()
            return it.MapType(
                ids[0], iceberg_type(key, number, name), ids[1], iceberg_type(value, number, name), not value.nullable
            )
        case _R.ROW:
            return it.StructType(
                *(
                    it.NestedField(number(), f.name, iceberg_type(f.type, number, name), required=not f.type.nullable)
                    for f in type_.fields
                )
            )
        case _:
            raise UnsupportedError(
                f'column "{name}" has the type {type_}, which Iceberg cannot hold',
                code="E1616",
                hint="CAST it to one that Iceberg has, such as STRING",
            )


def iceberg_schema(
    schema: Iterable[Field], key: tuple[str, ...], comments: dict[str, str] | None = None
) -> IcebergSchema:
    """The schema of a table that is made."""
    numbers = itertools.count(1)
    fields: list[it.NestedField] = []
    for field in schema:
        number = next(numbers)
        fields.append(
            it.NestedField(
                number,
                field.name,
                iceberg_type(field.type, lambda: next(numbers), field.name),
                required=not field.type.nullable,
                doc=(comments or {}).get(field.name),
            )
        )
    ids = [f.field_id for name in key for f in fields if f.name == name]
    return IcebergSchema(*fields, identifier_field_ids=ids)


def of_file(schema: Schema, found: IcebergSchema, place: str) -> IcebergSchema:
    """The fields of a table that columns are read from, by name. Raises UnsupportedError for a column that is not there."""
    by_name = {f.name: f for f in found.fields}
    for field in schema:
        if field.name not in by_name:
            raise UnsupportedError(
                f'the Iceberg table {place} has no column "{field.name}"',
                hint=did_you_mean(field.name, by_name) or "it has: " + ", ".join(by_name),
            )
        stored = type_of(by_name[field.name].field_type, field.name)
        if not _alike(stored, field.type):
            raise UnsupportedError(
                f'column "{field.name}" of {place} is {stored}, and declared as {field.type.with_nullable(True)}',
                hint="declare it with the type that it has, or no columns at all",
            )
    return IcebergSchema(*(by_name[f.name] for f in schema), schema_id=found.schema_id)


def _alike(stored: DataType, declared: DataType) -> bool:
    """Whether values of one type are those of the other, or an error."""
    return (
        stored.arrow == declared.arrow
        or (stored.is_integer and declared.is_integer)
        or (stored.root is _R.FLOAT and declared.root is _R.DOUBLE)
        or (stored.root is declared.root is _R.DECIMAL and stored.scale == declared.scale)
        or (stored.is_nested and stored.root is declared.root)
    )


def typed(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Rows of the library as the Arrow types of a schema."""
    columns = [_cast(column, field.type.arrow) for column, field in zip(rows.columns, schema, strict=True)]
    if not columns:
        return rows.select([])
    return pa.RecordBatch.from_arrays(columns, names=list(schema.names))


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if column.type == wanted:
        return column
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    # Times of day have microseconds there, milliseconds here.
    return column.cast(wanted, safe=not pa.types.is_time(wanted))
