"""Where the records of a CSV text begin and end, and which pieces of it are no records.

A quote opens a value only where the value begins; a quoted value may hold line ends. A quote that is never closed, or
closed before more text of the same value, or beyond the limit, or with another number of values than columns behind it,
spoils the line on which its record begins and no other: reading goes on at the next line. The lines that the spoilt
record had reached across are then read each for itself, so that every byte is looked at no more than a few times,
whatever stands in the text.

Two quotes that were never meant to belong together may look like one value over all the lines between. So, unless the
dialect says that such values are meant, a value that goes over many lines, or over lines that are records themselves, is
malformed, too: a record that is refused can be seen, rows that are swallowed cannot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from connectors.formats.records import MalformedRecord, shown_bytes, too_long

__all__ = ["CsvDialect", "CsvRecords", "field_texts", "split_records"]

_NEWLINE, _RETURN, _HASH = 10, 13, 35
_UNCLOSED = "a quote is not closed"
_TEXT_BEHIND = "text behind a closing quote"
_NOTHING_BEHIND = "nothing behind an escape character"
_NOT_WHOLE = "a value over several lines, and another number of values than columns"
LINE_BREAKS = "csv.line-breaks-in-values"
MOST_LINES = 100
"""Of a record, where it is not said that values may have any number of lines."""
_UNCLOSED_LONG = f"a quote is not closed within {MOST_LINES} lines ('{LINE_BREAKS}')"
_LONG = f"a record over more than {MOST_LINES} lines ('{LINE_BREAKS}')"
_OF_RECORDS = f"a quoted value over lines that are records themselves ('{LINE_BREAKS}')"
_LEAST_SIGNS = 2
"""So many signs tell records from texts that happen to have as many delimiters."""


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The options of the format: see `connectors/formats/csv.py`. `quote` and `escape` are None when there is none.
    `line_breaks`: whether values in quotes may hold line ends: 'never', 'always', or 'auto' (see above)."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    comments: bool = False
    null_literal: str | None = None
    element_delimiter: str = ";"
    header: bool = False
    line_breaks: str = "auto"


@dataclass(frozen=True, slots=True)
class CsvRecords:
    """The records of the first `used` bytes of a text, blank lines and comments left out.

    Attributes:
        starts, ends: of each record, without its line end, int64 (n,).
        lines: the 0-based line on which each begins.
        rejected: lines that belong to no record.
    """

    data: bytes
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    lines: npt.NDArray[np.int64]
    rejected: tuple[MalformedRecord, ...]
    used: int

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, chosen: slice | npt.NDArray[np.bool_]) -> CsvRecords:
        """Some of the records, and nothing that was rejected."""
        return CsvRecords(self.data, self.starts[chosen], self.ends[chosen], self.lines[chosen], (), self.used)

    def block(self) -> bytes:
        """The records with a line feed behind each, and nothing between them that is no blank line."""
        if not len(self):
            return b""
        gaps = self.starts[1:] - self.ends[:-1]
        # Behind a record stand its line end and blank lines, or what was left out.
        cuts = np.flatnonzero(gaps > 2)
        begins = self.starts[np.concatenate([np.zeros(1, np.int64), cuts + 1])]
        ends = self.ends[np.concatenate([cuts, np.array([len(self) - 1])])]
        if len(begins) == 1:
            return self.data[int(begins[0]) : int(ends[0])] + b"\n"
        view = memoryview(self.data)
        runs = [view[b:e] for b, e in zip(begins.tolist(), ends.tolist(), strict=True)]
        return b"\n".join([*runs, b""])

    def raw(self, record: int) -> bytes:
        return self.data[int(self.starts[record]) : int(self.ends[record])]

    def malformed(self, record: int, reason: str) -> MalformedRecord:
        return MalformedRecord(reason, shown_bytes(self.raw(record)), int(self.lines[record]))


def split_records(
    data: bytes, dialect: CsvDialect, columns: Sequence[bytes], final: bool, most: int | None, by_line: bool = False
) -> CsvRecords:
    """The whole records of a text that begins with one.

    Args:
        columns: a pattern for each value of a record, which its texts match; empty where it may be any text.
        final: nothing comes behind the text, so that its last record needs no line end.
        most: the most bytes of a record; None is without limit.
        by_line: no record spans lines.
    """
    lines = _lines(data, final)
    if not len(lines.starts):
        return _nothing(data)
    octets = np.frombuffer(data, np.uint8)
    by_line = by_line or dialect.line_breaks == "never"
    marks = _marks(octets, lines, dialect)
    if len(marks):
        parity = dialect.escape is None and not by_line and not _begins_comment(octets, lines, dialect)
        if not parity or not _well_quoted(octets, marks, dialect):
            return _one_by_one(data, lines, marks, dialect, columns, final, most, by_line)
        outside = np.searchsorted(marks, lines.ends) % 2 == 0
        if not outside[-1] and (final or (most is not None and len(data) > most)):
            return _one_by_one(data, lines, marks, dialect, columns, final, most, by_line)
        last = np.flatnonzero(outside)
        behind = len(outside) - 1 - int(last[-1]) if len(last) else len(outside)
        if dialect.line_breaks == "auto" and behind > MOST_LINES:
            return _one_by_one(data, lines, marks, dialect, columns, final, most, by_line)
        if not len(last):
            return _nothing(data)
        if not outside[: last[-1]].all():
            return _one_by_one(data, lines, marks, dialect, columns, final, most, by_line)
        lines = lines.first(int(last[-1]) + 1)
    return _checked(CsvRecords(data, lines.starts, lines.ends, np.arange(len(lines.starts)), (), lines.used), most)


def field_texts(record: bytes, dialect: CsvDialect) -> list[str]:
    """The values of one record, without quotes; raises UnicodeDecodeError."""
    field, delimiter = _patterns(dialect, 1)[2], dialect.delimiter.encode()
    texts: list[str] = []
    at = 0
    while True:
        found = field.match(record, at)
        value = b"" if found is None else found.group()
        at += len(value)
        quote = None if dialect.quote is None else dialect.quote.encode()
        if quote is not None and value[:1] == quote:
            value = value.rstrip(b" \t")[1:-1].replace(quote + quote, quote)
        if dialect.escape is not None:
            value = re.sub(re.escape(dialect.escape.encode()) + b"(.)", rb"\1", value, flags=re.DOTALL)
        texts.append(value.decode())
        if record[at : at + 1] != delimiter:
            return texts
        at += 1


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of a text, without their ends; `used` is where the last whole one ends, its end included."""

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    behind: npt.NDArray[np.int64]

    @property
    def used(self) -> int:
        return int(self.behind[-1]) if len(self.behind) else 0

    def first(self, count: int) -> _Lines:
        return _Lines(self.starts[:count], self.ends[:count], self.behind[:count])


