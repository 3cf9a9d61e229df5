"""Which tables feed which views and tables, column by column."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from planner.logical.lineage import Origins, column_origins, tables_read
from planner.logical.nodes import LogicalNode
from runtime.core.errors import SqlEngineError
from sqlengine.api.environment import TableEnvironment
from sqlengine.bind import bind_query
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView
from sqlengine.database.binding import Binding
from sqlengine.database.jobs import RunningJob
from sqlengine.database.session import Session
from sqlengine.parse import parse_statement
from sqlengine.parse import statement_nodes as st
from sqlengine.statements.planning import bound_view, plan_insert

__all__ = ["Lineage", "kind_of"]


class Lineage:
    """Asked for as often as somebody likes: it is found anew when definitions, or the jobs that run, are others."""

    def __init__(self, environment: TableEnvironment) -> None:
        self._environment = environment
        self._database = environment.session.database
        self._known: tuple[object, dict[str, Any]] | None = None
        self._guard = threading.Lock()

    def found(self) -> dict[str, Any]:
        """`nodes` are tables and views, with the names of their columns; an edge of `edges` says that one is computed `from`
        another, and which `columns` from which: by a view, or by the `job` that it names."""
        jobs = [running for running in self._database.jobs.active() if running.begun is not None]
        now = self._database.shown.catalogs, tuple(running.id for running in jobs)
        with self._guard:
            if self._known is None or self._known[0] != now:
                self._known = now, self._read(jobs)
            return self._known[1]

    def _read(self, jobs: Iterable[RunningJob]) -> dict[str, Any]:
        environment = self._environment.new_session()
        try:
            session = environment.session
            nodes: dict[str, dict[str, Any]] = {}
            edges: list[dict[str, Any]] = []
            for thing in sorted(session.catalogs.all_objects(), key=lambda thing: thing.path.parts):
                names = [c if isinstance(c, str) else c.name for c in thing.columns]
                node = {"id": str(thing.path), "path": list(thing.path.parts), "kind": kind_of(thing), "columns": names}
                connector = thing.connector if isinstance(thing, CatalogTable) else None
                nodes[str(thing.path)] = {**node, "connector": connector}
                if not isinstance(thing, CatalogTable):
                    columns, read = _of_view(session, thing)
                    nodes[str(thing.path)]["columns"] = list(columns) or names
                    edges += _edges(str(thing.path), columns, read, None)
            for running in jobs:
                for target, columns, read in _of_job(session, running):
                    edges += _edges(target, columns, read, running.id)
            for edge in edges:
                for end in (edge["from"], edge["to"]):
                    place = {"id": end, "path": [], "kind": "table", "columns": [], "connector": None}
                    nodes.setdefault(end, place)
            return {"nodes": list(nodes.values()), "edges": edges}
        finally:
            environment.close()


_Columns = Mapping[str, Origins]


def kind_of(thing: CatalogTable | CatalogView | MaterializedView) -> str:
    """What SQL calls an object."""
    if isinstance(thing, CatalogTable):
        return "table"
    return "view" if isinstance(thing, CatalogView) else thing.kind


def _edges(target: str, columns: _Columns, read: Iterable[str], job: str | None) -> list[dict[str, Any]]:
    return [
        {
            "from": source,
            "to": target,
            "job": job,
            "columns": [
                {"from": column, "to": name}
                for name, origins in columns.items()
                for table, column in sorted(origins)
                if table == source
            ],
        }
        for source in sorted(read)
    ]


def _of_view(session: Session, view: CatalogView | MaterializedView) -> tuple[_Columns, Iterable[str]]:
    """The origins of the columns of a view, and the tables that it reads; nothing where it can no longer be bound."""

    def read() -> tuple[_Columns, Iterable[str]]:
        if isinstance(view, CatalogView):
            bound = bind_query(view.query, Binding(session, False).within(view))
            names = view.columns or bound.names
        else:
            home = view.path if view.refresh is None else view.refresh
            session.catalogs.use_database(home.catalog, home.database)
            bound, names = bound_view(session, view.query), [column.name for column in view.columns]
        return _named(names, bound.plan), tables_read(bound.plan)

    try:
        return session.at_a_version(read)
    except SqlEngineError:
        known = next((kept.inputs for kept in session.views.jobs() if kept.path == view.path), frozenset())
        return {}, [str(path) for path in known]


def _named(names: Iterable[str], plan: LogicalNode) -> _Columns:
    return dict(zip(names, column_origins(plan), strict=False))


def _of_job(session: Session, running: RunningJob) -> list[tuple[str, _Columns, Iterable[str]]]:
    """The tables that a job writes, with the origins of their columns, and the tables that it reads."""
    begun = running.begun
    assert begun is not None

    def read() -> list[tuple[str, _Columns, Iterable[str]]]:
        session.catalogs.use_database(begun.catalog, begun.database)
        statement = parse_statement(begun.text)
        found: list[tuple[str, _Columns, Iterable[str]]] = []
        for insert in statement.statements if isinstance(statement, st.StatementSet) else (statement,):
            if isinstance(insert, st.Insert):
                target = session.catalogs.get(insert.table.parts, insert.table.span)
                if isinstance(target, CatalogTable):
                    plan = plan_insert(session, insert, target, live=True).bound
                    (source,) = plan.inputs
                    names = [f.name for f in session.open_sink(target, {}, live=True).schema]
                    found.append((str(target.path), _named(names, source), tables_read(source)))
        return found

    try:
        return session.at_a_version(read) or _of_flow(running)
    except SqlEngineError:
        return _of_flow(running)


def _of_flow(running: RunningJob) -> list[tuple[str, _Columns, Iterable[str]]]:
    """The same from what runs, without columns."""
    nodes = [vertex.node for vertex in running.job.dataflow.vertices]
    read = {node.outside_name for node in nodes if node.table_use in ("source", "lookup")}
    return [(node.outside_name, {}, read) for node in nodes if node.table_use == "sink"]
