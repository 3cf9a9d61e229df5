"""The catalog of a Spark session: its databases, tables and views, those of its metastore and lakes, as tables here.

    t_env.register_catalog("spark", SparkCatalog(spark))
    t_env.execute_sql("SELECT * FROM spark.shop.orders")

Names are looked up in Spark when they are used, so that what is made there is there at once. Nothing can be made,
changed or written through it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from runtime.core.errors import SqlEngineError
from runtime.spark.frame import FrameSource, sample_of
from runtime.spark.session import reached
from runtime.spi.registry import ConnectorFactory, TableRequest
from sqlengine.catalog.catalog import Catalog, Database
from sqlengine.catalog.foreign import ForeignNames
from sqlengine.catalog.objects import CatalogTable, ObjectPath, PhysicalColumn
from sqlengine.table_api.python_data import arrow_of_frame

__all__ = ["SparkCatalog"]

CONNECTOR = "spark"
_TABLE = "table"

V = TypeVar("V")


class SparkCatalog:
    """What a Spark session knows by name.

    Args:
        spark: the session.
        catalog: which of its catalogs; the current one when not given.
    """

    def __init__(self, spark: Any, catalog: str | None = None) -> None:
        self.spark = spark
        self._catalog = catalog

    def catalog(self, name: str) -> Catalog:
        """It as a catalog of an environment, under a name."""

        def database(found: str) -> Database:
            return Database(found, objects=_names(lambda: self._tables(found), lambda t: self._table(name, found, t)))

        return Catalog(name, "a Spark session", {"type": CONNECTOR}, databases=_names(self._databases, database))

    def connector(self) -> ConnectorFactory:
        """Opens the tables of the catalog."""
        return ConnectorFactory(name=CONNECTOR, document="a table of a Spark session", source=self._open)

    def _databases(self) -> list[str]:
        where = f" IN {_quoted(self._catalog)}" if self._catalog else ""
        return [row[0] for row in _asked(lambda: self.spark.sql(f"SHOW DATABASES{where}").collect())]

    def _tables(self, database: str) -> list[str]:
        rows = _asked(lambda: self.spark.sql(f"SHOW TABLES IN {self._place(database)}").collect())
        return [row["tableName"] for row in rows]

    def _table(self, catalog: str, database: str, name: str) -> CatalogTable:
        place = f"{self._place(database)}.{_quoted(name)}"
        frame = _asked(lambda: self.spark.table(place))
        schema, _ = arrow_of_frame(sample_of(frame), None)
        columns = tuple(PhysicalColumn(f.name, f.type) for f in schema)
        return CatalogTable(
            ObjectPath(catalog, database, name), columns, options={"connector": CONNECTOR, _TABLE: place}
        )

    def _open(self, request: TableRequest) -> FrameSource:
        frame = _asked(lambda: self.spark.table(request.options[_TABLE]))
        return FrameSource(request.name, request.schema, frame, lambda rows: arrow_of_frame(rows, None)[1])

    def _place(self, database: str) -> str:
        return ".".join(_quoted(part) for part in (self._catalog, database) if part)


def _names(names: Callable[[], list[str]], make: Callable[[str], V]) -> ForeignNames[V]:
    hint = "make and change its tables with spark.sql(...), or write a file that Spark reads"
    return ForeignNames(names, make, "the catalog of a Spark session", hint)


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
