"""Where a database of PostgreSQL is: strict, because a URL may name more than it seems to."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from connectors.options import TableOptions
from connectors.postgres.address import ADDRESS_OPTIONS, Address, read_address
from connectors.postgres.bulk import BulkConnection
from connectors.postgres.connection import answered, connected, telling
from runtime.core.errors import ConnectorError, OptionError, UnavailableError
from runtime.core.secrets import Secret
from tests.servers.postgres import PASSWORD, PostgresDatabase


def address(**options: str) -> Address:
    given = {k.replace("_", "-"): v for k, v in options.items()}
    return read_address(TableOptions(given, "connector 'postgres'", ADDRESS_OPTIONS))


@pytest.mark.parametrize(
    ("url", "host", "port", "database"),
    [
        ("postgresql://db/shop", "db", 5432, "shop"),
        ("jdbc:postgresql://db:6000/my%20shop?sslmode=require", "db", 6000, "my shop"),
        ("postgres://u:p%40@[::1]:1/x?currentSchema=s", "::1", 1, "x"),
        ("postgresql://db.example.com/", "db.example.com", 5432, "me"),
    ],
)
def test_urls(url: str, host: str, port: int, database: str) -> None:
    found = address(url=url, username="me", password="secret")
    assert (found.host, found.port, found.database, found.user) == (host, port, database, "me")
    assert "secret" not in f"{found!r} {found}"
    assert found.parameters()["password"] == "secret"


def test_users_and_passwords_in_urls() -> None:
    found = address(url="jdbc:postgresql://db/x?user=ann&password=p%26q&ssl=true")
    assert (found.user, found.password, found.ssl_mode) == ("ann", Secret("p&q"), "require")
    assert address(url="postgresql://ann:p%40@db/x").password == Secret("p@")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://good,evil/x",
        "postgresql://evil?x@good/db",
        "postgresql://good/x?host=evil",
        "postgresql://good/x?hostaddr=10.0.0.1",
        "postgresql://good/x?service=s",
        "postgresql://good/x?sslkey=/etc/shadow",
        "postgresql://good/x?options=-c",
        "postgresql:///x",
        "postgresql://good/x?sslmode=of",
        "postgresql://good:99999/x",
        "mysql://good/x",
        "host=evil dbname=x",
    ],
)
def test_urls_that_say_more_than_they_may(url: str) -> None:
    with pytest.raises(OptionError, match="E1500"):
        address(url=url, username="me")


def test_a_database_is_needed() -> None:
    assert address(url="postgresql://db/x").user == ""
    with pytest.raises(OptionError, match="E1500 option 'url' names no database"):
        address(url="postgresql://db/")


def test_connections(postgres: PostgresDatabase) -> None:
    given = address(url=postgres.url, username="postgres", password=PASSWORD)
    assert answered(given, "SELECT %s || 'b', current_setting('timezone')", ["a"]) == [("ab", "UTC")]
    with pytest.raises(ConnectorError, match=r'E3161 .*password authentication failed for user "postgres"'):
        connected(address(url=postgres.url, username="postgres", password="wrong"))
    with pytest.raises(ConnectorError, match=r'E3161 .*database "nowhere" does not exist'):
        connected(address(url=postgres.url.rpartition("/")[0] + "/nowhere", username="postgres", password=PASSWORD))
    with pytest.raises(UnavailableError, match="E3150"):
        connected(address(url="postgresql://127.0.0.1:1/x", username="postgres"))
    with (
        pytest.raises(ConnectorError, match=r"E3163 t: .*relation \"nothing\" does not exist"),
        telling(given, "t"),
        connected(given) as connection,
    ):
        connection.execute("SELECT 1 FROM nothing")


def test_tls(postgres: PostgresDatabase, tmp_path: Path) -> None:
    """Who wants TLS gets it, for both clients, or no connection; and the server is who it says, for whom that is checked."""
    folder = postgres.server.folder / "data"
    certificate, key = folder / "server.crt", folder / "server.key"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    alternative = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    root = tmp_path / "root.crt"

    def encrypted(**options: str) -> list[bool]:
        given = address(**{"url": postgres.url, "username": "postgres", "password": PASSWORD, **options})
        query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        with closing(BulkConnection(given, "t")) as bulk:
            return [answered(given, query)[0][0], bulk.asked(query)["ssl"][0].as_py()]

    with pytest.raises(ConnectorError, match="E3161 .*does not support SSL"):
        encrypted(ssl_mode="require")
    subprocess.run([*made, *alternative], check=True, capture_output=True)
    root.write_bytes(certificate.read_bytes())
    key.chmod(0o600)
    for file in (certificate, key):
        shutil.chown(file, postgres.server.user)
    try:
        postgres.run("ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
        until = time.monotonic() + 30
        while not encrypted()[0] and time.monotonic() < until:
            pass
        assert encrypted() == encrypted(ssl_mode="require") == [True, True]
        assert encrypted(ssl_mode="disable") == [False, False]
        assert encrypted(ssl_mode="verify-ca", ssl_root_cert_path=str(root)) == [True, True]
        local = postgres.url.replace("127.0.0.1", "localhost")
        assert encrypted(url=local, ssl_mode="verify-full", ssl_root_cert_path=str(root)) == [True, True]
        for more, message in (
            ({"ssl_root_cert_path": str(root)}, "does not match host name"),
            ({"ssl_root_cert_path": str(tmp_path / "none.crt")}, "E3161 .*certificate"),
        ):
            with pytest.raises(ConnectorError, match=message):
                encrypted(ssl_mode="verify-full", **more)
    finally:
        postgres.run("ALTER SYSTEM RESET ssl", "SELECT pg_reload_conf()")
