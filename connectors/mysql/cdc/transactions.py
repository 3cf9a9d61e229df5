"""What the log says, event by event, as batches of changes of one table."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors.databases.followed import beyond
from connectors.kit.prefetch import Fetched
from connectors.mysql.cdc import events as ev
from connectors.mysql.cdc.cells import followed, values_of
from connectors.mysql.cdc.gtids import Gtid, Numbers, has
from connectors.mysql.cdc.positions import Place, Position
from connectors.mysql.cdc.rows import RowEvent, Rows, read_rows
from connectors.mysql.cdc.snapshot import KeyOrder, limits_of
from connectors.mysql.columns import Column
from runtime.core import changelog
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError

if TYPE_CHECKING:
    from connectors.mysql.cdc.table import MysqlCdcSource

__all__ = ["Transactions"]

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
_DATA = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD"})


@dataclass(slots=True)
class _Begun:
    """A transaction. `gtid`: its number, if it has one; `within`: that of the position in whose middle it is; `counted`: changes
    of it that were decoded; `skip`: that were given before the reading was cut off."""

    place: Place
    skip: int
    gtid: Gtid | None
    within: str | None
    counted: int = 0

    @property
    def given(self) -> int:
        """Changes of it that do not count any more."""
        return max(self.skip, self.counted)

    def seen(self, place: Place) -> bool:
        """Whether a snapshot has it that was taken at a place."""
        if place.gtids is not None and self.gtid is not None:
            return has(place.gtids, self.gtid)
        return self.place.before(place)


class Transactions:
    """Changes of one table gather here until there are enough of them.

    Args:
        order: of its key; needed where several snapshots were taken.
        position: where the events begin.
        describe: asks for the columns of the table as they are now, and whether the log tells names of columns.
        trailer: bytes of checksum behind each event, until the log tells it.
        numbers: the transactions before the position.
    """

    def __init__(
        self,
        source: MysqlCdcSource,
        order: Sequence[KeyOrder],
        position: Position,
        describe: Callable[[], tuple[Sequence[Column], bool]],
        trailer: int,
        numbers: Numbers,
    ) -> None:
        self._source = source
        self._order = order
        self._describe = describe
        self._now: dict[str, Column] = {}
        self._altered_at: Place | None = None
        self._schema = source.inner_schema([c.name for c in order] if len(position.ranges) > 1 else [])
        self._columns = [Column(n, t, null, charset) for n, t, charset, null in position.columns]
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
        self._known: dict[bytes, bool] = {}
        self._tables: dict[int, bool] = {}
        self._shape: ev.Shape | None = None
        self._said = b""
        self._places: list[int] = []
        self._open = self._body = self._xa = False
        self._begun: list[_Begun] = []
        """Transactions of the waiting events, and the open one."""
        self._events: list[RowEvent] = []
        self._seconds: list[int] = []
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
        found = replace(self._position, place=place, skip=skip, within=within)
        return found.matters() if found.ranges else found

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
        return bool(self._events)

    # --- events

    def take(self, given: Sequence[memoryview]) -> Iterator[Fetched]:
        """Take up events, in a loop over them; gives what came before the table changed its shape.

        Raises:
            ConnectorError: E3172 a change that cannot be followed.
        """
        for event in given:
            seconds, kind, end = ev.read_header(event)
            if kind in ev.ROWS:
                if self._tables.get(_number(event)):
                    self._add(event, kind, seconds, end)
            elif kind == ev.TABLE_MAP:
                told = bytes(event[ev.HEAD : len(event) - self._trailer])
                ours = self._known.get(told)
                if ours is None or (ours and told[6:] != self._said):
                    yield from self._mapped(told)
                else:
                    self._tables[_number(event)] = ours
            elif kind == ev.XID or kind == ev.XA_PREPARE:
                self._commit(end)
            elif kind in ev.BEGINS:
                gtid = self._numbers.read(kind, event)
                # That of MariaDB begins a transaction, unless a statement that stands alone follows.
                self._begin(end - len(event), gtid, body=kind == ev.MARIA_GTID and not event[ev.HEAD + 12] & 1)
            elif kind == ev.QUERY:
                yield from self._statement(event, end)
            elif kind == ev.ROTATE:
                self._rotate(*ev.read_rotate(event, self._trailer))
                continue
            elif kind == ev.FORMAT:
                self._trailer = ev.trailer_of(event)
                continue
            elif kind == ev.HEARTBEAT:
                # MySQL tells with it what it passes over.
                if bytes(event[ev.HEAD : len(event) - self._trailer]).decode(errors="replace") == self._file:
                    self._newest = max(self._newest, end)
                continue
            elif kind == ev.PREVIOUS_GTIDS:
                self._numbers.began(event, self._trailer)
            elif kind == ev.PAYLOAD:
                raise self._unread("compressed transactions", "SET GLOBAL binlog_transaction_compression = OFF")
            elif (kind in ev.COMPRESSED_ROWS or kind == ev.PARTIAL_UPDATE) and self._tables.get(_number(event)):
                raise self._unread(
                    "rows that are compressed or not whole",
                    "SET GLOBAL log_bin_compress = OFF, binlog_row_value_options = ''",
                )
            if end:
                self._newest = end

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
        self._begun.append(_Begun(Place(self._file, at), self._skip, gtid, self._within))
        self._within = None

    def _commit(self, end: int) -> None:
        if self._open:
            self._numbers.passed(self._begun[-1].gtid)
        self._open = self._body = self._xa = False
        self._at, self._skip = end, 0

    def _mapped(self, told: bytes) -> Iterator[Fetched]:
        """What a number of a table means from here on."""
        table = ev.read_table_map(told)
        options = self._source.options
        ours = (table.database, table.table) == (options.address.database, options.table)
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        self._known[told] = self._tables[table.number] = ours
        if not ours:
            return
        self._said = told[6:]
        shape = table.shape()
        if shape != self._shape:
            if self._events:
                yield self.flush()
            self._shaped(shape)

    def _add(self, event: memoryview, kind: int, seconds: int, end: int) -> None:
        if self._xa:
            raise self._unread("a transaction of XA, which may be taken back", "leave XA out for this table")
        if not self._open:
            self._begin(end - len(event), None, body=True)
        if not self._events:
            self._since, self._before = time.monotonic(), self._numbers.text
        self._events.append(RowEvent(kind, event[: len(event) - self._trailer], len(self._begun) - 1))
        self._seconds.append(seconds)
        self._size += len(event)

    def _statement(self, event: memoryview, end: int) -> Iterator[Fetched]:
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
            if self._open and last is not None and (last.counted or self._of_last()):
                raise self._unread(
                    "a transaction with rows of this table that was taken back", "begin anew with --fresh"
                )
            self._commit(end)
        else:
            if self._names_it(database, text):
                yield from self._told(first, text, Place(self._file, end))
            if not self._body:
                self._commit(end)

    def _of_last(self) -> bool:
        return bool(self._events) and self._events[-1].owner == len(self._begun) - 1

    def _names_it(self, database: str, text: str) -> bool:
        """Whether a statement may be about the table."""
        options = self._source.options
        if re.search(rf"(?<![\w$]){re.escape(options.table)}(?![\w$])", text, re.IGNORECASE) is None:
            return False
        here = options.address.database
        return database == here or here.lower() in text.lower()

    def _told(self, first: str, text: str, place: Place) -> Iterator[Fetched]:
        source = self._source
        if first == "TRUNCATE":
            if source.options.ignores_truncate:
                return
            raise ConnectorError(
                f"{source.place} was truncated before {place} of the log: which rows are gone is not told",
                code="E3172",
                hint="begin anew with --fresh; or set 'scan.truncate.mode' = 'ignore', and the rows stay",
            )
        if first in _SHAPES:
            if not _OTHERS.match(text):
                if self._events:
                    yield self.flush()
                self._altered(place)
        elif self._body or first in _DATA:
            raise ConnectorError(
                f"{source.place} was perhaps written by a statement, not by rows, before {place} of the log",
                code="E3172",
                hint="set binlog_format = ROW for all sessions, and begin anew with --fresh",
            )

    def _unread(self, what: str, hint: str) -> ConnectorError:
        return ConnectorError(
            f"the log has {what}, behind {self.reached}: {self._source.place} cannot be followed",
            code="E3172",
            hint=hint,
        )

    # --- the shape of the table

    def _altered(self, place: Place) -> None:
        """The table was altered: columns that are read must be now what they were before."""
        columns, tells_names = self._describe()
        self._now = {c.name: c for c in columns}
        if not tells_names and [*self._now] != [c.name for c in self._columns]:
            raise self._other(f"{self._source.place} has other columns", place)
        known = {c.name: c for c in self._columns}
        for field in self._schema:
            before, now = known.get(field.name), self._now.get(field.name)
            if (
                before is not None
                and now is not None
                and (before.declared, before.charset) != (now.declared, now.charset)
            ):
                raise self._other(f"column {field.name} of {self._source.place} is {now.declared} now", place)
        self._shape, self._said = None, b""
        self._altered_at = place

    def _shaped(self, shape: ev.Shape) -> None:
        """Rows have a shape from here on."""
        known = self._columns
        if shape.names:
            by_name = {c.name: c for c in known}
            known = [by_name.get(n) or self._now.get(n) or Column(n, "", True) for n in shape.names]
        elif self._altered_at is not None and [*self._now] != [c.name for c in known]:
            raise self._other(f"{self._source.place} has other columns", self._altered_at)
        if len(known) != len(shape.codes):
            raise self._other(f"{self._source.place} has {len(shape.codes)} columns, not {len(known)}", self.reached)
        places = {c.name: i for i, c in enumerate(known)}
        for field in self._schema:
            if field.name not in places:
                raise self._other(f"{self._source.place} has no column {field.name}", self.reached)
            at = places[field.name]
            if not followed(known[at], shape.codes[at], shape.more[at]):
                raise self._other(
                    f"column {field.name} of {self._source.place} is not {known[at].declared}, or has a type that is not followed",
                    self.reached,
                )
        self._shape = shape
        self._places = [places[f.name] for f in self._schema]
        self._columns = known
        told = tuple((c.name, c.declared, c.charset, c.nullable) for c in known)
        self._position = replace(self._position, columns=told)

    def _other(self, what: str, place: Place) -> ConnectorError:
        return ConnectorError(
            f"{what} behind {place} of the log",
            code="E3172",
            hint="the log tells no names of columns: SET GLOBAL binlog_row_metadata = FULL, and columns may come and go; or "
            "declare the table as it is now, and begin anew with --fresh",
        )

    # --- changes

    def flush(self) -> Fetched:
        """What has gathered, and the position behind it."""
        if not self._events:
            return Fetched(ChangelogBatch.empty(self._source.schema), self.position.json())
        before, begun, numbers = self._position, [*self._begun], self._before
        given = [b.given for b in begun]
        rows, owners = self._decoded()

        def within(count: int) -> tuple[Any, int]:
            """Before the transaction of the next of these rows: another server has perhaps another order of transactions."""
            owner = int(owners[min(count, len(owners) - 1)])
            known = self._numbers.behind(numbers, [b.gtid for b in begun[:owner]])
            rows = count - int(np.searchsorted(owners, owner))
            at = replace(
                before,
                place=replace(begun[owner].place, gtids=known),
                skip=given[owner],
                within=self._numbers.alone(begun[owner].gtid) if rows or given[owner] else None,
            )
            return at.json(), rows

        self._events, self._seconds, self._size = [], [], 0
        self._begun = self._begun[-1:] if self._open else []
        return Fetched(rows, self.position.json(), within=within)

    def _decoded(self) -> tuple[ChangelogBatch, npt.NDArray[np.int64]]:
        """Rows, and the number of each one's transaction among those begun."""
        assert self._shape is not None
        source = self._source
        rows = read_rows(self._events, self._shape, self._places)
        columns = [
            values_of(
                rows.data, cells, (self._shape.codes[at], self._shape.more[at]), self._columns[at], field, source.place
            )
            for cells, at, field in zip(rows.columns, self._places, self._schema, strict=True)
        ]
        owners = np.array([e.owner for e in self._events], dtype=np.int64)[rows.event]
        kinds = self._kinds(rows, columns)
        wanted = self._fresh(rows, owners) & self._unseen(columns, owners)
        if source.options.upsert:
            wanted &= kinds != changelog.UPDATE_BEFORE
        moments = np.array(self._seconds, dtype=np.int64)[rows.event] * 1_000_000
        if (since := source.options.since) is not None:
            wanted &= moments >= since * 1000
        named = dict(zip(self._schema.names, columns, strict=True))
        batch = source.batch(named, len(kinds), moments, kinds)
        return (batch, owners) if wanted.all() else (batch.filter(wanted), owners[wanted])

    def _kinds(self, rows: Rows, columns: Sequence[pa.Array]) -> changelog.Kinds:
        """Of each row. Where an update changes the key, the row with the old one is gone, and one with the new one is there."""
        moved = np.zeros(len(rows.event), dtype=bool)
        olds = np.flatnonzero(rows.is_old & ~rows.alone)
        names = self._source.key or [c.name for c in self._order if self._schema.index_of(c.name) >= 0]
        for name in names if len(olds) else ():
            column = columns[self._schema.index_of(name)]
            before, after = column.take(pa.array(olds)), column.take(pa.array(olds + 1))
            moved[olds] |= pc.fill_null(pc.not_equal(before, after), False).to_numpy(zero_copy_only=False)
        moved[olds + 1] = moved[olds]
        whole = rows.alone | moved
        return np.where(
            rows.is_old,
            np.where(whole, changelog.DELETE, changelog.UPDATE_BEFORE),
            np.where(whole, changelog.INSERT, changelog.UPDATE_AFTER),
        ).astype(np.int8)

    def _fresh(self, rows: Rows, owners: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which rows were not given before the reading was cut off. Counts the changes of each transaction."""
        fresh = np.ones(len(owners), dtype=bool)
        last = np.searchsorted(owners, [0, len(self._begun) - 1], "right") - 1
        first, of_last = self._begun[0], self._begun[-1]
        if first.skip:
            numbers = rows.change + first.counted
            fresh = (owners != 0) | (numbers >= first.skip)
        if of_last is first:
            first.counted += int(rows.change[last[0]]) + 1
        elif owners[-1] == len(self._begun) - 1:
            before = int(np.searchsorted(owners, len(self._begun) - 1))
            of_last.counted += int(rows.change[-1] - rows.change[before]) + 1
        return fresh

    def _unseen(self, columns: Sequence[pa.Array], owners: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which rows no snapshot has."""
        ranges = self._position.ranges
        if not ranges:
            return np.ones(len(owners), dtype=bool)
        seen = np.array([[b.seen(r.place) for r in ranges] for b in self._begun], dtype=bool)
        if not seen.any():
            return np.ones(len(owners), dtype=bool)
        which = np.zeros(len(owners), dtype=np.int64)
        keys = [columns[self._schema.index_of(c.name)] for c in self._order] if len(ranges) > 1 else []
        for one in ranges[:-1]:
            assert one.through is not None
            which += beyond(keys, limits_of(self._order, one.through, self._source.place))
        return ~seen[owners, which]


def _number(event: memoryview) -> int:
    return int.from_bytes(event[ev.HEAD : ev.HEAD + 6], "little")
