"""Figures and spans of OpenTelemetry, and a server that sends them."""

from __future__ import annotations

import http.server
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sqlengine import TableEnvironment
from sqlengine.server.telemetry import Telemetry, telling


def test_figures_and_spans(tmp_path: Path) -> None:
    reader, spans = InMemoryMetricReader(), InMemorySpanExporter()
    with TableEnvironment.create({"execution.checkpointing.dir": str(tmp_path / "saved")}) as environment:
        telemetry = Telemetry(environment.session.database.metrics, reader, SimpleSpanProcessor(spans))
        telemetry.attach()
        try:
            environment.execute_script(
                "CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a;"
                "INSERT INTO t VALUES (1), (2);"
                "CREATE TABLE few (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');"
                "CREATE TABLE gone (n INT) WITH ('connector' = 'blackhole');"
            )
            environment.execute_sql("INSERT INTO gone SELECT n FROM few").wait()
            data: Any = reader.get_metrics_data()
            found = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
            (point,) = [
                p
                for p in found["sqlengine_sink_records_total"].data.data_points
                if p.attributes["sink"].endswith("gone")
            ]
            assert point.value == 3
            assert found["sqlengine_view_freshness_seconds"].unit == "s"
            assert not any(name.endswith("_bucket") for name in found)
        finally:
            telemetry.detach()
    runs = {span.name: span for span in spans.get_finished_spans() if span.name.startswith("run ")}
    (job,) = [
        span for name, span in runs.items() if name.startswith("run job-") and span.attributes["status"] == "FINISHED"
    ][-1:]
    checkpoints = [span for span in spans.get_finished_spans() if span.name == "checkpoint"]
    assert checkpoints and checkpoints[-1].parent.span_id == job.context.span_id
    assert "run view v" in runs


def test_a_server_of_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            found.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        with TableEnvironment.create() as environment, telling(environment.session.database.metrics):
            environment.execute_script("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        server.shutdown()
    assert {"/v1/metrics", "/v1/traces"} <= set(found)
