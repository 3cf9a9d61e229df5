"""The things that statements name, as those that privileges are on."""

from __future__ import annotations

from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.session import Session
from sqlengine.parse.ddl_nodes import ObjectName
from sqlengine.roles.privileges import Target

__all__ = ["database_target", "definition_target", "function_target", "is_there", "table_target"]


def table_target(session: Session, name: ObjectName) -> Target:
    """A table or view, or what would be one."""
    return Target("table", session.catalogs.qualify(name.parts).parts)


def database_target(session: Session, name: ObjectName) -> Target:
    """A database by its own name."""
    catalog = name.parts[0] if len(name.parts) == 2 else session.catalogs.current_catalog
    return Target("database", (catalog, name.parts[-1]))


def definition_target(session: Session, kind: str, name: ObjectName) -> Target:
    """A model, connection, procedure or sequence."""
    return Target(kind, session.catalogs.qualify(name.parts).parts)


def function_target(name: str) -> Target:
    """A function of a user: functions are in no database."""
    return Target("function", (name.upper(),))


def is_there(session: Session, target: Target) -> bool:
    """Whether it is in the catalogs now; what is outside always is."""
    path, catalogs = target.path, session.catalogs
    there = {catalog.name: catalog for catalog in catalogs.catalogs()}
    match target.kind:
        case "catalog":
            return path[0] in there
        case "database":
            return path[0] in there and path[1] in there[path[0]].databases
        case "table":
            home = there.get(path[0])
            database = home.databases.get(path[1]) if home is not None else None
            return database is not None and path[2] in database.objects
        case "secret":
            return path[0] in session.database.roles.secrets
        case "function":
            return path[0] in session.database.user_functions
        case "procedure" | "model" | "connection" | "sequence":
            return catalogs.find_definition(target.kind, ObjectPath(*path)) is not None
        case _:
            return True
