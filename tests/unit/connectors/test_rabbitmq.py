"""RabbitMQ against a real server: acknowledgements behind checkpoints, each message with an id once, streams by offsets, and
processes that are killed."""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from connector_tables import REGISTRY

from connectors.formats.message_rows import encoded_messages
from connectors.options import TableOptions
from connectors.rabbitmq.address import ADDRESS_OPTIONS, read_address
from connectors.rabbitmq.table import RabbitTable
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, FormatError, SqlEngineError, UnavailableError
from runtime.core.options import Options
from runtime.core.retries import Retries
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from runtime.spi.registry import TableRequest
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SourceContract, end, rows_of
from sqlengine.testing.connectors.reading import Context
from tests.faults.conftest import FIRST_SEED, KILLS
from tests.servers.rabbitmq import PASSWORD, RabbitServer
from tests.servers.waiting import until

SCHEMA = Schema.of(("id", INT), ("name", STRING))
TYPES = ("int", "bigint", "double", "boolean", "string", "date", "decimal", "timestamp")
_numbers = itertools.count(1)


def table_of(server: RabbitServer, schema: Schema = SCHEMA, writes: bool = False, **options: str) -> RabbitTable:
    given = {"url": server.url, "username": "test", "password": PASSWORD, "format": "json", "queue": server.queue}
    factory = REGISTRY.connectors.get("rabbitmq")
    make = factory.sink if writes else factory.source
    assert make is not None
    table = make(TableRequest("asked", schema, (), {**given, **options}, Options({}), registry=REGISTRY))
    assert isinstance(table, RabbitTable)
    return table


def filled(server: RabbitServer, schema: Schema, rows: list[tuple[Any, ...]]) -> RabbitTable:
    """A stream."""
    queue = server.make_queue(f"stream{next(_numbers)}", x_queue_type="stream")
    table = table_of(server, schema, queue=queue, **{"queue-type": "stream", "scan.bounded.mode": "latest"})
    columns = [pa.array([row[i] for row in rows], f.type.arrow) for i, f in enumerate(schema)]
    messages = encoded_messages(table.format, schema, ChangelogBatch.of(columns, schema), "UTC").to_pylist()
    server.publish(*messages, queue=queue)
    return table


class TestStream(SourceContract):
    connectors = ("rabbitmq",)
    types = TYPES

    @pytest.fixture
    def table(self, rabbitmq: RabbitServer) -> RabbitTable:
        return filled(rabbitmq, SCHEMA, [(i, None if i % 3 == 0 else f"n{i}") for i in range(20)])

    @pytest.fixture
    def holding(self, rabbitmq: RabbitServer) -> Callable[[Schema, list[tuple[Any, ...]]], RabbitTable]:
        return lambda schema, rows: filled(rabbitmq, schema, rows)


class Reading:
    """A queue that is read as a job does."""

    def __init__(self, table: RabbitTable, position: Any = None) -> None:
        [split] = table.splits()
        self.reader: Any = table.open(split, Context())
        if position is not None:
            self.reader.seek(json.loads(json.dumps(position)))
        self.rows: list[tuple[Any, ...]] = []

    def wait(self, count: int, at_once: int = 100) -> list[tuple[Any, ...]]:
        """Until there are so many rows."""

        def enough() -> bool:
            batch = self.reader.poll(min(at_once, max(1, count - len(self.rows))))
            if batch is not None:
                self.rows += [tuple(r.values()) for r in batch.rows.to_pylist()]
            return len(self.rows) >= count

        until(enough)
        return self.rows

    def checkpoint(self, *, complete: bool = True) -> Any:
        """A position as a checkpoint has it."""
        position = json.loads(json.dumps(self.reader.position()))
        if complete:
            self.reader.checkpoint_complete(position)
        return position

    def close(self) -> None:
        self.reader.close()
        self.reader._thread.join(30)


def bodies(*ids: int) -> list[bytes]:
    return [b'{"id": %d}' % i for i in ids]


