"""Tables of MariaDB for tests of the connector `mysql`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from connectors.databases.options import Delivering
from connectors.mysql.address import ADDRESS_OPTIONS, Address, read_address
from connectors.mysql.columns import spelled
from connectors.mysql.table import MysqlTable
from connectors.options import TableOptions
from runtime.core.schema import Schema
from runtime.core.types import DataType
from tests.servers.mariadb import PASSWORD, MariaDatabase

__all__ = ["TYPES", "address_of", "created", "filled", "table_of"]

TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "long_decimal", "string",
    "bytes", "date", "time", "timestamp",
)  # fmt: skip
"""What a column may have, as the contract suite calls it."""
_numbers = itertools.count(1)


def address_of(database: MariaDatabase) -> Address:
    given = {"url": database.url, "username": "root", "password": PASSWORD}
    return read_address(TableOptions(given, "connector 'mysql'", ADDRESS_OPTIONS))


def table_of(database: MariaDatabase, name: str, schema: Schema, **more: Any) -> MysqlTable:
    """A table that is there."""
    plain: dict[str, Any] = {
        "primary_key": (), "name": name, "table": f"{database.name}.{name}", "partition": None, "parallel": 2,
        "delivering": Delivering(True, 1 << 30), "address": address_of(database), "names": (database.name, name),
    }  # fmt: skip
    return MysqlTable(**{"schema": schema, **plain, **more})


def created(database: MariaDatabase, schema: Schema, key: tuple[str, ...] = (), **more: Any) -> MysqlTable:
    """An empty table of a new name."""
    name = f"t{next(_numbers)}"
    columns = [f"`{f.name}` {_declared(f.type)}" for f in schema]
    columns += [f"PRIMARY KEY ({', '.join(key)})"] if key else []
    database.run(f"CREATE TABLE {name} ({', '.join(columns)})")
    return table_of(database, name, schema, primary_key=key, **more)


def filled(database: MariaDatabase, schema: Schema, rows: Sequence[tuple[Any, ...]], **more: Any) -> MysqlTable:
    table = created(database, schema, **more)
    marks = ", ".join(["%s"] * len(schema))
    with database.connect(init_command="SET time_zone = '+00:00'") as connection, connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)
    return table


def _declared(type_: DataType) -> str:
    return str(spelled(type_)) + (" NULL" if type_.nullable else " NOT NULL")
