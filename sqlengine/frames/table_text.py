"""CREATE TABLE as Spark's SQL has it."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.core.errors import UnsupportedError
from runtime.core.types import DataType, TypeRoot
from sqlengine.catalog.objects import CatalogTable, PhysicalColumn

__all__ = ["create_table_text", "quoted"]

_PLAIN = {
    TypeRoot.BOOLEAN: "BOOLEAN",
    TypeRoot.TINYINT: "TINYINT",
    TypeRoot.SMALLINT: "SMALLINT",
    TypeRoot.INT: "INT",
    TypeRoot.BIGINT: "BIGINT",
    TypeRoot.FLOAT: "FLOAT",
    TypeRoot.DOUBLE: "DOUBLE",
    TypeRoot.DATE: "DATE",
    TypeRoot.BINARY: "BINARY",
    TypeRoot.VARBINARY: "BINARY",
    TypeRoot.TIMESTAMP: "TIMESTAMP_NTZ",
    TypeRoot.TIMESTAMP_LTZ: "TIMESTAMP",
    TypeRoot.INTERVAL_MONTH: "INTERVAL YEAR TO MONTH",
    TypeRoot.INTERVAL_SECOND: "INTERVAL DAY TO SECOND",
    TypeRoot.VARIANT: "VARIANT",
}
_UNBOUNDED = 2**31 - 1
_DIGITS = 6
_PROVIDER = "provider"


def create_table_text(place: str, table: CatalogTable) -> str:
    """The statement that makes a table. The option `provider` says of which kind; others are options of Spark's.

    Raises:
        UnsupportedError: E1627 for columns, keys and types that a table of Spark cannot have.
    """
    if table.primary_key or table.watermark is not None or table.distribution is not None:
        raise _cannot("a primary key, watermark or distribution")
    names = [column.name for column in table.columns]
    if table.partitioned_by and tuple(names[-len(table.partitioned_by) :]) != table.partitioned_by:
        raise _cannot(
            "partition columns before others", f"declare them last, in this order: {', '.join(table.partitioned_by)}"
        )
    columns: list[str] = []
    for column in table.columns:
        if not isinstance(column, PhysicalColumn):
            raise _cannot(f'the computed or metadata column "{column.name}"')
        comment = f" COMMENT {_text(column.comment)}" if column.comment else ""
        null = "" if column.type.nullable else " NOT NULL"
        columns.append(f"{quoted(column.name)} {spark_type(column.name, column.type)}{null}{comment}")
    options = dict(table.options)
    if "connector" in options:
        raise _cannot("a connector", "make it in a catalog of the engine: default_catalog.default_database.t")
    provider = options.pop(_PROVIDER, "")
    parts = [f"CREATE TABLE {place} ({', '.join(columns)})"]
    parts += [f"USING {quoted(provider)}"] if provider else []
    parts += [_options("OPTIONS", options)] if options else []
    parts += [f"PARTITIONED BY ({', '.join(map(quoted, table.partitioned_by))})"] if table.partitioned_by else []
    parts += [f"COMMENT {_text(table.comment)}"] if table.comment else []
    return " ".join(parts)


def spark_type(column: str, type_: DataType) -> str:
    """A type as Spark's SQL has it. Raises UnsupportedError E1627."""
    match type_.root:
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return "STRING" if type_.precision == _UNBOUNDED else f"{type_.root.value}({type_.precision})"
        case TypeRoot.DECIMAL:
            return f"DECIMAL({type_.precision}, {type_.scale})"
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if type_.precision > _DIGITS:
            raise _cannot(f'the type {type_} of the column "{column}"', "CAST it to six digits")
        case TypeRoot.TIME:
            return f"TIME({type_.precision})"
        case TypeRoot.ARRAY:
            return f"ARRAY<{spark_type(column, type_.children[0])}>"
        case TypeRoot.MAP:
            return f"MAP<{', '.join(spark_type(column, child) for child in type_.children)}>"
        case TypeRoot.MULTISET:
            return f"MAP<{spark_type(column, type_.children[0])}, INT>"
        case TypeRoot.ROW:
            return f"STRUCT<{', '.join(f'{quoted(f.name)}: {spark_type(column, f.type)}' for f in type_.fields)}>"
        case root if root in _PLAIN:
            return _PLAIN[root]
        case _:
            raise _cannot(f'the type {type_} of the column "{column}"', "CAST it to STRING or BYTES")


def quoted(name: str) -> str:
    """A name for Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def _options(word: str, options: Mapping[str, str]) -> str:
    return f"{word} ({', '.join(f'{_text(key)} = {_text(value)}' for key, value in options.items())})"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _cannot(what: str, hint: str = "leave it out, or make the table with spark.sql(...)") -> UnsupportedError:
    return UnsupportedError(f"a table of a Spark session cannot have {what}", code="E1627", hint=hint)
