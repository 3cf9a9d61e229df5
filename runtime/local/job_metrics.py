"""The figures of a job, from what its operators, readers, sinks and checkpoints keep anyway."""

from __future__ import annotations

from collections.abc import Iterator

from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.metrics import Metric, Sample
from runtime.local.checkpoints import Checkpoints
from runtime.local.job import Job
from runtime.local.rejected import RejectedRows
from runtime.local.vertex import Vertex
from runtime.plan.identity import short_kind

__all__ = ["EPOCHS", "EPOCH_SECONDS", "JOB_METRICS", "SINK_ROWS", "SOURCE_ROWS", "STATUS", "job_samples"]

_JOB, _OPERATOR, _SOURCE, _SINK = ("job",), ("job", "operator", "kind"), ("job", "source"), ("job", "sink")

STATUS = Metric("sqlengine_job_status", "gauge", "", ("job", "status"), "1 for the status of the job", "jobStatus")
EPOCHS = Metric("sqlengine_job_epochs_total", "counter", "", _JOB, "complete epochs, including those without input")
EPOCH_SECONDS = Metric(
    "sqlengine_job_epoch_duration_seconds", "histogram", "seconds", _JOB, "duration of epochs that had input"
)
RESTARTS = Metric("sqlengine_job_restarts_total", "counter", "", _JOB, "restarts of the job", "numRestarts")

COMPLETED = Metric(
    "sqlengine_checkpoints_completed_total", "counter", "", _JOB, "complete checkpoints of this run",
    "numberOfCompletedCheckpoints",
)  # fmt: skip
FAILED = Metric(
    "sqlengine_checkpoints_failed_total", "counter", "", _JOB, "failed checkpoints of this run",
    "numberOfFailedCheckpoints",
)  # fmt: skip
IN_PROGRESS = Metric(
    "sqlengine_checkpoints_in_progress", "gauge", "", _JOB, "checkpoints that are being written",
    "numberOfInProgressCheckpoints",
)  # fmt: skip
CHECKPOINT_SECONDS = Metric(
    "sqlengine_checkpoint_duration_seconds", "histogram", "seconds", _JOB, "duration of writing checkpoints"
)
LAST_ID = Metric(
    "sqlengine_checkpoint_last_id",
    "gauge",
    "",
    _JOB,
    "the number of the newest checkpoint",
    "lastCompletedCheckpointId",
)
LAST_SECONDS = Metric(
    "sqlengine_checkpoint_last_duration_seconds", "gauge", "seconds", _JOB, "duration of writing the newest checkpoint",
    "lastCheckpointDuration",
)  # fmt: skip
LAST_BYTES = Metric(
    "sqlengine_checkpoint_last_size_bytes", "gauge", "bytes", _JOB, "size of what the newest checkpoint wrote",
    "lastCheckpointSize",
)  # fmt: skip
LAST_FULL_BYTES = Metric(
    "sqlengine_checkpoint_last_full_size_bytes", "gauge", "bytes", _JOB, "size of all files that the newest checkpoint needs",
    "lastCheckpointFullSize",
)  # fmt: skip
LAST_TIME = Metric(
    "sqlengine_checkpoint_last_timestamp_seconds", "gauge", "seconds", _JOB,
    "when the newest checkpoint was written, since 1970",
)  # fmt: skip

ROWS_IN = Metric("sqlengine_operator_records_in_total", "counter", "rows", _OPERATOR, "input changes", "numRecordsIn")
ROWS_OUT = Metric(
    "sqlengine_operator_records_out_total", "counter", "rows", _OPERATOR, "output changes", "numRecordsOut"
)
BUSY = Metric(
    "sqlengine_operator_busy_seconds_total", "counter", "seconds", _OPERATOR,
    "time in which the operator computed or the source read", "accumulateBusyTimeMs",
)  # fmt: skip
TASKS = Metric("sqlengine_operator_tasks", "gauge", "", _OPERATOR, "number of its tasks", "parallelism")
STATE_ROWS = Metric("sqlengine_operator_state_rows", "gauge", "rows", _OPERATOR, "rows of state")
STATE_BYTES = Metric("sqlengine_operator_state_bytes", "gauge", "bytes", _OPERATOR, "approximate size of the state")
REJECTED = Metric(
    "sqlengine_records_rejected_total", "counter", "rows", ("job", "operator", "reason"),
    "rejected rows: late, malformed, NULL where it is not allowed", "numLateRecordsDropped, numRecordsInErrors",
)  # fmt: skip
WATERMARK_IN = Metric(
    "sqlengine_operator_input_watermark_seconds", "gauge", "seconds", _OPERATOR,
    "the watermark of its inputs, since 1970; nothing before the first and after the end", "currentInputWatermark",
)  # fmt: skip
WATERMARK_OUT = Metric(
    "sqlengine_operator_output_watermark_seconds", "gauge", "seconds", _OPERATOR,
    "the watermark behind it, since 1970; nothing before the first and after the end", "currentOutputWatermark",
)  # fmt: skip

