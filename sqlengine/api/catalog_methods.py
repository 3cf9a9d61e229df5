"""What an environment knows by name, as methods: the statements USE, SHOW, CREATE and DROP for programs, and the
functions of the program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from runtime.core.rooms import Room
from sqlengine.database.session import Session
from sqlengine.results.result import Result

if TYPE_CHECKING:
    import sqlengine.statements.functions as _functions
    import sqlengine.values.code as _code
    from sqlengine.table_api.table import Table
    from sqlengine.table_api.table_descriptor import TableDescriptor
else:
    _functions = Room("sqlengine.statements.functions")
    _code = Room("sqlengine.values.code")

__all__ = ["CatalogMethods"]


class CatalogMethods(ABC):
    """The part of an environment that names catalogs, databases, tables and functions. Raises what the statements
    raise."""

    def __init__(self, session: Session) -> None:
        self.__session = session

    @abstractmethod
    def execute_sql(self, statement: str, parameters: Any = None, *, rows: Iterable[Any] | None = None) -> Result:
        """Run one statement."""

    @abstractmethod
    def from_path(self, path: str) -> Table:
        """The table or view of a name."""

    # --- what there is

    def list_catalogs(self) -> list[str]:
        """SHOW CATALOGS."""
        return self._names("SHOW CATALOGS")

    def list_databases(self) -> list[str]:
        """SHOW DATABASES: those of the current catalog."""
        return self._names("SHOW DATABASES")

    def list_tables(self) -> list[str]:
        """SHOW TABLES: tables and views of the current database."""
        return self._names("SHOW TABLES")

    def list_views(self) -> list[str]:
        """SHOW VIEWS: views of the current database."""
        return self._names("SHOW VIEWS")

    def list_materialized_views(self) -> list[str]:
        """SHOW MATERIALIZED VIEWS: those of the current database."""
        return self._names("SHOW MATERIALIZED VIEWS")

    def list_functions(self) -> list[str]:
        """SHOW FUNCTIONS: built-in and user-defined functions."""
        return self._names("SHOW FUNCTIONS")

    def list_procedures(self) -> list[str]:
        """SHOW PROCEDURES: those of the current database."""
        return self._names("SHOW PROCEDURES")

    def get_current_catalog(self) -> str:
        """SHOW CURRENT CATALOG."""
        return self._names("SHOW CURRENT CATALOG")[0]

    def get_current_database(self) -> str:
        """SHOW CURRENT DATABASE."""
        return self._names("SHOW CURRENT DATABASE")[0]

    def use_catalog(self, name: str) -> None:
        """USE CATALOG: names without a catalog are looked up there. CatalogError E1402 for one that is none."""
        self.execute_sql(f"USE CATALOG {_code.name_sql(name)}")

    def use_database(self, name: str) -> None:
        """USE: names without a database are looked up there. CatalogError E1403 for one that is none."""
        self.execute_sql(f"USE {_code.path_sql(name)}")

    # --- what is made

    def create_catalog(self, name: str, options: Mapping[str, str]) -> None:
        """CREATE CATALOG WITH these options, of which 'type' says what kind of catalog it is."""
        written = ", ".join(f"{_code.value_sql(k)} = {_code.value_sql(v)}" for k, v in options.items())
        self.execute_sql(f"CREATE CATALOG {_code.name_sql(name)} WITH ({written})")

    def create_table(self, path: str, descriptor: TableDescriptor, ignore_if_exists: bool = False) -> None:
        """CREATE TABLE as a descriptor says. CatalogError E1401 for a name that is taken."""
        self.execute_sql(descriptor.ddl(path, temporary=False, if_not_exists=ignore_if_exists))

    def create_temporary_table(self, path: str, descriptor: TableDescriptor, ignore_if_exists: bool = False) -> None:
        """CREATE TEMPORARY TABLE as a descriptor says."""
        self.execute_sql(descriptor.ddl(path, temporary=True, if_not_exists=ignore_if_exists))

    def drop_table(self, path: str, ignore_if_not_exists: bool = True) -> None:
        """DROP TABLE. BindError E1202 for one that is none, unless that is ignored."""
        self._drop("TABLE", path, ignore_if_not_exists)

    def drop_temporary_table(self, path: str) -> None:
        """DROP TEMPORARY TABLE IF EXISTS."""
        self._drop("TEMPORARY TABLE", path, True)

    def drop_view(self, path: str, ignore_if_not_exists: bool = True) -> None:
        """DROP VIEW."""
        self._drop("VIEW", path, ignore_if_not_exists)

    def drop_procedure(self, path: str, ignore_if_not_exists: bool = True) -> None:
        """DROP PROCEDURE. CatalogError E1450 for one that is none, unless that is ignored."""
        self._drop("PROCEDURE", path, ignore_if_not_exists)

    def drop_temporary_procedure(self, path: str) -> None:
        """DROP TEMPORARY PROCEDURE IF EXISTS."""
        self._drop("TEMPORARY PROCEDURE", path, True)

    def _drop(self, kind: str, path: str, ignore: bool) -> None:
        self.execute_sql(f"DROP {kind} {'IF EXISTS ' if ignore else ''}{_code.path_sql(path)}")

    def _names(self, statement: str) -> list[str]:
        return [row[0] for row in self.execute_sql(statement)]

    # --- functions

    def create_temporary_system_function(self, name: str, function: Any) -> None:
        """Register a Python function for SQL: one decorated by `udf`, `udtf`, `udaf` or `udtaf`, a plain function with
        type annotations, or an object of their base classes.

        Raises CatalogError E1441 for a name that a function of the engine has.
        """
        _functions.register(self.__session, name, function)

    def create_temporary_function(self, path: str, function: Any) -> None:
        """The same as `create_temporary_system_function`; a catalog and database in the path are ignored."""
        _functions.register(self.__session, path.rpartition(".")[2], function)

    def drop_temporary_system_function(self, name: str) -> bool:
        """Drop a function; returns whether there was one."""
        return _functions.unregister(self.__session, name, if_exists=True)

    def drop_temporary_function(self, path: str) -> bool:
        """The same as `drop_temporary_system_function`."""
        return _functions.unregister(self.__session, path.rpartition(".")[2], if_exists=True)

    def drop_function(self, path: str) -> bool:
        """The same as `drop_temporary_system_function`."""
        return self.drop_temporary_function(path)

    def list_user_defined_functions(self) -> list[str]:
        """The names of user-defined functions."""
        return sorted(name.lower() for name in self.__session.user_functions)
