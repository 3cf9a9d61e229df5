"""What a Spark session shows of the engine's jobs: on its page *Structured Streaming*, and to its metrics sinks.

Long-lived tasks are one Spark job, so that Spark's own pages see no epoch. A thread tells them what the figures of the
engine say: on the page a job is a streaming query whose batches are epochs, and each figure is a gauge of the driver. Both ways lead
through the JVM of the driver, because Spark lets no Python program add pages, sources of metrics or plugins. Nothing depends
on it: what this version of Spark does not know is said once in the log.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from runtime.core.logs import Log
from runtime.core.metrics import Sample
from runtime.core.rooms import Room
from runtime.local.job_metrics import EPOCH_SECONDS, EPOCHS, SINK_ROWS, SOURCE_ROWS, STATUS

if TYPE_CHECKING:
    import py4j.protocol as _py4j
else:
    _py4j = Room("py4j.protocol")

__all__ = ["Shown"]

_log = Log("spark")

_LOOK_SECONDS = 1.0
_METRICS_EVERY = 5
"""Looks at figures from one time that gauges are set to the next: Spark's sinks ask every ten seconds."""
_END_SECONDS = 3.0
_ENDED = ("FINISHED", "FAILED", "CANCELED")

_names: dict[str, set[str]] = {}
"""The first parts of names of gauges that are taken, by application."""
_sources: dict[str, Any] = {}
"""Spark's source of gauges, by application."""
_lock = threading.Lock()


class Shown:
    """Shows figures until `close`, or the session or whoever has the figures ends.

    Args:
        session: the Spark session (not of Spark Connect).
        samples: the figures as they are; None when there will be none any more.
    """

    def __init__(self, session: Any, samples: Callable[[], Sequence[Sample] | None]) -> None:
        self._session = session
        self._samples = samples
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sqlengine-spark-shown", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Show how all is at the end."""
        self._closed.set()
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        context = self._session.sparkContext
        shows: list[_Page | _Gauges] = []
        looks = 0
        try:
            while True:
                last = self._closed.wait(_LOOK_SECONDS)
                samples = self._samples()
                if samples is None or context._jsc is None:
                    break
                if not looks:
                    shows = [*_Page.of(self._session), _Gauges(context)]
                for show in shows:
                    if last or isinstance(show, _Page) or looks % _METRICS_EVERY == 0:
                        show.show(samples)
                looks += 1
                if last:
                    break
        except Exception as error:
            if context._jsc is not None and not self._closed.is_set():
                _log.warning("Spark does not show the engine's jobs and figures: %s", str(error).partition("\n")[0])
        finally:
            for show in shows:
                show.end()


@dataclass
class _Job:
    """A job on the page."""

    query: Any
    run: Any
    epochs: float = 0
    seconds: float = 0.0
    rows: dict[str, float] = field(default_factory=dict[str, float])
    written: float = 0
    at: float = field(default_factory=time.monotonic)
    ended: bool = False


@dataclass
class _Figures:
    """What samples say of a job."""

    epochs: float = 0
    seconds: float = 0.0
    rows: dict[str, float] = field(default_factory=dict[str, float])
    written: dict[str, float] = field(default_factory=dict[str, float])
    status: str = ""

    @staticmethod
    def of(samples: Iterable[Sample]) -> dict[str, _Figures]:
        """By the name of the job."""
        found: dict[str, _Figures] = {}
        for sample in samples:
            labels = dict(sample.labels)
            job = found.setdefault(labels["job"], _Figures()) if "job" in labels else _Figures()
            if sample.metric is EPOCHS:
                job.epochs = sample.value
            elif sample.metric is EPOCH_SECONDS and sample.suffix == "_sum":
                job.seconds = sample.value
            elif sample.metric is SOURCE_ROWS:
                job.rows[labels["source"]] = sample.value
            elif sample.metric is SINK_ROWS:
                job.written[labels["sink"]] = sample.value
            elif sample.metric is STATUS and sample.value:
                job.status = labels["status"]
        return found


