"""`sqlengine serve`: who may connect, encryption, a database that is there again, and what is wrong with its arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from sqlengine.roles.verifier import Verifier
from tests.server.conftest import started, stop


def refused(*arguments: str) -> str:
    command = [sys.executable, "-m", "sqlengine", "serve", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1, ended
    assert "Traceback" not in ended.stderr
    return ended.stderr


def users_file(folder: Path, text: str) -> str:
    path = folder / "users.txt"
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def certificate(folder: Path) -> tuple[str, str]:
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            key,
            "-out",
            cert,
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ],
        check=True,
        capture_output=True,
    )
    return str(cert), str(key)


def test_a_database_is_there_again(tmp_path: Path) -> None:
    init = tmp_path / "init.sql"
    init.write_text("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY NOT ENFORCED, name STRING)")
    for turn in (1, 2):
        process, host, port = started(str(tmp_path / "shop"), "--init", str(init))
        with psycopg.connect(f"host={host} port={port} user=sqlengine", autocommit=True) as connection:
            connection.execute("INSERT INTO t VALUES (%s, 'x')", (turn,))
            if turn == 1:
                connection.execute("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
            assert connection.execute("SELECT n FROM v").fetchall() == [(turn,)]
        assert stop(process) == 0


def test_passwords_and_encryption(tmp_path: Path) -> None:
    verifier = Verifier.of_password("geheim")
    users = users_file(tmp_path, f"# who may connect\nann:pass:word\nbob:{verifier}\n")
    cert, key = certificate(tmp_path)
    process, host, port = started("--users", users, "--tls-cert", cert, "--tls-key", key, "--tls-required")
    where = f"host={host} port={port} dbname=default_catalog"
    try:
        for user, password in (("ann", "pass:word"), ("bob", "geheim")):
            with psycopg.connect(f"{where} user={user} password={password} sslmode=require") as connection:
                assert connection.execute("SELECT current_user").fetchone() == (user,)
        for user, password in (("ann", "wrong"), ("bob", "pass:word"), ("nobody", "x")):
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(f"{where} user={user} password={password} sslmode=require")
        with pytest.raises(psycopg.OperationalError, match="encrypted connections only"):
            psycopg.connect(f"{where} user=ann password=pass:word sslmode=disable")
    finally:
        assert stop(process) == 0


def test_arguments_that_do_not_go_together(tmp_path: Path) -> None:
    assert "0.0.0.0 can be reached from other machines" in refused("--postgres", "0.0.0.0:0")
    assert "is no address" in refused("--postgres", "here")
    assert "cannot be read" in refused("--users", str(tmp_path / "none"))
    assert "there is no certificate" in refused("--tls-required")
    assert "cannot be used" in refused("--tls-cert", users_file(tmp_path, "x"))
    assert "line 1: there is no name and password" in refused("--users", users_file(tmp_path, "ann"))
    assert "is damaged" in refused("--users", users_file(tmp_path, "ann:SCRAM-SHA-256$4096:xx"))
    open_to_all = users_file(tmp_path, "ann:x")
    os.chmod(open_to_all, 0o644)
    assert f"chmod 600 {open_to_all}" in refused("--users", open_to_all)
    broken = tmp_path / "broken.sql"
    broken.write_text("SELEC 1")
    assert 'no statement starts with "SELEC"' in refused("--init", str(broken), "--postgres", "127.0.0.1:0")


def test_too_many_connections() -> None:
    process, host, port = started("--max-connections", "1")
    try:
        first = psycopg.connect(f"host={host} port={port} user=sqlengine")
        with pytest.raises(psycopg.OperationalError, match="too many clients"):
            psycopg.connect(f"host={host} port={port} user=sqlengine")
        first.close()
        with pytest.raises(psycopg.OperationalError, match='database "shop" does not exist'):
            psycopg.connect(f"host={host} port={port} user=sqlengine dbname=shop")
    finally:
        assert stop(process) == 0


def test_a_server_that_stops_tells_its_clients() -> None:
    process, host, port = started()
    connection = psycopg.connect(f"host={host} port={port} user=sqlengine")
    assert stop(process) == 0
    with pytest.raises(psycopg.errors.AdminShutdown):
        connection.execute("SELECT 1")