def _lines(data: bytes, final: bool) -> _Lines:
    """Split at line feeds, carriage returns, and both together."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets == _NEWLINE)
    behind = ends + 1
    if b"\r" in data:
        returns = np.flatnonzero(octets == _RETURN)
        if not final:
            # It may be half of a line end.
            returns = returns[returns < len(data) - 1]
        paired = octets[np.minimum(returns + 1, len(data) - 1)] == _NEWLINE
        ends = ends - ((ends > 0) & (octets[ends - 1] == _RETURN))
        lone = returns[~paired]
        if len(lone):
            order = np.argsort(np.concatenate([ends, lone]), kind="stable")
            ends, behind = np.concatenate([ends, lone])[order], np.concatenate([behind, lone + 1])[order]
    starts = np.concatenate([np.zeros(1, np.int64), behind])
    if final and int(starts[-1]) < len(data):
        last = np.array([len(data)], np.int64)
        return _Lines(starts, np.concatenate([ends, last]), np.concatenate([behind, last]))
    return _Lines(starts[:-1], ends, behind)


def _nothing(data: bytes) -> CsvRecords:
    none = np.zeros(0, np.int64)
    return CsvRecords(data, none, none, none, (), 0)


def _marks(octets: npt.NDArray[np.uint8], lines: _Lines, dialect: CsvDialect) -> npt.NDArray[np.int64]:
    """The places that may change where a record ends: quotes, escape characters, the first `#` of comments."""
    found = np.zeros(0, np.int64)
    if dialect.quote is not None:
        found = np.flatnonzero(octets == ord(dialect.quote))
    if dialect.escape is not None:
        found = np.union1d(found, np.flatnonzero(octets == ord(dialect.escape)))
    if dialect.comments:
        found = np.union1d(found, _comments(octets, lines))
    return found


def _comments(octets: npt.NDArray[np.uint8], lines: _Lines) -> npt.NDArray[np.int64]:
    filled = lines.starts[lines.ends > lines.starts]
    return filled[octets[filled] == _HASH]


def _begins_comment(octets: npt.NDArray[np.uint8], lines: _Lines, dialect: CsvDialect) -> bool:
    return dialect.comments and len(_comments(octets, lines)) > 0


def _well_quoted(octets: npt.NDArray[np.uint8], quotes: npt.NDArray[np.int64], dialect: CsvDialect) -> bool:
    """Whether every other quote opens a value at its beginning and the next one closes it at its end (two together
    count as closing and opening): then a line end behind an even number of quotes ends a record."""
    borders = np.zeros(256, dtype=bool)
    borders[[_NEWLINE, _RETURN, ord(dialect.delimiter)]] = True
    opening, closing = quotes[0::2], quotes[1::2]
    before = (opening == 0) | borders[octets[opening - 1]]
    before[1:] |= opening[1:] - 1 == closing[: len(opening) - 1]
    behind = (closing == len(octets) - 1) | borders[octets[np.minimum(closing + 1, len(octets) - 1)]]
    behind[: len(opening) - 1] |= opening[1:] - 1 == closing[: len(opening) - 1]
    return bool(before.all() and behind.all())


def _checked(records: CsvRecords, most: int | None) -> CsvRecords:
    """Without blank lines, and without records over the limit."""
    widths = records.ends - records.starts
    if most is None or not len(widths) or int(widths.max()) <= most:
        return records if not len(widths) or widths.all() else records.part(widths > 0)
    long = np.flatnonzero(widths > most)
    rejected = tuple(records.malformed(i, too_long(most)) for i in long.tolist())
    kept = records.part((widths > 0) & (widths <= most))
    return CsvRecords(kept.data, kept.starts, kept.ends, kept.lines, rejected, kept.used)


@lru_cache(maxsize=64)
def _patterns(dialect: CsvDialect, columns: int) -> tuple[re.Pattern[bytes], ...]:
    """Of as much of a record as is one, of a whole record, and of one value. None of them goes back over what it has matched."""
    delimiter = re.escape(dialect.delimiter.encode())
    escape = b"" if dialect.escape is None else re.escape(dialect.escape.encode())
    escaped = escape and escape + b".|"
    plain = b"(?:" + escaped + b"[^\r\n" + delimiter + escape + b"]++)*+"
    field = plain
    if dialect.quote is not None:
        quote = re.escape(dialect.quote.encode())
        inside = b"(?:" + escaped + b"[^" + quote + escape + b"]++|" + quote + quote + b")*+"
        field = b"(?>" + quote + inside + quote + b"[ \t]*+|(?!" + quote + b")" + plain + b")"
    record = b"(?:" + field + delimiter + b"){0,%d}+(?:" % max(columns - 1, 0) + field + b")?+"
    whole = b"(?:" + field + delimiter + b"){%d}" % max(columns - 1, 0) + field
    return tuple(re.compile(pattern, re.DOTALL) for pattern in (record, whole, field))


@lru_cache(maxsize=64)
def _likeness(dialect: CsvDialect, columns: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """Of a line that is a record if its quotes mean nothing."""
    delimiter, literal = re.escape(dialect.delimiter.encode()), re.escape((dialect.null_literal or "").encode())
    text, mark = b"[^" + delimiter + b"]*+", b""
    if dialect.quote is not None:
        quote = re.escape(dialect.quote.encode())
        text, mark = b"(?:" + quote + b"[^" + quote + b"]*+" + quote + b"|" + text + b")", quote + b"?"
    values = [mark + b"(?:" + c + b"|" + literal + b")" + mark if c else text for c in columns]
    return re.compile(delimiter.join(values), re.DOTALL)


def _one_by_one(
    data: bytes,
    lines: _Lines,
    marks: npt.NDArray[np.int64],
    dialect: CsvDialect,
    columns: Sequence[bytes],
    final: bool,
    most: int | None,
    by_line: bool,
) -> CsvRecords:
    """Lines with a mark are matched one after another; the others are records as they are."""
    walk = _Walk(data, lines, dialect, columns, final, most, len(lines.starts) if by_line else 0)
    marked = np.unique(np.searchsorted(lines.behind, marks, side="right"))
    for line in marked[marked < len(lines.starts)].tolist():
        if line >= walk.at and not walk.stopped:
            walk.line(line)
    return walk.records()


class _Walk:
    """The lines with marks of one text, in order. `at` is the line at which the next record begins or after which; of the
    lines before `alone` each is read for itself."""

    def __init__(
        self,
        data: bytes,
        lines: _Lines,
        dialect: CsvDialect,
        columns: Sequence[bytes],
        final: bool,
        most: int | None,
        alone: int,
    ) -> None:
        self.at = 0
        self.stopped = False
        self._alone = alone
        self._data = data
        self._lines = lines
        self._dialect = dialect
        self._final = final
        self._most = most
        self._record, self._whole, _ = _patterns(dialect, len(columns))
        self._columns = tuple(columns)
        self._borders = (b"\n", b"\r", b"")
        self._joined = np.zeros(len(lines.starts), dtype=bool)
        """Lines that belong to the record of the line before."""
        self._dropped = np.zeros(len(lines.starts), dtype=bool)
        self._used = len(lines.starts)
        self._rejected: list[MalformedRecord] = []

    def line(self, line: int) -> None:
        """A record begins with this line."""
        lines, start, end = self._lines, int(self._lines.starts[line]), int(self._lines.ends[line])
        if self._dialect.comments and self._data[start : start + 1] == b"#":
            self._dropped[line] = True
            self.at = line + 1
            return
        alone = line < self._alone
        far = end if alone else len(self._data)
        if self._most is not None:
            far = min(far, max(end, start + self._most + 1))
        too_far = ""
        if self._dialect.line_breaks == "auto" and line + MOST_LINES < len(lines.ends):
            near = int(lines.ends[line + MOST_LINES])
            far, too_far = (near, _UNCLOSED_LONG) if near < far else (far, too_far)
        found = self._record.match(self._data, start, far)
        reached = start if found is None else found.end()
        rest = self._data[reached : reached + 1]
        if reached == end:
            self.at = line + 1
        elif reached > end and (rest in self._borders if reached == len(self._data) else rest in self._borders[:2]):
            last = int(np.searchsorted(lines.ends, reached))
            if last >= len(lines.starts):
                self._stop(line)  # Its last line has no end yet.
                return
            if self._whole.fullmatch(self._data, start, reached) is None:
                # Maybe the quote was meant to be closed earlier.
                self._spoil(line, _NOT_WHOLE, reached)
                return
            if self._dialect.line_breaks == "auto" and last - line >= MOST_LINES:
                self._spoil(line, _LONG, reached)
                return
            if self._dialect.line_breaks == "auto" and self._of_records(line, last):
                self._spoil(line, _OF_RECORDS, reached)
                return
            self._joined[line + 1 : last + 1] = True
            self.at = last + 1
        elif rest and rest == (self._dialect.quote or "").encode():
            if not alone and not self._final and far == len(self._data):
                self._stop(line)
                return
            over = too_far or too_long(self._most or 0)
            self._spoil(line, _UNCLOSED if far in (end, len(self._data)) else over, far)
        elif rest == self._dialect.delimiter.encode():
            if reached < end:
                self.at = line + 1  # Too many values: told where they are counted.
            else:
                self._spoil(line, _NOT_WHOLE, reached)
        elif rest and rest == (self._dialect.escape or "").encode():
            self._spoil(line, _NOTHING_BEHIND, reached)
        else:
            self._spoil(line, _TEXT_BEHIND, reached)

    def _of_records(self, line: int, last: int) -> bool:
        """Whether the lines of a record look like records, each for itself: as many values, of the right kind.

        One line in ten may be otherwise. Each line has a sign for each delimiter and for each value that is no text, so
        that a text of two lines with a comma in each is no row of two texts.
        """
        signs = len(self._columns) - 1 + sum(1 for pattern in self._columns if pattern)
        count = last - line + 1
        if signs * (count - 1) < _LEAST_SIGNS:
            return False
        alike = _likeness(self._dialect, self._columns)
        others = count // 10
        for at in range(line, last + 1):
            if alike.fullmatch(self._data, int(self._lines.starts[at]), int(self._lines.ends[at])) is None:
                others -= 1
                if others < 0:
                    return False
        return True

    def _stop(self, line: int) -> None:
        """Nobody can tell yet where the record of this line ends."""
        self.stopped = True
        self._used = line

    def _spoil(self, line: int, reason: str, reached: int) -> None:
        raw = self._data[int(self._lines.starts[line]) : int(self._lines.ends[line])]
        self._rejected.append(MalformedRecord(reason, shown_bytes(raw), line))
        self._dropped[line] = True
        self.at = line + 1
        self._alone = max(self._alone, int(np.searchsorted(self._lines.behind, reached, side="right")))

    def records(self) -> CsvRecords:
        lines = self._lines.first(self._used)
        joined, dropped = self._joined[: self._used], self._dropped[: self._used]
        begins = np.flatnonzero(~joined & ~dropped)
        lasts = np.append(~joined[1:], True)[: self._used] & ~dropped
        found = CsvRecords(self._data, lines.starts[begins], lines.ends[lasts], begins, (), lines.used)
        checked = _checked(found, self._most)
        rejected = sorted([*self._rejected, *checked.rejected], key=lambda r: r.line)
        return CsvRecords(self._data, checked.starts, checked.ends, checked.lines, tuple(rejected), checked.used)
