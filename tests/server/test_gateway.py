"""The REST API of Flink's SQL Gateway: sessions, statements, pages, values, errors, and clients that mean no good."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sqlengine import TableEnvironment
from sqlengine.roles.verifier import Verifier
from sqlengine.server.access import Access
from sqlengine.server.gateway.listener import GatewayServer
from sqlengine.server.gateway.routes import add_routes
from tests.server.conftest import Address, started, stop
from tests.server.gateway_client import Gateway, Session, gateway_address

_names = itertools.count(1)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Gateway, tuple[str, int]]]:
    process, *postgres = started("--gateway", "127.0.0.1:0")
    assert process.stdout is not None
    yield Gateway(*gateway_address(process.stdout.readline())), (postgres[0], postgres[1])
    assert stop(process) == 0


@pytest.fixture
def gateway(served: tuple[Gateway, tuple[str, int]]) -> Gateway:
    return served[0]


@pytest.fixture
def session(gateway: Gateway) -> Session:
    """A session in batch mode, in a database of its own."""
    found = gateway.open(execution_runtime_mode="batch")
    assert found.ask("POST", "/statements", {"statement": "SET 'execution.runtime-mode' = 'batch'"})[0] == 200
    name = f"g{next(_names)}"
    assert found.rows(f"CREATE DATABASE {name};") == [["OK"]]
    assert found.ask("POST", "/configure-session", {"statement": f"USE {name};"}) == (200, {})
    return found


def test_versions_and_paths_that_are_not_there(gateway: Gateway) -> None:
    for prefix in ("", "/v1", "/v2", "/v3", "/v4"):
        assert gateway.ask("GET", f"{prefix}/api_versions") == (200, {"versions": ["V1", "V2", "V3", "V4"]})
        assert gateway.ask("GET", f"{prefix}/info")[1]["productName"] == "sqlengine"
    assert gateway.ask("GET", "/v5/info") == (404, {"errors": ["Not found: /v5/info"]})
    assert gateway.ask("GET", f"/v1/sessions/{gateway.open().handle}/complete-statement")[0] == 404
    assert gateway.ask("GET", "/v1/sessions/x")[0] == 400
    assert gateway.ask("GET", "/v1/sessions/00000000-0000-0000-0000-000000000000")[0] == 500
    assert gateway.ask("PUT", "/v1/sessions")[0] == 405


def test_a_session(gateway: Gateway) -> None:
    status, opened = gateway.ask("POST", "/v4/sessions", b"")
    assert status == 200
    handle = opened["sessionHandle"]
    given = {"properties": {"sql-client.verbose": "true", "rest.port": "8081", "table.local-time-zone": "Asia/Tokyo"}}
    session = Session(
        gateway, 2, gateway.ask("POST", "/v2/sessions", {"sessionName": None, "more": 1, **given})[1]["sessionHandle"]
    )
    assert session.ask("GET", "")[1] == given
    assert session.rows("SET 'table.dml-sync' = 'true';") == [["OK"]]
    assert session.ask("GET", "")[1]["properties"]["table.dml-sync"] == "true"
    assert session.ask("POST", "/heartbeat") == (200, {})
    assert session.ask("DELETE", "") == (200, {"status": "CLOSED"})
    assert session.ask("POST", "/heartbeat")[0] == 500
    assert gateway.ask("DELETE", f"/v1/sessions/{handle}")[0] == 200


def test_what_statements_answer(session: Session) -> None:
    (done, end) = session.pages(session.send("CREATE TABLE t (id INT, PRIMARY KEY (id) NOT ENFORCED)"))
    assert (done["isQueryResult"], done["resultKind"], "jobID" in done) == (False, "SUCCESS", False)
    assert done["results"]["data"] == [{"kind": "INSERT", "fields": ["OK"]}]
    assert end["resultType"] == "EOS" and "nextResultUri" not in end
    (written, _) = session.pages(session.send("INSERT INTO t VALUES (1), (2)"))
    assert (written["isQueryResult"], written["resultKind"]) == (False, "SUCCESS_WITH_CONTENT")
    assert [c["name"] for c in written["results"]["columns"]] == ["job id"]
    assert written["results"]["data"][0]["fields"] == [written["jobID"]] and len(written["jobID"]) == 32
    (rows, end) = session.pages(session.send("SELECT * FROM t"))
    assert (rows["isQueryResult"], end["isQueryResult"], len(rows["jobID"])) == (True, True, 32)
    (shown, _) = session.pages(session.send("SHOW TABLES"))
    assert (shown["isQueryResult"], shown["results"]["columns"][0]["name"]) == (False, "table name")
    insert_set = "EXECUTE STATEMENT SET BEGIN INSERT INTO t VALUES (3); INSERT INTO t VALUES (4); END;"
    assert len(session.rows(insert_set)) == 1
    assert session.rows("SELECT COUNT(*) FROM t") == [[4]]
    assert session.rows("EXPLAIN SELECT * FROM t")[0][0].startswith("==")


VALUES = """
SELECT 1, CAST(1.20 AS DECIMAL(5, 2)), TRUE, DATE '2024-02-29', TIME '10:11:12', TIMESTAMP '2024-01-02 03:04:05.250',
  TO_TIMESTAMP_LTZ(1500, 3), x'0aff', ARRAY[1, 2], MAP['k', 1], ROW(1, 'z'), CAST(NULL AS STRING), 'a"b'
