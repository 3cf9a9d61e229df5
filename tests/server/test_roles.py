"""Roles over the network: SCRAM with and without channel binding, TLS in both ways, a renewed certificate."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psycopg
import pytest

from sqlengine.server.tls import end_point
from sqlengine.state import NotAllowed, StateClient
from tests.server.conftest import started, stop
from tests.server.test_psql import psql as psql

INIT = """
ALTER ROLE sqlengine PASSWORD 'first';
CREATE USER ann PASSWORD 'gehéim' CONNECTION LIMIT 2;
CREATE USER small PASSWORD 'not much' ROW LIMIT 10 STATEMENT LIMIT '200 ms';
GRANT USAGE ON CONNECTOR datagen TO small;
CREATE USER meg PASSWORD 'quiet night';
CREATE ROLE team;
CREATE TABLE secret (id INT PRIMARY KEY NOT ENFORCED, a INT);
INSERT INTO secret VALUES (1, 10);
CREATE VIEW shown AS SELECT a FROM secret;
CREATE MATERIALIZED VIEW kept AS SELECT id, a FROM secret;
GRANT SELECT ON shown TO ann;
"""


def make_certificate(folder: Path, *kind: str) -> tuple[str, str]:
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost", *kind]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return str(cert), str(key)


@dataclass(frozen=True)
class Guarded:
    """A server with roles."""

    process: subprocess.Popen[str]
    host: str
    port: int
    folder: Path
    web: int
    state: int

    def conninfo(self, user: str, password: str, **more: str) -> str:
        given = {"host": self.host, "port": str(self.port), "dbname": "default_catalog", "user": user, **more}
        return psycopg.conninfo.make_conninfo(password=password, **given)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    cert, key = make_certificate(folder, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-sha384")
    (folder / "init.sql").write_text(INIT, encoding="utf-8")
    process, host, port = started(
        "--init",
        str(folder / "init.sql"),
        "--tls-cert",
        cert,
        "--tls-key",
        key,
        "--web",
        "127.0.0.1:0",
        "--state",
        "127.0.0.1:0",
        "--audit",
        str(folder / "audit.log"),
    )
    assert process.stdout is not None
    others = [int(re.findall(r":(\d+)", process.stdout.readline())[0]) for _ in range(2)]
    yield Guarded(process, host, port, folder, *others)
    assert stop(process) == 0


def test_who_may_end_whose_session(guarded: Guarded) -> None:
    users = ("ann", "gehéim"), ("meg", "quiet night"), ("sqlengine", "first")
    ann, meg, first = (psycopg.connect(guarded.conninfo(*user), autocommit=True) for user in users)
    with ann, meg, first:
        refused = {
            "pg_cancel_backend(%s)": ("cancel superuser query", "whose query is being canceled"),
            "pg_terminate_backend(%s)": ("terminate superuser process", "whose process is being terminated"),
        }
        for call, (of_first, of_other) in refused.items():
            for target, words in ((first, of_first), (meg, of_other)):
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match=words):
                    ann.execute(f"SELECT {call}", [target.info.backend_pid])
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ann.execute("SELECT s.a, c.relname FROM secret s, pg_class c")
        assert first.execute("SELECT pg_terminate_backend(%s, 30000)", [meg.info.backend_pid]).fetchone() == (True,)
        with pytest.raises(psycopg.OperationalError):
            meg.execute("SELECT 1")


def test_clients_prove_who_they_are(guarded: Guarded, psql: str) -> None:
    for more in (
        {"sslmode": "disable"},
        {"sslmode": "require"},
        {"sslmode": "require", "channel_binding": "require"},
        {"sslmode": "require", "channel_binding": "disable"},
        {"sslmode": "require", "sslnegotiation": "direct", "channel_binding": "require"},
        {"sslmode": "verify-ca", "sslrootcert": str(guarded.folder / "cert.pem")},
    ):
        with psycopg.connect(guarded.conninfo("ann", "gehéim", **more)) as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("ann",)
            assert connection.pgconn.ssl_in_use == (more["sslmode"] != "disable")
            assert connection.info.parameter_status("is_superuser") == "off"
    environment = {**os.environ, "PSQLRC": "/dev/null"}
    command = [psql, guarded.conninfo("ann", "gehéim", sslmode="require"), "-Atc", "\\du", "-c", "SELECT current_user"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert found.stdout.splitlines() == [
        "ann|2 connections|{}",
        "meg||{}",
        "small||{}",
        "sqlengine|Superuser, Create role, Create DB, Bypass RLS|{}",
        "team|Cannot login|{}",
        "ann",
    ], found

    async def with_asyncpg() -> object:
        connection = await asyncpg.connect(
            host=guarded.host,
            port=guarded.port,
            user="ann",
            password="gehéim",
            database="default_catalog",
            ssl="require",
        )
        try:
            return await connection.fetchval("SELECT current_user")
        finally:
            await connection.close()

    assert asyncio.run(with_asyncpg()) == "ann"


def test_who_cannot_is_told_the_same(guarded: Guarded) -> None:
    told = set()
    for user, password in (("ann", "wrong"), ("nobody", "x"), ("team", "x"), ("sqlengine", "gehéim")):
        with pytest.raises(psycopg.OperationalError) as raised:
            psycopg.connect(guarded.conninfo(user, password, sslmode="disable"))
        told.add(str(raised.value).replace(user, "X").partition("FATAL")[2])
    assert len(told) == 1 and "password authentication failed" in told.pop()


def test_as_many_connections_as_a_role_may_have(guarded: Guarded) -> None:
    conninfo = guarded.conninfo("ann", "gehéim", sslmode="disable")
    too_many = pytest.raises(psycopg.OperationalError, match='too many connections for role "ann"')
    with psycopg.connect(conninfo), psycopg.connect(conninfo), too_many:
        psycopg.connect(conninfo)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE ROLE other")
        with pytest.raises(psycopg.errors.UndefinedObject):
            connection.execute("ALTER ROLE nobody LOGIN")
        # What psql's \password sends.
        changed = connection.pgconn.encrypt_password("gehéim".encode(), b"ann", b"scram-sha-256").decode()
        connection.execute(f"ALTER USER ann PASSWORD '{changed}'")
    psycopg.connect(conninfo).close()


def test_what_a_role_may_do(guarded: Guarded, psql: str) -> None:
    conninfo = guarded.conninfo("ann", "gehéim", sslmode="disable")
    admin = psycopg.connect(guarded.conninfo("sqlengine", "first", sslmode="disable"), autocommit=True)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        assert connection.execute("SELECT a FROM shown").fetchall() == [(10,)]
        for sql in (
            "SELECT * FROM secret",
            "SELECT * FROM kept WHERE id = 1",
            "INSERT INTO secret VALUES (2, 2)",
            "UPDATE secret SET a = 1",
            "DROP TABLE secret CASCADE",
            "ALTER TABLE secret RENAME TO mine",
            "COPY secret TO STDOUT",
            "SUBSCRIBE TO kept",
            "SELECT * FROM '/etc/passwd'",
            "CREATE TABLE x (a text)",
            "GRANT SELECT ON secret TO ann",
            "SELECT * FROM system.jobs",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(sql)
        with (
            pytest.raises(psycopg.errors.InsufficientPrivilege),
            connection.cursor().copy("COPY secret FROM STDIN") as copy,
        ):
            copy.write_row((3, 3))
        seen = "SELECT relname, pg_get_userbyid(relowner) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
        seen += "WHERE nspname = 'default_database' AND relkind IN ('r', 'v', 'm')"
        assert connection.execute(seen).fetchall() == [("shown", "sqlengine")]
        tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'default_database'"
        assert connection.execute(tables).fetchall() == [("shown",)]
        # A lookup that was prepared, and answered from an index, is refused once the privilege is gone.
        admin.execute("GRANT SELECT ON kept TO ann")
        for _ in range(8):
            assert connection.execute("SELECT a FROM kept WHERE id = %s", (1,), prepare=True).fetchall() == [(10,)]
        admin.execute("REVOKE SELECT ON kept FROM ann")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT a FROM kept WHERE id = %s", (1,), prepare=True)
    admin.close()


def test_what_a_role_may_ask_of_other_ports(guarded: Guarded) -> None:
    context = ssl.create_default_context(cafile=str(guarded.folder / "cert.pem"))
    context.check_hostname = False

    def ask(path: str, user: str = "ann", password: str = "gehéim") -> tuple[int, str]:
        client = http.client.HTTPSConnection("127.0.0.1", guarded.web, context=context, timeout=60)
        proof = base64.b64encode(f"{user}:{password}".encode()).decode()
        client.request("GET", path, headers={"Authorization": f"Basic {proof}", "Connection": "close"})
        answer = client.getresponse()
        return answer.status, answer.read(2000).decode()

    home = "default_catalog/default_database"
    for path in (
        "jobs",
        "views",
        "logs",
        "lineage",
        "rejected",
        "server",
        f"changes/{home}/kept",
        f"views/{home}/kept",
    ):
        assert ask(f"/api/v1/{path}")[0] == 403, path
    assert ask("/metrics")[0] == 403
    assert ask(f"/api/v1/catalog/{home}/secret")[0] == 404
    status, found = ask("/api/v1/catalog")
    assert status == 200 and "shown" in found and "secret" not in found
    assert ask(f"/api/v1/catalog/{home}/secret", "sqlengine", "first")[0] == 200
    root = (guarded.folder / "cert.pem").read_bytes()
    with StateClient(f"localhost:{guarded.state}", user="ann", password="gehéim", root_certificate=root) as client:
        assert client.states().num_rows == 0
        with pytest.raises(NotAllowed):
            client.get("kept", 1)
    with StateClient(f"localhost:{guarded.state}", user="sqlengine", password="first", root_certificate=root) as client:
        assert client.states().num_rows == 2


def test_a_renewed_certificate(guarded: Guarded) -> None:
    bound = guarded.conninfo("ann", "gehéim", sslmode="require", channel_binding="require")
    cert = guarded.folder / "cert.pem"
    cert.write_text("broken")
    os.kill(guarded.process.pid, signal.SIGHUP)
    psycopg.connect(bound).close()
    make_certificate(guarded.folder, "-newkey", "rsa:2048")
    os.kill(guarded.process.pid, signal.SIGHUP)
    psycopg.connect(guarded.conninfo("ann", "gehéim", sslmode="verify-ca", sslrootcert=str(cert))).close()
    psycopg.connect(bound).close()
    # Flight shows the new one, too: clients trust nothing else.
    new = cert.read_bytes()
    with StateClient(f"localhost:{guarded.state}", user="sqlengine", password="first", root_certificate=new) as client:
        assert client.states().num_rows == 2


def test_what_a_proof_is_bound_to(tmp_path: Path) -> None:
    sizes = {"-sha256": 32, "-sha384": 48, "-sha512": 64, "-sha1": 32}
    for kind, size in sizes.items():
        cert, _ = make_certificate(tmp_path, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", kind)
        found = end_point(Path(cert).read_text())
        assert found is not None and len(found) == size
    cert, _ = make_certificate(tmp_path, "-newkey", "ed25519")
    assert end_point(Path(cert).read_text()) is None
    for text in ("", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----"):
        assert end_point(text) is None


def audited(guarded: Guarded, user: str) -> list[dict[str, object]]:
    lines = (guarded.folder / "audit.log").read_text(encoding="utf-8").splitlines()
    return [line for line in map(json.loads, lines) if line["user"] == user]


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


NUMBERS = (
    "CREATE TEMPORARY TABLE numbers (i BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '100000000', "
    "'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '100000000')"
)


def test_what_a_role_may_take_and_what_is_written_down(guarded: Guarded) -> None:
    with psycopg.connect(guarded.conninfo("small", "not much"), autocommit=True) as connection:
        connection.execute("SELECT 1 AS one").fetchall()
        assert len(connection.execute("SELECT * FROM generate_series(1, 10)").fetchall()) == 10
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="more than 10 rows, the limit of the role"):
            connection.execute("SELECT * FROM generate_series(1, 11)")
        connection.execute(NUMBERS)
        with pytest.raises(psycopg.errors.QueryCanceled, match=r"the statement limit of the role, 0.2 s"):
            connection.execute("SELECT COUNT(*), SUM(MOD(i, 7)) FROM numbers")
        connection.execute("SET statement_timeout = '50 ms'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            connection.execute("SELECT COUNT(*), SUM(MOD(i, 7)) FROM numbers")
        connection.execute("RESET statement_timeout")
        connection.execute("SELECT %s AS hidden", ("my diary",), prepare=True).fetchall()
        with pytest.raises(psycopg.errors.SyntaxError):
            connection.execute("SELECT * FROM nowhere WITH ('password' = 'hushhush')")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(guarded.conninfo("small", "wrong", sslmode="require"))
    web = http.client.HTTPSConnection(guarded.host, guarded.web, context=ssl._create_unverified_context())
    sent = {**basic("small", "not much"), "Content-Type": "application/sql"}
    web.request("POST", "/api/v1/jobs", "DROP TABLE nowhere", sent)
    answer = web.getresponse()
    answered = answer.status
    answer.read()
    web.request("GET", "/api/v1/jobs", headers=basic("small", "no"))
    assert web.getresponse().status == 401
    lines = audited(guarded, "small")
    statements = {str(line["statement"]): line for line in lines if line["event"] == "statement"}
    assert statements["SELECT 1 AS one"].items() >= {"outcome": "ok", "rows": 1, "port": "postgres"}.items()
    assert statements["SELECT * FROM generate_series(1, 11)"].items() >= {"outcome": "error", "code": "E1803"}.items()
    assert statements["SELECT COUNT(*), SUM(MOD(i, 7)) FROM numbers"]["outcome"] == "canceled"
    assert statements["SELECT $1 AS hidden"]["rows"] == 1
    assert [line["event"] for line in lines if line["event"] != "statement"] == [
        "connected",
        "disconnected",
        "refused",
        "request",
        "refused",
    ]
    assert next(line for line in lines if line["event"] == "request")["status"] == answered
    text = (guarded.folder / "audit.log").read_text(encoding="utf-8")
    assert not [word for word in ("diary", "hushhush", "not much", "gehéim") if word in text]
    assert (guarded.folder / "audit.log").stat().st_mode & 0o077 == 0


def test_another_address_needs_a_password(tmp_path: Path) -> None:
    init = tmp_path / "init.sql"
    init.write_text("CREATE USER ann PASSWORD 'x'")
    cert, key = make_certificate(tmp_path, "-newkey", "rsa:2048")
    process, _, port = started(
        "--postgres", "0.0.0.0:0", "--gateway", "0.0.0.0:0", "--init", str(init), "--tls-cert", cert, "--tls-key", key
    )
    try:
        where = f"host=127.0.0.1 port={port} dbname=default_catalog"
        with pytest.raises(psycopg.OperationalError, match="no password supplied|password authentication failed"):
            psycopg.connect(f"{where} user=sqlengine password=")
        psycopg.connect(f"{where} user=ann password=x").close()
        assert process.stdout is not None
        gateway = int(process.stdout.readline().rpartition(":")[2])
        context = ssl.create_default_context(cafile=cert)
        context.check_hostname = False
        client = http.client.HTTPSConnection("127.0.0.1", gateway, context=context, timeout=60)
        client.request("GET", "/info")
        assert client.getresponse().status == 401
        client.close()
    finally:
        assert stop(process) == 0