def test_messages_are_acknowledged_behind_checkpoints(rabbitmq: RabbitServer) -> None:
    rabbitmq.make_queue()
    rabbitmq.publish(*bodies(*range(6)), ids=[f"m{i}" for i in range(6)])
    table = table_of(rabbitmq)
    first = Reading(table)
    assert first.wait(4) == [(i, None) for i in range(4)]
    saved = first.checkpoint()
    until(lambda: not any(g.number <= 4 for g in first.reader._consuming._given))
    assert first.wait(6)[4:] == [(4, None), (5, None)]
    lost = first.checkpoint(complete=False)
    first.close()
    until(lambda: rabbitmq.waiting() == 2)
    # From the older checkpoint both come again; from the newer one they are known, and go behind the next checkpoint.
    again = Reading(table, saved)
    assert again.wait(2) == [(4, None), (5, None)]
    again.close()
    until(lambda: rabbitmq.waiting() == 2)
    rabbitmq.publish(b'{"id": 6}', ids=["m6"])
    newer = Reading(table, lost)
    assert newer.wait(1) == [(6, None)]
    position = newer.checkpoint()
    assert set(position["ids"][: position["count"]]) == {"m0", "m1", "m2", "m3", "m4", "m5", "m6"} - {
        "m0",
        "m1",
        "m2",
        "m3",
    }
    until(lambda: not newer.reader._consuming._given)
    assert newer.checkpoint()["ids"] == []
    newer.close()
    until(lambda: rabbitmq.waiting() == 0)


def test_a_message_of_several_rows_is_cut_anywhere(rabbitmq: RabbitServer) -> None:
    for cut in range(1, 6):
        queue = rabbitmq.make_queue(f"cut{cut}")
        sent = b'[{"id": 1}, {"id": 2}, {"id": 3}]', b'{"id": 4}', b'[{"id": 5}, {"id": 6}]'
        rabbitmq.publish(*sent, queue=queue, ids=["a", "b", "c"])
        first = Reading(table_of(rabbitmq, queue=queue))
        first.wait(cut, at_once=1)
        position = first.checkpoint()
        first.close()
        rest = Reading(table_of(rabbitmq, queue=queue), position)
        assert [row[0] for row in rest.wait(6 - cut)] == list(range(cut + 1, 7))
        rest.checkpoint()
        until(lambda reader=rest.reader: not reader._consuming._given)
        rest.close()
        until(lambda queue=queue: rabbitmq.waiting(queue) == 0)


def test_without_ids_it_is_at_least_once(rabbitmq: RabbitServer) -> None:
    rabbitmq.make_queue()
    rabbitmq.publish(*bodies(1, 2))
    first = Reading(table_of(rabbitmq))
    first.wait(2)
    position = first.checkpoint(complete=False)
    assert position["ids"] == []
    first.close()
    assert Reading(table_of(rabbitmq), position).wait(2) == [(1, None), (2, None)]


def test_correlation_ids_and_metadata(rabbitmq: RabbitServer) -> None:
    rabbitmq.make_queue()
    with rabbitmq.channel() as channel:
        import pika

        for number in (1, 1, 2):
            said = pika.BasicProperties(correlation_id=f"c{number}", message_id="same", timestamp=1_700_000_000)
            channel.basic_publish("", rabbitmq.queue, b'{"id": %d}' % number, said)
    reading = Reading(table_of(rabbitmq, **{"use-correlation-id": "true"}))
    assert reading.wait(2) == [(1, None), (2, None)]
    reading.close()
    until(lambda: rabbitmq.waiting() == 3)
    with TableEnvironment.create() as env:
        env.execute_sql(
            "CREATE TABLE t (id INT, `correlation-id` STRING METADATA, `routing-key` STRING METADATA, `timestamp` TIMESTAMP_LTZ(3) "
            f"METADATA, `offset` BIGINT METADATA) WITH ({rabbitmq.options}, 'queue' = '{rabbitmq.queue}', 'format' = 'json', "
            "'scan.bounded.mode' = 'latest', 'use-correlation-id' = 'true')"
        )
        found = env.execute_sql("SELECT id, `correlation-id`, `routing-key`, `offset` FROM t").to_arrow().to_pylist()
    assert [tuple(r.values()) for r in found] == [(1, "c1", rabbitmq.queue, None), (2, "c2", rabbitmq.queue, None)]
    until(lambda: rabbitmq.waiting() == 3)


