"""Whatever clients send, each is answered or sent away, the others go on, and the server holds as much as before.

HOSTILE_MESSAGES says how many messages each port gets (`make fuzz-server`), HOSTILE_SEED which ones.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.server.conftest import stop
from tests.server.hostile.attack import Attack, Attacker, held_by, settled
from tests.server.hostile.flight_messages import FlightAttacker
from tests.server.hostile.http_messages import GATEWAY, HttpAttacker, web_requests
from tests.server.hostile.postgres_messages import PostgresAttacker
from tests.server.wire_client import WireClient, message

_MESSAGES = int(os.environ.get("HOSTILE_MESSAGES", "300"))
_SEED = int(os.environ.get("HOSTILE_SEED", "1"))
_MOST_GROWTH = 96 << 20
"""Bytes that the process may have more behind all messages than behind the first tenth: modules and caches."""
_MOST_NEW = 10
"""Threads and handles likewise: threads of pools begin when they are needed."""
_PORTS = ("postgres", "gateway", "web", "state")


@dataclass(frozen=True)
class Attacked:
    """A server with all ports. `said`: what it has written to stderr."""

    process: subprocess.Popen[str]
    ports: dict[str, tuple[str, int]]
    said: Path

    def connect(self) -> psycopg.Connection:
        host, port = self.ports["postgres"]
        return psycopg.connect(f"host={host} port={port} user=sqlengine", autocommit=True)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    said = tmp_path_factory.mktemp("hostile") / "said"
    arguments = [part for name in _PORTS for part in (f"--{name}", "127.0.0.1:0")]
    with open(said, "w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "sqlengine", "serve", *arguments], stdout=subprocess.PIPE, stderr=file, text=True
        )
    assert process.stdout is not None
    found: dict[str, tuple[str, int]] = {}
    for name in _PORTS:
        match = re.search(r"([\d.]+):(\d+)", process.stdout.readline())
        assert match is not None, said.read_text()
        found[name] = match[1], int(match[2])
    server = Attacked(process, found, said)
    with server.connect() as client:
        client.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, name STRING)")
        client.execute("INSERT INTO t SELECT CAST(n AS INT), 'n' FROM generate_series(1, 100) AS s (n)")
        client.execute("CREATE MATERIALIZED VIEW v AS SELECT id, COUNT(*) AS n FROM t WHERE id < 50 GROUP BY id")
        client.execute("CREATE ROLE ann LOGIN PASSWORD 'a secret'")
    yield server
    assert stop(process) == 0
    assert said.read_text() == ""


@pytest.mark.parametrize("port", _PORTS)
def test_others_go_on_and_nothing_is_left(attacked: Attacked, port: str) -> None:
    where, number = attacked.ports[port], attacked.process.pid
    match port:
        case "postgres":
            attacker: Attacker = PostgresAttacker(*where)
        case "gateway":
            attacker = HttpAttacker(*where, GATEWAY, "/v4/sessions", "/v1/info")
        case "web":
            attacker = HttpAttacker(*where, web_requests(*where), "/api/v1/sessions", "/api/v1/server")
        case _:
            attacker = FlightAttacker(*where)
    attacker.well()
    attack = Attack(where, attacked.process, attacker, _SEED)
    attack.send(_MESSAGES // 10)
    before = held_by(number)
    attack.send(_MESSAGES - _MESSAGES // 10)
    attacker.end()
    after = settled(number, before, _MOST_NEW)
    print(f"{port}: {attack.sent:,} messages; {before} grew to {after}")
    assert after.resident - before.resident < _MOST_GROWTH
    assert after.threads - before.threads < _MOST_NEW and after.handles - before.handles < _MOST_NEW
    assert "Traceback" not in attacked.said.read_text()


def test_who_is_gone_at_once_leaves_nothing_that_waits(attacked: Attacked) -> None:
    body = b"user\0sqlengine\0\0"
    hello = struct.pack("!ii", len(body) + 8, 3 << 16) + body
    before = held_by(attacked.process.pid)
    for _ in range(3 * _MOST_NEW):
        client = WireClient(*attacked.ports["postgres"], start=False)
        client.send(hello, message(b"Q", b"SUBSCRIBE TO v\0"))
        client.socket.shutdown(socket.SHUT_WR)
        client.ended()
        client.close()
    assert settled(attacked.process.pid, before, _MOST_NEW).threads - before.threads < _MOST_NEW