"""
TYPES = [
    "INTEGER", "DECIMAL", "BOOLEAN", "DATE", "TIME_WITHOUT_TIME_ZONE", "TIMESTAMP_WITHOUT_TIME_ZONE",
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "BINARY", "ARRAY", "MAP", "ROW", "VARCHAR", "CHAR",
]  # fmt: skip


def test_values_and_types(session: Session) -> None:
    (page, _) = session.pages(session.send(VALUES))
    types = [column["logicalType"] for column in page["results"]["columns"]]
    assert [type_["type"] for type_ in types] == TYPES
    assert types[1] == {"type": "DECIMAL", "nullable": False, "precision": 5, "scale": 2}
    assert types[8]["elementType"]["type"] == "INTEGER" and types[9]["keyType"]["type"] == "CHAR"
    assert [f["fieldType"]["type"] for f in types[10]["fields"]] == ["INTEGER", "CHAR"]
    assert page["results"]["data"][0]["fields"] == [
        1, 1.2, True, "2024-02-29", "10:11:12", "2024-01-02T03:04:05.25", "1970-01-01T00:00:01.5Z", "Cv8=", [1, 2], {"k": 1},
        {"EXPR$0": 1, "EXPR$1": "z"}, None, 'a"b',
    ]  # fmt: skip
    session.rows("SET 'table.local-time-zone' = 'Asia/Tokyo'")
    assert session.rows(VALUES, "PLAIN_TEXT") == [[
        "1", "1.20", "TRUE", "2024-02-29", "10:11:12", "2024-01-02 03:04:05.250", "1970-01-01 09:00:01.500", "x'0aff'", "[1, 2]",
        "{k=1}", "(1, z)", None, 'a"b',
    ]]  # fmt: skip
    units = [c["logicalType"] for page in session.pages(session.send("SELECT INTERVAL '1' DAY, INTERVAL '2' YEAR"))
             for c in page["results"]["columns"]][:2]  # fmt: skip
    assert [(u["type"], u["resolution"]) for u in units] == [
        ("INTERVAL_DAY_TIME", "DAY_TO_SECOND"), ("INTERVAL_YEAR_MONTH", "YEAR_TO_MONTH"),
    ]  # fmt: skip


def test_pages(session: Session) -> None:
    session.rows("CREATE TABLE t (id INT, PRIMARY KEY (id) NOT ENFORCED)")
    for at in range(4):
        session.rows(f"INSERT INTO t VALUES {', '.join(f'({at * 3000 + i})' for i in range(3000))}")
    operation = session.send("SELECT * FROM t")
    pages = list(session.pages(operation))
    sizes = [len(page["results"]["data"]) for page in pages]
    assert sum(sizes) == 12_000 and max(sizes) <= 5000 and sizes[-1] == 0
    last = len(pages) - 2
    again = session.ask("GET", f"{operation}/result/{last}")
    assert again[1]["results"] == pages[last]["results"] and again[1]["nextResultUri"].endswith(
        f"/{last + 1}?rowFormat=JSON"
    )
    assert session.ask("GET", f"{operation}/result/{last + 3}")[0] == 500
    assert session.ask("GET", f"{operation}/result/0")[0] == 500
    assert session.ask("GET", f"{operation}/result/x")[0] == 400
    assert session.ask("GET", f"{operation}/result/{last}?rowFormat=XML")[0] == 400
    first = Session(session.gateway, 1, session.handle)
    _, page = first.ask("GET", f"{operation}/result/{last}")
    assert page["nextResultUri"] == f"{first.path}{operation}/result/{last + 1}"


def test_a_query_follows_in_streaming_mode(session: Session) -> None:
    session.rows("CREATE TABLE t (id INT, PRIMARY KEY (id) NOT ENFORCED)")
    session.rows("INSERT INTO t VALUES (1)")
    session.rows("SET 'execution.runtime-mode' = 'streaming'")
    operation = session.send("SELECT COUNT(*) FROM t")
    pages = session.pages(operation)
    assert next(pages)["results"]["data"] == [{"kind": "INSERT", "fields": [1]}]
    assert session.ask("GET", f"{operation}/status")[1] == {"status": "RUNNING"}
    session.rows("INSERT INTO t VALUES (2)")
    kinds = [(row["kind"], *row["fields"]) for row in next(pages)["results"]["data"]]
    assert kinds == [("UPDATE_BEFORE", 1), ("UPDATE_AFTER", 2)]
    assert session.ask("POST", f"{operation}/cancel") == (200, {"status": "CANCELED"})
    assert session.ask("POST", f"{operation}/cancel")[0] == 500
    assert session.ask("DELETE", f"{operation}/close") == (200, {"status": "CLOSED"})
    assert session.ask("GET", f"{operation}/status")[0] == 500
    assert "E1614" in session.failure("SELECT * FROM t ORDER BY id")
    assert session.rows("SELECT 1 + 1") == [[2]]


def test_a_result_that_nobody_fetches_waits(session: Session) -> None:
    session.rows("SET 'execution.runtime-mode' = 'streaming'")
    session.rows("CREATE TABLE t (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000')")
    operation = session.send("SELECT n FROM t")
    first = next(session.pages(operation))
    assert 0 < len(first["results"]["data"]) <= 5000
    assert session.ask("DELETE", f"{operation}/close")[0] == 200
    assert session.ask("DELETE", "")[0] == 200


def test_a_query_that_nobody_fetches_keeps_no_more_than_it_may(session: Session) -> None:
    session.rows("SET 'execution.runtime-mode' = 'streaming'")
    session.rows("CREATE TABLE t (words STRING)")
    operation = session.send("SELECT * FROM t")
    for _ in range(80):
        session.rows("INSERT INTO t SELECT REPEAT('x', 1000000)")
    status = "RUNNING"
    while status in ("PENDING", "RUNNING"):
        status = session.ask("GET", f"{operation}/status")[1]["status"]
    assert status == "ERROR"
    # The pages that wait are given before the error.
    answers = (session.ask("GET", f"{operation}/result/{token}") for token in range(5))
    code, answer = next((code, answer) for code, answer in answers if code != 200)
    assert (code, "has not fetched 64 MiB of changes" in str(answer)) == (500, True), answer
    assert session.rows("SELECT 1 + 1") == [[2]]


def test_a_time_limit(session: Session) -> None:
    session.rows("SET 'execution.runtime-mode' = 'streaming'")
    session.rows("CREATE TABLE t (id INT, PRIMARY KEY (id) NOT ENFORCED)")
    operation = session.send("SELECT * FROM t", executionTimeout=50)
    status = "RUNNING"
    while status in ("PENDING", "RUNNING"):
        status = session.ask("GET", f"{operation}/status")[1]["status"]
    assert status == "TIMEOUT"
    assert session.ask("GET", f"{operation}/result/0")[0] == 500


def test_errors(session: Session) -> None:
    found = session.failure("SELECT *\nFROM nope;")
    assert found.startswith('sqlengine.SqlError: E1202 unknown table "nope" at 2:6')
    assert session.failure("SELEC 1").startswith("sqlengine.SqlError: E1")
    assert session.failure("SELECT 1 / 0").startswith("sqlengine.SqlError: E")
    for refused in ("SELECT 1", "INSERT INTO t VALUES (1)"):
        assert session.ask("POST", "/configure-session", {"statement": refused})[0] == 500
    assert "E1" in session.ask("POST", "/configure-session", {"statement": "USE nope"})[1]["errors"][1]
    assert session.ask("POST", "/scripts", {"script": "SELECT 1"})[0] == 500


def test_settings_of_one_statement(session: Session) -> None:
    zone = {"table.local-time-zone": "Asia/Tokyo"}
    text = "SELECT CAST(TO_TIMESTAMP_LTZ(0, 3) AS STRING)"
    (page, _) = session.pages(session.send(text, executionConfig=zone))
    assert page["results"]["data"][0]["fields"] == ["1970-01-01 09:00:00.000"]
    assert session.rows(text) == [["1970-01-01 00:00:00.000"]]


def test_completion(session: Session) -> None:
    session.rows("CREATE TABLE orders (id INT)")
    _, answer = session.ask("GET", "/complete-statement", {"statement": "SELECT * FROM o", "position": 15})
    database = session.rows("SHOW CURRENT DATABASE")[0][0]
    assert f"default_catalog.{database}.orders" in answer["candidates"]
    assert session.ask("GET", "/complete-statement", {"statement": "SELECT", "position": 99})[0] == 400


def test_jobs_by_the_ids_that_clients_know(session: Session) -> None:
    session.rows("SET 'execution.runtime-mode' = 'streaming'")
    session.rows("CREATE TABLE a (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1')")
    session.rows("CREATE TABLE b (n BIGINT) WITH ('connector' = 'blackhole')")
    ((job,),) = session.rows("INSERT INTO b SELECT n FROM a")
    assert session.rows(f"STOP JOB '{job}'") == [["OK"]]


def test_a_materialized_table_is_refreshed(session: Session) -> None:
    session.rows("CREATE TABLE t (id INT, PRIMARY KEY (id) NOT ENFORCED)")
    session.rows(
        "CREATE MATERIALIZED TABLE m FRESHNESS = INTERVAL '1' DAY REFRESH_MODE = FULL AS SELECT COUNT(*) AS n FROM t"
    )
    session.rows("INSERT INTO t VALUES (1)")
    status, answer = session.ask("POST", "/materialized-tables/m/refresh", {"isPeriodic": False})
    assert status == 200
    list(session.pages(f"/operations/{answer['operationHandle']}"))
    assert session.rows("SELECT * FROM m") == [[1]]


def test_a_partition_of_a_materialized_table_is_refreshed(session: Session) -> None:
    session.rows("CREATE TABLE t (k STRING, n INT)")
    session.rows(
        "CREATE MATERIALIZED TABLE m PARTITIONED BY (k) REFRESH_MODE = FULL AS SELECT k, SUM(n) AS n FROM t GROUP BY k"
    )
    session.rows("INSERT INTO t VALUES ('a', 1), ('it''s', 2)")
    body = {"isPeriodic": False, "staticPartitions": {"k": "it's"}}
    status, answer = session.ask("POST", "/materialized-tables/m/refresh", body)
    assert status == 200
    list(session.pages(f"/operations/{answer['operationHandle']}"))
    assert session.rows("SELECT * FROM m") == [["it's", 2]]


def test_one_catalog_with_postgres(session: Session, served: tuple[Gateway, tuple[str, int]]) -> None:
    session.rows("CREATE TABLE t (id INT, PRIMARY KEY (id) NOT ENFORCED)")
    database = session.rows("SHOW CURRENT DATABASE")[0][0]
    with Address(*served[1], database).connect() as client:
        client.execute("INSERT INTO t VALUES (5)")
    assert session.rows("SELECT * FROM t") == [[5]]


BROKEN = (
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'{"statement": 5}',
    b"[" * 100_000,
    b'{"statement": "x", "executionTimeout": "a"}',
    b'{"statement": "x", "executionTimeout": %d}' % 10**400,
    b'{"statement": "\\ud800"}',
    b'{"statement": "\xed\xa0\x80"}',
)


@pytest.mark.parametrize("body", BROKEN)
def test_bodies_that_are_none(session: Session, body: bytes) -> None:
    status, answer = session.gateway.ask("POST", f"{session.path}/statements", body)
    assert status == 400 and list(answer) == ["errors"]


def test_hostile_clients(gateway: Gateway, session: Session) -> None:
    sent = (
        b"GET /v1/info HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /v1/info HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999999999\r\n\r\n" + b"x" * 1000,
        b"\0\1\2\3 not http\r\n\r\n",
        b"GET " + b"/a" * 10_000 + b" HTTP/1.1\r\n\r\n",
    )
    for data in sent:
        with socket.create_connection((gateway.host, gateway.port), timeout=60) as wire:
            wire.sendall(data)
            wire.shutdown(socket.SHUT_WR)
            answer = b""
            try:
                while piece := wire.recv(65_536):
                    answer += piece
            except ConnectionResetError:
                pass
            assert b"200 OK" not in answer and b"Traceback" not in answer
    large = gateway.ask("POST", f"{session.path}/statements", json.dumps({"statement": "x" * (17 << 20)}).encode())
    assert large[0] == 413
    assert session.rows("SELECT 1") == [[1]]


def test_sessions_that_nobody_uses_and_users() -> None:
    async def run() -> None:
        with TableEnvironment.create() as environment:
            users = {"ann": Verifier.of_password("secret")}
            access = Access(environment.session.database, users, trusting=False)
            server = GatewayServer(environment, add_routes, access=access)
            host, port = await server.start("127.0.0.1", 0)
            gateway, loop = Gateway(host, port), asyncio.get_running_loop()

            async def ask(*arguments: Any, **headers: str) -> tuple[int, Any]:
                return await loop.run_in_executor(None, lambda: gateway.ask(*arguments, **headers))

            assert (await ask("GET", "/info"))[0] == 401
            assert (await ask("GET", "/info", Authorization="Basic YW5uOndyb25n"))[0] == 401
            known = {"Authorization": "Basic YW5uOnNlY3JldA=="}
            handle = (await ask("POST", "/v1/sessions", None, **known))[1]["sessionHandle"]
            environment.execute_sql("CREATE USER bob PASSWORD 'other' CONNECTION LIMIT 1")
            token = environment.execute_sql("CREATE TOKEN t FOR bob").to_arrow().column(0)[0].as_py()
            bob = {"Authorization": f"Bearer {token}"}
            assert (await ask("GET", f"/v1/sessions/{handle}", None, **bob))[0] == 500
            assert (await ask("DELETE", f"/v1/sessions/{handle}", None, **bob))[0] == 500
            assert (await ask("POST", "/v1/sessions", None, **bob))[0] == 200
            assert "has 1 connections" in str(await ask("POST", "/v1/sessions", None, **bob))
            assert (await ask("GET", "/info", Authorization="Bearer sqe_other"))[0] == 401
            basic = {"Authorization": "Basic " + base64.b64encode(b"bob:other").decode()}
            assert (await ask("GET", "/info", **basic))[0] == 200
            environment.execute_sql("ALTER USER bob PASSWORD NULL")
            environment.execute_sql("DROP TOKEN t")
            assert (await ask("GET", "/info", **basic))[0] == 401
            assert (await ask("GET", "/info", **bob))[0] == 401
            await server.sessions.close_idle(time.monotonic() + 500)
            assert handle in server.sessions.sessions
            await server.sessions.close_idle(time.monotonic() + 700)
            assert not server.sessions.sessions
            assert (await ask("POST", f"/v1/sessions/{handle}/heartbeat", None, **known))[0] == 500
            await server.stop()

    asyncio.run(run())