def test_a_connection_that_ends_is_made_again(rabbitmq: RabbitServer) -> None:
    rabbitmq.make_queue()
    rabbitmq.publish(*bodies(1, 2), ids=["a", "b"])
    reading = Reading(table_of(rabbitmq))
    reading.reader._retries = Retries(8, 0.01, 0.1)
    assert len(reading.wait(2)) == 2
    consuming = reading.reader._consuming
    acknowledge = consuming._acknowledge

    def broken(channel: Any) -> None:
        consuming._acknowledge = acknowledge
        channel.connection.close()
        raise ConnectionResetError("gone")

    consuming._acknowledge = broken
    until(lambda: reading.reader.tries == 1)
    rabbitmq.publish(*bodies(3), ids=["c"])
    assert reading.wait(3)[2] == (3, None)
    reading.checkpoint()
    until(lambda: not consuming._given)
    reading.close()
    until(lambda: rabbitmq.waiting() == 0)


def test_messages_of_a_stream_that_are_gone_are_told(rabbitmq: RabbitServer) -> None:
    table = filled(rabbitmq, SCHEMA, [(i, "x") for i in range(5)])
    assert [r[0] for r in rows_of(table)] == list(range(5))
    [split] = table.splits()
    reader = table.open(split, Context())
    reader.seek({"at": {"next": 3, "end": 5}, "rows": 1})
    found: list[Any] = []
    while not reader.finished:
        batch = reader.poll(10)
        found += [] if batch is None else batch.rows.to_pylist()
    assert [r["id"] for r in found] == [4]
    reader.close()
    empty = rabbitmq.make_queue(f"stream{next(_numbers)}", x_queue_type="stream")
    assert rows_of(table_of(rabbitmq, queue=empty, **{"queue-type": "stream", "scan.bounded.mode": "latest"})) == []


def test_what_is_written_and_confirmed(rabbitmq: RabbitServer) -> None:
    rabbitmq.make_queue()
    table = table_of(rabbitmq, writes=True)
    rows = 2500
    writer = table.open_writer("job")
    columns = [pa.array(np.arange(rows, dtype=np.int32)), pa.nulls(rows, pa.string())]
    writer.write(ChangelogBatch.of(columns, SCHEMA))
    end(writer)
    writer.close()
    assert rabbitmq.waiting() == rows
    found = rows_of(table_of(rabbitmq, **{"scan.bounded.mode": "latest"}))
    assert found == [(i, None) for i in range(rows)]
    one = [ChangelogBatch.of([c.slice(0, 1) for c in columns], SCHEMA)]
    for options, why in (
        ({"queue": "nowhere"}, "sends the message back: NO_ROUTE"),
        ({"exchange": "nowhere"}, "no exchange 'nowhere'"),
        ({"password": "not this one"}, "refuses the connection"),
    ):
        with pytest.raises(ConnectorError, match=why) as caught:
            table_of(rabbitmq, writes=True, **options).open_writer("job")._rows.write(one)  # type: ignore[attr-defined]
        assert (
            caught.value.code == "E3257" and PASSWORD not in str(caught.value) and "not this" not in str(caught.value)
        )
    gone = table_of(rabbitmq, writes=True, url="amqp://127.0.0.1:1").open_writer("job")
    with pytest.raises(UnavailableError):
        gone._rows.write(one)  # type: ignore[attr-defined]
    assert PASSWORD not in f"{table!r} {table.describe()} {table.place()}"
    with pytest.raises(ConnectorError, match="no queue 'nowhere'"):
        rows_of(table_of(rabbitmq, queue="nowhere", **{"scan.bounded.mode": "latest"}))
    rabbitmq.publish(b"no json")
    with pytest.raises(FormatError, match="queue test"):
        rows_of(table_of(rabbitmq, **{"scan.bounded.mode": "latest"}))


