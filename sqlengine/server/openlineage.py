"""Events of OpenLineage: which job reads and writes what, column by column, and how it ends.

A thread looks about once a second at what runs, so nothing in a job waits for it, and a lineage server that cannot be
reached costs the events that do not fit a bounded queue.

Source: OpenLineage, specification 2-0-2 (RunEvent) and its facets.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import threading
import urllib.error
import urllib.request
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from runtime.core.errors import OptionError, code_and_text
from runtime.core.logs import Log
from runtime.core.secrets import masked_sql, masked_text, shown_value
from runtime.local.job import Job
from sqlengine.api.environment import TableEnvironment
from sqlengine.catalog.objects import CatalogTable, MaterializedView
from sqlengine.database.jobs import RunningJob
from sqlengine.database.maintained_view import MaintainedView
from sqlengine.server.lineage import Lineage
from sqlengine.statements.create_text import create_text

__all__ = ["Emitter", "emitting", "sender_of"]

_POSTGRES = re.compile(
    r"(?:jdbc:)?postgres(?:ql)?://(?:[^/@]*@)?(?P<host>\[[^\]]*\]|[^/:]+)(?::(?P<port>\d+))?/(?P<database>[^?]*)"
)
_log = Log("server")
_PRODUCER = "https://pypi.org/project/sqlengine"
_SPEC = "https://openlineage.io/spec"
_RUN_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_LOOK_SECONDS = 1.0
_SEND_SECONDS = 10.0
_MOST_WAITING = 1000
"""Events that wait for a server that cannot be reached; the oldest are dropped."""
KEY = "OPENLINEAGE_API_KEY"
"""Of the environment: what a server of lineage wants to be told, as its other clients read it."""

Send = Callable[[str], None]
_ENDS = {"FAILED": "FAIL", "CANCELED": "ABORT"}


def sender_of(target: str) -> Send:
    """What takes an event: the end of a file, or a server at a URL.

    Raises OptionError for another kind of URL, and for a file that cannot be written.
    """
    if "://" not in target:
        try:
            open(target, "a").close()
        except OSError as error:
            raise OptionError(
                f"--openlineage {target} cannot be written: {error.strerror}",
                code="E1500",
                hint="give a file, or a URL",
            ) from error

        def append(text: str) -> None:
            with open(target, "a", encoding="utf-8") as file:
                file.write(text + "\n")

        return append
    if not target.startswith(("http://", "https://")):
        raise OptionError(
            f"--openlineage {masked_text(target)} is no URL of HTTP",
            code="E1500",
            hint="such as http://host:5000/api/v1/lineage",
        )
    headers = {"Content-Type": "application/json", "User-Agent": "sqlengine"}
    if key := os.environ.get(KEY):
        headers["Authorization"] = f"Bearer {key}"

    def post(text: str) -> None:
        request = urllib.request.Request(target, text.encode(), headers, method="POST")
        with urllib.request.urlopen(request, timeout=_SEND_SECONDS):
            pass

    return post


@dataclass(slots=True)
class _Run:
    """A run that was told of. `job`: with its facets, nothing once its end was told; `datasets`: what it reads and writes."""

    job: dict[str, Any]
    datasets: dict[str, list[dict[str, Any]]]
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


class Emitter:
    """Tells of the jobs and views of a database. `look` is called by one thread at a time."""

    def __init__(self, environment: TableEnvironment, send: Send) -> None:
        self._database = environment.session.database
        self._lineage = Lineage(environment)
        self._send = send
        self._runs: dict[Job, _Run] = {}
        self._waiting: deque[str] = deque(maxlen=_MOST_WAITING)
        self._reached = True
        durable = self._database.durable
        self._namespace = "sqlengine" if durable is None else f"sqlengine://{masked_text(durable.folder.place)}"

    def look(self) -> None:
        """Tell of what has begun and ended since the last time."""
        for view in self._database.views.jobs():
            self._follow(view, str(view.path), None, self._view_ends(view))
        for running in tuple(self._database.jobs.jobs.values()):
            if running.job.dataflow.sinks():
                self._follow(running, running.id, running.id, self._job_ends(running))
        kept = {view.job for view in self._database.views.jobs()}
        kept |= {running.job for running in tuple(self._database.jobs.jobs.values())}
        for gone in [job for job in self._runs if job not in kept]:
            run = self._runs.pop(gone)
            if run.job:
                self._tell(run, "ABORT")
        self._deliver()

    def _follow(
        self,
        what: RunningJob | MaintainedView,
        name: str,
        job: str | None,
        ends: tuple[str, BaseException | None] | None,
    ) -> None:
        run = self._runs.get(what.job)
        if run is None:
            run = self._runs[what.job] = _Run(self._job(what, name), self._datasets(what, name, job))
            self._tell(run, "START")
        if ends is not None and run.job:
            self._tell(run, *ends)
            run.job = {}

    @staticmethod
    def _job_ends(running: RunningJob) -> tuple[str, BaseException | None] | None:
        if not running.done.is_set():
            return None
        return _ENDS.get(running.job.status, "COMPLETE"), running.failure

    @staticmethod
    def _view_ends(view: MaintainedView) -> tuple[str, BaseException | None] | None:
        if view.failure is not None:
            return "FAIL", view.failure
        return ("COMPLETE", None) if view.ended else None

    # --- events

    def _tell(self, run: _Run, kind: str, failure: BaseException | None = None) -> None:
        facets: dict[str, Any] = {
            "processing_engine": _facet("1-1-1/ProcessingEngineRunFacet", name="sqlengine", version="1")
        }
        if failure is not None:
            code, text = code_and_text(failure)
            facets["errorMessage"] = _facet(
                "1-0-1/ErrorMessageRunFacet", message=f"{code} {masked_text(text)}", programmingLanguage="SQL"
            )
        event = {
            "eventType": kind,
            "eventTime": dt.datetime.now(dt.UTC).isoformat(),
            "run": {"runId": run.id, "facets": facets},
            "job": run.job,
            **run.datasets,
            "producer": _PRODUCER,
            "schemaURL": _RUN_EVENT,
        }
        self._waiting.append(json.dumps(event, ensure_ascii=False))

    def _job(self, what: RunningJob | MaintainedView, name: str) -> dict[str, Any]:
        if isinstance(what, RunningJob):
            text, kind = what.statement, "JOB"
        else:
            found = self._find(name)
            text, kind = "" if found is None else create_text(found), "VIEW"
        facets = {
            "jobType": _facet(
                "2-0-3/JobTypeJobFacet", processingType="STREAMING", integration="SQLENGINE", jobType=kind
            ),
            "sql": _facet("1-1-0/SQLJobFacet", query=masked_sql(text), dialect="flink"),
        }
        return {"namespace": self._namespace, "name": name, "facets": facets}

    def _datasets(
        self, what: RunningJob | MaintainedView, name: str, job: str | None
    ) -> dict[str, list[dict[str, Any]]]:
        """What it reads and writes, with the columns; a job that has ended already without."""
        edges = [e for e in self._lineage.found()["edges"] if e["job"] == job and (job is not None or e["to"] == name)]
        nodes = [vertex.node for vertex in what.job.dataflow.vertices]
        read = {node.outside_name for node in nodes if node.table_use in ("source", "lookup")} | {
            e["from"] for e in edges
        }
        written = {node.outside_name for node in nodes if node.table_use == "sink"} | {e["to"] for e in edges}
        outputs: list[dict[str, Any]] = []
        for target in sorted(written):
            fields: dict[str, dict[str, Any]] = {}
            for edge in (e for e in edges if e["to"] == target):
                for pair in edge["columns"]:
                    origin = {"namespace": self._namespace, "name": edge["from"], "field": pair["from"]}
                    fields.setdefault(pair["to"], {"inputFields": []})["inputFields"].append(origin)
            output = self._dataset(target)
            if fields:
                output["facets"]["columnLineage"] = _facet("1-2-0/ColumnLineageDatasetFacet", fields=fields)
            outputs.append(output)
        return {"inputs": [self._dataset(table) for table in sorted(read)], "outputs": outputs}

    def _dataset(self, name: str) -> dict[str, Any]:
        facets: dict[str, Any] = {}
        found = self._find(name)
        if found is not None:
            columns = [{"name": c.name, **_type(c)} for c in found.columns]
            facets["schema"] = _facet("1-1-1/SchemaDatasetFacet", fields=columns)
        if isinstance(found, CatalogTable) and (elsewhere := _elsewhere(found.options)) is not None:
            facets["symlinks"] = _facet("1-0-1/SymlinksDatasetFacet", identifiers=[{**elsewhere, "type": "TABLE"}])
        return {"namespace": self._namespace, "name": name, "facets": facets}

    def _find(self, name: str) -> CatalogTable | MaterializedView | None:
        for catalog in self._database.shown.catalogs.values():
            for database in catalog.databases.values():
                for thing in database.objects.values():
                    if str(thing.path) == name and isinstance(thing, CatalogTable | MaterializedView):
                        return thing
        return None

    # --- delivery

    def _deliver(self) -> None:
        while self._waiting:
            try:
                self._send(self._waiting[0])
            except (OSError, urllib.error.URLError, ValueError) as error:
                if self._reached:
                    _log.warning("events of lineage wait: %s", masked_text(str(error)))
                self._reached = False
                return
            self._waiting.popleft()
            self._reached = True


def _facet(schema: str, **values: Any) -> dict[str, Any]:
    name = schema.partition("/")[2]
    return {"_producer": _PRODUCER, "_schemaURL": f"{_SPEC}/facets/{schema}.json#/$defs/{name}", **values}


def _type(column: object) -> dict[str, str]:
    found = getattr(column, "type", None)
    return {} if found is None else {"type": str(found)}


def _elsewhere(options: Mapping[str, str]) -> dict[str, str] | None:
    """What other systems call the data of a table, as OpenLineage names it."""
    if "topic" in options and (servers := options.get("properties.bootstrap.servers")):
        return {"namespace": f"kafka://{servers.split(',')[0]}", "name": options["topic"]}
    if (table := options.get("table-name")) and (host := options.get("hostname")):
        place = f"{options.get('database-name', '')}.{options.get('schema-name', 'public')}.{table}"
        return {"namespace": f"postgres://{host}:{options.get('port', '5432')}", "name": place}
    if (table := options.get("table-name")) and (found := _POSTGRES.match(options.get("url", ""))):
        schema = options.get("schema-name", "" if "." in table else "public")
        return {
            "namespace": f"postgres://{found['host']}:{found['port'] or 5432}",
            "name": ".".join(part for part in (unquote(found["database"]), schema, table) if part),
        }
    if (table := options.get("catalog-table")) and options.get("connector") == "iceberg":
        place = options.get("uri") or options.get("warehouse", "")
        return {
            "namespace": masked_text(shown_value("uri", place)),
            "name": f"{options.get('catalog-database', 'default')}.{table}",
        }
    if path := options.get("path") or options.get("table-path"):
        scheme, separator, rest = shown_value("path", path).partition("://")
        if not separator:
            return {"namespace": "file", "name": masked_text(path)}
        place, _, name = masked_text(rest).partition("/")
        return {"namespace": f"{scheme}://{place}", "name": name}
    return None


@contextmanager
def emitting(environment: TableEnvironment, target: str) -> Iterator[None]:
    """Tell of what runs as long as the block does."""
    emitter, stopped = Emitter(environment, sender_of(target)), threading.Event()

    def run() -> None:
        while not stopped.wait(_LOOK_SECONDS):
            try:
                emitter.look()
            except Exception as error:
                _log.failure("events of lineage", error)

    thread = threading.Thread(target=run, name="openlineage", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(2 * _SEND_SECONDS)
