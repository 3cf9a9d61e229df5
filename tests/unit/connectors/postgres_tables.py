"""Tables of PostgreSQL for tests of its connector."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from connectors.databases.options import Delivering
from connectors.options import TableOptions
from connectors.postgres.address import ADDRESS_OPTIONS, Address, read_address
from connectors.postgres.columns import staged_type
from connectors.postgres.table import PostgresTable
from runtime.core.schema import Schema
from runtime.core.types import DataType
from tests.servers.postgres import PASSWORD, PostgresDatabase

__all__ = ["TYPES", "address_of", "created", "filled", "table_of"]

TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "long_decimal", "string",
    "bytes", "date", "time", "timestamp", "timestamp_ltz", "array",
)  # fmt: skip
"""What a column may have, as the contract suite calls it."""
_numbers = itertools.count(1)


def address_of(database: PostgresDatabase) -> Address:
    given = {"url": database.url, "username": "postgres", "password": PASSWORD}
    return read_address(TableOptions(given, "connector 'postgres'", ADDRESS_OPTIONS))


def table_of(database: PostgresDatabase, name: str, schema: Schema, **more: Any) -> PostgresTable:
    """A table that is there."""
    plain: dict[str, Any] = {
        "primary_key": (), "name": name, "table": f"public.{name}", "partition": None, "parallel": 2,
        "delivering": Delivering(True, 1 << 30), "address": address_of(database), "names": ("public", name),
    }  # fmt: skip
    return PostgresTable(**{"schema": schema, **plain, **more})


def created(database: PostgresDatabase, schema: Schema, key: tuple[str, ...] = (), **more: Any) -> PostgresTable:
    """An empty table of a new name."""
    name = f"t{next(_numbers)}"
    columns = [f'"{f.name}" {_declared(f.type)}' for f in schema]
    columns += [f"PRIMARY KEY ({', '.join(key)})"] if key else []
    database.run(f"CREATE TABLE {name} ({', '.join(columns)})")
    return table_of(database, name, schema, primary_key=key, **more)


def filled(database: PostgresDatabase, schema: Schema, rows: Sequence[tuple[Any, ...]], **more: Any) -> PostgresTable:
    table = created(database, schema, **more)
    marks = ", ".join(["%s"] * len(schema))
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)
    return table


def _declared(type_: DataType) -> str:
    if type_.root.name == "DECIMAL":
        return f"numeric({type_.precision}, {type_.scale})"
    return str(staged_type(type_))
