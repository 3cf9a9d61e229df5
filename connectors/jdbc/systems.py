"""Which connector a URL of JDBC belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from connectors.absent import AbsentTable
from connectors.databases.table import DatabaseTable
from runtime.core.changelog import APPEND
from runtime.core.errors import OptionError, did_you_mean
from runtime.core.rooms import Room
from runtime.spi.catalog import ForeignTable
from runtime.spi.registry import TableRequest

if TYPE_CHECKING:
    import connectors.mysql.catalog as _mysql_catalog
    import connectors.mysql.table as _mysql
    import connectors.postgres.catalog as _postgres_catalog
    import connectors.postgres.table as _postgres
    import connectors.sqlite.catalog as _sqlite_catalog
    import connectors.sqlite.table as _sqlite
else:
    _mysql = Room("connectors.mysql.table")
    _mysql_catalog = Room("connectors.mysql.catalog")
    _postgres = Room("connectors.postgres.table")
    _postgres_catalog = Room("connectors.postgres.catalog")
    _sqlite = Room("connectors.sqlite.table")
    _sqlite_catalog = Room("connectors.sqlite.catalog")

__all__ = ["System", "absent", "system_of"]

_ABSENT = frozenset(
    (
        "cratedb",
        "dameng",
        "db2",
        "derby",
        "dm",
        "oceanbase",
        "oracle",
        "snowflake",
        "sqlserver",
        "trino",
        "vertica",
    )
)


class _Make(Protocol):
    def __call__(self, request: TableRequest, connector: str = ...) -> DatabaseTable: ...


class _Infer(Protocol):
    def __call__(self, request: TableRequest, connector: str = ...) -> ForeignTable: ...


@dataclass(frozen=True)
class System:
    """A database: makes its tables, and finds their columns."""

    make: _Make
    infer: _Infer


def _systems() -> Mapping[str, System]:
    mysql = System(_mysql.mysql_table, _mysql_catalog.described_table)
    return {
        "mariadb": mysql,
        "mysql": mysql,
        "postgresql": System(_postgres.postgres_table, _postgres_catalog.described_table),
        "sqlite": System(_sqlite.sqlite_table, _sqlite_catalog.described_table),
    }


def system_of(url: str) -> System | None:
    """None for a database that Flink knows, and that is not there. Raises OptionError E1504 without a URL, E1500 for one that
    is not understood."""
    if not url:
        raise OptionError(
            "connector 'jdbc' needs the option 'url'", code="E1504", hint="such as 'jdbc:postgresql://host/database'"
        )
    known = _systems()
    name = url.removeprefix("jdbc:").partition(":")[0].lower()
    if url.startswith("jdbc:") and name in known:
        return known[name]
    if url.startswith("jdbc:") and name in _ABSENT:
        return None
    near = did_you_mean(f"jdbc:{name}:", [f"jdbc:{k}:" for k in known])
    raise OptionError(
        "option 'url' is that of no database that connector 'jdbc' knows",
        code="E1500",
        hint=near or "it begins with " + " or ".join(f"'jdbc:{k}:'" for k in known),
    )


def absent(request: TableRequest) -> AbsentTable:
    """What stands for a table of a database that is not there: it can be explained."""
    name = request.options["url"].split(":")[1]
    what = f"the database '{name}' of connector 'jdbc'"
    return AbsentTable(request.name, request.schema, request.primary_key, "jdbc", what, "E1501", APPEND, True)
