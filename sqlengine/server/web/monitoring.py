"""Paths that tell what runs: health, metrics, jobs, views, checkpoints, rejected rows, the log."""

from __future__ import annotations

import time
from importlib.metadata import version

import pyarrow.compute as pc
from aiohttp import web

from runtime.core.errors import SqlEngineError
from sqlengine.api.environment import TableEnvironment
from sqlengine.catalog.objects import ObjectPath
from sqlengine.server.http.refused import Refused
from sqlengine.server.http.sessions import in_thread
from sqlengine.server.web.flink_metrics import all_metrics
from sqlengine.server.web.jobs import Monitor, checkpoints_of
from sqlengine.server.web.recent_log import LEVELS, RecentLog
from sqlengine.server.web.rights import monitored
from sqlengine.server.web.route import Parameter, Route, answer, number, number_of

__all__ = ["HEALTH", "Monitoring", "path_of"]

HEALTH = ("/healthz", "/readyz")
"""Paths that anybody may ask, and that tell nothing but that the server is there."""
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_LIMIT = number("limit", 200, 1, 2000, "at most so many, the newest ones")
_AFTER = number("after", 0, 0, 10**15, "only those behind the one with this number")
_LEVEL = Parameter("level", {"type": "string", "enum": list(LEVELS), "default": "INFO"}, "from this level on")
_JOB = Parameter("job", {"type": "string"}, "only those of this job")


class Monitoring:
    """What the paths answer. `log`: what was logged lately."""

    def __init__(self, environment: TableEnvironment, log: RecentLog) -> None:
        self._environment = environment
        self._database = environment.session.database
        self._monitor = Monitor(self._database)
        self._log = log
        self._begun = time.monotonic()

    @property
    def monitor(self) -> Monitor:
        """What runs."""
        return self._monitor

    def routes(self) -> list[Route]:
        """The paths."""
        api = "/api/v1"
        job, view = f"{api}/jobs/{{job}}", f"{api}/views/{{catalog}}/{{database}}/{{name}}"
        return [
            Route("GET", "/healthz", self.health, "health", "Whether the server answers.", "Health"),
            Route(
                "GET", "/readyz", self.ready, "readiness", "Whether the database is open and can write.", "Health",
                refuses=(503,),
            ),
            Route("GET", "/metrics", monitored(self.metrics), "metrics", "All figures, as Prometheus reads them.", "text/plain"),
            Route("GET", f"{api}/server", monitored(self.server), "server", "What this server is, and how much it has.", "Server"),
            Route("GET", f"{api}/jobs", monitored(self.jobs), "list_jobs", "The jobs of statements, the newest first.", "Jobs"),
            Route("GET", job, monitored(self.job), "get_job", "A job with its plan.", "Job", refuses=(404,)),
            Route(
                "GET", f"{job}/checkpoints", monitored(self.checkpoints), "list_checkpoints",
                "The checkpoints and savepoints of a job, the newest first.", "Checkpoints", refuses=(404,),
            ),
            Route(
                "GET", f"{api}/views", monitored(self.views), "list_views",
                "The materialized views, each behind those that it reads.", "Views",
            ),
            Route("GET", view, monitored(self.view), "get_view", "A materialized view with its plan.", "View", refuses=(404,)),
            Route(
                "GET", f"{api}/rejected", monitored(self.rejected), "list_rejected",
                "How many rows were rejected, where and why, and some of them.", "Rejected", parameters=(_JOB, _LIMIT),
            ),
            Route(
                "GET", f"{api}/logs", monitored(self.logs), "list_logs", "What was logged lately, the oldest first.", "Logs",
                parameters=(_JOB, _LEVEL, _AFTER, _LIMIT),
            ),
        ]  # fmt: skip

    async def health(self, request: web.Request) -> web.Response:
        return answer({"status": "ok"})

    async def ready(self, request: web.Request) -> web.Response:
        durable = self._database.durable
        try:
            if durable is not None:
                durable.check()
            ready = not self._database.closed.is_set()
        except SqlEngineError:
            ready = False
        if not ready:
            raise Refused(503, "the database is closed, or can write no more")
        return answer({"status": "ready"})

    async def metrics(self, request: web.Request) -> web.Response:
        text = await in_thread(lambda: all_metrics(self._database.metrics.collect()))
        return web.Response(body=text.encode(), headers={"Content-Type": _METRICS})

    async def server(self, request: web.Request) -> web.Response:
        database = self._database
        views, jobs = database.views.jobs(), database.jobs
        return answer(
            {
                "product": "sqlengine",
                "version": version("sqlengine"),
                "database": None if database.durable is None else database.durable.folder.place,
                "epoch": database.shown.epoch,
                "up_seconds": round(time.monotonic() - self._begun, 3),
                "jobs": len(jobs.active()),
                "jobs_failed": len(jobs.failed) + sum(j.failure is not None for j in tuple(jobs.jobs.values())),
                "views": len(views),
                "views_failed": sum(view.failure is not None for view in views),
                "rows_rejected": database.rejected.total,
                "replication": None if database.replica is None else database.replica.facts(),
                "replicas": [each.facts() for each in tuple(database.replicas)],
            }
        )

    async def jobs(self, request: web.Request) -> web.Response:
        return answer({"jobs": self._monitor.jobs()})

    async def job(self, request: web.Request) -> web.Response:
        return answer(self._monitor.job(request.match_info["job"]))

    async def checkpoints(self, request: web.Request) -> web.Response:
        job = self._monitor.job_of(request.match_info["job"])
        return answer({"checkpoints": await in_thread(lambda: checkpoints_of(job))})

    async def views(self, request: web.Request) -> web.Response:
        return answer({"views": self._monitor.views()})

    async def view(self, request: web.Request) -> web.Response:
        return answer(self._monitor.view(path_of(request)))

    async def rejected(self, request: web.Request) -> web.Response:
        limit, job = number_of(request, _LIMIT), request.query.get("job")
        rejected = self._database.rejected
        counts = [
            {"job": of, "operator": operator, "reason": reason, "rows": rows}
            for (of, operator, reason), rows in tuple(rejected.counts.items())
            if job in (None, of)
        ]
        rows = rejected.rows()
        if job is not None:
            rows = rows.filter(pc.equal(rows.column("job"), job))
        kept = rows.slice(max(0, rows.num_rows - limit)).to_pylist()
        for row in kept:
            for name in ("event_time", "watermark"):
                row[name] = None if row[name] is None else row[name].isoformat(" ", "milliseconds")
        return answer({"counts": counts, "rows": kept[::-1]})

    async def logs(self, request: web.Request) -> web.Response:
        level = request.query.get("level", "INFO")
        if level not in LEVELS:
            raise Refused(400, f"level is one of {', '.join(LEVELS)}")
        found = self._log.records(
            LEVELS[level], request.query.get("job"), number_of(request, _AFTER), number_of(request, _LIMIT)
        )
        return answer({"records": found})


def path_of(request: web.Request) -> ObjectPath:
    """The object that a path names."""
    named = request.match_info
    return ObjectPath(named["catalog"], named["database"], named["name"])
