"""MQTT against a real server (Mosquitto) and another client (paho): nothing is lost, what comes twice is there once, and what is
no MQTT."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from connector_tables import REGISTRY

from connectors.formats.message_rows import encoded_messages
from connectors.kit.journal import opened_journal
from connectors.mqtt import session
from connectors.mqtt.address import ADDRESS_OPTIONS, Address, read_address
from connectors.mqtt.packets import Broken, Kind, PacketReader, Published, packet, published, short
from connectors.mqtt.session import Subscription, _open_numbers, _Receiving, _record, kept_messages, receiving
from connectors.mqtt.table import MqttTable
from connectors.options import TableOptions
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, SqlEngineError, UnavailableError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from runtime.spi.registry import TableRequest
from sqlengine import TableEnvironment
from sqlengine.testing.connectors import SourceContract, end, rows_of
from sqlengine.testing.connectors.reading import Context
from tests.servers.mosquitto import PASSWORD, MosquittoServer
from tests.servers.waiting import until

SCHEMA = Schema.of(("id", INT), ("name", STRING))
TYPES = ("int", "bigint", "double", "boolean", "string", "date", "decimal", "timestamp")
_numbers = itertools.count(1)


def table_of(server: MosquittoServer | None, folder: Path, schema: Schema = SCHEMA, **options: str) -> MqttTable:
    given = {"url": "mqtt://127.0.0.1:1", "topic": "t", "client-id": f"c{next(_numbers)}"}
    if server is not None:
        given |= {"url": server.url, "username": "test", "password": PASSWORD, "topic": server.topic}
    given |= {"format": "json", "spool.path": str(folder), "scan.bounded.mode": "latest"}
    factory = REGISTRY.connectors.get("mqtt").source
    assert factory is not None
    asked = TableRequest("heard", schema, (), {**given, **options}, Options({}), registry=REGISTRY)
    table = factory(asked)
    assert isinstance(table, MqttTable)
    return table


def filled(folder: Path, schema: Schema, rows: list[tuple[Any, ...]]) -> MqttTable:
    columns = [pa.array([row[i] for row in rows], f.type.arrow) for i, f in enumerate(schema)]
    table = table_of(None, folder, schema)
    messages = encoded_messages(table.format, schema, ChangelogBatch.of(columns, schema), "UTC").to_pylist()
    with opened_journal(folder, 1e9, 1 << 30) as journal:
        for at in range(0, len(messages), 7):
            records = [_record(Published("t", m, 1, False, 1)) for m in messages[at : at + 7]]
            journal.append([("", record) for record in [bytes((2,)) + bytes(6), *records]])
    return table


class TestSource(SourceContract):
    connectors = ("mqtt",)
    types = TYPES

    @pytest.fixture
    def table(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MqttTable:
        monkeypatch.setattr("connectors.kit.journal._FILE", 300)
        return filled(tmp_path / "spool", SCHEMA, [(i, None if i % 3 == 0 else f"n{i}") for i in range(40)])

    @pytest.fixture
    def holding(self, tmp_path: Path) -> Callable[[Schema, list[tuple[Any, ...]]], MqttTable]:
        return lambda schema, rows: filled(tmp_path / "spool", schema, rows)


class Listening:
    """A table that is read without an end."""

    def __init__(self, table: MqttTable) -> None:
        [split] = table.splits()
        self.reader = table.open(split, Context())
        self.rows: list[tuple[Any, ...]] = []
        self.wait(0)

    def wait(self, count: int) -> list[tuple[Any, ...]]:
        """Until there are so many rows."""

        def enough() -> bool:
            batch = self.reader.poll(1000)
            if batch is not None:
                self.rows += [tuple(r.values()) for r in batch.rows.to_pylist()]
            return len(self.rows) >= count

        until(enough)
        return self.rows

    def close(self) -> None:
        self.reader.close()
        until(lambda: not session._running)


def subscribed(table: MqttTable) -> Listening:
    """Returns when the server knows the session."""
    made = Listening(table)
    until(lambda: any(known.subscribed.is_set() for known, _ in session._running.values()))
    return made


def settled() -> None:
    """Returns when the server knows what is here."""
    until(lambda: not any(known._open for known, _ in session._running.values()))


def test_what_comes_while_nobody_reads_is_kept(mosquitto: MosquittoServer, tmp_path: Path) -> None:
    table = table_of(mosquitto, tmp_path / "spool", **{"scan.bounded.mode": "unbounded"})
    first = subscribed(table)
    for qos in (0, 1, 2):
        mosquitto.publish(mosquitto.topic, b'{"id": %d}' % qos, qos=qos)
    assert first.wait(3) == [(0, None), (1, None), (2, None)]
    first.close()
    mosquitto.publish(mosquitto.topic, *(b'{"id": %d}' % i for i in range(3, 9)), qos=2)
    with mosquitto.away():
        assert len(rows_of(table_of(mosquitto, tmp_path / "spool"))) == 3
    again = Listening(table)
    assert again.wait(9) == [(i, None) for i in range(9)]
    # A Mosquitto that is stopped while numbers are open may send their messages again, under other ones.
    settled()
    with mosquitto.away():
        again.wait(9)
    mosquitto.publish(mosquitto.topic, b'{"id": 9}', qos=1)
    assert again.wait(10)[-1] == (9, None)
    settled()
    again.close()
    assert _opened(tmp_path / "spool") == set()


def _opened(folder: Path) -> set[int]:
    with opened_journal(folder, 1e9, 1 << 30) as journal:
        return _open_numbers(journal)


class Scripted:
    """A server that says what a test wants."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listener.getsockname()[1], False, timeout=5)

    def accept(self, *, known: bool) -> tuple[socket.socket, PacketReader]:
        """A client that has connected and subscribed."""
        self._listener.settimeout(20)
        client, _ = self._listener.accept()
        client.settimeout(20)
        reader = PacketReader(1 << 20)
        self.said(client, reader, 1)
        client.sendall(packet(Kind.CONNACK, 0, bytes((int(known), 0))))
        self.said(client, reader, 1)
        client.sendall(packet(Kind.SUBACK, 0, b"\x00\x01\x02"))
        return client, reader

    def said(self, client: socket.socket, reader: PacketReader, count: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < count:
            found += reader.feed(client.recv(1000))
        return found

    def close(self) -> None:
        self._listener.close()


def numbers(found: list[Any]) -> list[tuple[Kind, int]]:
    return [(kind, int.from_bytes(body, "big")) for kind, body in found]


def test_messages_of_qos_2_are_there_once_whoever_dies_when(tmp_path: Path) -> None:
    server = Scripted()
    subscription = Subscription(server.address, "c", ("t",), 2, 1 << 20)
    heard = [Published("t", b"%d" % i, 2, False, i) for i in (1, 2, 3)]
    with opened_journal(tmp_path, 1e9, 1 << 30) as journal:

        def bodies() -> list[bytes]:
            found: list[Any] = []
            for begin in journal.files():
                found += kept_messages(journal.read(begin)[0])
            return [m.body for m in found]

        with receiving(tmp_path, journal, subscription):
            client, reader = server.accept(known=False)
            client.sendall(b"".join(map(published, heard[:2])))
            assert numbers(server.said(client, reader, 2)) == [(Kind.PUBREC, 1), (Kind.PUBREC, 2)]
            client.sendall(short(Kind.PUBREL, 1))
            assert numbers(server.said(client, reader, 1)) == [(Kind.PUBCOMP, 1)]
            client.close()
            # It did not see that 2 is here; 1 is the number of another message now, of which the first sending was lost.
            client, reader = server.accept(known=True)
            other = Published("t", b"other 1", 2, False, 1)
            client.sendall(published(replace(heard[1], again=True)) + published(replace(other, again=True)))
            assert numbers(server.said(client, reader, 2)) == [(Kind.PUBREC, 2), (Kind.PUBREC, 1)]
            client.close()
            server.accept(known=True)[0].close()
        assert _open_numbers(journal) == {1, 2}
        # As after a restart: what is open comes from the journal.
        again = _Receiving(journal, subscription)
        repeated = [replace(m, again=True) for m in (heard[1], other)]
        assert again._taken([*repeated, (Kind.PUBREL, b"\x00\x02"), (Kind.PUBREL, b"\x00\x02")]) == b"".join(
            short(k, n) for k, n in ((Kind.PUBREC, 2), (Kind.PUBREC, 1), (Kind.PUBCOMP, 2), (Kind.PUBCOMP, 2))
        )
        assert again._taken([Published("t", b"new 2", 2, False, 2)]) == short(Kind.PUBREC, 2)
        assert bodies() == [b"1", b"2", b"other 1", b"new 2"]
        assert _open_numbers(journal) == {1, 2}
        # A server that has lost the session numbers anew.
        with receiving(tmp_path, journal, subscription):
            client, reader = server.accept(known=False)
            assert _open_numbers(journal) == set()
            client.sendall(published(heard[0]))
            assert numbers(server.said(client, reader, 1)) == [(Kind.PUBREC, 1)]
            client.close()
            other_table = Subscription(server.address, "d", ("t",), 2, 1 << 20)
            with pytest.raises(ConnectorError, match="belong together"), receiving(tmp_path, journal, other_table):
                pass
        assert bodies()[-1] == b"1"
    server.close()


def test_a_full_folder_acknowledges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened_journal(tmp_path, 1e9, 1 << 30) as journal:
        receiver = _Receiving(journal, Subscription(Address("h", 1, False), "c", ("t",), 2, 1 << 20))

        def full(*_: Any) -> None:
            raise OSError("no space")

        with monkeypatch.context() as patched:
            patched.setattr(journal, "append", full)
            with pytest.raises(OSError, match="no space"):
                receiver._taken([Published("t", b"1", 2, False, 7)])
        assert receiver._taken([Published("t", b"1", 2, False, 7)]) == short(Kind.PUBREC, 7)
        monkeypatch.setattr(journal, "has_room", lambda size: False)
        threading.Timer(0.05, receiver._stop.set).start()
        with pytest.raises(ConnectionError, match="nobody reads"):
            receiver._taken([Published("t", b"2", 1, False, 8)])


def test_a_job_from_topic_to_topic(mosquitto: MosquittoServer, tmp_path: Path) -> None:
    topic = mosquitto.topic
    mosquitto.publish(f"{topic}/heat/a", b'{"degrees": 20}', retain=True)
    with TableEnvironment.create() as env:
        env.execute_sql(
            f"CREATE TABLE heat (degrees INT, topic STRING METADATA VIRTUAL, retained BOOLEAN METADATA VIRTUAL, qos INT METADATA "
            f"VIRTUAL) WITH ({mosquitto.options}, 'topic' = '{topic}/heat/+', 'client-id' = '{topic}', 'format' = 'json', "
            f"'spool.path' = '{tmp_path / 'spool'}', 'json.ignore-parse-errors' = 'true')"
        )
        env.execute_sql(
            f"CREATE TABLE alarms (place STRING, degrees INT) WITH ({mosquitto.options}, 'topic' = '{topic}/alarms', 'qos' = '2', "
            "'format' = 'json')"
        )
        with mosquitto.listening(f"{topic}/alarms") as alarms:
            job = env.execute_sql("INSERT INTO alarms SELECT topic, degrees FROM heat WHERE degrees >= 20")
            until(lambda: bool(alarms))
            mosquitto.publish(f"{topic}/heat/b", b'{"degrees": 10}', b"no json", b'{"degrees": 30}')
            until(lambda: len(alarms) >= 2)
            job.cancel()
        assert [m.payload for m in alarms] == [
            b'{"place":"%s/heat/a","degrees":20}' % topic.encode(),
            b'{"place":"%s/heat/b","degrees":30}' % topic.encode(),
        ]
        assert alarms[0].qos == 2
        bounded = "/*+ OPTIONS('scan.bounded.mode' = 'latest') */"
        found = env.execute_sql(f"SELECT retained, qos, degrees FROM heat {bounded}").to_arrow().to_pylist()
        assert [tuple(row.values()) for row in found] == [(True, 1, 20), (False, 1, 10), (False, 1, 30)]


@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_what_is_written(mosquitto: MosquittoServer, qos: str) -> None:
    factory = REGISTRY.connectors.get("mqtt").sink
    assert factory is not None
    given = {"url": mosquitto.url, "username": "test", "password": PASSWORD, "topic": mosquitto.topic, "format": "json"}
    table = factory(TableRequest("t", SCHEMA, (), {**given, "qos": qos}, Options({}), registry=REGISTRY))
    rows = 1500
    with mosquitto.listening(mosquitto.topic) as heard:
        writer = table.open_writer("job")
        columns = [pa.array(np.arange(rows, dtype=np.int32)), pa.nulls(rows, pa.string())]
        writer.write(ChangelogBatch.of(columns, SCHEMA))
        end(writer)
        until(lambda: len(heard) >= rows)
        writer.close()
    assert [m.payload for m in heard] == [b'{"id":%d,"name":null}' % i for i in range(rows)]
    with mosquitto.away(), pytest.raises(UnavailableError, match="MQTT at"):
        table.open_writer("job")._rows.write([ChangelogBatch.of([c.slice(0, 1) for c in columns], SCHEMA)])


def test_who_may_not_is_told_without_the_password(mosquitto: MosquittoServer, tmp_path: Path) -> None:
    table = table_of(mosquitto, tmp_path)
    assert PASSWORD not in f"{table!r} {table.describe()} {table.place()}"
    wrong = table_of(mosquitto, tmp_path, **{"scan.bounded.mode": "unbounded", "password": "not this one"})
    with pytest.raises(ConnectorError, match="user or password are wrong|may not connect") as caught:
        Listening(wrong).wait(1)
    assert caught.value.code == "E3247" and "not this one" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x30\xff\xff\xff\xff\x01", "the length of a packet is none"),
        (b"\x30\x01\x00", "a message is malformed"),
        (b"\x36\x05\x00\x01t\x00\x01", "a message is malformed"),
        (b"\x32\x05\x00\x01t\x00\x00", "a message is malformed"),
        (b"\x30\x03\x00\x01\xff", "a topic is no text"),
        (b"\x40\x03\x00\x01\x00", "a packet is malformed"),
        (b"\x00\x00", "a packet is of no kind"),
        (b"\x20\xff\xff\x7f", "a packet is too long"),
    ],
)
def test_what_is_no_mqtt(data: bytes, why: str) -> None:
    with pytest.raises(Broken, match=why):
        PacketReader(100).feed(data)


