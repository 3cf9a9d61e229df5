"""The bars of the server, with real clients: `make bench-server`.

Clients are processes on the same machine, so two figures stand in each line: what the clients got, and what the processor
time that the server took says one core can give.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import numpy as np
import psycopg

from sqlengine.state import StateClient

_KEYS = 100_000
_ROWS = 200_000
_LOOKUP = "SELECT g, n, total FROM v WHERE g = $1"
_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(process: int) -> float:
    """That the process with this number has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Server:
    """A server in a process of its own, with a table and three views over it."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "sqlengine", "serve", "--postgres", "127.0.0.1:0", "--state", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        match = re.search(r"([\d.]+):(\d+)", self.process.stdout.readline())
        state = re.search(r"([\d.]+:\d+)", self.process.stdout.readline())
        assert match is not None and state is not None
        self.host, self.port, self.state = match[1], int(match[2]), state[1]

    @property
    def conninfo(self) -> str:
        return f"host={self.host} port={self.port} user=sqlengine dbname=default_catalog"

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.conninfo, autocommit=True)

    def processor_seconds(self) -> float:
        return processor_seconds(self.process.pid)

    def fill(self) -> None:
        with self.connect() as client:
            client.execute(
                "CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, g INT, name STRING, amount DECIMAL(10, 2))"
            )
            client.execute(
                f"INSERT INTO t SELECT CAST(n AS INT), CAST(MOD(n, {_KEYS}) AS INT), 'n' || CAST(n AS STRING), 1.5 "
                f"FROM generate_series(1, {_ROWS}) AS s (n)"
            )
            client.execute(
                "CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n, SUM(amount) AS total FROM t GROUP BY g"
            )
            client.execute("CREATE MATERIALIZED VIEW named AS SELECT name, amount FROM t WHERE g = 7")
            client.execute("CREATE MATERIALIZED VIEW most AS SELECT MAX(amount) AS most FROM t")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


async def _lookups(server: Server, clients: int, each: int) -> list[float]:
    """The seconds of each lookup."""
    taken: list[float] = []

    async def client(number: int) -> None:
        chance = random.Random(number)
        connection = await asyncpg.connect(
            host=server.host, port=server.port, user="sqlengine", database="default_catalog"
        )
        lookup = await connection.prepare(_LOOKUP)
        for _ in range(each):
            start = time.perf_counter()
            row = await lookup.fetchrow(chance.randrange(_KEYS))
            taken.append(time.perf_counter() - start)
            assert row is not None
        await connection.close()

    await asyncio.gather(*map(client, range(clients)))
    return taken


def _client_process(server: Server, clients: int, each: int, results: multiprocessing.Queue[list[float]]) -> None:
    results.put(asyncio.run(_lookups(server, clients, each)))


def _report(server: Server, what: str, bar: str, count: int, seconds: float, processor: float, more: str = "") -> None:
    print(f"{what}: {count / seconds:,.0f}/s, {count / processor:,.0f}/s for a core of the server{more}   (bar: {bar})")


def _concurrent(server: Server, what: str, bar: str, clients: int, each: int) -> None:
    results: multiprocessing.Queue[list[float]] = multiprocessing.Queue()
    process = multiprocessing.Process(target=_client_process, args=(server, clients, each, results))
    start, processor = time.perf_counter(), server.processor_seconds()
    process.start()
    taken = sorted(results.get())
    process.join()
    seconds, processor = time.perf_counter() - start, server.processor_seconds() - processor
    p99 = taken[int(len(taken) * 0.99)] * 1000
    _report(server, what, bar, len(taken), seconds, processor, f", p99 {p99:.1f} ms")


def _pipelines(server: Server, count: int) -> None:
    query = _LOOKUP.replace("$1", "%s")
    with server.connect() as client:
        for _ in range(10):
            client.execute(query, (5,), prepare=True).fetchall()
        keys = [random.randrange(_KEYS) for _ in range(count)]
        start, processor = time.perf_counter(), server.processor_seconds()
        for at in range(0, count, 1000):
            with client.pipeline():
                for key in keys[at : at + 1000]:
                    client.execute(query, (key,), prepare=True)
        seconds, processor = time.perf_counter() - start, server.processor_seconds() - processor
    _report(server, "lookups in pipelines of 1,000", "50,000/s", count, seconds, processor)


def _batches_of_keys(server: Server, of: str, state: str, each: int, seconds: float) -> None:
    """Keys of a view, or of the state of its job, in batches over Arrow Flight."""
    chance = np.random.default_rng(1)
    with StateClient(server.state) as client:
        client.lookup(of, {"g": np.arange(each, dtype=np.int32)}, state=state)
        start, processor, count = time.perf_counter(), server.processor_seconds(), 0
        while time.perf_counter() - start < seconds:
            keys = chance.integers(0, _KEYS, each, dtype=np.int32)
            found = client.lookup(of, {"g": keys}, state=state)
            assert found.num_rows == each
            count += each
        taken, processor = time.perf_counter() - start, server.processor_seconds() - processor
    what = f"state of {of}" if state else of
    _report(server, f"keys of {what} over Flight, {each:,} in a batch", "100,000/s", count, taken, processor)


def _inserts(server: Server, count: int) -> None:
    insert = "INSERT INTO t VALUES (%s, %s, %s, %s)"
    with server.connect() as client:
        for i in range(50):
            client.execute(insert, (1_000_000 + i, 5, "x", 1), prepare=True)
        start, processor = time.perf_counter(), server.processor_seconds()
        for i in range(count):
            client.execute(insert, (2_000_000 + i, i % _KEYS, "x", 1), prepare=True)
        seconds, processor = time.perf_counter() - start, server.processor_seconds() - processor
    each, own = seconds / count * 1000, processor / count * 1000
    print(
        f"prepared INSERT of a row, three views: {each:.2f} ms, {own:.2f} ms at the server   (bar: 1 ms at the server)"
    )


def _subscriber_process(
    server: Server, clients: int, seconds: float, results: multiprocessing.Queue[list[int]]
) -> None:
    """Each client reads a subscription as COPY for so long; the bytes that each has got."""
    got = [0] * clients

    def read(number: int) -> None:
        with server.connect() as client:
            timer = threading.Timer(seconds, client.cancel)
            timer.start()
            try:
                with client.cursor().copy("COPY (SUBSCRIBE TO v WITHOUT SNAPSHOT) TO STDOUT") as copy:
                    while data := copy.read():
                        got[number] += len(data)
            except psycopg.errors.QueryCanceled:
                pass

    threads = [threading.Thread(target=read, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put(got)


def _subscribers(server: Server, clients: int, seconds: float) -> None:
    results: multiprocessing.Queue[list[int]] = multiprocessing.Queue()
    process = multiprocessing.Process(target=_subscriber_process, args=(server, clients, seconds, results))
    with _arriving(server, 20_000) as arrived:
        began = server.processor_seconds()
        process.start()
        got = results.get()
        process.join()
        used = server.processor_seconds() - began
        print(
            f"{clients} subscribers to a view: {sum(got) / seconds / 1e6:,.1f} MB/s to all, {min(got) / max(max(got), 1):.0%} of the "
            f"fastest to the slowest, {used / seconds:.0%} of a core; rows that arrived: {arrived():,.0f}/s   "
            "(bar: 20,000/s, nobody waits)"
        )


@contextmanager
def _arriving(server: Server, rows: int) -> Iterator[Callable[[], float]]:
    """Rows that arrive all the time, so many a second; how many a second have."""
    ended, written, began = threading.Event(), [0], time.perf_counter()

    def write() -> None:
        with server.connect() as client:
            while not ended.is_set():
                ids = (random.randrange(_ROWS) for _ in range(rows // 10))
                lines = "".join(f"{i}\t{i % _KEYS}\tn\t{i % 97}\n" for i in ids)
                with client.cursor().copy("COPY t FROM STDIN") as copy:
                    copy.write(lines)
                written[0] += rows // 10
                ended.wait(max(0.0, began + written[0] / rows - time.perf_counter()))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield lambda: written[0] / (time.perf_counter() - began)
    finally:
        ended.set()
        thread.join()


def main() -> None:
    """Print the bars and what was measured."""
    server = Server()
    try:
        server.fill()
        _concurrent(server, "lookups by 64 clients", "10,000/s", 64, 500)
        _pipelines(server, 50_000)
        for each in (100, 1000, 10_000):
            _batches_of_keys(server, "v", "", each, 2.0)
            _batches_of_keys(server, "v", "groups", each, 2.0)
        _inserts(server, 500)
        _subscribers(server, 50, 5.0)
        with _arriving(server, 50_000) as arrived:
            _concurrent(server, "lookups by 64 clients while rows arrive", "p99 below 10 ms", 64, 500)
            _batches_of_keys(server, "v", "groups", 1000, 3.0)
            print(f"    rows that arrived: {arrived():,.0f}/s   (bar: 50,000/s)")
    finally:
        server.stop()


if __name__ == "__main__":
    main()
