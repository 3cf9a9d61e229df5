"""Point lookups of prepared statements, answered as they arrive: no thread, no task, no plan.

    Bind, [Describe,] Execute [, Sync]     of a statement whose lookup is known

A connection that waits for messages hands over what has arrived (`QuickLookups.take`). The lookups at its start are
taken out and wait for the end of the loop's turn; then those of all connections that read the same index are found
together (`Together`), which costs little more than one of them. Whatever is not that simple is left where it is, for
the connection to read as it reads everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from connectors.memory.keyed_rows import KeyedRows
from runtime.core.errors import SqlEngineError
from sqlengine.server.access import Access
from sqlengine.server.lookups import Indices
from sqlengine.server.postgres import messages as m
from sqlengine.server.postgres.encoding import formats_for
from sqlengine.server.postgres.engine import carried
from sqlengine.server.postgres.one_by_one import messages_of
from sqlengine.server.postgres.parameter_values import from_wire
from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.statements.point_lookup import PointLookup

if TYPE_CHECKING:
    from sqlengine.server.postgres.session import ClientSession, Named
    from sqlengine.server.postgres.types import Described, PgType
    from sqlengine.server.postgres.wire import Wire

__all__ = ["Ask", "QuickLookups", "Together"]

_MOST_ROWS = 64
"""A key that may have more rows is looked up by a thread."""
_BEHIND = 20_000
"""More changes than these are taken in by a thread."""
_AT_ONCE = 1000
"""So many lookups of one connection are taken out at once."""
_LOOKED_THROUGH = 128 * 1024
"""So many bytes are looked through at once."""
_BIND_COMPLETE = m.message(b"2")
_SUSPENDED = m.message(b"s")
_ONE = m.command_complete("SELECT 1")


class Target:
    """What lookups have in common that are found together, and what is sent before their rows.

    Attributes:
        head: what is sent before the rows; `described`: with their description.
    """

    __slots__ = ("columns", "described", "formats", "head", "identity", "index", "lookup", "time_zone")

    def __init__(
        self,
        index: KeyedRows,
        lookup: PointLookup,
        columns: Sequence[Described],
        formats: Sequence[int],
        time_zone: str,
    ) -> None:
        self.index = index
        self.lookup = lookup
        self.columns = columns
        self.formats = formats
        self.time_zone = time_zone
        self.head = _BIND_COMPLETE
        self.described = _BIND_COMPLETE + m.row_description(columns, formats)
        self.identity = id(index), lookup.wanted, tuple(formats), time_zone


class Ask:
    """One lookup of a client. `most`: of Execute, 0 for all. `ready`: a Sync follows. `rows`: its rows as messages."""

    __slots__ = ("error", "head", "key", "most", "ready", "rows", "target")

    def __init__(self, target: Target, key: Sequence[Any], head: bytes, most: int, ready: bool) -> None:
        self.target = target
        self.key = key
        self.head = head
        self.most = most
        self.ready = ready
        self.rows: list[bytes] = []
        self.error: BaseException | None = None


class _Known:
    """A statement whose lookup holds, while what has arrived is looked through.

    Attributes:
        targets: by the bytes that ask for formats of the result.
        readers: of values, by the bytes that say their formats.
    """

    __slots__ = ("_session", "index", "named", "readers", "targets")

    def __init__(self, named: Named, index: KeyedRows, session: ClientSession) -> None:
        self.named = named
        self.index = index
        self._session = session
        self.targets: dict[bytes, Target | None] = {}
        self.readers: dict[bytes, list[Callable[[bytes], Any]] | None] = {}

    def target(self, asked: bytes) -> Target | None:
        found = self.targets.get(asked, self)
        if found is not self:
            return found  # type: ignore[return-value]
        named = self.named
        assert named.lookup is not None and named.statement is not None and named.statement.columns is not None
        columns = named.statement.columns
        formats = formats_for(len(columns), _int16s(asked))
        made = None
        if len(formats) == len(columns) and all(format_ in (0, 1) for format_ in formats):
            made = Target(self.index, named.lookup, columns, formats, self._session.environment.session.time_zone)
        self.targets[asked] = made
        return made

    def values(self, given: bytes) -> list[Callable[[bytes], Any]] | None:
        """What reads each value."""
        found = self.readers.get(given, self)
        if found is not self:
            return found  # type: ignore[return-value]
        types = self.named.types
        formats = formats_for(len(types), _int16s(given))
        made = None
        if len(formats) == len(types) and all(format_ in (0, 1) for format_ in formats):
            made = [_reader(i, type_, format_) for i, (type_, format_) in enumerate(zip(types, formats), 1)]
        self.readers[given] = made
        return made


def _int16s(packed: bytes) -> list[int]:
    return [int.from_bytes(packed[at : at + 2], "big") for at in range(0, len(packed), 2)]


_INTEGERS = {"int2": 2, "int4": 4, "int8": 8}


def _reader(number: int, type_: PgType | None, format_: int) -> Callable[[bytes], Any]:
    size = 0 if type_ is None or not format_ else _INTEGERS.get(type_.name, 0)

    def integer(data: bytes) -> int:
        if len(data) != size:
            raise ValueError(data)
        return int.from_bytes(data, "big", signed=True)

    return integer if size else lambda data: from_wire(number, data, bool(format_), type_)


class Together:
    """Lookups of all connections, answered at the end of the loop's turn."""

    def __init__(self, indices: Indices, access: Access) -> None:
        self.indices = indices
        self.access = access
        self._asked: list[tuple[list[Ask], Callable[[list[Ask]], object]]] = []

    def ask(self, asks: list[Ask], answer: Callable[[list[Ask]], object]) -> None:
        """Have lookups answered: `answer` is called with them once their rows are there."""
        if not self._asked:
            asyncio.get_running_loop().call_soon(self._find_all)
        self._asked.append((asks, answer))

    def _find_all(self) -> None:
        asked, self._asked = self._asked, []
        targets: dict[tuple[Any, ...], list[Ask]] = {}
        for asks, _ in asked:
            for ask in asks:
                targets.setdefault(ask.target.identity, []).append(ask)
        for alike in targets.values():
            try:
                _find(alike)
            except Exception as error:
                for ask in alike:
                    ask.error = error
        for asks, answer in asked:
            answer(asks)


