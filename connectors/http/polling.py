"""A server that is asked for rows again and again: pages, what has come since, and where reading stands.

A round asks for page after page. A position says what the next request is, so whoever goes on from it makes the same one. An
answer may be another one then; so a position within a page has that page with it.
"""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar
from urllib.parse import quote, urljoin

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.json_encoder import JsonSpelling, object_text
from connectors.formats.message_table import RowsOfMessages
from connectors.formats.value_text import value_text
from connectors.http.address import Address, read_url
from connectors.http.client import Answer, TryLater, Way, client_of
from connectors.http.json_places import elements_of, place_of, scalar_at
from connectors.kit.message_source import MessageSource
from connectors.kit.prefetch import Fetched
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, OptionError
from runtime.spi.reader import RejectedRow

__all__ = ["HttpSource", "Paging", "Since", "typed"]

_NEXT = re.compile(r"<([^<>]*)>\s*(?:;[^,<]*?)?;\s*rel\s*=\s*\"?(?:[^\",;]*\s)?next(?:\s[^\",;]*)?\"?", re.IGNORECASE)
_MOST_SEEN = 50_000


@dataclass(frozen=True)
class Paging:
    """How a page names the next one.

    Attributes:
        kind: 'none', 'link', 'cursor', 'offset' or 'number'.
        parameter: of the query, for all but a link.
        path: of the link or cursor in the answer; none: the link is in the header `Link`.
        first: the first offset or number.
        onward: a round begins where the one before it ended.
    """

    kind: str = "none"
    parameter: str = ""
    path: tuple[str, ...] = ()
    first: int = 0
    onward: bool = False


@dataclass(frozen=True)
class Since:
    """The greatest value of a column that was given is asked for as a parameter of the query. `start`: at first, if any."""

    parameter: str
    column: str
    start: str = ""


@dataclass(frozen=True, kw_only=True)
class HttpSource(MessageSource):
    """See the module.

    Attributes:
        rows: the path of the rows in an answer.
        interval: seconds from the beginning of a round to that of the next one; pause: at least between two requests.
    """

    SPLIT: ClassVar[str] = "http"

    address: Address
    way: Way
    rows: tuple[str, ...] = ()
    paging: Paging = Paging()
    since: Since | None = None
    interval: float = 0.0
    pause: float = 0.0

    def place(self) -> str:
        return f"{self.name} ({self.address})"

    @property
    def readable_again(self) -> bool:
        """See `SupportsRereading`: a server gives what it has now."""
        return False

    def describe(self) -> dict[str, Any]:
        described = {"url": str(self.address), "format": self.format.name, "scan.page": self.paging.kind}
        return {"connector": "http", "columns": list(self.schema.names), "options": described}

    def fetch(self, position: Any, stop: threading.Event) -> Iterator[Fetched]:
        """See `Fetching`. Raises UnavailableError, ConnectorError E3250 and E3251, FormatError E3201."""
        return _Rounds(self, stop).fetched(position)


@dataclass(frozen=True)
class _At:
    """Where reading stands: what the next request is.

    Attributes:
        page: what names the page; None: the first one of a round.
        over: there is no further request.
        since: the value that is asked for; before: digests of the rows that were given and have it, for many servers give them
            again.
        high, seen: the greatest value that was given, and the digests of its rows.
        tag, modified: of the answer of the last round, where that had one page.
    """

    page: str | None = None
    over: bool = False
    since: str = ""
    before: tuple[str, ...] = ()
    high: str = ""
    seen: tuple[str, ...] = ()
    tag: str = ""
    modified: str = ""

    def saved(self) -> dict[str, Any]:
        """As a JSON value."""
        return {f.name: list(v) if isinstance(v := getattr(self, f.name), tuple) else v for f in fields(self)}

    @classmethod
    def of(cls, saved: Mapping[str, Any]) -> _At:
        return cls(
            page=None if saved["page"] is None else str(saved["page"]),
            over=bool(saved["over"]),
            since=str(saved["since"]),
            before=tuple(map(str, saved["before"])),
            high=str(saved["high"]),
            seen=tuple(map(str, saved["seen"])),
            tag=str(saved["tag"]),
            modified=str(saved["modified"]),
        )


