"""Figures and traces by OpenTelemetry: the figures of `system.metrics` under the same names, and a span for each run of a
job or view, with those of its checkpoints in it.

Where they go, and how often, the variables `OTEL_*` say, as for every program that uses OpenTelemetry's own libraries.

Source: OpenTelemetry, "Metrics SDK", "Tracing SDK", "OTLP exporter configuration".
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from runtime.core.metrics import MetricsRegistry, Sample
from sqlengine.database.metrics import METRICS

__all__ = ["Telemetry", "telling"]

_NAME = "sqlengine"
_FRESH_SECONDS = 0.5
"""All figures of one export are of one look."""
_LOGGERS = ("sqlengine.jobs", "sqlengine.checkpoint")
_ENDED = frozenset(("FINISHED", "CANCELED", "FAILED"))
_UNITS = {"seconds": "s", "bytes": "By", "rows": "{row}"}


class Telemetry(logging.NullHandler):
    """Tells of a database. As a handler of the log it hears of jobs and checkpoints; it does not count as a log that a
    program has set up.

    Args:
        figures: all that there are.
        reader: takes the figures.
        processor: takes spans.
        clock: seconds, to see how old the last look is.
    """

    def __init__(
        self,
        figures: MetricsRegistry,
        reader: MetricReader,
        processor: SpanProcessor,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        resource = Resource.create({"service.name": _NAME, "service.version": version("sqlengine")})
        self._figures = figures
        self._clock = clock
        self._looked = -_FRESH_SECONDS
        self._samples: dict[str, list[Sample]] = {}
        self._guard = threading.Lock()
        self._meters = MeterProvider([reader], resource)
        self._tracers = TracerProvider(resource=resource)
        self._tracers.add_span_processor(processor)
        self._tracer = self._tracers.get_tracer(_NAME)
        self._runs: dict[str, trace.Span] = {}
        self._levels: dict[str, int] = {}
        """Of the loggers that it hears, before it did."""
        self._begin()

    def _begin(self) -> None:
        meter = self._meters.get_meter(_NAME)
        for metric in METRICS:
            # Buckets that were counted by somebody else cannot be handed over: Prometheus reads them at /metrics.
            if metric.kind == "counter":
                made = meter.create_observable_counter
            elif metric.kind == "gauge":
                made = meter.create_observable_gauge
            else:
                continue
            made(metric.name, [self._observer(metric.name)], _UNITS.get(metric.unit, ""), metric.help)

    def _observer(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: [Observation(float(s.value), dict(s.labels)) for s in self._found(name)]

    def _found(self, name: str) -> Sequence[Sample]:
        with self._guard:
            if self._clock() - self._looked >= _FRESH_SECONDS:
                self._samples, self._looked = {}, self._clock()
                for sample in self._figures.collect():
                    self._samples.setdefault(sample.name, []).append(sample)
            return self._samples.get(name, ())

    # --- spans

    def attach(self) -> None:
        """Hear of jobs and checkpoints from now on."""
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            self._levels[name] = logger.level
            if not logger.isEnabledFor(logging.INFO):
                logger.setLevel(logging.INFO)
            logger.addHandler(self)

    def detach(self) -> None:
        """Hear no more, and hand over what there is."""
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            logger.removeHandler(self)
            logger.setLevel(self._levels.pop(name, logger.level))
        with self._guard:
            for span in self._runs.values():
                span.end()
            self._runs.clear()
        self._tracers.shutdown()
        self._meters.shutdown()

    def handle(self, record: logging.LogRecord) -> bool:
        """What a record of a job or a checkpoint says; from any thread."""
        job = getattr(record, "job", None)
        if isinstance(job, str):
            with self._guard:
                if record.name == _LOGGERS[0]:
                    self._job(job, record)
                elif isinstance(seconds := getattr(record, "seconds", None), int | float):
                    self._checkpoint(job, record, seconds)
        return True

    def _job(self, job: str, record: logging.LogRecord) -> None:
        status, at = getattr(record, "status", None), _nanoseconds(record.created)
        span = self._runs.get(job)
        if status == "RUNNING" and span is None:
            self._runs[job] = self._tracer.start_span(f"run {job}", start_time=at, attributes={"job": job})
        elif span is not None and status is not None:
            span.add_event(str(status), timestamp=at)
            if status in _ENDED:
                if status == "FAILED":
                    span.set_status(trace.StatusCode.ERROR, record.getMessage())
                span.set_attribute("status", str(status))
                span.end(at)
                del self._runs[job]

    def _checkpoint(self, job: str, record: logging.LogRecord, seconds: float) -> None:
        run, end = self._runs.get(job), _nanoseconds(record.created)
        context = None if run is None else trace.set_span_in_context(run)
        facts: dict[str, Any] = {key: getattr(record, key, None) for key in ("job", "checkpoint", "epoch", "bytes")}
        known = {key: value for key, value in facts.items() if value is not None}
        begin = end - int(seconds * 1e9)
        self._tracer.start_span("checkpoint", context, start_time=begin, attributes=known).end(end)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


@contextmanager
def telling(figures: MetricsRegistry) -> Iterator[None]:
    """Tell by OTLP over HTTP as long as the block runs."""
    telemetry = Telemetry(
        figures, PeriodicExportingMetricReader(OTLPMetricExporter()), BatchSpanProcessor(OTLPSpanExporter())
    )
    telemetry.attach()
    try:
        yield
    finally:
        telemetry.detach()