def _find(asks: Sequence[Ask]) -> None:
    target = asks[0].target
    lookup = target.lookup
    keys = [pa.array([ask.key[i] for ask in asks], type_.arrow) for i, type_ in enumerate(lookup.types)]
    found = target.index.find(keys, lookup.wanted)
    if found is None:
        raise PgError("40001", "the index of the lookup has been given up", hint="send the statement again")
    index, columns = found
    columns = [carried(column, type_) for column, type_ in zip(columns, lookup.row, strict=True)]
    rows = messages_of(columns, target.columns, target.formats, target.time_zone)
    for at, row in zip(index.tolist(), rows, strict=True):
        asks[at].rows.append(row)


class QuickLookups:
    """The lookups of one connection.

    Args:
        together: those of all.
        bound: what portals are of, by name.
        fail: tells the client of an error.
    """

    def __init__(
        self,
        session: ClientSession,
        wire: Wire,
        together: Together,
        bound: dict[str, Any],
        fail: Callable[[BaseException], object],
    ) -> None:
        self._session = session
        self._wire = wire
        self._together = together
        self._bound = bound
        self._fail = fail

    def learn(self, named: Named) -> None:
        """A statement was carried out the long way: the next time may be a lookup. On the connection's thread."""
        session = self._session
        statement = named.statement
        make = None if statement is None else getattr(statement, "point_lookup", None)
        named.lookup = None if make is None else make()
        if named.lookup is not None and named.lookup.holds(session.environment.session):
            contents = named.lookup.contents(session.environment.session)
            if contents is not None:
                self._together.indices.asked(contents, named.lookup.keys)

    def holds(self, named: Named) -> bool:
        """Whether a statement that was read before is still the lookup that it was."""
        lookup = named.lookup
        return (
            lookup is not None
            and self._session.transaction.state != b"E"
            and lookup.holds(self._session.environment.session)
        )

    def take(self) -> bool:
        """Take out the lookups that the buffer begins with; whether there were any. They are answered before anything
        else happens."""
        wire, session = self._wire, self._session
        if session.skips or wire.waits or session.cancelled is not None:
            return False
        buffer = wire.buffer
        if not buffer or buffer[0] != 0x42 or self._together.access.is_doubtful:
            return False
        asks: list[Ask] = []
        known: dict[bytes, _Known | None] = {}
        data, at = bytes(buffer[:_LOOKED_THROUGH]), 0
        try:
            while len(asks) < _AT_ONCE:
                group = self._group(data, at, known)
                if group is None:
                    break
                asks.append(group[0])
                at = group[1]
        except (PgError, ValueError):
            pass  # What is wrong with a value is told by who reads it the long way.
        if not asks:
            return False
        wire.consume(at)
        self._bound.pop("", None)
        session.portals.pop("", None)
        self._together.ask(asks, self._answer)
        return True

    def _group(self, data: bytes, at: int, known: dict[bytes, _Known | None]) -> tuple[Ask, int] | None:
        """The messages of one lookup, and where they end; None where none begins, or it has not all arrived.

        Raises PgError and ValueError for values that are none.
        """
        integer = int.from_bytes
        if data[at : at + 1] != b"B" or data[at + 5 : at + 6] != b"\0":
            return None
        stop = at + 1 + integer(data[at + 1 : at + 5], "big")
        name_end = data.find(b"\0", at + 6, stop)
        # Behind Bind there is at least Execute of the portal without a name.
        if name_end < 0 or stop + 10 > len(data):
            return None
        name = data[at + 6 : name_end]
        if name not in known:
            known[name] = self._known(name)
        found = known[name]
        if found is None:
            return None
        begin = name_end + 3
        values_at = begin + 2 * integer(data[name_end + 1 : begin], "big")
        readers = found.values(data[begin:values_at])
        count = integer(data[values_at : values_at + 2], "big")
        if readers is None or count != len(readers):
            return None
        here = values_at + 2
        values: list[Any] = []
        for read in readers:
            size = integer(data[here : here + 4], "big", signed=True)
            here += 4
            if size < 0:
                values.append(None)
                continue
            if here + size > stop:
                return None
            values.append(read(data[here : here + size]))
            here += size
        target = found.target(data[here + 2 : stop])
        if target is None or stop - here != 2 + 2 * integer(data[here : here + 2], "big"):
            return None
        key = target.lookup.key_of(values)
        if key is None:
            return None
        head = target.head
        if data[stop : stop + 7] == b"D\0\0\0\6P\0":
            stop += 7
            head = target.described
        if data[stop : stop + 6] != b"E\0\0\0\x09\0" or stop + 10 > len(data):
            return None
        most = integer(data[stop + 6 : stop + 10], "big")
        if most and most < found.index.most:
            return None
        stop += 10
        ready = data[stop : stop + 5] == b"S\0\0\0\4"
        return Ask(target, key, head, most, ready), stop + 5 if ready else stop

    def _known(self, name: bytes) -> _Known | None:
        """A statement whose lookup is known, holds, and has an index at hand."""
        session = self._session
        named = session.statements.get(name.decode("utf-8", "replace"))
        if named is None or named.lookup is None or session.transaction.state == b"E":
            return None
        portal = session.portals.get("")
        if portal is not None and not portal.ended:
            return None
        engine = session.environment.session
        try:
            if not named.lookup.holds(engine):
                return None
            contents = named.lookup.contents(engine)
        except SqlEngineError:
            return None
        index = None if contents is None else self._together.indices.find(contents, named.lookup.keys)
        if index is None or index.behind > _BEHIND or index.most > _MOST_ROWS:
            return None
        return _Known(named, index, session)

    def _answer(self, asks: list[Ask]) -> None:
        session = self._session
        out: list[bytes] = []
        for ask in asks:
            if not session.skips:
                if ask.error is None:
                    out += (ask.head, *_rows_and_tag(ask))
                else:
                    self._wire.send(b"".join(out))
                    out.clear()
                    session.transaction.fail()
                    session.skips = True
                    self._fail(ask.error)
            if ask.ready:
                session.skips = False
                out.append(m.ready(session.transaction.state))
        self._wire.send(b"".join(out))


def _rows_and_tag(ask: Ask) -> Sequence[bytes]:
    rows = ask.rows
    if ask.most and len(rows) > ask.most:
        return (*rows[: ask.most], _SUSPENDED)
    return (*rows, _ONE if len(rows) == 1 else m.command_complete(f"SELECT {len(rows)}"))