class _Page:
    """The page *Structured Streaming*."""

    def __init__(self, session: Any, listener: Any) -> None:
        self._jvm = session._jvm
        self._listener = listener
        self._jobs: dict[str, _Job] = {}

    @staticmethod
    def of(session: Any) -> list[_Page]:
        """One, or none where the session has no pages."""
        if session.sparkContext.uiWebUrl is None:
            return []
        listener = session._jsparkSession.sharedState().streamingQueryStatusListener()
        return [_Page(session, listener.get())] if listener.isDefined() else []

    def show(self, samples: Iterable[Sample]) -> None:
        found = _Figures.of(samples)
        for name, figures in found.items():
            job = self._jobs.get(name) or self._started(name, figures)
            if figures.epochs > job.epochs:
                self._progress(name, job, figures)
            if figures.status in _ENDED:
                self._end(job, "the job has failed" if figures.status == "FAILED" else "")
        for name in self._jobs.keys() - found.keys():
            self._end(self._jobs[name])

    def end(self) -> None:
        """Nothing of it has to be given back."""

    def _event(self, name: str) -> Any:
        return getattr(self._jvm.org.apache.spark.sql.streaming, f"StreamingQueryListener${name}")

    def _started(self, name: str, figures: _Figures) -> _Job:
        query, run = (self._jvm.java.util.UUID.fromString(str(uuid.uuid4())) for _ in range(2))
        shown = f"{name}: {', '.join(figures.written)}" if figures.written else name
        self._listener.onQueryStarted(self._event("QueryStartedEvent")(query, run, shown, _now()))
        self._jobs[name] = job = _Job(query, run)
        return job

    def _progress(self, name: str, job: _Job, figures: _Figures) -> None:
        """The epochs since the last look, as one batch with the number of the last one."""
        now = time.monotonic()
        epochs, busy = figures.epochs - job.epochs, max(figures.seconds - job.seconds, 1e-6)
        rows = {table: max(0, int(n - job.rows.get(table, 0))) for table, n in figures.rows.items()}
        written = sum(figures.written.values())
        duration = max(1, round(busy / epochs * 1000))
        told = {
            "id": str(job.query.toString()),
            "runId": str(job.run.toString()),
            "name": name,
            "timestamp": _now(),
            "batchId": int(figures.epochs),
            "batchDuration": duration,
            "durationMs": {"triggerExecution": duration},
            "eventTime": {},
            "stateOperators": [],
            "sources": [
                {
                    "description": table,
                    "startOffset": None,
                    "endOffset": None,
                    "latestOffset": None,
                    "numInputRows": count,
                    "inputRowsPerSecond": count / max(now - job.at, 1e-6),
                    "processedRowsPerSecond": count / busy,
                    "metrics": {},
                }
                for table, count in rows.items()
            ],
            "sink": {
                "description": ", ".join(figures.written),
                "numOutputRows": max(0, int(written - job.written)),
                "metrics": {},
            },
            "observedMetrics": {},
        }
        module = getattr(getattr(self._jvm.org.apache.spark.sql.streaming, "StreamingQueryProgress$"), "MODULE$")
        self._listener.onQueryProgress(self._event("QueryProgressEvent")(module.fromJson(json.dumps(told))))
        job.epochs, job.seconds, job.rows, job.written, job.at = (
            figures.epochs,
            figures.seconds,
            dict(figures.rows),
            written,
            now,
        )

    def _end(self, job: _Job, failure: str = "") -> None:
        if not job.ended:
            job.ended = True
            why = self._jvm.scala.Option.apply(failure or None)
            self._listener.onQueryTerminated(self._event("QueryTerminatedEvent")(job.query, job.run, why))


class _Gauges:
    """The figures as gauges `AccumulatorSource.sqlengine.<labels>.<figure>` of the driver, for all of Spark's metrics sinks."""

    def __init__(self, context: Any) -> None:
        jvm, self._application = context._jvm, str(context.applicationId)
        self._make = jvm.com.codahale.metrics.DefaultSettableGauge
        self._gauges: dict[str, tuple[Any, float]] = {}
        with _lock:
            if self._application not in _sources:
                _sources[self._application] = source = jvm.org.apache.spark.metrics.source.LongAccumulatorSource()
                # Its methods cannot be looked up from Python, because some mention classes that are not there.
                place = jvm.java.lang.Class.forName("org.apache.spark.SparkEnv").getDeclaredField("metricsSystem")
                place.setAccessible(True)
                place.get(context._jsc.sc().env()).registerSource(source)
            self._registry = _sources[self._application].metricRegistry()
            taken = _names.setdefault(self._application, set())
            self._name = next(
                n for i in range(1, len(taken) + 2) if (n := f"sqlengine-{i}" if i > 1 else "sqlengine") not in taken
            )
            taken.add(self._name)

    def show(self, samples: Iterable[Sample]) -> None:
        """Set those that have changed; those of jobs that are gone go."""
        seen: set[str] = set()
        for sample in samples:
            if sample.suffix == "_bucket":
                continue
            labels = (re.sub(r"[^\w-]+", "_", value) for _, value in sample.labels)
            name = ".".join((self._name, *labels, sample.name.removeprefix("sqlengine_")))
            seen.add(name)
            known = self._gauges.get(name)
            if known is None:
                gauge = self._make(float(sample.value))
                self._registry.register(name, gauge)
            elif known[1] == sample.value:
                continue
            else:
                gauge = known[0]
                gauge.setValue(float(sample.value))
            self._gauges[name] = (gauge, sample.value)
        for name in self._gauges.keys() - seen:
            self._registry.remove(name)
            del self._gauges[name]

    def end(self) -> None:
        """The name is free again."""
        try:
            for name in self._gauges:
                self._registry.remove(name)
        except _py4j.Py4JError:
            # The session has ended, and its figures with it.
            return
        finally:
            with _lock:
                _names[self._application].discard(self._name)


def _now() -> str:
    """As Spark writes a time."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
