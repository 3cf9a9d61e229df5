"""Figures under the names that Flink's reporter for Prometheus gives them, so that its dashboards show them, too.

Source: Flink 2.3, "Metrics", and `PrometheusReporter`: the scope joined by underscores, all as gauges, times in
milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from runtime.core.metrics import Metric, Sample, exposition

__all__ = ["all_metrics", "flink_samples"]

_JOB, _OPERATOR = "flink_jobmanager_job_", "flink_taskmanager_job_task_operator_"
_JOB_LABELS = ("job_id", "job_name", "host")
_OPERATOR_LABELS = ("job_id", "job_name", "task_name", "operator_id", "operator_name", "subtask_index", "tm_id", "host")
_LATE, _OTHER = "numLateRecordsDropped", "numRecordsInErrors"
_LEFT_OUT = frozenset(("jobStatus", "Counter", "Gauge", "Meter", "Distribution"))
_HOST = "sqlengine"
_RUNNING = Metric("flink_jobmanager_numRunningJobs", "gauge", "", ("host",), "jobs that run")


def all_metrics(samples: Sequence[Sample]) -> str:
    """The engine's figures by its own names, then by Flink's, in the text format of Prometheus."""
    return exposition((*samples, *flink_samples(samples)))


def flink_samples(samples: Iterable[Sample]) -> list[Sample]:
    """The same figures by Flink's names, those of a name one after another."""
    found: dict[str, dict[tuple[tuple[str, str], ...], Sample]] = {}
    running = 0
    for sample in samples:
        labels = dict(sample.labels)
        running += labels.get("status") == "RUNNING" and sample.metric.flink == "jobStatus"
        for one in _flink(sample, labels):
            found.setdefault(one.name, {}).setdefault(one.labels, one)
    return [_RUNNING.sample(running, _HOST), *(s for each in found.values() for s in each.values())]


def _flink(sample: Sample, labels: dict[str, str]) -> Iterator[Sample]:
    metric = sample.metric
    name = metric.flink
    if not name or name in _LEFT_OUT or sample.suffix:
        return
    if "," in name:
        name = _LATE if labels.get("reason", "").startswith("late") else _OTHER
    # Flink counts durations and moments in milliseconds.
    value = sample.value * 1000 if metric.unit == "seconds" else sample.value
    where = labels.get("operator") or labels.get("source") or labels.get("sink")
    if "view" in labels or "table" in labels:
        return
    if where is None:
        told = Metric(_JOB + name, "gauge", "", _JOB_LABELS, metric.help)
        yield told.sample(value, labels["job"], labels["job"], _HOST)
    elif metric.flink == "numRecordsOut" and "source" in labels:
        # The source is an operator, too, and has told it.
        return
    else:
        told = Metric(_OPERATOR + name, "gauge", "", _OPERATOR_LABELS, metric.help)
        shown = labels.get("kind", where)
        yield told.sample(value, labels["job"], labels["job"], shown, where, shown, "0", _HOST, _HOST)