CACHE_HITS = Metric(
    "sqlengine_lookup_cache_hits_total",
    "counter",
    "rows",
    _OPERATOR,
    "rows that a lookup cache has answered",
    "hitCount",
)
CACHE_MISSES = Metric(
    "sqlengine_lookup_cache_misses_total",
    "counter",
    "",
    _OPERATOR,
    "keys that a lookup cache had to ask for",
    "missCount",
)
CACHE_LOADS = Metric(
    "sqlengine_lookup_cache_loads_total", "counter", "", _OPERATOR,
    "keys that were loaded, or how often the whole table was", "loadCount",
)  # fmt: skip
CACHE_FAILURES = Metric(
    "sqlengine_lookup_cache_load_failures_total", "counter", "", _OPERATOR,
    "the same for what could not be loaded", "numLoadFailures",
)  # fmt: skip
CACHE_LOAD_SECONDS = Metric(
    "sqlengine_lookup_cache_latest_load_duration_seconds", "gauge", "seconds", _OPERATOR, "duration of the latest load",
    "latestLoadTime",
)  # fmt: skip
CACHE_ROWS = Metric(
    "sqlengine_lookup_cache_rows", "gauge", "rows", _OPERATOR,
    "rows in a lookup cache; a key without rows counts as one", "numCachedRecord",
)  # fmt: skip
CACHE_BYTES = Metric(
    "sqlengine_lookup_cache_bytes", "gauge", "bytes", _OPERATOR, "approximate size of a lookup cache", "numCachedBytes"
)

SOURCE_ROWS = Metric(
    "sqlengine_source_records_total", "counter", "rows", _SOURCE, "changes that the source gave", "numRecordsOut"
)
SPLITS = Metric(
    "sqlengine_source_splits", "gauge", "", ("job", "source", "state"),
    "splits of the source that wait, are being read (active), or were read to their end (finished)",
)  # fmt: skip
IDLE = Metric("sqlengine_source_idle", "gauge", "", _SOURCE, "1 while the source is idle: it holds back no watermark")
BACKLOG = Metric(
    "sqlengine_source_backlog_rows", "gauge", "rows", _SOURCE,
    "changes that a view takes when it is read; a statement counts as at least 16 rows", "pendingRecords",
)  # fmt: skip
LAG = Metric(
    "sqlengine_source_watermark_lag_seconds", "gauge", "seconds", _SOURCE,
    "how far the watermark is behind the clock, for sources that have not ended", "watermarkLag",
)  # fmt: skip

SINK_ROWS = Metric("sqlengine_sink_records_total", "counter", "rows", _SINK, "written changes", "numRecordsSend")
COMMITS = Metric(
    "sqlengine_sink_commits_total", "counter", "", _SINK, "how often the sink has published prepared output",
    "successfulCommittables",
)  # fmt: skip
COLD_STARTS = Metric(
    "sqlengine_spark_cold_starts_total",
    "counter",
    "",
    _JOB,
    "tasks in processes or on Spark that opened their state from files",
)
PARTITIONS = Metric(
    "sqlengine_spark_partitions", "gauge", "", _JOB, "number of tasks of a stage in processes or on Spark"
)

_FUNCTION = ("job", "function", "metric", "part", "task")
FUNCTION_FIGURES = {
    kind: Metric(f"sqlengine_function_{kind}", "gauge", "", _FUNCTION, text, flink)
    for kind, text, flink in (
        ("counter", "what a Python function has counted", "Counter"),
        ("gauge", "a number that a Python function tells", "Gauge"),
        ("meter", "events of a Python function: their number, and how many in a second", "Meter"),
        ("distribution", "values of a Python function: their number, sum, least and greatest", "Distribution"),
    )
}
"""Of the figures that functions keep of themselves (`get_metric_group`); `part` is which number of a meter or distribution."""

JOB_METRICS = (
    STATUS, EPOCHS, EPOCH_SECONDS, RESTARTS, COMPLETED, FAILED, IN_PROGRESS, CHECKPOINT_SECONDS, LAST_ID, LAST_SECONDS,
    LAST_BYTES, LAST_FULL_BYTES, LAST_TIME, ROWS_IN, ROWS_OUT, BUSY, TASKS, STATE_ROWS, STATE_BYTES, REJECTED,
    WATERMARK_IN, WATERMARK_OUT, CACHE_HITS, CACHE_MISSES, CACHE_LOADS, CACHE_FAILURES, CACHE_LOAD_SECONDS, CACHE_ROWS,
    CACHE_BYTES, SOURCE_ROWS, SPLITS, IDLE, BACKLOG, LAG, SINK_ROWS, COMMITS, COLD_STARTS, PARTITIONS,
    *FUNCTION_FIGURES.values(),
)  # fmt: skip