_PROGRAM = """
import sys
from sqlengine import TableEnvironment
t_env = TableEnvironment.create({"sqlengine.database.checkpoint-size": "1 kb"}, path=sys.argv[2])
t_env.execute_sql(sys.argv[1])
t_env.execute_sql("CREATE MATERIALIZED VIEW IF NOT EXISTS seen AS SELECT id, COUNT(*) AS n FROM asked GROUP BY id")
print("open", flush=True)
while True:
    print(len(t_env.execute_sql("SELECT id FROM seen").to_arrow()), flush=True)
"""


def test_each_message_is_in_a_view_once_whoever_is_killed(rabbitmq: RabbitServer, tmp_path: Path) -> None:
    rabbitmq.make_queue()
    create = f"CREATE TABLE IF NOT EXISTS asked (id INT) WITH ({rabbitmq.options}, 'queue' = '{rabbitmq.queue}', 'format' = 'json')"
    command = [sys.executable, "-c", _PROGRAM, create, str(tmp_path / "db")]
    rng, sent = random.Random(FIRST_SEED), 0
    for number in range(max(KILLS // 2, 1) + 1):
        job = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert job.stdout is not None and job.stdout.readline() == "open\n"
        more = list(range(sent, sent + 200))
        rabbitmq.publish(*bodies(*more), ids=[f"m{i}" for i in more])
        wanted = sent + (rng.randint(1, 200) if number < max(KILLS // 2, 1) else 200)
        sent += 200
        while int(job.stdout.readline()) < wanted:
            assert job.poll() is None
        job.send_signal(signal.SIGKILL)
        job.wait()
        job.stdout.close()
    with TableEnvironment.create(path=str(tmp_path / "db")) as env:
        env.execute_sql("FLUSH")
        rows = env.execute_sql("SELECT id, n FROM seen").to_arrow().to_pylist()
        assert sorted(tuple(r.values()) for r in rows) == [(i, 1) for i in range(sent)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'url' = 'http://h', 'queue' = 'q'", "not the address"),
        ("'url' = 'amqp://h:99999', 'queue' = 'q'", "not the address"),
        ("'url' = 'amqp://h'", "needs the option 'queue'"),
        ("'url' = 'amqp://h', 'queue' = 'q', 'queue-type' = 'heap'", "cannot be 'heap'"),
        ("'url' = 'amqp://h', 'queues' = 'q'", "unknown option"),
    ],
)
def test_what_is_wrong(options: str, message: str) -> None:
    with TableEnvironment.create() as env, pytest.raises(SqlEngineError, match=message):
        env.execute_sql(f"CREATE TABLE t (id INT) WITH ('connector' = 'rabbitmq', 'format' = 'json', {options})")
        env.execute_sql("SELECT * FROM t").to_arrow()


def test_without_the_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pika", None)
    with pytest.raises(ConnectorError, match="client of RabbitMQ is not installed") as caught:
        rows_of(table_of(RabbitServer(1, "q"), **{"scan.bounded.mode": "latest"}))
    assert caught.value.code == "E3256" and "sqlengine[rabbitmq]" in str(caught.value.hint)


def test_addresses() -> None:
    found = read_address(TableOptions({"url": "amqps://ann:pass%20word@[::1]/shop%2Fa"}, "", ADDRESS_OPTIONS))
    assert (found.host, found.port, found.vhost, found.encrypted, found.user) == ("::1", 5671, "shop/a", True, "ann")
    assert found.password.reveal() == "pass word" and "word" not in repr(found)
