"""The order of messages, and what a server does with those that are wrong."""

from __future__ import annotations

import struct

import pytest

from tests.server.conftest import Address
from tests.server.wire_client import WireClient, message

PARSE = message(b"P", b"\0SELECT CAST($1 AS INT) AS n\0\0\0")
DESCRIBE = message(b"D", b"S\0")
EXECUTE = message(b"E", b"\0\0\0\0\0")
SYNC = message(b"S")


def bind(value: bytes) -> bytes:
    return message(b"B", b"\0\0\0\0\0\1" + struct.pack("!i", len(value)) + value + b"\0\0")


@pytest.fixture
def wire(server: tuple[str, int]) -> WireClient:
    return WireClient(*server)


def types(messages: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(type_ for type_, _ in messages)


def test_a_statement_is_described_before_it_runs(wire: WireClient) -> None:
    wire.send(PARSE, DESCRIBE, bind(b"7"), EXECUTE, SYNC)
    answers = wire.until(b"Z")
    assert types(answers) == b"1tT2DCZ"
    described = dict(answers)
    assert described[b"t"] == struct.pack("!hi", 1, 23)
    assert described[b"T"].startswith(b"\0\1n\0")
    assert described[b"D"] == b"\0\1\0\0\0\x017"
    assert described[b"C"] == b"SELECT 1\0"


def test_after_an_error_all_is_passed_over_until_sync(wire: WireClient) -> None:
    wire.send(PARSE, bind(b"no number"), EXECUTE, PARSE, DESCRIBE, SYNC, PARSE, SYNC)
    assert types(wire.until(b"Z")) == b"1EZ"
    assert types(wire.until(b"Z")) == b"1Z"


def test_a_query_of_several_statements_ends_at_the_first_error(wire: WireClient) -> None:
    assert wire.query("SELECT 1; SELECT nope; SELECT 2") == [b"T", b"D", b"C", b"E", b"Z"]
    assert wire.query(" ; -- nothing\n") == [b"I", b"Z"]


def test_rows_come_in_portions(wire: WireClient) -> None:
    wire.send(
        message(b"P", b"\0SELECT n FROM generate_series(1, 5) AS s (n)\0\0\0"),
        message(b"B", b"c\0\0\0\0\0\0\0\0"),
        message(b"E", b"c\0\0\0\0\2"),
        message(b"E", b"c\0\0\0\0\2"),
        message(b"E", b"c\0\0\0\0\2"),
        SYNC,
    )
    assert types(wire.until(b"Z")) == b"12DDsDDsDCZ"


def test_encryption_is_declined_and_the_session_begins(server: tuple[str, int]) -> None:
    wire = WireClient(*server, start=False)
    for code in (80877104, 80877103):
        wire.send(struct.pack("!ii", 8, code))
        assert wire.socket.recv(1) == b"N"
    wire.start(application_name="x", options="-c TimeZone=Europe/Berlin -c search_path=default_database")
    assert wire.query("SHOW TimeZone") == [b"T", b"D", b"C", b"Z"]


def test_a_newer_version_is_negotiated(server: tuple[str, int]) -> None:
    wire = WireClient(*server, start=False)
    body = b"user\0sqlengine\0_pq_.novelty\x001\0\0"
    wire.send(struct.pack("!ii", len(body) + 8, (3 << 16) + 2) + body)
    answers = wire.until(b"Z")
    assert answers[0] == (b"v", struct.pack("!ii", 0, 1) + b"_pq_.novelty\0")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        struct.pack("!ii", 0x7FFFFFFF, 3 << 16),
        struct.pack("!ii", 3, 3 << 16),
        struct.pack("!ii", 20, 3 << 16) + b"user\0unterminat",
        struct.pack("!ii", 8, 2 << 16),
        struct.pack("!ii", 9, 3 << 16) + b"\0",
        struct.pack("!iiii", 16, 80877102, 1, 1),
    ],
)
def test_a_stranger_is_sent_away_and_others_go_on(server: tuple[str, int], wire: WireClient, sent: bytes) -> None:
    stranger = WireClient(*server, start=False)
    stranger.send(sent)
    stranger.socket.shutdown(1)
    assert set(stranger.ended()) <= {b"E"}
    assert wire.query("SELECT 1") == [b"T", b"D", b"C", b"Z"]


@pytest.mark.parametrize(
    "sent",
    [
        message(b"Q", b"SELECT 1"),
        message(b"Q", b"SELECT '\xff'\0"),
        message(b"B", b"\0\0\x7f\xff"),
        message(b"B", b"\0\0\0\0\0\1\x7f\xff\xff\xff"),
        message(b"P", b"a\0SELECT 1\0\xff\xff"),
        message(b"D", b"X\0"),
        message(b"?"),
        b"Q\xff\xff\xff\xff",
        b"Q\x7f\xff\xff\xff",
    ],
)
def test_a_broken_message_ends_its_connection_alone(server: tuple[str, int], wire: WireClient, sent: bytes) -> None:
    broken = WireClient(*server)
    broken.send(sent)
    assert broken.ended() == [b"E"]
    assert wire.query("SELECT 1") == [b"T", b"D", b"C", b"Z"]


@pytest.mark.parametrize("within", [message(b"Q", b"SELECT 1\0"), message(b"f", b"no end"), message(b"X")])
def test_copy_that_is_broken_off_writes_nothing(address: Address, wire: WireClient, within: bytes) -> None:
    with address.connect() as client:
        client.execute("CREATE TABLE t (n INT)")
    broken = WireClient(address.host, address.port)
    broken.send(message(b"Q", f"COPY {address.schema}.t FROM STDIN\0".encode()), message(b"d", b"1\n"), within)
    answers = []
    while (read := broken.read()) is not None:
        answers.append(read)
    assert types(answers[-2:]) == b"GE" and b"C08P01\0" in answers[-1][1]
    with address.connect() as client:
        assert client.execute("SELECT COUNT(*) FROM t").fetchone() == (0,)


def test_cancel_needs_the_secret(server: tuple[str, int]) -> None:
    wire = WireClient(*server, start=False)
    body = b"user\0sqlengine\0\0"
    wire.send(struct.pack("!ii", len(body) + 8, 3 << 16) + body)
    number, secret = struct.unpack("!iI", dict(wire.until(b"Z"))[b"K"])
    for wrong in (secret ^ 1, 0):
        other = WireClient(*server, start=False)
        other.send(struct.pack("!iiiI", 16, 80877102, number, wrong))
        assert other.ended() == []
    assert wire.query("SELECT 1") == [b"T", b"D", b"C", b"Z"]
