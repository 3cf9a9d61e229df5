"""The engine as part of a Spark session: `spark.sqlengine("SELECT ...")`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from runtime.core.rooms import Room
from runtime.spark.session import is_remote
from sqlengine.catalog import catalog as _catalogs
from sqlengine.catalog.objects import ObjectPath

if TYPE_CHECKING:
    import sqlengine.api.environment as _environment
    import sqlengine.spark_catalog as _spark_catalog
    from sqlengine.api.environment import TableEnvironment
    from sqlengine.results.result import Result
else:
    _environment = Room("sqlengine.api.environment")
    _spark_catalog = Room("sqlengine.spark_catalog")

__all__ = ["SparkSql", "install"]

_NAME = "sqlengine"
_CATALOG = "spark"
_lock = threading.Lock()


class SparkSql:
    """What `spark.sqlengine` is.

    Attributes:
        environment: the `TableEnvironment` in which statements run.
    """

    def __init__(self, session: Any, environment: TableEnvironment) -> None:
        self._session = session
        self.environment = environment

    def __call__(self, sql: str) -> Any:
        """Carry out a statement. A query whose input ends gives a DataFrame; any other statement its `Result`, which is
        printed with `print()` and waited for with `wait()`."""
        result: Result = self.environment.execute_sql(sql)
        return result.to_spark(self._session) if result.is_query and result.bounded else result


def install(session: Any, config: Mapping[str, str] | None = None) -> TableEnvironment:
    """Make `session.sqlengine(...)` run the engine's SQL, in the tasks of the session; over Spark Connect, which has no
    tasks of one's own, in this process.

    The session's catalog is the catalog `spark`. A name of one or two parts that the engine does not know is looked up
    there, in the session's current database, temporary views included. What is created without a catalog's name is the
    engine's own.

    Args:
        session: a SparkSession. One that has it already keeps what is there.
        config: options as in SET.
    """
    with _lock:
        found = vars(session).get(_NAME)
        if isinstance(found, SparkSql):
            return found.environment
        create = _environment.TableEnvironment.create
        environment = create(config) if is_remote(session) else create(config, spark=session)
        environment.register_catalog(_CATALOG, _spark_catalog.SparkCatalog(session))

        environment.session.catalogs.beyond = lambda parts: _path(session, parts)
        setattr(session, _NAME, SparkSql(session, environment))
        return environment


def _path(session: Any, parts: tuple[str, ...]) -> ObjectPath | None:
    """Where Spark's catalog has what the engine does not know. Texts of views have whole names, with those catalog and
    database that were current."""
    match parts:
        case (name,) | (_catalogs.DEFAULT_CATALOG, _catalogs.DEFAULT_DATABASE, name):
            return ObjectPath(_CATALOG, str(session.catalog.currentDatabase()), name)
        case (database, name) | (_catalogs.DEFAULT_CATALOG, database, name):
            return ObjectPath(_CATALOG, database, name)
        case _:
            return None
