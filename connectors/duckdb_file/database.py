"""A DuckDB database file: opened for a question and closed again, so that its writers are kept out no longer."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from runtime.core.errors import ConnectorError
from runtime.core.types import STRING, DataType, TypeRoot, decimal, from_arrow, timestamp

__all__ = ["ask", "check_sql", "column_sql", "database_stamp", "opened", "quoted", "sql_type", "telling"]

_R = TypeRoot
_CASTS = {
    _R.BOOLEAN: "BOOLEAN", _R.TINYINT: "TINYINT", _R.SMALLINT: "SMALLINT", _R.INT: "INTEGER", _R.BIGINT: "BIGINT",
    _R.FLOAT: "FLOAT", _R.DOUBLE: "DOUBLE", _R.DATE: "DATE", _R.CHAR: "VARCHAR", _R.VARCHAR: "VARCHAR",
    _R.BINARY: "BLOB", _R.VARBINARY: "BLOB", _R.TIME: "TIME", _R.TIMESTAMP_LTZ: "TIMESTAMPTZ",
}  # fmt: skip
_UNSIGNED = {"uint8": pa.int16(), "uint16": pa.int32(), "uint32": pa.int64()}


@contextmanager
def telling(path: str) -> Generator[None]:
    """What DuckDB refuses becomes ConnectorError E3104."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException) as error:
        raise ConnectorError(
            f"cannot read the DuckDB database {path}: {str(error).splitlines()[0]}",
            code="E3104",
            hint="a database that another process has open for writing cannot be read; close it there"
            if "lock" in str(error)
            else "check that the table is there, and that its values fit the columns as they are declared",
        ) from error


@contextmanager
def opened(path: str) -> Generator[Any]:
    """A connection to the file, for reading. Raises ConnectorError E3101 when there is no file, E3104 when it cannot be
    opened or what is asked of it fails."""
    if not os.path.isfile(path):
        raise ConnectorError(f"there is no DuckDB database at {path}", code="E3101", hint="check the option 'path'")
    with telling(path), _connection(path) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def _connection(path: str) -> Any:
    try:
        return duckdb.connect(path, read_only=True)
    except duckdb.ConnectionException:
        # This process has it open for writing: its other connections see what it has committed.
        return duckdb.connect(path)


def ask(path: str, query: str, *arguments: object) -> list[tuple[Any, ...]]:
    """The rows of a short answer: names, comments, counts."""
    with opened(path) as connection:
        return connection.execute(query, list(arguments)).fetchall()


def database_stamp(path: str) -> list[int]:
    """What changes when the file does: its size in bytes and time of modification in nanoseconds."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise ConnectorError(
            f"cannot read {path}: {error.strerror}", code="E3104", hint="check the option 'path'"
        ) from error
    return [status.st_size, status.st_mtime_ns]


def quoted(name: str) -> str:
    """A name as DuckDB reads it."""
    return '"' + name.replace('"', '""') + '"'


def sql_type(arrow: pa.DataType) -> DataType:
    """The type of a column that DuckDB gives as this Arrow type: the next larger one for what has no equal here, STRING
    for what has none at all (INTERVAL, BIT, UNION)."""
    name = str(arrow)
    if name in _UNSIGNED:
        return from_arrow(_UNSIGNED[name])
    if name == "uint64":
        return decimal(20, 0)
    if pa.types.is_dictionary(arrow):
        return STRING
    if pa.types.is_time(arrow):
        return from_arrow(pa.time32("ms"))
    if pa.types.is_timestamp(arrow) and arrow.tz is None:
        return timestamp(6)
    return from_arrow(arrow)


def column_sql(name: str, type_: DataType) -> str:
    """A column of a table as DuckDB is asked for it, of the type that is wanted."""
    if type_.root is _R.DECIMAL:
        wanted = f"DECIMAL({type_.precision}, {type_.scale})"
    elif type_.root is _R.TIMESTAMP:
        wanted = "TIMESTAMP" if type_.precision <= 6 else "TIMESTAMP_NS"
    elif type_.root in _CASTS:
        wanted = _CASTS[type_.root]
    else:
        return quoted(name)
    return f"CAST({quoted(name)} AS {wanted}) AS {quoted(name)}"


def check_sql(name: str, type_: DataType) -> str | None:
    """Whether a value is of a year that the engine has, as a condition; None for a type without years."""
    if type_.root not in (_R.DATE, _R.TIMESTAMP):
        return None
    last = "9999-12-31" if type_.root is _R.DATE else "9999-12-31 23:59:59.999999"
    return f"{quoted(name)} BETWEEN {type_.root.value} '0001-01-01' AND {type_.root.value} '{last}'"
