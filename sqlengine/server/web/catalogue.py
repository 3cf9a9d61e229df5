"""Paths that tell what there is: catalogs, databases, tables, views, their columns, and what feeds what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiohttp import web

from runtime.core.errors import SqlEngineError
from runtime.core.types import DataType
from sqlengine.api.environment import TableEnvironment
from sqlengine.catalog.catalog import CatalogObject, Database
from sqlengine.catalog.objects import CatalogTable, CatalogView, ComputedColumn, MaterializedView, MetadataColumn
from sqlengine.server.http.refused import Refused
from sqlengine.server.http.sessions import in_thread
from sqlengine.server.lineage import Lineage, kind_of
from sqlengine.server.web.monitoring import path_of
from sqlengine.server.web.rights import monitored, sees, sees_table
from sqlengine.server.web.route import Route, answer
from sqlengine.statements.create_text import create_text
from sqlengine.statements.planning import object_schema

__all__ = ["Catalogue"]


def _seen(database: Database) -> Iterator[CatalogObject]:
    """What whoever asks may know of, by name."""
    return (database.objects[name] for name in sorted(database.objects) if sees_table(database.objects[name].path))


class Catalogue:
    """What the paths answer."""

    def __init__(self, environment: TableEnvironment, lineage: Lineage) -> None:
        self._environment = environment
        self._database = environment.session.database
        self._lineage = lineage

    def routes(self) -> list[Route]:
        """The paths."""
        api = "/api/v1"
        return [
            Route("GET", f"{api}/catalog", self.catalog, "get_catalog", "All catalogs, databases, tables and views.", "Catalog"),
            Route(
                "GET", f"{api}/catalog/{{catalog}}/{{database}}/{{name}}", self.object, "get_object",
                "A table or view: its columns, its definition, what it reads and what reads it.", "Object", refuses=(404,),
            ),
            Route(
                "GET", f"{api}/lineage", monitored(self.lineage), "get_lineage",
                "Which tables feed which views and tables, column by column.", "Lineage",
            ),
        ]  # fmt: skip

    async def catalog(self, request: web.Request) -> web.Response:
        return answer(
            {
                "catalogs": [
                    {
                        "name": catalog.name,
                        "databases": [
                            {"name": name, "objects": [_brief(thing) for thing in _seen(database)]}
                            for name, database in sorted(catalog.databases.items())
                            if sees("database", catalog.name, name)
                        ],
                    }
                    for catalog in self._database.shown.catalogs.values()
                    if sees("catalog", catalog.name)
                ]
            }
        )

    async def object(self, request: web.Request) -> web.Response:
        path = path_of(request)
        home = self._database.shown.catalogs.get(path.catalog)
        database = None if home is None else home.databases.get(path.database)
        found = None if database is None else database.objects.get(path.name)
        if found is None or not sees_table(path):
            raise Refused(404, f"there is no table or view {path}")
        return answer(await in_thread(lambda: self._whole(found)))

    async def lineage(self, request: web.Request) -> web.Response:
        return answer(await in_thread(self._lineage.found))

    def _whole(self, thing: CatalogObject) -> dict[str, Any]:
        name, edges = str(thing.path), self._lineage.found()["edges"]
        stored = None if isinstance(thing, CatalogView) else self._database.memory.get(thing.storage)
        keys = () if isinstance(thing, CatalogView) else thing.primary_key
        return {
            **_brief(thing),
            "columns": self._columns(thing),
            "primary_key": list(keys),
            "definition": create_text(thing),
            "rows": None if stored is None else stored.held,
            "bytes": None if stored is None else stored.nbytes,
            "reads": sorted({edge["from"] for edge in edges if edge["to"] == name}),
            "read_by": sorted({edge["to"] for edge in edges if edge["from"] == name}),
        }

    def _columns(self, thing: CatalogObject) -> list[dict[str, Any]]:
        """Those of a view that can no longer be bound are not known."""
        environment = self._environment.new_session()
        session = environment.session
        try:
            schema = session.at_a_version(lambda: object_schema(session, thing))
        except SqlEngineError:
            return []
        finally:
            environment.close()
        return [_column(f.name, f.type, thing) for f in schema]


def _brief(thing: CatalogObject) -> dict[str, Any]:
    return {
        "name": thing.path.name,
        "path": list(thing.path.parts),
        "kind": kind_of(thing),
        "connector": thing.connector if isinstance(thing, CatalogTable) else None,
        "in_memory": isinstance(thing, MaterializedView)
        or (isinstance(thing, CatalogTable) and thing.connector is None),
        "comment": thing.comment,
    }


def _column(name: str, type_: DataType, thing: CatalogObject) -> dict[str, Any]:
    declared = thing.column(name) if isinstance(thing, CatalogTable) else None
    kind = "computed" if isinstance(declared, ComputedColumn) else "stored"
    kind = "metadata" if isinstance(declared, MetadataColumn) else kind
    comment = None if declared is None else declared.comment
    return {"name": name, "type": str(type_), "kind": kind, "comment": comment}
