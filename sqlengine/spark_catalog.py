"""The catalog of a Spark session: its databases, tables and views, those of its metastore and lakes, as tables here.

    t_env.register_catalog("spark", SparkCatalog(spark))
    t_env.execute_sql("SELECT * FROM spark.shop.orders")

Names are looked up in Spark when they are used, so that what is made there is there at once. Nothing can be made,
changed or written through it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeVar

from runtime.core.errors import SqlEngineError
from runtime.spark.column_types import columns_of
from runtime.spark.frame import FrameSource
from runtime.spark.session import reached
from runtime.spi.registry import ConnectorFactory, TableRequest
from sqlengine.catalog.catalog import Catalog, CatalogObject, Database
from sqlengine.catalog.foreign import ForeignNames
from sqlengine.catalog.objects import CatalogTable, ObjectPath, PhysicalColumn
from sqlengine.spark.reading import opened

__all__ = ["SparkCatalog"]

CONNECTOR = "spark"
_TABLE = "table"
_HINT = "make and change its tables with spark.sql(...), or write a file that Spark reads"
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
            return Database(found, objects=objects, definitions=definitions)  # pyright: ignore[reportArgumentType]

        return Catalog(name, "a Spark session", {"type": CONNECTOR}, databases=_names(self._databases, database))

    def connector(self) -> ConnectorFactory:
        """Opens the tables of the catalog."""
        return ConnectorFactory(name=self._connector, document="a table of a Spark session", source=self._open)

    def _databases(self) -> list[str]:
        where = f" IN {_quoted(self._catalog)}" if self._catalog else ""
        found = [row[0] for row in _asked(lambda: self.spark.sql(f"SHOW DATABASES{where}").collect())]
        return found if self._catalog else [*found, self._global_views]

    @property
    def _global_views(self) -> str:
        return str(self.spark.conf.get("spark.sql.globalTempDatabase", "global_temp"))

    def _tables(self, database: str) -> dict[str, bool]:
        """The names in a database, and whether each is a temporary view alone."""
        rows = _asked(lambda: self.spark.sql(f"SHOW TABLES IN {self._place(database)}").collect())
        found: dict[str, bool] = {}
        for name, temporary, place in ((row["tableName"], row["isTemporary"], row["namespace"]) for row in rows):
            own = bool(place) or not temporary
            if own or database != self._global_views:
                found[name] = not own and found.get(name, True)
        return found

    def _table(self, catalog: str, database: str, name: str) -> CatalogTable:
        views = {found.lower() for found, temporary in self._tables(database).items() if temporary}
        place = _quoted(name) if name.lower() in views else f"{self._place(database)}.{_quoted(name)}"
        found = _asked(lambda: columns_of(self.spark.table(place)))
        columns = tuple(PhysicalColumn(column, type_) for column, type_ in found.types)
        return CatalogTable(
            ObjectPath(catalog, database, name), columns, options={"connector": self._connector, _TABLE: place}
        )

    def _open(self, request: TableRequest) -> FrameSource:
        found = _asked(lambda: columns_of(self.spark.table(request.options[_TABLE])))
        return opened(request.name, found, request.schema)

    def _place(self, database: str) -> str:
        return ".".join(_quoted(part) for part in (self._catalog, database) if part)


def _names(names: Callable[[], list[str]], make: Callable[[str], V]) -> ForeignNames[V]:
    return ForeignNames(names, make, "the catalog of a Spark session", _HINT, fold=str.lower)


def _asked(question: Callable[[], Any]) -> Any:
    """What Spark says; its errors are ours."""
    try:
        return question()
    except SqlEngineError:
        raise
    except Exception as error:
        raise reached(error) from error


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
