"""What may pass to Arrow Flight: requests of a bounded size that are not compressed, however they are cut."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator

import pytest

from sqlengine import TableEnvironment
from sqlengine.server.state.frames import MOST_STREAMS, Budget, Frames, NotAllowedFrames
from sqlengine.server.state.wire import MOST_BYTES
from sqlengine.state import StateClient, serve_state
from tests.server.hostile.flight_messages import frame

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _PING = 0, 1, 3, 6
_END = 1


def message(size: int, announced: int | None = None, packed: int = 0) -> bytes:
    return struct.pack("!BI", packed, size if announced is None else announced) + b"x" * size


def request(stream: int, data: bytes, flags: int = _END) -> bytes:
    return frame(_HEADERS, 4, stream, b"") + frame(_DATA, flags, stream, data)


def sent(frames: Frames, data: bytes, seed: int = 0) -> None:
    """In pieces of any size."""
    chance, at = random.Random(seed), 0
    while at < len(data):
        size = chance.choice((1, 2, 9, 1000))
        frames.sent(data[at : at + size])
        at += size


@pytest.mark.parametrize("seed", range(5))
def test_what_may_pass_is_counted_until_it_is_answered(seed: int) -> None:
    budget = Budget(1000)
    frames = Frames(100, budget)
    sent(frames, _PREFACE + frame(4, 0, 0, b"") + frame(_PING, 0, 0, b"12345678"), seed)
    assert not frames.begun
    sent(frames, request(1, message(50)) + request(3, message(20) + message(20, 30), 0), seed)
    assert frames.begun and budget.taken == 105
    frames.got(frame(4, 0, 0, b"")[:5])
    frames.got(frame(4, 0, 0, b"")[5:] + frame(_HEADERS, 5, 1, b"end"))
    assert budget.taken == 50
    # What still comes for a request that has its answer is nobody's.
    sent(frames, frame(_DATA, 0, 1, b"\1" * 500) + frame(_DATA, 0, 3, b"x" * 10), seed)
    assert budget.taken == 60
    sent(frames, frame(_RESET, 0, 3, b"\0\0\0\7") + request(5, message(90)), seed)
    assert budget.taken == 95
    frames.end()
    assert budget.taken == 0


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "no HTTP/2"),
        (_PREFACE + request(1, message(10, packed=1)), "compressed"),
        (_PREFACE + request(1, message(10) + message(10, packed=1)), "compressed"),
        (_PREFACE + request(1, message(10, 101)), "announced"),
        (_PREFACE + request(1, message(10, 0xFFFFFFFF)), "announced"),
        (_PREFACE + request(1, message(60), 0) + frame(_DATA, 0, 1, message(60)), "more than 100 bytes"),
        (_PREFACE + request(1, b"\3" + message(10) + b"xxx", _END | 8), "padded"),
        (_PREFACE + b"".join(request(i, message(90)) for i in range(1, 25, 2)), "without an answer"),
        (_PREFACE + b"".join(frame(_HEADERS, 4, i, b"") for i in range(MOST_STREAMS + 1)), "no answer"),
    ],
)
def test_what_may_not_pass(data: bytes, why: str) -> None:
    budget = Budget(1000)
    frames = Frames(100, budget)
    with pytest.raises(NotAllowedFrames, match=why):
        sent(frames, data)
    frames.end()
    assert budget.taken == 0


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED)")
        t_env.execute_sql("INSERT INTO t VALUES (1)").wait()
        with serve_state(t_env, ports=0) as server:
            host, _, port = server.address.rpartition(":")
            yield host, int(port)


def test_a_message_without_end_ends_its_connection(address: tuple[str, int]) -> None:
    with StateClient(f"{address[0]}:{address[1]}") as client, socket.create_connection(address, 60) as hostile:
        headers = (
            (b":method", b"POST"),
            (b":path", b"/arrow.flight.protocol.FlightService/DoGet"),
            (b":scheme", b"http"),
        )
        block = b"".join(b"\0" + bytes((len(k),)) + k + bytes((len(v),)) + v for k, v in headers)
        hostile.sendall(_PREFACE + frame(4, 0, 0, b"") + frame(_HEADERS, 4, 1, block))
        hostile.sendall(frame(_DATA, 0, 1, message(10, MOST_BYTES * 2)))
        while hostile.recv(1 << 16):
            pass
        assert client.get("t", 1) == [{"id": 1}]
