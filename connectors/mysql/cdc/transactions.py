"""What the log says, event by event, as batches of changes of the tables that are read."""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from connectors.kit.prefetch import Fetched
from connectors.mysql.cdc import events as ev
from connectors.mysql.cdc.gtids import Gtid, Numbers
from connectors.mysql.cdc.positions import Place, Position
from connectors.mysql.cdc.tables import Begun, LogTable
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError

if TYPE_CHECKING:
    from connectors.mysql.cdc.table import MysqlCdcSource

__all__ = ["Transactions"]

_HEAD, _NUMBER = ev.HEAD, ev.HEAD + 6
"""Where the number of a table is."""
_FLAGS = ev.HEAD + 12
"""Where those of a transaction of MariaDB are."""
_ROWS, _BEGINS, _TABLE_MAP, _XID = ev.ROWS, ev.BEGINS, ev.TABLE_MAP, ev.XID
_UNKNOWN: Any = object()
_MOST_BYTES = 1 << 20
_MOST_SECONDS = 0.05
_WORD = re.compile(r"\s*(?:/\*.*?\*/\s*|#[^\n]*\n\s*|--\s[^\n]*\n\s*)*([A-Za-z]+)(?:\s+([A-Za-z]+))?", re.DOTALL)
_MOST_KNOWN = 10_000
_SHAPES = frozenset({"ALTER", "DROP", "RENAME", "CREATE"})
_OTHERS = re.compile(
    r"\s*(?:(?:CREATE|DROP)\s+(?:UNIQUE\s+|FULLTEXT\s+)?(?:INDEX|KEY|TRIGGER|VIEW|PROCEDURE|FUNCTION|EVENT|USER|ROLE)|"
    r"ALTER\s+(?:VIEW|USER|DATABASE|EVENT))\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"`[^`]+`|[\w$]+")
_DATA = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD"})


class Transactions:
    """Changes of tables gather here until there are enough of them.

    Args:
        position: where the events begin.
        tables: that are read.
        trailer: bytes of checksum behind each event, until the log tells it.
        numbers: the transactions before the position.
    """

    def __init__(
        self, source: MysqlCdcSource, position: Position, tables: Sequence[LogTable], trailer: int, numbers: Numbers
    ) -> None:
        self.appeared: set[tuple[str, str]] = set()
        """Other tables whose names match, and which the log has told of."""
        self._source = source
        self._read = {table.name: table for table in tables}
        self._position = position
        self._file = position.place.file
        self._at = position.place.at
        self._skip = position.skip
        self._within = position.within
        self._newest = position.place.at
        self._trailer = trailer
        self._numbers = numbers
        self._before: str | None = None
        """The numbers before the first transaction of the waiting events."""
        self._known: dict[bytes, LogTable | None] = {}
        self._tables: dict[bytes, LogTable | None] = {}
        self._open = self._body = self._xa = False
        self._begun: list[Begun] = []
        """Transactions of the waiting events, and the open one."""
        self._events = 0
        self._last: Begun | None = None
        """The transaction of the newest event that waits or was decoded."""
        self._size = 0
        self._since = 0.0

    @property
    def position(self) -> Position:
        """Behind all changes that were decoded."""
        skip, within = self._skip, self._within
        if self._open and self._begun:
            last = self._begun[-1]
            skip, within = last.given, last.within or (self._numbers.alone(last.gtid) if last.given else None)
        place = Place(self._file, self._at, self._numbers.text)
        return self._positioned(place, skip, within).matters()

    def _positioned(self, place: Place, skip: int, within: str | None) -> Position:
        tables = tuple(t.position for t in self._read.values())
        return Position(self._position.server, place, tables, skip, within)

    @property
    def reached(self) -> Place:
        """Behind the newest event."""
        return Place(self._file, max(self._newest, self._at))

    def has_reached(self, place: Place) -> bool:
        """Whether all before a place of this log was taken up."""
        if place.gtids is not None and self._numbers.hold(place.gtids):
            return True
        return self.reached.order >= place.order

    @property
    def full(self) -> bool:
        """Whether there is enough, or has waited long enough."""
        return self._size >= _MOST_BYTES or (self.waiting and time.monotonic() - self._since > _MOST_SECONDS)

    @property
    def waiting(self) -> bool:
        return self._events > 0

    @property
    def between(self) -> bool:
        """Whether no transaction is open."""
        return not self._open

    # --- events

    def take(self, events: ev.Events) -> Iterator[Fetched]:
        """Take up events, in a loop over them; gives what came before the table changed its shape.

        Raises:
            ConnectorError: E3172 a change that cannot be followed.
        """
        data, tables, known = events.data, self._tables, self._known
        for begin, end, seconds, kind, at in events.heads:
            if kind in _ROWS:
                table = tables.get(data[begin + _HEAD : begin + _NUMBER])
                if table is not None:
                    self._add(table, data[begin : end - self._trailer], kind, seconds, at - (end - begin))
            elif kind == _TABLE_MAP:
                told = data[begin + _HEAD : end - self._trailer]
                table = known.get(told, _UNKNOWN)
                if table is _UNKNOWN or (table is not None and told != table.said):
                    yield from self._mapped(told)
                else:
                    tables[told[:6]] = table
            elif kind == _XID or kind == ev.XA_PREPARE:
                self._commit(at)
            elif kind in _BEGINS:
                gtid = self._numbers.read(kind, data[begin:end])
                # That of MariaDB begins a transaction, unless a statement that stands alone follows.
                body = kind == ev.MARIA_GTID and not data[begin + _FLAGS] & 1
                self._begin(at - (end - begin), gtid, body=body)
            elif (yield from self._special(kind, data[begin:end], at)):
                continue
            if at:
                self._newest = at

    def _special(self, kind: int, event: bytes, at: int) -> Generator[Fetched, None, bool]:
        """Take up what is rare; whether it is in no file."""
        if kind == ev.QUERY:
            yield from self._statement(event, at)
        elif kind == ev.ROTATE:
            self._rotate(*ev.read_rotate(event, self._trailer))
            return True
        elif kind == ev.FORMAT:
            self._trailer = ev.trailer_of(event)
            return True
        elif kind == ev.HEARTBEAT:
            # MySQL tells with it what it passes over.
            if event[ev.HEAD : len(event) - self._trailer].decode(errors="replace") == self._file:
                self._newest = max(self._newest, at)
            return True
        elif kind == ev.PREVIOUS_GTIDS:
            self._numbers.began(event, self._trailer)
        elif kind == ev.PAYLOAD:
            raise self._unread("compressed transactions", "SET GLOBAL binlog_transaction_compression = OFF")
        elif (kind in ev.COMPRESSED_ROWS or kind == ev.PARTIAL_UPDATE) and (
            self._tables.get(event[_HEAD:_NUMBER]) is not None
        ):
            raise self._unread(
                "rows that are compressed or not whole",
                "SET GLOBAL log_bin_compress = OFF, binlog_row_value_options = ''",
            )
        return False

    def _rotate(self, file: str, at: int) -> None:
        # Where GTIDs say where reading begins, the server tells the beginning of the file that has them.
        if file != self._file and not self._open:
            self._at = at
        self._file, self._newest = file, at
        self._tables.clear()

    def _begin(self, at: int, gtid: Gtid | None, *, body: bool) -> None:
        """A transaction begins there. That is not where the one before has ended: a file begins with events of its own."""
        if self._within is not None:
            if self._within != self._numbers.alone(gtid):
                raise ConnectorError(
                    f"reading of {self._source.place} has stopped within transaction {self._within}, which does not come next here",
                    code="E3170",
                    hint="this server has another order of transactions: bring the former one back, or begin anew with --fresh",
                )
        self._open, self._body, self._xa = True, body, False
        if self._begun and not self._events:
            self._begun.clear()
        self._begun.append(Begun(self._file, at, self._skip, gtid, self._within))
        self._within = None

    def _commit(self, end: int) -> None:
        if self._open:
            self._numbers.passed(self._begun[-1].gtid)
        self._open = self._body = self._xa = False
        self._at, self._skip = end, 0

    def _mapped(self, told: bytes) -> Iterator[Fetched]:
        """What a number of a table means from here on."""
        told_of = ev.read_table_map(told)
        name = told_of.database, told_of.table
        table = self._read.get(name)
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known[told] = self._tables[told[:6]] = table
        if table is None:
            if self._source.options.patterned and self._source.options.wants(*name):
                self.appeared.add(name)
            return
        table.said = told
        shape = told_of.shape()
        if not table.is_shaped(shape):
            if self._events:
                yield self.flush()
            table.shaped(shape, self.reached)

    def _add(self, table: LogTable, event: bytes, kind: int, seconds: int, at: int) -> None:
        if self._xa:
            raise self._unread("a transaction of XA, which may be taken back", "leave XA out for this table")
        if not self._open:
            self._begin(at, None, body=True)
        last = self._last = self._begun[-1]
        if table.passes_over(last):
            return
        if not self._events:
            self._since, self._before = time.monotonic(), self._numbers.text
        table.add(event, kind, len(self._begun) - 1, seconds, self._events)
        self._events += 1
        self._size += len(event)

    def _statement(self, event: bytes, end: int) -> Iterator[Fetched]:
        database, text = ev.read_statement(event, self._trailer)
        found = _WORD.match(text)
        first, second = ((found[1] or "").upper(), (found[2] or "").upper()) if found else ("", "")
        if first == "BEGIN":
            if not self._open:
                self._begin(end - len(event), None, body=True)
            self._body = True
        elif first == "XA" and second in ("START", "BEGIN"):
            self._body = self._xa = True
        elif first == "COMMIT":
            self._commit(end)
        elif first == "ROLLBACK" and second != "TO":
            last = self._begun[-1] if self._begun else None
            if self._open and last is not None and last is self._last:
                raise self._unread(
                    "a transaction with rows of this table that was taken back", "begin anew with --fresh"
                )
            self._commit(end)
        else:
            for table in self._named(database, text):
                yield from self._told(table, first, text, Place(self._file, end))
            if first in _SHAPES and self._source.options.patterned:
                self._appeared(database, text)
            if not self._body:
                self._commit(end)

    def _named(self, database: str, text: str) -> list[LogTable]:
        """The tables that a statement may be about."""
        return [
            table
            for (here, name), table in self._read.items()
            if (database == here or here.lower() in text.lower())
            and re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", text, re.IGNORECASE) is not None
        ]

    def _appeared(self, database: str, text: str) -> None:
        """Looks for names of other tables in a statement."""
        words = {word.strip("`") for word in _NAME.findall(text)}
        options = self._source.options
        databases = options.databases.chosen(sorted(words | {database}))
        self.appeared |= {(d, t) for d in databases for t in options.tables.chosen(sorted(words))} - {*self._read}

    def _told(self, table: LogTable, first: str, text: str, place: Place) -> Iterator[Fetched]:
        source = self._source
        if first == "TRUNCATE":
            if source.options.ignores_truncate:
                return
            raise ConnectorError(
                f"{table.place} was truncated before {place} of the log: which rows are gone is not told",
                code="E3172",
                hint="begin anew with --fresh; or set 'scan.truncate.mode' = 'ignore', and the rows stay",
            )
        if first in _SHAPES:
            if not _OTHERS.match(text):
                if self._events:
                    yield self.flush()
                table.altered(place)
        elif self._body or first in _DATA:
            raise ConnectorError(
                f"{table.place} was perhaps written by a statement, not by rows, before {place} of the log",
                code="E3172",
                hint="set binlog_format = ROW for all sessions, and begin anew with --fresh",
            )

    def _unread(self, what: str, hint: str) -> ConnectorError:
        return ConnectorError(
            f"the log has {what}, behind {self.reached}: {self._source.place} cannot be followed",
            code="E3172",
            hint=hint,
        )

    # --- changes

    def flush(self) -> Fetched:
        """What has gathered, and the position behind it."""
        if not self._events:
            return Fetched(ChangelogBatch.empty(self._source.schema), self.position.json())
        begun, numbers = [*self._begun], self._before
        given = [b.given for b in begun]
        before = self._positioned(self._position.place, 0, None)
        rows, owners = self._decoded()

        def within(count: int) -> tuple[Any, int]:
            """Before the transaction of the next of these rows: another server has perhaps another order of transactions."""
            owner = int(owners[min(count, len(owners) - 1)])
            known = self._numbers.behind(numbers, [b.gtid for b in begun[:owner]])
            rows = count - int(np.searchsorted(owners, owner))
            at = replace(
                before,
                place=Place(begun[owner].file, begun[owner].at, known),
                skip=given[owner],
                within=self._numbers.alone(begun[owner].gtid) if rows or given[owner] else None,
            )
            return at.json(), rows

        self._events = self._size = 0
        self._begun = self._begun[-1:] if self._open else []
        return Fetched(rows, self.position.json(), within=within)

    def _decoded(self) -> tuple[ChangelogBatch, npt.NDArray[np.int64]]:
        """Rows, in the order of the log, and the number of each one's transaction among those begun."""
        parts = [table.taken(self._begun) for table in self._read.values() if table.waiting]
        rows, owners = ChangelogBatch.concat(p.rows for p in parts), np.concatenate([p.owner for p in parts])
        begins, counts = np.concatenate([p.begins for p in parts]), np.concatenate([p.counts for p in parts])
        if len(parts) > 1:
            order = np.argsort(np.concatenate([p.event for p in parts]), kind="stable")
            rows, owners, begins, counts = rows.take(order), owners[order], begins[order], counts[order]
        counts &= self._fresh(np.cumsum(begins) - 1, owners)
        return (rows, owners) if counts.all() else (rows.filter(counts), owners[counts])

    def _fresh(self, change: npt.NDArray[np.int64], owners: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which rows were not given before the reading was cut off. Counts the changes of each transaction. `change`: the number
        of each row's change."""
        fresh = np.ones(len(owners), dtype=bool)
        last = np.searchsorted(owners, [0, len(self._begun) - 1], "right") - 1
        first, of_last = self._begun[0], self._begun[-1]
        if first.skip:
            numbers = change + first.counted
            fresh = (owners != 0) | (numbers >= first.skip)
        if of_last is first:
            first.counted += int(change[last[0]]) + 1
        elif owners[-1] == len(self._begun) - 1:
            before = int(np.searchsorted(owners, len(self._begun) - 1))
            of_last.counted += int(change[-1] - change[before]) + 1
        return fresh
