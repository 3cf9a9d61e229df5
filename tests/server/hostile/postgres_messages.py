"""Messages of PostgreSQL's protocol, whole and spoilt."""

from __future__ import annotations

import random
import struct

from tests.server.hostile.changes import spoilt
from tests.server.wire_client import WireClient, message

__all__ = ["PostgresAttacker"]

_TEXTS = (
    "SELECT 1", "SELECT n, CAST(n AS STRING) FROM generate_series(1, 9) AS s (n)", "INSERT INTO t VALUES (1, 'x')", "BEGIN",
    "COMMIT", "ROLLBACK", "SAVEPOINT a", "ROLLBACK TO a", "COPY t FROM STDIN", "COPY t FROM STDIN (FORMAT csv, HEADER)",
    "COPY t FROM STDIN (FORMAT binary)", "COPY t TO STDOUT (FORMAT binary)", "COPY (SUBSCRIBE TO v) TO STDOUT", "SUBSCRIBE TO v",
    "DECLARE c CURSOR FOR SELECT * FROM t", "FETCH 2 FROM c", "CLOSE c", "SHOW server_version", "SET statement_timeout = '5s'",
    "DISCARD ALL", "PREPARE p AS SELECT $1", "EXECUTE p(1)", "DEALLOCATE ALL", "SELECT * FROM pg_class WHERE oid = 1",
    "SELECT 1; SELECT 2", "UPDATE t SET name = 'y' WHERE id = 1", "DELETE FROM t WHERE id = 1", "",
)  # fmt: skip


class PostgresAttacker:
    """Args: `host` and `port`; the role `ann` has a password, and `t` and `v` are there."""

    patience = 0.0001

    def __init__(self, host: str, port: int) -> None:
        self._where = host, port
        self._good = WireClient(host, port)

    def heard(self, answer: bytes) -> None:
        pass

    def well(self) -> None:
        assert self._good.query("SELECT 1") == [b"T", b"D", b"C", b"Z"]
        other = WireClient(*self._where)
        assert other.query("SELECT COUNT(*) FROM v") == [b"T", b"D", b"C", b"Z"]
        other.send(message(b"X"))
        assert other.ended() == []
        other.close()

    def end(self) -> None:
        self._good.close()

    def conversation(self, chance: random.Random) -> list[bytes]:
        begun = self._hello(chance)
        if chance.random() < 0.15:
            begun = spoilt(chance, begun)
        messages = [begun]
        for _ in range(chance.randint(1, 30)):
            type_, payload = self._message(chance)
            kind = chance.random()
            if kind < 0.35:
                # Its length is right: what reads the payload sees it.
                payload = spoilt(chance, payload)
            one = message(type_, payload)
            if kind > 0.97:
                one = spoilt(chance, one)
            messages.append(one)
            if chance.random() < 0.1:
                messages.append(one)
        if chance.random() < 0.2:
            chance.shuffle(messages)
        return messages

    @staticmethod
    def _hello(chance: random.Random) -> bytes:
        kind = chance.random()
        if kind < 0.06:
            return struct.pack("!iiii", 16, 80877102, chance.randrange(1 << 31), chance.randrange(1 << 31))
        user = "ann" if kind < 0.16 else "sqlengine"
        body = f"user\0{user}\0database\0default_catalog\0application_name\0hostile\0options\0-c search_path=x\0\0".encode()
        hello = struct.pack("!ii", len(body) + 8, 3 << 16) + body
        if user == "ann":
            first = b"n,,n=,r=" + chance.randbytes(9).hex().encode()
            said = b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first
            hello += message(b"p", said if chance.random() < 0.5 else spoilt(chance, said))
            hello += message(b"p", b"c=biws,r=xyz,p=" + b"A" * 43 + b"=")
        return struct.pack("!ii", 8, 80877103) * (kind > 0.95) + hello

    @staticmethod
    def _message(chance: random.Random) -> tuple[bytes, bytes]:
        name = chance.choice((b"\0", b"a\0", b"b\0"))
        text = chance.choice(_TEXTS).encode() + b"\0"
        match chance.randrange(16):
            case 0 | 1:
                return b"Q", text
            case 2:
                return b"P", name + text + b"\0\0"
            case 3:
                return b"P", name + b"SELECT CAST($1 AS INT) AS n, $2\0" + struct.pack("!hii", 2, 23, 25)
            case 4 | 5:
                values = b"".join(struct.pack("!i", len(v)) + v for v in (b"\0\0\0\7", b"x"))
                return b"B", name + name + struct.pack("!hhhh", 2, 1, 0, 2) + values + struct.pack("!hh", 1, 1)
            case 6:
                return b"B", name + name + b"\0\0\0\0\0\0"
            case 7:
                return b"D", chance.choice((b"S", b"P")) + name
            case 8 | 9:
                return b"E", name + struct.pack("!i", chance.choice((0, 1, 2, -1, 0x7FFFFFFF)))
            case 10:
                return b"C", chance.choice((b"S", b"P")) + name
            case 11 | 12:
                return b"S", b""
            case 13:
                return chance.choice((b"d", b"c", b"f")), chance.choice(
                    (b"1\tx\n", b"PGCOPY\n\xff\r\n\0" + b"\0" * 8, b"no\0", b"")
                )
            case 14:
                return chance.choice((b"H", b"X", b"p", b"F", b"?", b"\0")), b""
            case _:
                return b"F", struct.pack("!ihhihh", 1, 1, 1, 4, 1, 1)
