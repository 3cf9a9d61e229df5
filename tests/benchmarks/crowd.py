"""A server with a thousand clients at once: what it holds over time, and how long they wait.

    python -m tests.benchmarks.crowd [--minutes 5] [--connections 1000] [--subscribers 200] [--rows 20000]

Rows arrive in a table all the time; so many clients subscribe to one view over it, and note how old what they read is. The
others ask for a row by key now and then. One subscribes to the table and reads nothing: it has to be dropped. Memory,
threads and handles of the server are those of its process; it is flat when the line through the second half of the samples
rises by less than 16 MiB.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import re
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import psycopg

from tests.benchmarks.server import processor_seconds
from tests.faults.soak import growth
from tests.server.hostile.attack import held_by
from tests.server.wire_client import WireClient, message

_GROUPS = 100
_KEYS = 200_000
_NOTE = "x" * 60
_EPOCHS = 10
"""Portions a second in which rows arrive."""
_SAMPLE_SECONDS = 10.0
_MOST_GROWTH = 16 << 20
_LOOKUPS = 50
"""Lookups a second by clients that do not subscribe."""
_OPEN_AT_ONCE = 50


async def _connected(
    host: str, port: int, gate: asyncio.Semaphore
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    body = b"user\0sqlengine\0\0"
    async with gate:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(struct.pack("!ii", len(body) + 8, 3 << 16) + body)
        await _until_ready(reader)
    return reader, writer


async def _until_ready(reader: asyncio.StreamReader) -> None:
    while True:
        head = await reader.readexactly(5)
        await reader.readexactly(int.from_bytes(head[1:], "big") - 4)
        if head[:1] == b"Z":
            return


@dataclass
class _Heard:
    """Since the last report. `lags`: milliseconds; `waits` of lookups: seconds."""

    lags: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    data: int = 0


async def _subscribe(host: str, port: int, gate: asyncio.Semaphore, heard: _Heard) -> None:
    reader, writer = await _connected(host, port, gate)
    writer.write(message(b"Q", b"COPY (SUBSCRIBE TO v WITHOUT SNAPSHOT) TO STDOUT\0"))
    while data := await reader.read(1 << 18):
        heard.data += len(data)
        # The last whole line: epoch, kind, group, count, when its newest row was sent.
        end = data.rfind(b"\n")
        line = data[data.rfind(b"\n", 0, end) + 1 : end]
        _, tab, sent = line.rpartition(b"\t")
        if tab and sent.isdigit():
            heard.lags.append(time.time() * 1000 - int(sent))
    raise AssertionError("a subscriber was dropped")


async def _ask(host: str, port: int, count: int, gate: asyncio.Semaphore, heard: _Heard, ready: asyncio.Event) -> None:
    found = await asyncio.gather(*(_connected(host, port, gate) for _ in range(count)))
    chance = random.Random(1)

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        began = time.perf_counter()
        writer.write(message(b"Q", b"SELECT n FROM v WHERE g = %d\0" % chance.randrange(_GROUPS)))
        await _until_ready(reader)
        heard.waits.append(time.perf_counter() - began)

    # What a connection needs once is there before anything is measured.
    for at in range(0, count, _OPEN_AT_ONCE):
        await asyncio.gather(*(one(*each) for each in found[at : at + _OPEN_AT_ONCE]))
    heard.waits.clear()
    ready.set()
    while True:
        for reader, writer in chance.sample(found, min(len(found), _LOOKUPS)):
            await asyncio.gather(one(reader, writer), asyncio.sleep(1 / _LOOKUPS))


def _clients(host: str, port: int, subscribers: int, others: int, told: Connection) -> None:
    """The process of all clients: says when they are connected, then what they have heard whenever it is asked."""

    async def run() -> None:
        heard, gate, ready = _Heard(), asyncio.Semaphore(_OPEN_AT_ONCE), asyncio.Event()
        tasks = [asyncio.create_task(_subscribe(host, port, gate, heard)) for _ in range(subscribers)]
        if others:
            tasks.append(asyncio.create_task(_ask(host, port, others, gate, heard, ready)))
        else:
            ready.set()
        await ready.wait()
        told.send("connected")
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, told.recv):
            for task in tasks:
                if task.done():
                    task.result()
            told.send((heard.lags, heard.waits, heard.data))
            heard.lags, heard.waits, heard.data = [], [], 0
        for task in tasks:
            task.cancel()

    asyncio.run(run())


class _Feeder(threading.Thread):
    """Rows with the time at which they were sent, in equal portions."""

    def __init__(self, conninfo: str, rows: int) -> None:
        super().__init__(daemon=True)
        self._conninfo = conninfo
        self._rows = rows // _EPOCHS
        self.written = 0
        self.ended = threading.Event()

    def run(self) -> None:
        chance, began = np.random.default_rng(1), time.perf_counter()
        with psycopg.connect(self._conninfo, autocommit=True) as client:
            for portion in range(1, sys.maxsize):
                keys, now = chance.integers(0, _KEYS, self._rows), int(time.time() * 1000)
                lines = "".join(f"{key}\t{key % _GROUPS}\t{now}\t{_NOTE}\n" for key in keys.tolist())
                with client.cursor().copy("COPY t FROM STDIN") as copy:
                    copy.write(lines)
                self.written += self._rows
                if self.ended.wait(max(0.0, began + portion / _EPOCHS - time.perf_counter())):
                    return


class _Deaf:
    """Subscribes and reads nothing. It cannot hear that it was dropped: what it has not read stands before that."""

    def __init__(self, host: str, port: int) -> None:
        self._client = WireClient(host, port)
        self._client.send(message(b"Q", b"COPY (SUBSCRIBE TO t WITHOUT SNAPSHOT) TO STDOUT\0"))

    def was_dropped(self) -> bool:
        """Whether what it reads now has an end."""
        self._client.socket.settimeout(10)
        ends = time.perf_counter() + 10
        try:
            while time.perf_counter() < ends:
                if not self._client.socket.recv(1 << 20):
                    return True
        except ConnectionResetError:
            return True
        except TimeoutError:
            pass
        return False


def _shown(values: list[float], scale: float = 1.0) -> str:
    if not values:
        return "-"
    middle, high = np.percentile(values, [50, 99])
    return f"{middle * scale:.0f}/{high * scale:.0f} ms"


def _run(arguments: argparse.Namespace, process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    match = re.search(r"([\d.]+):(\d+)", process.stdout.readline())
    assert match is not None
    host, port = match[1], int(match[2])
    conninfo = f"host={host} port={port} user=sqlengine"
    with psycopg.connect(conninfo, autocommit=True) as client:
        client.execute("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, g INT, sent BIGINT, note STRING)")
        client.execute(
            f"INSERT INTO t SELECT CAST(n AS INT), CAST(MOD(n, {_GROUPS}) AS INT), 0, '{_NOTE}' "
            f"FROM generate_series(0, {_KEYS - 1}) AS s (n)"
        )
        client.execute("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n, MAX(sent) AS newest FROM t GROUP BY g")
    here, there = multiprocessing.Pipe()
    # One feeds, one is deaf.
    others = arguments.connections - arguments.subscribers - 2
    clients = multiprocessing.Process(
        target=_clients, args=(host, port, arguments.subscribers, others, there), daemon=True
    )
    clients.start()
    there.close()
    began = time.perf_counter()
    here.recv()
    print(f"{arguments.connections - 2} clients connected in {time.perf_counter() - began:.1f} s", flush=True)
    feeder, deaf = _Feeder(conninfo, arguments.rows), _Deaf(host, port)
    feeder.start()
    print("  ".join(f"{name:>13}" for name in ("time", "resident", "threads", "handles", "rows/s", "to clients", "server",
                                               "lag p50/p99", "look p50/p99")), flush=True)  # fmt: skip
    resident: list[int] = []
    lags: list[float] = []
    waits: list[float] = []
    started, written, used = time.perf_counter(), 0, processor_seconds(process.pid)
    last = started
    while time.perf_counter() - started < 60 * arguments.minutes:
        time.sleep(_SAMPLE_SECONDS)
        here.send(True)
        answer: Any = here.recv()
        now, held, total = time.perf_counter(), held_by(process.pid), processor_seconds(process.pid)
        cells = (
            f"{now - started:.0f} s", f"{held.resident / (1 << 20):.1f} MiB", held.threads, held.handles,
            f"{(feeder.written - written) / (now - last):,.0f}", f"{answer[2] / (now - last) / 1e6:.1f} MB/s",
            f"{(total - used) / (now - last):.0%}", _shown(answer[0]), _shown(answer[1], 1000.0),
        )  # fmt: skip
        print("  ".join(f"{cell:>13}" for cell in cells), flush=True)
        written, used, last = feeder.written, total, now
        resident.append(held.resident)
        lags += answer[0]
        waits += answer[1]
    dropped = deaf.was_dropped()
    feeder.ended.set()
    feeder.join()
    here.send(False)
    clients.join(30)
    grew = growth(resident)
    print(
        f"rows: {feeder.written / (time.perf_counter() - started):,.0f}/s; lag {_shown(lags)}; lookups {_shown(waits, 1000.0)}"
    )
    print(f"memory rose by {grew / (1 << 20):.1f} MiB over the second half   (bar: flat)")
    print(f"the deaf client was {'dropped' if dropped else 'kept'}   (bar: dropped)")
    return grew < _MOST_GROWTH and dropped


def main() -> None:
    """Print what was measured; the exit status is 1 where memory was not flat, or the deaf client was kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--subscribers", type=int, default=200)
    parser.add_argument("--rows", type=int, default=20_000, help="a second")
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "sqlengine", "serve", "--postgres", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        good = _run(arguments, process)
    finally:
        process.terminate()
        process.wait()
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
