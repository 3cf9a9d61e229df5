"""Calls of Arrow Flight as frames of HTTP/2, whole and spoilt.

Source: RFC 9113 (frames), RFC 7541 (headers: here all of them as literals that are in no table), the gRPC protocol over
HTTP/2 (five bytes before each message), and Flight.proto.
"""

from __future__ import annotations

import gzip
import random
import struct

import pyarrow as pa

from sqlengine.server.state.wire import Ask, packed
from sqlengine.state import StateClient
from tests.server.hostile.changes import hostile_json, spoilt

__all__ = ["FlightAttacker"]

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _PRIORITY, _RESET, _SETTINGS, _PUSH, _PING, _GOAWAY, _WINDOW, _CONTINUATION = range(10)
_END_STREAM, _END_HEADERS = 1, 4
_METHODS = ("DoGet", "DoGet", "DoGet", "GetFlightInfo", "GetSchema", "ListFlights", "DoPut", "DoExchange", "DoAction",
            "ListActions", "Handshake", "PollFlightInfo", "Nothing")  # fmt: skip


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame with its right length."""
    return len(payload).to_bytes(3, "big") + struct.pack("!BBI", kind, flags, stream) + payload


def _literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + _length(name) + name + _length(value) + value


def _length(text: bytes) -> bytes:
    if len(text) < 127:
        return bytes((len(text),))
    left, made = len(text) - 127, bytearray(b"\x7f")
    while left >= 128:
        made.append(left & 127 | 128)
        left >>= 7
    made.append(left)
    return bytes(made)


def _field(number: int, data: bytes) -> bytes:
    """A field of protobuf that has a length. (Lengths have the form of those of HPACK's, from the first byte on.)"""
    left, size = len(data), bytearray()
    while left >= 128:
        size.append(left & 127 | 128)
        left >>= 7
    size.append(left)
    return bytes((number << 3 | 2,)) + bytes(size) + data


class FlightAttacker:
    """Args: `host` and `port`; `v` is a view with the key `id`."""

    patience = 0.0001

    def __init__(self, host: str, port: int) -> None:
        self._client = StateClient(f"{host}:{port}")

    def heard(self, answer: bytes) -> None:
        pass

    def well(self) -> None:
        assert self._client.lookup("v", {"id": pa.array([1], pa.int32())}).num_rows == 1

    def end(self) -> None:
        self._client.close()

    def conversation(self, chance: random.Random) -> list[bytes]:
        frames = [_PREFACE + frame(_SETTINGS, 0, 0, self._settings(chance))]
        stream = 1
        for _ in range(chance.randint(1, 12)):
            frames += self._call(chance, stream)
            stream += chance.choice((2, 2, 2, 2, 0, 1, 1000))
            if chance.random() < 0.2:
                frames.append(self._other(chance, stream))
        frames = [spoilt(chance, one) if chance.random() < 0.04 else one for one in frames]
        if chance.random() < 0.1:
            chance.shuffle(frames)
        return frames

    @staticmethod
    def _settings(chance: random.Random) -> bytes:
        known = [struct.pack("!HI", chance.randint(1, 7), chance.choice((0, 1, 100, 65_535, 0x7FFFFFFF, 0xFFFFFFFF)))]
        return b"" if chance.random() < 0.7 else b"".join(known * chance.choice((1, 3)))

    def _call(self, chance: random.Random, stream: int) -> list[bytes]:
        method = chance.choice(_METHODS)
        headers = [
            (b":method", b"POST"), (b":scheme", b"http"), (b":path", f"/arrow.flight.protocol.FlightService/{method}".encode()),
            (b":authority", b"127.0.0.1"), (b"te", b"trailers"), (b"content-type", b"application/grpc"),
        ]  # fmt: skip
        match chance.randrange(14):
            case 0:
                headers.append((b"authorization", chance.choice((b"Basic !!", b"Bearer x", b"Basic YTpi", b"\xff"))))
            case 1:
                headers.append((b"grpc-timeout", chance.choice((b"1n", b"0S", b"99999999H", b"-1S", b"x"))))
            case 2:
                headers.append((b"grpc-encoding", chance.choice((b"gzip", b"deflate", b"none"))))
            case 3:
                headers.append((b"x-bin", b"y" * chance.choice((100, 7000, 15_000))))
            case 4:
                headers.pop(chance.randrange(len(headers)))
            case 5:
                headers += [(b"arrow-flight-x-%d" % i, b"y") for i in range(200)]
        block = b"".join(_literal(*pair) for pair in headers)
        if chance.random() < 0.05:
            block = spoilt(chance, block)
        if chance.random() < 0.1:
            half = len(block) // 2
            first = [frame(_HEADERS, 0, stream, block[:half]), frame(_CONTINUATION, _END_HEADERS, stream, block[half:])]
        else:
            first = [frame(_HEADERS, _END_HEADERS, stream, block)]
        body = self._message(chance, method)
        cut = len(body) // 2 if chance.random() < 0.2 else 0
        parts = [body[:cut], body[cut:]] if cut else [body]
        made = [
            frame(_DATA, 0, stream, part[at : at + 16_384])
            for part in parts
            for at in range(0, max(1, len(part)), 16_384)
        ]
        if chance.random() < 0.9:
            made.append(frame(_DATA, _END_STREAM, stream, b""))
        if chance.random() < 0.05:
            made.append(frame(_RESET, 0, stream, struct.pack("!I", 8)))
        return [*first, *made]

    def _message(self, chance: random.Random, method: str) -> bytes:
        if method in ("GetFlightInfo", "GetSchema"):
            sent = b"\x08\x01" + b"".join(
                _field(3, part) for part in chance.choice(((b"v",), (b"v", b"x"), (b"no",), (), (b"\xff",)))
            )
        else:
            ticket = self._ticket(chance)
            sent = _field(1, ticket)
        if chance.random() < 0.1:
            sent = spoilt(chance, sent)
        if chance.random() < 0.03:
            packed_up = gzip.compress(chance.choice((sent, b"\0" * 5_000_000)), 1)
            return b"\1" + len(packed_up).to_bytes(4, "big") + packed_up
        size = len(sent) if chance.random() < 0.95 else chance.choice((0, 1, len(sent) + 9, 0x7FFFFFFF, 0xFFFFFFFF))
        return b"\0" + size.to_bytes(4, "big") + sent

    @staticmethod
    def _ticket(chance: random.Random) -> bytes:
        keys = None
        if chance.random() < 0.7:
            type_ = chance.choice((pa.int32(), pa.int32(), pa.int64(), pa.float32(), pa.bool_()))
            values = pa.array(range(chance.choice((0, 1, 50))), pa.int32()).cast(type_)
            keys = pa.RecordBatch.from_arrays([values], [chance.choice(("id", "id", "from", "name"))])
        operation = chance.choice(("lookup", "lookup", "scan", "states", "nothing"))
        column = "id" if operation == "scan" and keys is not None else ""
        ticket = packed(Ask(operation=operation, of=chance.choice(("v", "t", "no", "")), column=column), keys)
        kind = chance.random()
        if kind < 0.05:
            json = hostile_json(chance)
            return ticket[:5] + len(json).to_bytes(4, "little") + json
        return spoilt(chance, ticket) if kind < 0.4 else ticket

    @staticmethod
    def _other(chance: random.Random, stream: int) -> bytes:
        match chance.randrange(7):
            case 0:
                return frame(_PING, 0, 0, chance.randbytes(8)) * chance.choice((1, 100))
            case 1:
                return frame(
                    _WINDOW, 0, chance.choice((0, stream)), struct.pack("!I", chance.choice((0, 1, 0x7FFFFFFF)))
                )
            case 2:
                return frame(_SETTINGS, chance.choice((0, 1)), 0, b"") * chance.choice((1, 100))
            case 3:
                return frame(_CONTINUATION, 0, stream, b"\0") * chance.choice((1, 100))
            case 4:
                return frame(_GOAWAY, 0, 0, struct.pack("!II", stream, 0))
            case 5:
                return frame(_PUSH, _END_HEADERS, stream, struct.pack("!I", stream + 1))
            case _:
                return frame(
                    chance.randrange(256),
                    chance.randrange(256),
                    chance.randrange(9),
                    chance.randbytes(chance.randrange(40)),
                )
