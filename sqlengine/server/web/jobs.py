"""Jobs and views as objects of JSON: what runs, how fast, how far behind, and what it has left out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import code_and_text
from runtime.core.secrets import masked_sql, masked_text
from runtime.local.job import Job
from runtime.plan.identity import short_kind
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.database import Database
from sqlengine.database.freshness import ages
from sqlengine.database.jobs import FailedJob, RunningJob
from sqlengine.database.maintained_view import MaintainedView
from sqlengine.server.http.refused import Refused
from sqlengine.server.web.rates import Rate, Rates

__all__ = ["Monitor"]


class Monitor:
    """What runs in a database. Nothing waits for it: it reads what is counted anyway."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rates = Rates(self._all, time.monotonic)

    def _all(self) -> list[Job]:
        running = [running.job for running in tuple(self._database.jobs.jobs.values())]
        return [*running, *(view.job for view in self._database.views.jobs())]

    # --- jobs

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs of statements, the newest first."""
        rates = self._rates.look()
        found = [self._job(running, rates.get(running.job)) for running in tuple(self._database.jobs.jobs.values())]
        found += [_failed(failed) for failed in tuple(self._database.jobs.failed.values())]
        return found[::-1]

    def job(self, name: str) -> dict[str, Any]:
        """A job with its operators. Raises Refused 404."""
        failed = self._database.jobs.failed.get(name)
        if failed is not None:
            return {**_failed(failed), "operators": []}
        running = self.running(name)
        rate = self._rates.look().get(running.job)
        return {**self._job(running, rate), "operators": self._operators(running.job, rate)}

    def running(self, name: str) -> RunningJob:
        """Raises Refused 404."""
        found = self._database.jobs.jobs.get(name)
        if found is None:
            raise Refused(404, f"there is no job '{name}'")
        return found

    def job_of(self, name: str) -> Job:
        """The job of a statement, or that of a view by its name. Raises Refused 404."""
        for view in self._database.views.jobs():
            if view.job.name == name:
                return view.job
        return self.running(name).job

    def _job(self, running: RunningJob, rate: Rate | None) -> dict[str, Any]:
        job, failure = running.job, running.failure or running.job.error
        return {
            "job": running.id,
            "kind": "job" if job.dataflow.sinks() else "query",
            "statement": running.statement,
            "status": job.status,
            "kept": running.kept,
            "weight": running.weight,
            "error": None if failure is None else _error(*code_and_text(failure), job.failed_at),
            **self._figures(job, rate),
        }

    def _figures(self, job: Job, rate: Rate | None) -> dict[str, Any]:
        flow, now = job.dataflow, self._database.clock.now()
        watermark, rejected = flow.watermark, tuple(self._database.rejected.counts.items())
        checkpoints = job.checkpoints
        return {
            "epochs": flow.epoch,
            "restarts": job.attempts,
            "rows_in": sum(v.rows_in for v in flow.vertices if v.operator is None),
            "rows_out": sum(sink.rows_written for sink in flow.sinks()),
            "rows_rejected": sum(rows for (of, _, _), rows in rejected if of == job.name),
            "state_rows": flow.state_rows,
            "state_bytes": flow.state_bytes,
            "backlog_rows": sum(source.backlog for source in job.inputs if source.gathers),
            "rows_in_per_second": None if rate is None else round(rate.rows_in, 3),
            "rows_out_per_second": None if rate is None else round(rate.rows_out, 3),
            "busy_share": None if rate is None else round(rate.busy, 4),
            "watermark": _moment(watermark),
            "watermark_lag_seconds": (now - watermark) / 1000 if _moment(watermark) is not None else None,
            "checkpoint": None if checkpoints is None or checkpoints.last is None else _checkpoint(checkpoints.last),
        }

    def _operators(self, job: Job, rate: Rate | None) -> list[dict[str, Any]]:
        rejected: dict[str, int] = {}
        for (of, operator, _), rows in tuple(self._database.rejected.counts.items()):
            if of == job.name:
                rejected[operator] = rejected.get(operator, 0) + rows
        found: list[dict[str, Any]] = []
        for number, vertex in enumerate(job.dataflow.vertices):
            size = None if vertex.operator is None else vertex.operator.state_size
            speed = None if rate is None or number >= len(rate.operators) else rate.operators[number]
            found.append(
                {
                    "number": number,
                    "operator": vertex.name,
                    "kind": short_kind(vertex.node),
                    "about": masked_text(vertex.node.text()),
                    "table": vertex.node.outside_name or None,
                    "inputs": list(vertex.inputs),
                    "tasks": 1 if vertex.operator is None else len(vertex.operator.tasks),
                    "rows_in": vertex.rows_in,
                    "rows_out": vertex.rows_out,
                    "rows_rejected": rejected.get(vertex.name, 0) + rejected.get(vertex.node.outside_name, 0),
                    "state_rows": 0 if size is None else size.rows,
                    "state_bytes": 0 if size is None else size.bytes,
                    "busy_seconds": round(vertex.busy_seconds, 6),
                    "rows_in_per_second": None if speed is None else round(speed[0], 3),
                    "rows_out_per_second": None if speed is None else round(speed[1], 3),
                    "busy_share": None if speed is None else round(speed[2], 4),
                    "waiting_share": None if speed is None else round(1 - speed[2], 4),
                    "watermark": _moment(vertex.watermark),
                    "idle": vertex.idle,
                }
            )
        return found

    # --- views

    def views(self) -> list[dict[str, Any]]:
        """All materialized views, each behind those that it reads."""
        rates, kept = self._rates.look(), self._database.views.jobs()
        age = ages(kept, time.monotonic())
        return [self._view(view, age, rates.get(view.job)) for view in kept]

    def view(self, path: ObjectPath) -> dict[str, Any]:
        """A view with its operators. Raises Refused 404."""
        kept = self._database.views.jobs()
        for view in kept:
            if view.path == path:
                rate = self._rates.look().get(view.job)
                shown = self._view(view, ages(kept, time.monotonic()), rate)
                return {**shown, "operators": self._operators(view.job, rate)}
        raise Refused(404, f"there is no materialized view {path}")

    def _view(self, view: MaintainedView, age: Mapping[ObjectPath, float], rate: Rate | None) -> dict[str, Any]:
        contents = view.contents
        if view.failure is not None:
            status = "FAILED"
        elif view.ended:
            status = "RESTING" if view.rests else "FINISHED"
        else:
            status = "RUNNING"
        failure = view.failure
        return {
            "view": str(view.path),
            "path": list(view.path.parts),
            "job": view.job.name,
            "status": status,
            "reads": sorted(str(path) for path in view.inputs),
            "rows": 0 if contents is None else contents.held,
            "bytes": 0 if contents is None else contents.nbytes,
            "freshness_seconds": round(age[view.path], 3),
            "latency_seconds": round(view.seconds, 6),
            "from_connectors": view.outside,
            "error": None if failure is None else _error(failure.code, failure.message, None),
            **self._figures(view.job, rate),
        }


def _failed(failed: FailedJob) -> dict[str, Any]:
    """A job of an earlier run that has failed."""
    nothing = ("watermark", "watermark_lag_seconds", "rows_in_per_second", "rows_out_per_second", "busy_share")
    counts = ("epochs", "restarts", "rows_in", "rows_out", "rows_rejected", "state_rows", "state_bytes", "backlog_rows")
    return {
        "job": failed.id,
        "kind": "job",
        "statement": masked_sql(failed.statement),
        "status": "FAILED",
        "kept": True,
        "weight": None,
        "error": _error(failed.code, failed.message, None),
        **dict.fromkeys(counts, 0),
        **dict.fromkeys((*nothing, "checkpoint")),
    }


def _error(code: str, text: str, moment: int | None) -> dict[str, Any]:
    return {"code": code, "detail": masked_text(text), "at": moment}


def _moment(watermark: int) -> int | None:
    return None if watermark in (MIN_WATERMARK, MAX_WATERMARK) else watermark


def _checkpoint(info: Any) -> dict[str, Any]:
    return {
        "id": info.id,
        "kind": info.kind,
        "epoch": info.epoch,
        "at": info.time,
        "bytes": info.bytes,
        "total_bytes": info.total_bytes,
        "milliseconds": info.duration,
        "status": info.status,
        "path": masked_text(info.path),
    }


def checkpoints_of(job: Job) -> list[dict[str, Any]]:
    """The checkpoints of a job, the newest first. Reads its folder."""
    return [] if job.checkpoints is None else [_checkpoint(info) for info in job.checkpoints.store.list()][::-1]


__all__ += ["checkpoints_of"]