def test_packets_in_pieces_and_messages_that_are_too_long() -> None:
    sent = [
        Published("a/b", b"x" * n, q, bool(q), q and 5) for n, q in ((0, 0), (3, 1), (200, 2), (100_000, 1), (5, 0))
    ]
    raw = b"".join(map(published, sent)) + short(Kind.PUBREL, 7)
    for size in (1, 7, 1000, len(raw)):
        reader, found = PacketReader(150), []
        for at in range(0, len(raw), size):
            found += reader.feed(raw[at : at + size])
        assert [(m.payload, m.qos, m.id) for m in found[:-1]] == [(s.payload[:151], s.qos, s.id) for s in sent]
        assert found[-1] == (Kind.PUBREL, b"\x00\x07")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("'url' = 'tcp://h', 'topic' = 't'", "not the address"),
        ("'url' = 'mqtt://h:99999', 'topic' = 't'", "not the address"),
        ("'url' = 'mqtt://h', 'topic' = 'a/+b'", "is no topic"),
        ("'url' = 'mqtt://h', 'topic' = 'a/+'", "without wildcards"),
        ("'url' = 'mqtt://h', 'topic' = 'a', 'qos' = '3'", "cannot be '3'"),
        ("'url' = 'mqtt://h', 'topics' = 'a'", "unknown option"),
    ],
)
def test_what_is_wrong(options: str, message: str) -> None:
    with TableEnvironment.create() as env, pytest.raises(SqlEngineError, match=message):
        env.execute_sql(f"CREATE TABLE t (id INT) WITH ('connector' = 'mqtt', 'format' = 'json', {options})")
        env.execute_sql("INSERT INTO t VALUES (1)").wait()


def test_addresses() -> None:
    found = read_address(TableOptions({"url": "mqtts://ann:pass%20word@[::1]/"}, "", ADDRESS_OPTIONS))
    assert (found.host, found.port, found.encrypted, found.user) == ("[::1]", 8883, True, "ann")
    assert found.password.reveal() == "pass word" and "word" not in repr(found)
