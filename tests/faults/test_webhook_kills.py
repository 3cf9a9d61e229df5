"""A database with a view over what is sent over HTTP, whose process is killed with SIGKILL between any two answers: each request
that was acknowledged, and each that was sent again because nobody knew, is in the view once.

`make faults` kills it 25 times.
"""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from connectors.http.client import Client, Way
from runtime.core.errors import UnavailableError
from sqlengine import TableEnvironment
from tests.faults.conftest import FIRST_SEED, KILLS

KILLED_SOURCES = ("webhook",)
"""Connectors of which the tests here prove something."""
_PROGRAM = """
import sys
from sqlengine import TableEnvironment
t_env = TableEnvironment.create({"sqlengine.database.checkpoint-size": "1 kb"}, path="db")
t_env.execute_sql(sys.argv[1])
t_env.execute_sql("CREATE MATERIALIZED VIEW IF NOT EXISTS seen AS SELECT id, COUNT(*) AS n FROM hooked GROUP BY id")
print("open", flush=True)
sys.stdin.read()
"""


def test_each_request_is_in_the_view_once(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    table = (
        "CREATE TABLE IF NOT EXISTS hooked (id INT) WITH ('connector' = 'webhook', 'format' = 'json', "
        f"'listen.address' = '127.0.0.1:{port}', 'spool.path' = '{tmp_path / 'spool'}')"
    )
    rng, client, sent = random.Random(FIRST_SEED), Client(Way(timeout=20)), 0
    for _ in range((KILLS + 1) // 2):
        job = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, table], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert job.stdin is not None and job.stdout is not None
        assert job.stdout.readline() == b"open\n"
        for _ in range(rng.randint(5, 60)):
            _taken(client, port, sent, job)
            sent += 1
        sender = threading.Thread(target=_sent, args=(client, port, sent))
        sender.start()
        job.send_signal(signal.SIGKILL)
        job.wait()
        job.stdin.close()
        job.stdout.close()
        sender.join()
    with TableEnvironment.create(path=str(tmp_path / "db")) as env:
        # Nobody knows whether the last one was taken.
        _taken(client, port, sent, None)
        env.execute_sql("FLUSH")
        rows = env.execute_sql("SELECT id, n FROM seen").to_arrow().to_pylist()
    client.close()
    assert sorted(tuple(r.values()) for r in rows) == [(i, 1) for i in range(sent + 1)]


def _request(number: int) -> tuple[bytes, dict[str, str]]:
    return b'{"id": %d}' % number, {"Idempotency-Key": str(number)}


def _sent(client: Client, port: int, number: int) -> None:
    """Once, and who knows with what success."""
    with suppress(UnavailableError):
        client.ask("POST", f"http://127.0.0.1:{port}/", *_request(number))


def _taken(client: Client, port: int, number: int, job: subprocess.Popen[bytes] | None) -> None:
    """Sent until it is answered with 200."""
    while job is None or job.poll() is None:
        try:
            if client.ask("POST", f"http://127.0.0.1:{port}/", *_request(number)).status == 200:
                return
        except UnavailableError:
            threading.Event().wait(0.01)