class _Rounds:
    """The requests of one split, one behind the other."""

    def __init__(self, table: HttpSource, stop: threading.Event) -> None:
        self._table = table
        self._stop = stop
        self._asked_at = float("-inf")
        # What a row is, and how far reading has come, does not depend on the columns that a query wants.
        self._decoded = table if table.since is None else replace(table, schema=table.value)
        self._decode = RowsOfMessages(self._decoded)
        self._in_json = "json" in table.format.name

    def fetched(self, position: Any) -> Iterator[Fetched]:
        at = _At(since=self._table.since.start if self._table.since else "") if position is None else _At.of(position)
        if position is not None and "body" in position:
            # Where reading ended in the middle of a page its rest comes first.
            after, given = _At.of(position["after"]), int(position["given"])
            rows, rejected, _, _ = self._rows(at, _unpacked(position["body"]))
            yield self._part(at, _unpacked(position["body"]), rows, after, given, rejected)
            at = after
        began = time.monotonic()
        while not at.over and not self._stop.is_set():
            asked = self._asked(at)
            if asked is None:
                return
            url, answer = asked
            fetched, at, ended = self._read(at, url, answer)
            yield replace(fetched, goes_on=True)
            if ended and not at.over:
                yield Fetched(None, at.saved())
                self._stop.wait(max(0.0, began + self._table.interval - time.monotonic()))
                began = time.monotonic()

    def _asked(self, at: _At) -> tuple[str, Answer] | None:
        """The address and its answer; None when reading is to stop."""
        table = self._table
        self._stop.wait(max(0.0, self._asked_at + table.pause - time.monotonic()))
        if self._stop.is_set():
            return None
        self._asked_at = time.monotonic()
        url = self._url(at)
        headers = {}
        if at.page is None:
            headers = {"If-None-Match": at.tag} if at.tag else {}
            headers |= {"If-Modified-Since": at.modified} if at.modified else {}
        client = client_of(table.way)
        answer = client.ask("GET", url, None, headers)
        if answer.status == 304 and headers:
            return url, Answer(304, answer.headers, b"")
        try:
            return url, client.accepted(answer, table.place())
        except TryLater as later:
            self._stop.wait(later.seconds)
            raise

    def _url(self, at: _At) -> str:
        table, paging = self._table, self._table.paging
        if paging.kind == "link" and at.page is not None:
            return at.page
        url = table.address.url()
        if table.since is not None and at.since:
            url = _with(url, table.since.parameter, at.since)
        page = at.page if at.page is not None else str(paging.first) if paging.kind in ("offset", "number") else None
        return url if page is None else _with(url, paging.parameter, page)

    def _read(self, at: _At, url: str, answer: Answer) -> tuple[Fetched, _At, bool]:
        """The rows of an answer, where reading stands behind them, and whether the round has ended."""
        table = self._table
        rows, rejected, count, seen = self._rows(at, answer.body)
        page = self._next_page(at, url, answer, count)
        after = replace(at, page=page, high=seen[0], seen=seen[1])
        if answer.status != 304:
            alone = at.page is None and page is None
            tag, modified = (answer.headers.get(name) or "" for name in ("ETag", "Last-Modified"))
            after = replace(after, tag=tag if alone else "", modified=modified if alone else "")
        ended = page is None or (table.paging.onward and not count)
        if ended:
            after = self._next_round(after)
        return self._part(at, answer.body, rows, after, 0, rejected), after, ended

    def _next_round(self, at: _At) -> _At:
        """Behind the last page of a round."""
        table = self._table
        page = at.page if table.paging.onward else None
        if table.since is None or not at.high:
            return replace(at, page=page, over=table.bounded)
        # Another address is asked then, so what is known of this one means nothing.
        same = at.high == at.since
        before = tuple(dict.fromkeys((*at.before, *at.seen))) if same else at.seen
        kept = at if same else replace(at, tag="", modified="")
        return replace(kept, page=page, over=table.bounded, since=at.high, before=before, seen=())

    def _next_page(self, at: _At, url: str, answer: Answer, count: int) -> str | None:
        """What names the next page; None behind the last one."""
        paging = self._table.paging
        if answer.status == 304 or paging.kind == "none":
            return at.page if paging.onward else None
        if paging.kind in ("offset", "number"):
            now = int(at.page) if at.page is not None else paging.first
            step = count if paging.kind == "offset" else 1
            return str(now + step) if count else str(now) if paging.onward else None
        try:
            if paging.kind == "link" and not paging.path:
                found = _NEXT.search(", ".join(answer.headers.get_all("Link") or ()))
                named = "" if found is None else found[1]
            else:
                named = scalar_at(answer.body.decode(), paging.path) if answer.body.strip() else ""
        except ValueError as error:
            raise self._unreadable(str(error)) from error
        if not named:
            if paging.onward and count:
                raise self._unreadable("it names no cursor behind its rows, from which another round could go on")
            return at.page if paging.onward else None
        if paging.kind == "link":
            named = self._own(urljoin(url, named))
        if named == at.page and (count or not paging.onward):
            raise self._unreadable("it names the same page as the next one")
        return named

    def _own(self, url: str) -> str:
        """A link to the server that was asked. Raises ConnectorError E3250 for any other."""
        try:
            there = read_url(url, "url")
        except OptionError:
            there = None
        if there is None or there.place != self._table.address.place:
            raise ConnectorError(
                f"{self._table.place()} names a next page that is not on {self._table.address.place}",
                code="E3250",
                hint="nothing is followed to another address",
            )
        return url

    def _rows(
        self, at: _At, body: bytes
    ) -> tuple[ChangelogBatch | None, list[RejectedRow], int, tuple[str, tuple[str, ...]]]:
        """The rows of a page without those that were given, what is malformed, how many records it has, and `high` and `seen`
        behind it."""
        table = self._table
        records = self._records(body)
        if not records:
            return None, [], 0, (at.high, at.seen)
        page = at.page or "first"
        bodies = pa.array(records, pa.large_binary())
        rows, rejected = self._decode(bodies, lambda key: pa.nulls(0), lambda number: f"{number} of page {page}")
        count = len(records) if self._in_json else (0 if rows is None else len(rows)) + len(rejected)
        if table.since is None or rows is None:
            return rows, rejected, count, (at.high, at.seen)
        rows, seen = self._unseen(at, rows)
        return rows, rejected, count, seen

    def _records(self, body: bytes) -> list[bytes]:
        """The rows of an answer, each by itself where they are JSON, so that one that is malformed is so alone."""
        if not body.strip():
            return []
        if not self._in_json:
            return [body]
        try:
            text = body.decode()
            place = place_of(text, self._table.rows)
            if place is None:
                raise ValueError(f"there is no {'.'.join(self._table.rows)} in it")
            return [element.encode() for element in elements_of(text[place[0] : place[1]])]
        except ValueError as error:
            raise self._unreadable(str(error)) from error

    def _unseen(self, at: _At, rows: ChangelogBatch) -> tuple[ChangelogBatch | None, tuple[str, tuple[str, ...]]]:
        """Rows without those that were given and have the value that was asked for."""
        assert self._table.since is not None
        schema = self._decoded.schema
        number = schema.index_of(self._table.since.column)
        type_, column = schema[number].type, rows.rows.column(number)
        spelled = value_text(column, type_, separator="T")
        digests = self._digests(rows.rows, spelled, {at.since, at.high})
        known = set(at.before)
        kept = np.array([digest is None or digest not in known for digest in digests], bool)
        # Of the rows with the greatest value it is noted which they are.
        greatest = pc.max(column)
        high = at.high
        if greatest.is_valid and (not high or greatest.as_py() > typed(high, type_.arrow).as_py()):
            high = value_text(pa.array([greatest.as_py()], column.type), type_, separator="T")[0].as_py()
        found = [d for d in self._digests(rows.rows, spelled, {high}) if d is not None]
        seen = tuple(dict.fromkeys((*(at.seen if high == at.high else ()), *found)))
        if len(seen) > _MOST_SEEN:
            raise ConnectorError(
                f"{self._table.place()} gives more than {_MOST_SEEN} rows with {self._table.since.column} {high}",
                code="E3251",
                hint="'scan.since.column' must tell rows apart that come at different times",
            )
        return (rows if kept.all() else rows.filter(kept)), (high, seen)

    def _digests(self, rows: pa.RecordBatch, spelled: pa.Array, values: set[str]) -> list[str | None]:
        """Of each row with one of these values."""
        wanted = pc.fill_null(pc.is_in(spelled, pa.array(sorted(values - {""}), spelled.type)), False)
        places = np.flatnonzero(wanted)
        digests: list[str | None] = [None] * rows.num_rows
        if len(places):
            chosen, schema = rows.take(pa.array(places)), self._decoded.schema
            texts = object_text(chosen.columns, schema.names, tuple(f.type for f in schema), JsonSpelling())
            # Few rows: those at the edge of what was asked for.
            for place, text in zip(places.tolist(), texts.to_pylist(), strict=True):
                digests[place] = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        return digests

    def _part(
        self, at: _At, body: bytes, rows: ChangelogBatch | None, after: _At, given: int, rejected: list[RejectedRow]
    ) -> Fetched:
        """What is given of a page, but for the first rows of it, with positions in it."""
        if rows is None:
            return Fetched(pa.RecordBatch.from_arrays([], names=[]), after.saved(), rejected)
        names = self._table.schema.names
        if rows.rows.schema.names != list(names):
            rows = ChangelogBatch(rows.rows.select(list(names)), rows.kinds)

        packed: list[str] = []

        def within(count: int) -> tuple[dict[str, Any], int]:
            if not packed:
                packed.append(_packed(body))
            return {**at.saved(), "body": packed[0], "given": given + count, "after": after.saved()}, 0

        return Fetched(rows.slice(given, len(rows) - given), after.saved(), () if given else rejected, within)

    def _unreadable(self, why: str) -> ConnectorError:
        return ConnectorError(
            f"{self._table.place()} answers what cannot be read: {why}",
            code="E3251",
            hint="check 'scan.rows', 'scan.page' and what the server answers",
        )


def typed(text: str, type_: pa.DataType) -> pa.Scalar:
    """A value of an address, as one of a column. Raises ArrowInvalid for what is none."""
    return pa.array([text], pa.string()).cast(type_)[0]


def _with(url: str, name: str, value: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{quote(name, safe='')}={quote(value, safe='')}"


def _packed(body: bytes) -> str:
    return base64.b64encode(zlib.compress(body, 1)).decode("ascii")


def _unpacked(text: Any) -> bytes:
    return zlib.decompress(base64.b64decode(str(text)))