def job_samples(job: Job, rejected: RejectedRows, now: int) -> Iterator[Sample]:
    """All figures of a job. It may run meanwhile: the figures of an epoch at hand may be there in part.

    Args:
        now: milliseconds since 1970, by the job's clock.
    """
    flow = job.dataflow
    yield STATUS.sample(1, job.name, job.status)
    yield EPOCHS.sample(flow.epoch, job.name)
    yield from job.epoch_seconds.samples(EPOCH_SECONDS, job.name)
    yield RESTARTS.sample(job.attempts, job.name)
    if job.checkpoints is not None:
        yield from _checkpoint_samples(job.name, job.checkpoints)
    for vertex in flow.vertices:
        yield from _operator_samples(job.name, vertex)
    for (of, operator, reason), rows in tuple(rejected.counts.items()):
        if of == job.name:
            yield REJECTED.sample(rows, job.name, operator, reason)
    yield from _source_samples(job, now)
    for name, sink in flow.named_sinks().items():
        yield SINK_ROWS.sample(sink.rows_written, job.name, name)
        yield COMMITS.sample(sink.commits, job.name, name)
    away = [] if flow.elsewhere is None else flow.elsewhere.function_figures()
    for figure in (*flow.functions.figures(), *away):
        yield FUNCTION_FIGURES[figure.kind].sample(
            figure.value, job.name, figure.function, figure.name, figure.part, str(figure.task)
        )
    if flow.elsewhere is not None:
        yield COLD_STARTS.sample(flow.elsewhere.cold_starts, job.name)
        yield PARTITIONS.sample(flow.elsewhere.partitions, job.name)


def _checkpoint_samples(job: str, checkpoints: Checkpoints) -> Iterator[Sample]:
    yield COMPLETED.sample(checkpoints.seconds.count, job)
    yield FAILED.sample(checkpoints.failed, job)
    yield IN_PROGRESS.sample(checkpoints.in_progress, job)
    yield from checkpoints.seconds.samples(CHECKPOINT_SECONDS, job)
    last = checkpoints.last
    if last is not None:
        yield LAST_ID.sample(last.id, job)
        yield LAST_SECONDS.sample(last.duration / 1000, job)
        yield LAST_BYTES.sample(last.bytes, job)
        yield LAST_FULL_BYTES.sample(last.total_bytes, job)
        yield LAST_TIME.sample(last.time / 1000, job)


def _operator_samples(job: str, vertex: Vertex) -> Iterator[Sample]:
    labels = job, vertex.name, short_kind(vertex.node)
    yield ROWS_IN.sample(vertex.rows_in, *labels)
    yield ROWS_OUT.sample(vertex.rows_out, *labels)
    yield BUSY.sample(vertex.busy_seconds, *labels)
    if vertex.operator is not None:
        size = vertex.operator.state_size
        yield TASKS.sample(len(vertex.operator.tasks), *labels)
        yield STATE_ROWS.sample(size.rows, *labels)
        yield STATE_BYTES.sample(size.bytes, *labels)
        if _is_time(vertex.input_watermark):
            yield WATERMARK_IN.sample(vertex.input_watermark / 1000, *labels)
        cache = vertex.operator.cache_figures
        if cache is not None:
            yield CACHE_HITS.sample(cache.hits, *labels)
            yield CACHE_MISSES.sample(cache.misses, *labels)
            yield CACHE_LOADS.sample(cache.loads, *labels)
            yield CACHE_FAILURES.sample(cache.failures, *labels)
            yield CACHE_LOAD_SECONDS.sample(cache.latest_load, *labels)
            yield CACHE_ROWS.sample(cache.rows, *labels)
            yield CACHE_BYTES.sample(cache.nbytes, *labels)
    if _is_time(vertex.watermark):
        yield WATERMARK_OUT.sample(vertex.watermark / 1000, *labels)


def _source_samples(job: Job, now: int) -> Iterator[Sample]:
    """Of a table that is read twice the figures are added up; the lag is that of the slower reading."""
    rows: dict[str, list[Vertex]] = {}
    for vertex in job.dataflow.vertices:
        if vertex.operator is None:
            rows.setdefault(vertex.node.outside_name or vertex.name, []).append(vertex)
    for name, vertices in rows.items():
        yield SOURCE_ROWS.sample(sum(v.rows_out for v in vertices), job.name, name)
        yield IDLE.sample(all(v.idle for v in vertices), job.name, name)
        inputs = [source for source in job.inputs if source.node.name == name]
        reached = [source.reached for source in inputs]
        yield SPLITS.sample(sum(len(r.waiting) for r in reached), job.name, name, "waiting")
        yield SPLITS.sample(sum(len(r.active) for r in reached), job.name, name, "active")
        yield SPLITS.sample(sum(r.finished for r in reached), job.name, name, "finished")
        if any(source.gathers for source in inputs):
            yield BACKLOG.sample(sum(source.backlog for source in inputs), job.name, name)
        marks = [job.dataflow.progress(source.node)[0] for source in inputs if not source.finished]
        known = [mark for mark in (*marks, *(v.watermark for v in vertices)) if _is_time(mark)]
        if known:
            yield LAG.sample((now - min(known)) / 1000, job.name, name)


def _is_time(watermark: int) -> bool:
    return watermark not in (MIN_WATERMARK, MAX_WATERMARK)
