"""The REST API for operations: what it tells, what it changes, whom it refuses, and that its description is true."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import validate

from sqlengine import TableEnvironment
from sqlengine.server.access import Access
from sqlengine.server.feeds import Feeds
from sqlengine.server.web.flink_metrics import all_metrics
from sqlengine.server.web.listener import WebServer
from sqlengine.server.web.rates import Rates
from sqlengine.server.web.recent_log import RecentLog
from tests import exposition
from tests.server.conftest import started, stop
from tests.server.web_client import Web, web_address

SHOP = """
CREATE TABLE orders (id INT, shop STRING, amount DECIMAL(10, 2))
  WITH ('connector' = 'datagen', 'rows-per-second' = '200', 'fields.shop.length' = '1');
CREATE TABLE shipped (shop STRING, amount DECIMAL(10, 2)) WITH ('connector' = 'blackhole');
CREATE TABLE prices (item STRING PRIMARY KEY NOT ENFORCED, price INT);
CREATE MATERIALIZED VIEW per_shop AS SELECT shop, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY shop;
CREATE MATERIALIZED VIEW dear AS SELECT item, price * 2 AS twice FROM prices WHERE price > 1;
CREATE VIEW busy AS SELECT shop FROM per_shop WHERE n > 3;
INSERT INTO shipped SELECT shop, amount * 2 FROM orders WHERE id > 5;
"""
HOME = "default_catalog/default_database"
NAME = "default_catalog.default_database"


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    """A server with a job and views, whose answers are held against its description."""
    process, *_ = started("--web", "127.0.0.1:0")
    assert process.stdout is not None
    found = Web(*web_address(process.stdout.readline()))
    status, _, text = found.raw("POST", "/api/v1/jobs", SHOP.encode(), Content_Type="application/sql")
    assert status == 201 and json.loads(text)["jobs"] == ["job-1"], text
    yield found
    assert stop(process) == 0


@pytest.fixture(scope="module")
def described(web: Web) -> dict[str, Any]:
    return web.get("/openapi.json")


def check(described: dict[str, Any], path: str, method: str, status: int, answer: Any) -> None:
    """Raises when an answer is not what the description says."""
    operation = described["paths"][path][method]
    ((_, content),) = operation["responses"][str(status)]["content"].items()
    jsonschema.Draft202012Validator({**content["schema"], "components": described["components"]}).validate(answer)


def test_the_description_is_one_and_every_path_answers_as_it_says(web: Web, described: dict[str, Any]) -> None:
    validate(described)
    session = web.post("/sessions")["session"]
    statement = web.post(f"/sessions/{session}/statements", sql="SELECT * FROM prices")["statement"]
    known = {"job": "job-1", "catalog": "default_catalog", "database": "default_database", "name": "per_shop",
             "session": session, "statement": statement, "page": "0"}  # fmt: skip
    for path, operations in described["paths"].items():
        place = re.sub(r"\{(\w+)\}", lambda m: known[m[1]], path)
        if "get" in operations and "application/json" in operations["get"]["responses"]["200"]["content"]:
            status, _, text = web.raw("GET", place)
            assert status == 200, (place, text)
            check(described, path, "get", 200, json.loads(text))
        for method in operations:
            # A path that is not there is refused in the form that is described.
            if "{" in path:
                nowhere = re.sub(r"\{\w+\}", "nothing", path)
                status, _, text = web.raw(method.upper(), nowhere, b"{}", Content_Type="application/json")
                assert status in (400, 404), (method, nowhere, text)
                check(described, path, method, status, json.loads(text))


def test_every_path_that_is_there_is_described(described: dict[str, Any]) -> None:
    with TableEnvironment.create() as environment:
        server = WebServer(
            environment, Feeds(environment.session.database), access=Access(environment.session.database, trusting=True)
        )
        routes = {
            (route.method.lower(), route.resource.canonical)
            for route in server._listener.application.router.routes()
            if route.resource is not None and route.method != "HEAD"
        }
    told = {(method, path) for path, operations in described["paths"].items() for method in operations}
    assert {route for route in routes if route[1].startswith(("/api", "/healthz", "/readyz", "/metrics"))} == told


def test_jobs_and_views(web: Web) -> None:
    (job,) = [job for job in web.get("/jobs")["jobs"] if job["job"] == "job-1"]
    assert (job["kind"], job["status"], job["error"], job["kept"]) == ("job", "RUNNING", None, False)
    plan = web.get("/jobs/job-1")["operators"]
    assert [(o["kind"], o["inputs"]) for o in plan] == [("Source", []), ("Calc", [0]), ("Sink", [1])]
    assert [o["table"] for o in plan] == [f"{NAME}.orders", None, f"{NAME}.shipped"]
    views = {view["view"]: view for view in web.get("/views")["views"]}
    assert set(views) == {f"{NAME}.per_shop", f"{NAME}.dear"}
    assert views[f"{NAME}.dear"]["freshness_seconds"] == 0.0
    assert views[f"{NAME}.dear"]["reads"] == [f"{NAME}.prices"]
    assert web.get(f"/views/{HOME}/per_shop")["operators"][1]["state_rows"] >= 0
    for path in ("/jobs/nothing", "/jobs/nothing/checkpoints", f"/views/{HOME}/nothing", f"/catalog/{HOME}/nothing"):
        assert web.ask("GET", path)[0] == 404


def test_lineage_and_catalog(web: Web) -> None:
    found = web.get("/lineage")
    edges = {(e["from"], e["to"]): e for e in found["edges"]}
    assert set(edges) == {
        (f"{NAME}.orders", f"{NAME}.per_shop"),
        (f"{NAME}.orders", f"{NAME}.shipped"),
        (f"{NAME}.prices", f"{NAME}.dear"),
        (f"{NAME}.per_shop", f"{NAME}.busy"),
    }
    assert edges[f"{NAME}.orders", f"{NAME}.shipped"]["job"] == "job-1"
    assert edges[f"{NAME}.orders", f"{NAME}.per_shop"]["columns"] == [
        {"from": "shop", "to": "shop"},
        {"from": "amount", "to": "total"},
    ]
    shown = web.get(f"/catalog/{HOME}/dear")
    assert [(c["name"], c["type"]) for c in shown["columns"]] == [("item", "STRING NOT NULL"), ("twice", "INT")]
    assert (shown["kind"], shown["reads"], shown["read_by"]) == ("materialized view", [f"{NAME}.prices"], [])
    (catalog,) = web.get("/catalog")["catalogs"]
    names = [o["name"] for d in catalog["databases"] if d["name"] == "default_database" for o in d["objects"]]
    assert names == ["busy", "dear", "orders", "per_shop", "prices", "shipped"]


def test_statements_pages_errors_and_completion(web: Web) -> None:
    session = web.post("/sessions")["session"]
    assert web.rows(session, "SELECT CAST(9007199254740993 AS BIGINT), CAST(NULL AS INT), x'0a'") == [
        ["9007199254740993", None, "x'0a'"]
    ]
    path = f"/sessions/{session}/statements/{web.post(f'/sessions/{session}/statements', sql='SELECT a FRM t')['statement']}"
    status, problem = web.ask("GET", f"{path}/pages/0?wait=30")
    assert status == 400 and problem["code"] == "E1100" and problem["position"]["line"] == 1
    assert web.ask("GET", f"{path}/pages/x")[0] == 404
    assert web.ask("GET", f"{path}/pages/0?wait=31")[0] == 400
    assert web.ask("DELETE", path) == (200, {"done": True})
    assert web.ask("GET", f"{path}/pages/0")[0] == 404
    found = web.post(f"/sessions/{session}/completions", sql="SELECT * FROM pri", position=17)["completions"]
    assert found[0] == {
        "text": "prices",
        "replaces": 3,
        "kind": "table",
        "about": "table (in memory)",
        "shown": "prices",
    }
    spans = web.post("/statement-spans", sql="SELECT 1; SELECT ';'")["statements"]
    assert spans == [{"start": 0, "end": 8}, {"start": 10, "end": 20}]
    assert web.ask("POST", f"/sessions/{session}/statements", {"sql": 1})[0] == 400
    assert web.ask("POST", f"/sessions/{session}/statements", {"sql": "SELECT 1", "seconds": -1})[0] == 400
    assert web.ask("POST", f"/sessions/{session}/completions", {"sql": "", "position": 1})[0] == 400
    assert web.ask("DELETE", f"/sessions/{session}") == (200, {"done": True})
    assert web.ask("DELETE", f"/sessions/{session}")[0] == 404


def test_changes_go_on_where_a_client_lost_its_connection(web: Web) -> None:
    session = web.post("/sessions")["session"]
    web.rows(session, "INSERT INTO prices VALUES ('a', 1), ('b', 2)")
    with web.events(f"/changes/{HOME}/dear") as events:
        assert next(events)[:1] == ("columns",)
        kind, _, rows = next(events)
        assert (kind, rows["rows"]) == ("rows", [["b", "4"]])
        kind, complete, _ = next(events)
        assert kind == "complete"
        web.rows(session, "INSERT INTO prices VALUES ('b', 3), ('c', 4)")
        kind, last, change = next(events)
        assert (kind, int(last) > int(complete)) == ("changes", True)
        assert sorted(zip(change["kinds"], change["rows"], strict=True)) == [
            ("+I", ["c", "8"]), ("+U", ["b", "6"]), ("-U", ["b", "4"])
        ]  # fmt: skip
    with web.events(f"/changes/{HOME}/dear", Last_Event_ID=complete) as events:
        assert [next(events)[0] for _ in range(2)] == ["columns", "changes"]
    assert web.ask("GET", f"/changes/{HOME}/dear?most=1")[0] == 413
    assert web.ask("GET", f"/changes/{HOME}/dear?after=9999999999999999")[0] == 409
    assert web.ask("GET", f"/changes/{HOME}/orders")[0] == 404
    path = f"/sessions/{session}/statements"
    statement = web.post(path, sql="SELECT item FROM dear", live=True)["statement"]
    with web.events(f"{path}/{statement}/events") as events:
        kind, _, page = next(events)
        assert (kind, sorted(page["rows"]), page["last"]) == ("page", [["b"], ["c"]], False)
        web.rows(session, "DELETE FROM prices WHERE item = 'c'")
        assert next(events)[2]["kinds"] == ["-D"]
    web.ask("DELETE", f"{path}/{statement}")
    web.rows(session, "DROP MATERIALIZED VIEW IF EXISTS gone")


def test_a_job_is_stopped_restored_and_rescaled(web: Web, tmp_path: Path) -> None:
    sql = f"INSERT INTO {NAME.split('.')[1]}.shipped SELECT shop, amount FROM orders"
    job = web.post("/jobs", sql=sql, settings={"sqlengine.batch.max-rows": "50"})["jobs"][0]
    assert web.ask("POST", f"/jobs/{job}/savepoints", {})[1]["code"] == "E1509"
    saved = web.post(f"/jobs/{job}/savepoints", folder=str(tmp_path))
    assert saved["savepoint"].startswith(str(tmp_path))
    again = web.post(f"/jobs/{job}/rescale", tasks=2, folder=str(tmp_path))
    assert web.get(f"/jobs/{job}")["status"] == "CANCELED"
    assert web.get(f"/jobs/{again['job']}")["rows_in"] >= 0
    assert web.ask("POST", f"/jobs/{job}/rescale", {"tasks": 2})[0] == 409
    assert web.ask("POST", f"/jobs/{again['job']}/rescale", {"tasks": 0})[0] == 400
    third = web.post(f"/jobs/{again['job']}/restore", savepoint=again["savepoint"])["job"]
    stopped = web.post(f"/jobs/{third}/stop", savepoint=True, folder=str(tmp_path))
    assert stopped["savepoint"].startswith(str(tmp_path))
    fourth = web.post("/jobs", sql=sql, savepoint=stopped["savepoint"])["jobs"][0]
    assert web.post(f"/jobs/{fourth}/stop") == {"job": fourth, "savepoint": None}
    assert web.ask("POST", "/jobs", {"sql": sql, "savepoint": str(tmp_path / "none")})[0] == 500
    query = web.ask("POST", "/jobs", {"sql": "SELECT 1"})
    assert query[0] == 400 and "statement of a session" in query[1]["detail"]
    into_memory = web.post("/jobs", sql="CREATE TABLE m (id INT); INSERT INTO m SELECT id FROM orders")["jobs"][0]
    assert web.ask("POST", f"/jobs/{into_memory}/rescale", {"tasks": 2})[0] == 409
    web.post(f"/jobs/{into_memory}/stop")
    assert web.get(f"/jobs/{into_memory}")["status"] == "CANCELED"


def test_strangers_and_bodies_that_mean_no_good(web: Web) -> None:
    at = f"{web.host}:{web.port}"
    assert web.ask("GET", "/jobs", Origin=f"http://{at}")[0] == 200
    for origin in ("http://elsewhere.example", "null", "http://[", f"http://{web.host}:1"):
        assert web.ask("GET", "/jobs", Origin=origin)[0] == 403
        assert web.ask("POST", "/sessions", None, Origin=origin)[0] == 403
    # A page that has given its name this address.
    assert web.ask("GET", "/jobs", Host="elsewhere.example")[0] == 403
    assert web.raw("GET", "/healthz", None, Host="elsewhere.example")[0] == 200
    # What a form of another page could send.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert web.ask("POST", "/jobs", {"sql": "CREATE TABLE z (a INT)"}, Content_Type=kind)[0] == 415
        assert web.ask("POST", "/jobs/job-1/stop", {}, Content_Type=kind)[0] == 415
    status, headers, text = web.raw("POST", "/api/v1/jobs", b"x" * (5 << 20), Content_Type="application/sql")
    assert status == 413 and headers["Content-Type"].startswith("application/problem+json"), text
    for body in (b"[]", b"{", b"\xff", b'{"sql": ' + b"[" * 100_000):
        assert web.raw("POST", "/api/v1/jobs", body, Content_Type="application/json")[0] == 400
    assert web.raw("POST", "/api/v1/jobs", b"\xff", Content_Type="application/sql")[0] == 400
    assert web.raw("PUT", "/api/v1/jobs", b"{}")[0] == 405
    _, headers, _ = web.raw("GET", "/api/v1/jobs")
    assert "default-src 'none'" in headers["Content-Security-Policy"] and headers["X-Frame-Options"] == "DENY"
    with socket.create_connection((web.host, web.port), 10) as wire:
        wire.sendall(b"GET /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n")
        assert b" 400 " in wire.recv(100)
    assert web.ask("POST", "/jobs/job-1/savepoints", {"folder": None})[0] == 400
    assert web.ask("GET", "/logs?level=NONE")[0] == 400
    assert web.ask("GET", "/rejected?limit=9999")[0] == 400


def test_metrics_by_both_names(web: Web) -> None:
    status, headers, text = web.raw("GET", "/metrics")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    found = exposition.parse(text.decode())
    assert (("sqlengine_view_freshness_seconds", (("view", f"{NAME}.dear"),))) in found[
        "sqlengine_view_freshness_seconds"
    ].samples
    flink = found["flink_taskmanager_job_task_operator_numRecordsIn"].samples
    assert any(dict(labels)["job_name"] == "job-1" for _, labels in flink)
    assert next(iter(found["flink_jobmanager_numRunningJobs"].samples.values())) >= 1


def test_flink_counts_in_milliseconds_and_tells_late_rows_apart() -> None:
    with TableEnvironment.create() as environment:
        environment.execute_sql("CREATE TABLE t (a INT)")
        environment.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        database = environment.session.database
        database.rejected.count("view v", "Window", "late", 3)
        database.rejected.count("view v", "Window", "malformed", 2)
        database.rejected.count("view v", "Window", "null", 1)
        samples = database.metrics.collect()
        found = exposition.parse(all_metrics(samples))
        prefix = "flink_taskmanager_job_task_operator_"
        assert list(found[f"{prefix}numLateRecordsDropped"].samples.values()) == [3]
        busy = [s.value for s in samples if s.metric.flink == "accumulateBusyTimeMs"]
        told = list(found[f"{prefix}accumulateBusyTimeMs"].samples.values())
        assert told == pytest.approx([value * 1000 for value in busy])


def test_rates_are_of_two_looks() -> None:
    with TableEnvironment.create() as environment:
        environment.execute_sql("CREATE TABLE t (a INT)")
        environment.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
        (view,) = environment.session.views.jobs()
        now = [0.0]
        rates = Rates(lambda: [view.job], lambda: now[0])
        assert rates.look() == {}
        environment.execute_sql("INSERT INTO t VALUES (1), (2), (3), (1)")
        environment.execute_sql("SELECT * FROM v").to_arrow()
        now[0] = 0.5
        assert rates.look() == {}
        now[0] = 2.0
        rate = rates.look()[view.job]
        assert (rate.rows_in, rate.rows_out) == (2.0, 1.5)
        assert 0 <= rate.busy <= 1
        now[0] = 20.0
        rates.look()
        now[0] = 22.0
        assert rates.look()[view.job].rows_in == 0


def test_the_recent_log() -> None:
    log, logger = RecentLog(), logging.getLogger("sqlengine.jobs")
    log.attach()
    try:
        logger.info("one %d", 1, extra={"job": "job-1", "epoch": 3})
        logger.error("two")
        logger.debug("nobody hears this")
    finally:
        log.detach()
    logger.error("after the end")
    first, second = log.records(20, None, 0, 10)
    assert (first["message"], first["facts"]) == ("one 1", {"job": "job-1", "epoch": 3})
    assert [r["message"] for r in log.records(20, "job-1", 0, 10)] == ["one 1"]
    assert log.records(40, None, 0, 10) == [second]
    assert log.records(20, None, first["number"], 10) == [second]
    assert log.records(20, None, 0, 1) == [second]


def test_a_reader_that_does_not_read_is_dropped(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others go on while somebody opens a stream and never reads it."""
    with socket.create_connection((web.host, web.port), 10) as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.sendall(f"GET /api/v1/changes/{HOME}/per_shop HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert wire.recv(15) == b"HTTP/1.1 200 OK"
        begun = time.monotonic()
        threads = [threading.Thread(target=web.get, args=("/views",)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert time.monotonic() - begun < 20
