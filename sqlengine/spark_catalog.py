"""The catalog of a Spark session: its databases, tables and views, those of its metastore and lakes, as tables here.

    t_env.register_catalog("spark", SparkCatalog(spark))
    t_env.execute_sql("SELECT * FROM spark.shop.orders")
    t_env.execute_sql("INSERT INTO spark.shop.totals SELECT customer, SUM(amount) FROM spark.shop.orders GROUP BY customer")

Names are looked up in Spark when they are used, so that what is made there is there at once. CREATE TABLE makes a table
in Spark, INSERT INTO adds rows; all other changes are Spark's own to make.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from runtime.spark.cluster import staging_place
from runtime.spark.column_types import columns_of
from runtime.spark.frame import FrameSource
from runtime.spark.session import asked
from runtime.spark.table_commits import commits_of, described
from runtime.spark.table_sink import SparkTableSink, staged_fields
from runtime.spi.registry import ConnectorFactory, TableRequest
from sqlengine.catalog.catalog import Catalog, CatalogObject, Database
from sqlengine.catalog.foreign import ForeignNames
from sqlengine.catalog.objects import CatalogTable, ObjectPath, PhysicalColumn
from sqlengine.frames.reading import opened
from sqlengine.frames.table_text import create_table_text, quoted

__all__ = ["SparkCatalog"]

CONNECTOR = "spark"
_TABLE = "table"
_REFUSAL = "takes CREATE TABLE and INSERT INTO, and no other change"
_HINT = "make other changes with spark.sql(...)"
_numbers = itertools.count(1)

V = TypeVar("V")


class SparkCatalog:
    """What a Spark session knows by name, upper and lower case alike.

    Temporary views of the session are in each database, as SHOW TABLES of Spark lists them; a table of the database wins
    over one of its name. Global temporary views are in the database `global_temp`.

    Args:
        spark: the session, also one of Spark Connect.
        catalog: which of its catalogs; the current one when not given. Others have no temporary views.
    """

    def __init__(self, spark: Any, catalog: str | None = None) -> None:
        self.spark = spark
        self._catalog = catalog
        self._connector = f"{CONNECTOR}-{next(_numbers)}"

    def catalog(self, name: str) -> Catalog:
        """It as a catalog of an environment, under a name."""

        def database(found: str) -> Database:
            objects: ForeignNames[CatalogObject] = _names(
                lambda: sorted(self._tables(found)), lambda table: self._table(name, found, table)
            )
            definitions: ForeignNames[Any] = _names(list, dict[str, Any]().__getitem__)
            return Database(
                found,
                objects=objects,
                definitions=definitions,  # pyright: ignore[reportArgumentType]
                elsewhere=_Maker(self, name, found),
            )

        return Catalog(name, "a Spark session", {"type": CONNECTOR}, databases=_names(self._databases, database))

    def connector(self) -> ConnectorFactory:
        """Opens the tables of the catalog."""
        return ConnectorFactory(
            name=self._connector, document="a table of a Spark session", source=self._open, sink=self._sink
        )

    def _databases(self) -> list[str]:
        where = f" IN {quoted(self._catalog)}" if self._catalog else ""
        found = [row[0] for row in asked(lambda: self.spark.sql(f"SHOW DATABASES{where}").collect())]
        return found if self._catalog else [*found, self._global_views]

    @property
    def _global_views(self) -> str:
        return str(self.spark.conf.get("spark.sql.globalTempDatabase", "global_temp"))

    def _tables(self, database: str) -> dict[str, bool]:
        """The names in a database, and whether each is a temporary view alone."""
        rows = asked(lambda: self.spark.sql(f"SHOW TABLES IN {self._place(database)}").collect())
        found: dict[str, bool] = {}
        for name, temporary, place in ((row["tableName"], row["isTemporary"], row["namespace"]) for row in rows):
            own = bool(place) or not temporary
            if own or database != self._global_views:
                found[name] = not own and found.get(name, True)
        return found

    def _table(self, catalog: str, database: str, name: str) -> CatalogTable:
        views = {found.lower() for found, temporary in self._tables(database).items() if temporary}
        place = quoted(name) if name.lower() in views else f"{self._place(database)}.{quoted(name)}"
        found = asked(lambda: columns_of(self.spark.table(place)))
        columns = tuple(
            PhysicalColumn(column, type_.not_null() if column in found.required else type_)
            for column, type_ in found.types
        )
        return CatalogTable(
            ObjectPath(catalog, database, name), columns, options={"connector": self._connector, _TABLE: place}
        )

    def _open(self, request: TableRequest) -> FrameSource:
        found = asked(lambda: columns_of(self.spark.table(request.options[_TABLE])))
        return opened(request.name, found, request.schema)

    def _sink(self, request: TableRequest) -> SparkTableSink:
        place = request.options[_TABLE]
        table = asked(lambda: described(self.spark, place))
        fields = staged_fields(asked(lambda: self.spark.table(place).schema.jsonValue()))
        staging = staging_place(self.spark, request.environment)
        commits = commits_of(self.spark, table)
        return SparkTableSink(request.name, request.schema, place, self.spark, commits, fields, staging)

    def create(self, catalog: str, database: str, table: CatalogTable) -> CatalogTable:
        """Make a table in Spark. Raises as `create_table_text`, and SparkError for what Spark refuses."""
        place = f"{self._place(database)}.{quoted(table.path.name)}"
        asked(lambda: self.spark.sql(create_table_text(place, table)))
        return self._table(catalog, database, table.path.name)

    def drop(self, database: str, table: CatalogTable) -> None:
        """Take away a table that was just made."""
        asked(lambda: self.spark.sql(f"DROP TABLE IF EXISTS {self._place(database)}.{quoted(table.path.name)}"))

    def _place(self, database: str) -> str:
        return ".".join(quoted(part) for part in (self._catalog, database) if part)


@dataclass(frozen=True)
class _Maker:
    """See `sqlengine.catalog.catalog.TableMaker`."""

    inner: SparkCatalog
    catalog: str
    database: str

    def create(self, table: CatalogTable) -> CatalogTable:
        return self.inner.create(self.catalog, self.database, table)

    def drop(self, table: CatalogTable) -> None:
        self.inner.drop(self.database, table)


def _names(names: Callable[[], list[str]], make: Callable[[str], V]) -> ForeignNames[V]:
    return ForeignNames(names, make, "the catalog of a Spark session", _HINT, str.lower, _REFUSAL)
