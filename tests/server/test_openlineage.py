"""Events of OpenLineage: what begins and ends, what it reads and writes, and servers that are not there."""

from __future__ import annotations

import http.server
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from runtime.core.errors import OptionError
from sqlengine import SqlEngineWarning, TableEnvironment
from sqlengine.server import openlineage
from sqlengine.server.openlineage import Emitter, sender_of

HOME = "default_catalog.default_database"


def columns(event: dict[str, Any]) -> dict[str, list[str]]:
    (output,) = event["outputs"]
    fields = output["facets"]["columnLineage"]["fields"]
    return {
        to: [f"{origin['name'].rpartition('.')[2]}.{origin['field']}" for origin in each["inputFields"]]
        for to, each in fields.items()
    }


def test_what_jobs_and_views_read_and_write(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    with TableEnvironment.create() as environment:
        emitter = Emitter(environment, lambda text: told.append(json.loads(text)))
        environment.execute_script(
            "CREATE TABLE prices (item STRING, price INT);"
            "CREATE TABLE ticks (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '10');"
            f"CREATE TABLE files (m INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'csv');"
            "CREATE MATERIALIZED VIEW v AS SELECT item, 10 / price AS p FROM prices WHERE price < 100;"
        )
        environment.execute_sql("INSERT INTO files SELECT n * 2 FROM ticks")
        emitter.look()
        emitter.look()
        view, job = told
        assert (view["eventType"], view["job"]["name"], columns(view)) == (
            "START", f"{HOME}.v", {"item": ["prices.item"], "p": ["prices.price"]},
        )  # fmt: skip
        assert columns(job) == {"m": ["ticks.n"]}
        assert job["job"]["facets"]["sql"]["query"] == "INSERT INTO files SELECT n * 2 FROM ticks"
        (output,) = job["outputs"]
        assert output["facets"]["symlinks"]["identifiers"] == [
            {"namespace": "file", "name": f"{tmp_path}/out", "type": "TABLE"}
        ]
        assert output["facets"]["schema"]["fields"] == [{"name": "m", "type": "INT"}]
        for event in told:
            assert set(event) == {
                "eventType", "eventTime", "run", "job", "inputs", "outputs", "producer", "schemaURL"
            }  # fmt: skip
        environment.execute_sql(f"STOP JOB '{job['job']['name']}'")
        with pytest.warns(SqlEngineWarning):
            environment.execute_sql("INSERT INTO prices VALUES ('a', 0)")
        emitter.look()
        emitter.look()
        ends = {event["job"]["name"]: event for event in told[2:]}
        assert (len(told), ends[job["job"]["name"]]["eventType"], ends[f"{HOME}.v"]["eventType"]) == (
            4,
            "ABORT",
            "FAIL",
        )
        assert ends[f"{HOME}.v"]["run"]["runId"] == view["run"]["runId"]
        assert "division by zero" in ends[f"{HOME}.v"]["run"]["facets"]["errorMessage"]["message"]


def test_events_wait_for_a_server_that_is_not_there() -> None:
    told: list[str] = []
    there = False

    def send(text: str) -> None:
        if not there:
            raise OSError("nobody listens")
        told.append(text)

    with TableEnvironment.create() as environment:
        emitter = Emitter(environment, send)
        environment.execute_script("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        emitter.look()
        there = True
        environment.execute_sql("DROP MATERIALIZED VIEW v")
        emitter.look()
        assert [json.loads(text)["eventType"] for text in told] == ["START", "ABORT"]


def test_a_file_or_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sender_of(str(tmp_path / "events"))('{"a": 1}')
    assert (tmp_path / "events").read_text() == '{"a": 1}\n'
    for target in ("ftp://host/x", "file:///etc/passwd", str(tmp_path / "no" / "folder")):
        with pytest.raises(OptionError, match="openlineage"):
            sender_of(target)
    found: list[tuple[str | None, bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.append((self.headers["Authorization"], self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    monkeypatch.setenv("OPENLINEAGE_API_KEY", "k3y")
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sender_of(f"http://127.0.0.1:{server.server_port}/api/v1/lineage")("{}")
        server.shutdown()
    assert found == [("Bearer k3y", b"{}")]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"url": "postgresql://u:p@db:6000/my%20shop", "table-name": "t"}, ("postgres://db:6000", "my shop.public.t")),
        ({"url": "jdbc:postgresql://db/shop?ssl=true", "table-name": "s.t"}, ("postgres://db:5432", "shop.s.t")),
        ({"url": "postgresql://db/x", "table-name": "t", "schema-name": "s"}, ("postgres://db:5432", "x.s.t")),
        (
            {"hostname": "db", "database-name": "x", "table-name": "t", "schema-name": "s"},
            ("postgres://db:5432", "x.s.t"),
        ),
    ],
)
def test_tables_of_databases_have_their_names(options: dict[str, str], name: tuple[str, str]) -> None:
    found = openlineage._elsewhere(options)
    assert found is not None and (found["namespace"], found["name"]) == name
