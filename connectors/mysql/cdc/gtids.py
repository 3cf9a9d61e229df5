"""Sets of transactions by their global numbers, which mean the same on all servers that have them.

MariaDB says the newest of each domain, `domain-server-sequence`, and what is before it belongs to the set; MySQL says ranges of
each server that made them, `uuid:1-5:7`.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Protocol, TypeAlias

from connectors.mysql.cdc.events import GTID, HEAD, MARIA_GTID, not_understood

__all__ = [
    "Gtid",
    "GtidSet",
    "MariaGtids",
    "MysqlGtids",
    "Numbers",
    "has",
    "holds",
    "parsed",
    "previous_gtids",
    "read_maria_gtid",
    "read_mysql_gtid",
]

Gtid: TypeAlias = tuple[int, int, int]
"""Of MariaDB (domain, server, sequence); of MySQL (UUID, 0, number)."""
_MARIA = re.compile(r"(\d{1,10})-(\d{1,10})-(\d{1,20})")
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_RANGE = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?")


class GtidSet(Protocol):
    """Transactions; grows with each that is added."""

    def add(self, gtid: Gtid) -> None: ...

    def has(self, gtid: Gtid) -> bool: ...

    def holds(self, other: GtidSet) -> bool:
        """Whether all of another set's are in this one; none of another kind of server are."""
        ...

    def __str__(self) -> str:
        """As the server writes it."""
        ...


class MariaGtids:
    """The newest transaction of each domain, as (server, sequence)."""

    def __init__(self, newest: Mapping[int, tuple[int, int]]) -> None:
        self.newest = dict(newest)

    def add(self, gtid: Gtid) -> None:
        self.newest[gtid[0]] = gtid[1:]

    def has(self, gtid: Gtid) -> bool:
        found = self.newest.get(gtid[0])
        return found is not None and gtid[2] <= found[1]

    def holds(self, other: GtidSet) -> bool:
        return isinstance(other, MariaGtids) and all(self.has((d, *rest)) for d, rest in other.newest.items())

    def __str__(self) -> str:
        return ",".join(f"{d}-{server}-{n}" for d, (server, n) in sorted(self.newest.items()))


class MysqlGtids:
    """Ranges of numbers of each server, ascending, with a gap between each two: where they begin, and the ends, which belong to
    them."""

    def __init__(self) -> None:
        self._ranges: dict[int, tuple[list[int], list[int]]] = {}

    def add(self, gtid: Gtid) -> None:
        self.add_range(gtid[0], gtid[2], gtid[2])

    def add_range(self, server: int, first: int, last: int) -> None:
        begins, ends = self._ranges.setdefault(server, ([], []))
        at = bisect_right(begins, first)
        if at and ends[at - 1] >= first - 1:
            # It touches the one before.
            at -= 1
            first, last = begins[at], max(last, ends[at])
        upto = bisect_right(begins, last + 1)
        if upto > at:
            last = max(last, ends[upto - 1])
        begins[at:upto], ends[at:upto] = [first], [last]

    def has(self, gtid: Gtid) -> bool:
        return self._has_range(gtid[0], gtid[2], gtid[2])

    def _has_range(self, server: int, first: int, last: int) -> bool:
        begins, ends = self._ranges.get(server, ([], []))
        at = bisect_right(begins, first)
        return at > 0 and last <= ends[at - 1]

    def holds(self, other: GtidSet) -> bool:
        return isinstance(other, MysqlGtids) and all(
            self._has_range(server, first, last)
            for server, ranges in other._ranges.items()
            for first, last in zip(*ranges, strict=True)
        )

    def packed(self) -> bytes:
        """As the protocol has it."""
        parts = [struct.pack("<Q", len(self._ranges))]
        for server, ranges in sorted(self._ranges.items()):
            parts.append(server.to_bytes(16) + struct.pack("<Q", len(ranges[0])))
            parts += [struct.pack("<QQ", first, last + 1) for first, last in zip(*ranges, strict=True)]
        return b"".join(parts)

    def __str__(self) -> str:
        return ",".join(
            ":".join([_uuid(server), *(f"{a}-{b}" if b > a else f"{a}" for a, b in zip(*ranges, strict=True))])
            for server, ranges in sorted(self._ranges.items())
        )


