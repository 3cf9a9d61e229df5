"""`system.metrics`: the figures of all that runs in an environment, and the list of those that there are."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from connectors.memory import MemoryTable
from runtime.core.clock import Clock
from runtime.core.metrics import Metric, Sample
from runtime.core.schema import Schema
from runtime.core.types import DOUBLE, STRING, map_of
from runtime.local.job_metrics import JOB_METRICS, job_samples
from runtime.local.rejected import RejectedRows
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.freshness import ages
from sqlengine.database.jobs import Jobs
from sqlengine.database.replica_state import REPLICA_METRICS
from sqlengine.database.views import Views

__all__ = ["METRICS", "METRICS_SCHEMA", "metrics_table", "session_samples"]

METRICS_SCHEMA = Schema.of(
    ("name", STRING),
    ("kind", STRING),
    ("unit", STRING),
    ("labels", map_of(STRING, STRING)),
    ("value", DOUBLE),
    ("help", STRING),
)

_VIEW, _TABLE = ("view",), ("table",)
VIEW_EPOCHS = Metric("sqlengine_view_epochs_total", "counter", "", _VIEW, "epochs of the materialized view")
VIEW_BACKLOG = Metric(
    "sqlengine_view_backlog_rows",
    "gauge",
    "rows",
    _VIEW,
    "changes that the view takes when it is read; a statement counts as at least 16 rows",
)
VIEW_FAILED = Metric(
    "sqlengine_view_failed", "gauge", "", _VIEW, "1 when the view has failed and is no longer kept up to date"
)
VIEW_AGE = Metric(
    "sqlengine_view_freshness_seconds",
    "gauge",
    "seconds",
    _VIEW,
    "how old the answer of the view is: since when rows may have come that it does not contain",
)
VIEW_LATENCY = Metric(
    "sqlengine_view_latency_seconds", "gauge", "seconds", _VIEW, "how long the last epoch of the view has taken"
)
TABLE_ROWS = Metric("sqlengine_table_rows", "gauge", "rows", _TABLE, "rows of a table in memory or a materialized view")
TABLE_BYTES = Metric("sqlengine_table_bytes", "gauge", "bytes", _TABLE, "approximate memory of these rows")
CPU = Metric("process_cpu_seconds_total", "counter", "seconds", (), "processor time of the process")
MEMORY = Metric("process_resident_memory_bytes", "gauge", "bytes", (), "memory of the process; on Linux")

METRICS = (
    *JOB_METRICS,
    VIEW_EPOCHS,
    VIEW_BACKLOG,
    VIEW_FAILED,
    VIEW_AGE,
    VIEW_LATENCY,
    TABLE_ROWS,
    TABLE_BYTES,
    *REPLICA_METRICS,
    CPU,
    MEMORY,
)
"""All figures that there are."""


class Watched(Protocol):
    """What of a session has figures."""

    jobs: Jobs
    views: Views
    memory: dict[ObjectPath, MemoryTable]
    rejected: RejectedRows
    clock: Clock


def session_samples(session: Watched) -> Iterator[Sample]:
    """The figures of jobs, views, tables in memory and the process. No view is brought up to date for it."""
    kept, now = session.views.jobs(), session.clock.now()
    running = [job.job for job in tuple(session.jobs.jobs.values())]
    for job in (*running, *(view.job for view in kept)):
        yield from job_samples(job, session.rejected, now)
    age = ages(kept, time.monotonic())
    for view in kept:
        name = str(view.path)
        yield VIEW_EPOCHS.sample(view.job.dataflow.epoch, name)
        yield VIEW_BACKLOG.sample(sum(source.backlog for source in view.job.inputs), name)
        yield VIEW_FAILED.sample(view.failure is not None, name)
        yield VIEW_AGE.sample(age[view.path], name)
        yield VIEW_LATENCY.sample(view.seconds, name)
    for path, table in tuple(session.memory.items()):
        yield TABLE_ROWS.sample(table.held, str(path))
        yield TABLE_BYTES.sample(table.nbytes, str(path))
    yield CPU.sample(time.process_time())
    if sys.platform == "linux":
        yield MEMORY.sample(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))


def metrics_table(samples: Iterable[Sample]) -> pa.Table:
    """Samples as the rows of `system.metrics`."""
    found = list(samples)
    columns = (
        [s.name for s in found],
        [s.metric.kind for s in found],
        [s.metric.unit for s in found],
        [list(s.labels) for s in found],
        [float(s.value) for s in found],
        [s.metric.help for s in found],
    )
    arrays = [pa.array(c, f.type.arrow) for c, f in zip(columns, METRICS_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=METRICS_SCHEMA.arrow)
