"""All rows of a table through psycopg, from this server and from PostgreSQL 15 over the same rows, in turn:
`python -m tests.benchmarks.select_all --rows 10000000`.

The client reads in bounded memory, in one of three ways: `stream` (rows as they come), `cursor` (a cursor at the server, 10,000
rows a time), and `copy` (`COPY (SELECT ..) TO STDOUT`). It is a process of its own, whose largest memory is told. The table has
a BIGINT key, an INT, a name, a DECIMAL(10, 2), a DOUBLE and a TIMESTAMP(6).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.benchmarks.server import Server
from tests.servers.postgres import PASSWORD, running

__all__ = ["main"]

WAYS = ("stream", "cursor", "copy")
COLUMNS = "id BIGINT PRIMARY KEY {}, g INT, name {}, amount DECIMAL(10, 2), share DOUBLE PRECISION, at TIMESTAMP(6)"
FILL = (
    "INSERT INTO all_rows SELECT n, CAST(MOD(n, 1000) AS INT), 'name ' || CAST(n AS {}), CAST(MOD(n, 100000) AS DECIMAL(10, 2)) "
    "/ 100, n * 0.5, TIMESTAMP '2026-01-01 00:00:00' + n * INTERVAL '1' SECOND FROM generate_series(CAST(1 AS BIGINT), "
    "CAST({} AS BIGINT)) AS s (n)"
)
_CLIENT = """
import json, resource, sys, time
import psycopg
conninfo, way = sys.argv[1:]
with psycopg.connect(conninfo) as connection:
    started, busy, count = time.perf_counter(), time.process_time(), 0
    if way == "stream":
        for row in connection.cursor().stream("SELECT * FROM all_rows", size=1000):
            count += 1
    elif way == "cursor":
        with connection.cursor("c") as cursor:
            cursor.itersize = 10_000
            cursor.execute("SELECT * FROM all_rows")
            for row in cursor:
                count += 1
    else:
        with connection.cursor().copy("COPY (SELECT * FROM all_rows) TO STDOUT") as copy:
            for block in copy:
                count += bytes(block).count(b"\\n")
    print(json.dumps({"seconds": time.perf_counter() - started, "client": time.process_time() - busy, "rows": count,
                      "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))
"""


def read(conninfo: str, way: str) -> dict[str, float]:
    """One client."""
    found = subprocess.run([sys.executable, "-c", _CLIENT, conninfo, way], check=True, capture_output=True, text=True)
    return json.loads(found.stdout)


def _children_seconds(pid: int) -> float:
    """The processor time of a process, and of those that it has started."""
    ticks = os.sysconf("SC_CLK_TCK")
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, fields = int(stat.parent.name), stat.read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if pid in (number, int(fields[1])):
            total += int(fields[11]) + int(fields[12]) + (int(fields[13]) + int(fields[14]) if number == pid else 0)
    return total / ticks


@contextmanager
def _servers(rows: int) -> Iterator[dict[str, tuple[str, int]]]:
    server = Server()
    try:
        with running() as other:
            ours = psycopg.connect(server.conninfo, autocommit=True)
            theirs = other.connect()
            ours.execute(f"CREATE TABLE all_rows ({COLUMNS.format('NOT ENFORCED', 'STRING')})")
            ours.execute(FILL.format("STRING", rows))
            theirs.execute(f"CREATE TABLE all_rows ({COLUMNS.format('', 'TEXT')})")
            theirs.execute(FILL.format("TEXT", rows))
            theirs.execute("VACUUM ANALYZE all_rows")
            known = {"host": other.host, "port": other.port, "dbname": "postgres", "user": "postgres"}
            conninfo = psycopg.conninfo.make_conninfo(password=PASSWORD, **known)
            pid = int((other.folder / "data" / "postmaster.pid").read_text().split()[0])
            yield {"sqlengine": (server.conninfo, server.process.pid), "PostgreSQL": (conninfo, pid)}
    finally:
        server.stop()


def main(words: list[str] | None = None) -> None:
    """Print a line for each way and server."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.select_all", description="Beside PostgreSQL's.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args(words)
    with _servers(given.rows) as servers:
        for way in WAYS:
            for _ in range(given.repeat):
                for name, (conninfo, pid) in servers.items():
                    before = _children_seconds(pid)
                    found = read(conninfo, way)
                    server = _children_seconds(pid) - before
                    assert found["rows"] == given.rows, found
                    print(
                        f"{way:8} {name:12} {found['seconds']:7.2f} s   server {server:6.2f} s   client {found['client']:6.2f} s, "
                        f"{found['megabytes']} MB",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