def _uuid(server: int) -> str:
    text = f"{server:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def parsed(text: str, *, maria: bool) -> GtidSet:
    """A set as a server writes it. Raises ValueError for what is none, and for MySQL's numbers with tags."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if maria:
        found = [_MARIA.fullmatch(part) for part in parts]
        newest = {int(one[1]): (int(one[2]), int(one[3])) for one in found if one is not None}
        if len(newest) != len(parts):
            raise ValueError(text)
        return MariaGtids(newest)
    ranges = MysqlGtids()
    for part in parts:
        server, *numbers = re.sub(r"\s", "", part.lower()).split(":")
        if _UUID.fullmatch(server) is None or not numbers:
            raise ValueError(text)
        for number in numbers:
            one = _RANGE.fullmatch(number)
            if one is None or not 0 < int(one[1]) <= int(one[2] or one[1]):
                raise ValueError(text)
            ranges.add_range(int(server.replace("-", ""), 16), int(one[1]), int(one[2] or one[1]))
    return ranges


@lru_cache(maxsize=64)
def _read(text: str) -> GtidSet:
    """Of either kind: MySQL's have colons. Nobody may add to it."""
    return parsed(text, maria=":" not in text)


def holds(one: str, other: str) -> bool:
    """Whether all transactions of another set are in one. Raises ValueError."""
    found = _read(one)
    return not other or found.holds(_read(other))


def read_maria_gtid(event: bytes) -> Gtid:
    """The number of the transaction that follows. Raises ConnectorError E3170."""
    try:
        server, number, domain = _MARIA_GTID.unpack_from(event)
    except struct.error as error:
        raise not_understood("a number of a transaction that is too short") from error
    return domain, server, number


_MARIA_GTID = struct.Struct("<5xI10xQIx")
"""The server is in the head; behind it are flags."""


def read_mysql_gtid(event: bytes) -> Gtid:
    """The number of the transaction that follows. Raises ConnectorError E3170."""
    if len(event) < HEAD + 25:
        raise not_understood("a number of a transaction that is too short")
    (number,) = struct.unpack_from("<Q", event, HEAD + 17)
    return int.from_bytes(event[HEAD + 1 : HEAD + 17]), 0, number


class Numbers:
    """All transactions that were read, as far as their numbers are known.

    Args:
        text: those before; None where they are not known.
        wanted: whether each transaction of the server has a number, so that they may be taken up where a file begins.
    """

    def __init__(self, text: str | None, *, maria: bool, wanted: bool) -> None:
        self._maria = maria
        self._wanted = wanted
        self._known = None if text is None else parsed(text, maria=maria)

    @property
    def text(self) -> str | None:
        """As positions have them."""
        return None if self._known is None else str(self._known)

    def read(self, kind: int, event: bytes) -> Gtid | None:
        """The number of the transaction that an event begins."""
        if kind == MARIA_GTID:
            return read_maria_gtid(event)
        return read_mysql_gtid(event) if kind == GTID else None

    def passed(self, gtid: Gtid | None) -> None:
        """A transaction was read to its end."""
        if gtid is None:
            self._known = None
        elif self._known is not None:
            self._known.add(gtid)

    def began(self, event: bytes, trailer: int) -> None:
        """A file of MySQL says what was before it."""
        if self._known is None and self._wanted:
            self._known = previous_gtids(event, trailer)

    def hold(self, text: str) -> bool:
        """Whether all of a set were read."""
        return self._known is not None and (not text or self._known.holds(_read(text)))

    def alone(self, gtid: Gtid | None) -> str | None:
        """One transaction."""
        return self.behind("", [gtid])

    def behind(self, text: str | None, passed: Iterable[Gtid | None]) -> str | None:
        """A set with some more."""
        if text is None:
            return None
        known = parsed(text, maria=self._maria)
        for gtid in passed:
            if gtid is None:
                return None
            known.add(gtid)
        return str(known)


def has(text: str, gtid: Gtid) -> bool:
    """Whether a transaction is in a set."""
    return _read(text).has(gtid)


def previous_gtids(event: bytes, trailer: int) -> MysqlGtids | None:
    """All transactions before the file that begins; None where there are some with tags. Raises ConnectorError E3170."""
    found, at = MysqlGtids(), HEAD + 8
    try:
        (servers,) = struct.unpack_from("<Q", event, HEAD)
        if servers >> 56:
            # Since MySQL 8.3 the highest byte says that there are tags.
            return None
        for _ in range(servers):
            server = int.from_bytes(event[at : at + 16])
            (count,) = struct.unpack_from("<Q", event, at + 16)
            at += 24
            for _ in range(count):
                first, behind = struct.unpack_from("<QQ", event, at)
                found.add_range(server, first, behind - 1)
                at += 16
    except struct.error as error:
        raise not_understood("a set of transactions that is too short") from error
    if at > len(event) - trailer:
        raise not_understood("a set of transactions that is too short")
    return found
