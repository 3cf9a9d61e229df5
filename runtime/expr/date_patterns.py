"""Java's patterns for dates and times: reading a pattern, and writing columns of times with it.

A pattern is read once into pieces. Written are digits of fixed width, all rows at once as one matrix of bytes; names
and numbers of varying width are joined in as columns. Two dialects differ: DateTimeFormatter (DATE_FORMAT of a
TIMESTAMP, TO_TIMESTAMP) and SimpleDateFormat (DATE_FORMAT of a text, FROM_UNIXTIME, UNIX_TIMESTAMP, TO_DATE). Names and
weeks are those of the US: a week starts on Sunday, the first is that of 1 January.
"""

from __future__ import annotations

import datetime as dt
import enum
import functools
import zoneinfo
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError
from runtime.expr.columns import from_numpy
from runtime.expr.distinct import map_distinct
from runtime.expr.zones import instant_to_local

__all__ = ["MONTHS", "WEEKDAYS", "Dialect", "Piece", "format_times", "read_pattern"]

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


class Dialect(enum.Enum):
    """Whose pattern it is, with the letters that it knows."""

    FORMATTER = "GuyDMLdQqYwWEecFaHkKhmsSAnNVzOXxZ"
    SIMPLE = "GyYMLwWDdFEuaHkKhmsSzZX"


@dataclass(frozen=True, slots=True)
class Piece:
    """A letter and how often it stands there, or, without a letter, a plain text. `optional` is how deep in
    brackets."""

    letter: str
    count: int
    text: str = ""
    optional: int = 0


@functools.lru_cache(maxsize=512)
def read_pattern(pattern: str, dialect: Dialect) -> tuple[Piece, ...]:
    """The pieces of a pattern. Raises ExpressionError (E2002) for letters that the dialect does not have."""
    pieces: list[Piece] = []
    position = depth = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "'":
            text, position = _quoted(pattern, position + 1)
            pieces.append(Piece("", 0, text, depth))
        elif char.isascii() and char.isalpha():
            if char not in dialect.value:
                raise ExpressionError(
                    f"the pattern '{pattern}' has an unknown letter {char}",
                    code="E2002",
                    hint="quote plain text: 'yyyy-MM-dd''T''HH:mm'",
                )
            end = position
            while end < len(pattern) and pattern[end] == char:
                end += 1
            pieces.append(Piece(char, end - position, "", depth))
            position = end
        else:
            brackets = dialect is Dialect.FORMATTER and char in "[]"
            depth += (1 if char == "[" else -1) if brackets else 0
            if not brackets:
                pieces.append(Piece("", 0, char, depth))
            position += 1
    return tuple(pieces)


def _quoted(pattern: str, position: int) -> tuple[str, int]:
    """The text up to the closing quote; two quotes are one."""
    if pattern[position : position + 1] == "'":
        return "'", position + 1
    parts: list[str] = []
    while True:
        end = pattern.find("'", position)
        if end < 0:
            raise ExpressionError(f"the pattern {pattern} has an open quote", code="E2002")
        parts.append(pattern[position:end])
        if pattern[end + 1 : end + 2] != "'":
            return "".join(parts), end + 1
        parts.append("'")
        position = end + 2


class _Moments:
    """The parts of local times, computed when first asked for. `values` are units since the local epoch."""

    def __init__(self, values: Any, unit: str, instants: Any, zone: str) -> None:
        per_second = 10**6 if unit == "us" else 10**9
        self.per_second = per_second
        self.days, rest = np.divmod(values, 86_400 * per_second)
        self.seconds, self.fraction = np.divmod(rest, per_second)
        self.values, self.instants, self.zone = values, instants, zone

    @functools.cached_property
    def dates(self) -> Any:
        return self.days.astype("datetime64[D]")

    @functools.cached_property
    def months(self) -> Any:
        """Months since 1970-01."""
        return self.dates.astype("datetime64[M]")

    @functools.cached_property
    def year(self) -> Any:
        return self.dates.astype("datetime64[Y]").astype(np.int64) + 1970

    @property
    def month(self) -> Any:
        return self.months.astype(np.int64) % 12 + 1

    @property
    def day(self) -> Any:
        return (self.dates - self.months.astype("datetime64[D]")).astype(np.int64) + 1

    @property
    def day_of_year(self) -> Any:
        return (self.dates - self.dates.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.int64) + 1

    @property
    def weekday(self) -> Any:
        """0 is Sunday."""
        return (self.days + 4) % 7

    @functools.cached_property
    def _saturday(self) -> Any:
        return (self.days + 6 - self.weekday).astype("datetime64[D]")

    @property
    def week_year(self) -> Any:
        return self._saturday.astype("datetime64[Y]").astype(np.int64) + 1970

    @property
    def week(self) -> Any:
        start = self._saturday.astype("datetime64[Y]").astype("datetime64[D]")
        return (self._saturday - start).astype(np.int64) // 7 + 1

    @property
    def week_of_month(self) -> Any:
        first = (self.weekday - (self.day - 1)) % 7
        return (self.day - 1 + first) // 7 + 1

    @property
    def hour(self) -> Any:
        return self.seconds // 3600

    @property
    def offset(self) -> Any:
        """Seconds that the zone is ahead of UTC."""
        return (self.values - self.instants) // self.per_second


def format_times(
    values: Any, unit: str, pattern: str, dialect: Dialect, zone: str = "UTC", *, instants: bool = False
) -> pa.Array:
    """Times as texts. `values` are units since the epoch: local times, or with `instants` points in time seen in
    `zone`.

    Letters of zones are an error for local times of DateTimeFormatter, as in Java.
    """
    local = instant_to_local(values, zone, unit) if instants else values
    few = coded_times(local, unit, pattern, dialect)
    if few is not None:
        return few.dictionary.take(few.indices)
    quick = _from_iso(local, unit, read_pattern(pattern, dialect), dialect)
    if quick is not None:
        return quick
    moments = _Moments(local, unit, values, zone)
    columns: list[pa.Array | str] = []
    fixed: list[Any] = []
    for piece in read_pattern(pattern, dialect):
        written = _write(piece, moments, dialect, instants, pattern)
        if isinstance(written, pa.Array):
            columns += [*_flushed(fixed), written]
            fixed = []
        else:
            fixed.append(written)
    columns += _flushed(fixed)
    if not columns:
        return pa.repeat(pa.scalar(""), len(values))
    return columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, "")


_DAYS, _HOURS, _MINUTES, _SECONDS = "GuyYMLQqwWdDFEec", "aHhKk", "m", "s"


def coded_times(local: Any, unit: str, pattern: str, dialect: Dialect) -> pa.DictionaryArray | None:
    """Local times as texts, coded: where many look the same (a column of days, of minutes), each look is written once.
    None where they do not."""
    letters = "".join(p.letter for p in read_pattern(pattern, dialect))
    step = 0
    for group, seconds in ((_SECONDS, 1), (_MINUTES, 60), (_HOURS, 3600), (_DAYS, 86_400)):
        if step == 0 and any(c in group for c in letters):
            step = seconds * {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}[unit]
    if not step or len(local) < _FEW or any(c not in _DAYS + _HOURS + _MINUTES + _SECONDS for c in letters):
        return None
    few = min(_FEW, len(local) // 4)
    first, last = int(local.min()) // step, int(local.max()) // step
    if last - first < few:
        # Rows of a stream are near each other in time: their looks are numbered without looking any up.
        codes = pa.array(((local - first * step) // step).astype(np.int32))
        distinct = np.arange(first, last + 1) * step
    else:
        looks = pa.array(local - local % step).dictionary_encode()
        codes, distinct = looks.indices, looks.dictionary.to_numpy()
        if len(distinct) >= few:
            return None
    return pa.DictionaryArray.from_arrays(codes, format_times(distinct, unit, pattern, dialect))


_FEW = 4096
_ISO = "0000-00-00 00:00:00.000000"
_ISO_PLACES = {("y", 4): 0, ("u", 4): 0, ("M", 2): 5, ("d", 2): 8, ("H", 2): 11, ("m", 2): 14, ("s", 2): 17}


def _from_iso(local: Any, unit: str, pieces: tuple[Piece, ...], dialect: Dialect) -> pa.Array | None:
    """Times by moving bytes of `yyyy-MM-dd HH:mm:ss.SSSSSS`, which Arrow writes fastest; None for patterns of other
    fields."""
    runs: list[tuple[int, str]] = []
    for piece in pieces:
        if not piece.letter:
            runs.append((-1, piece.text))
        elif piece.letter == "S" and (piece.count == 3 or (piece.count < 6 and dialect is Dialect.FORMATTER)):
            runs.append((20, _ISO[20 : 20 + piece.count]))
        elif (piece.letter, piece.count) in _ISO_PLACES and not (piece.letter == "u" and dialect is Dialect.SIMPLE):
            place = _ISO_PLACES[piece.letter, piece.count]
            runs.append((place, _ISO[place : place + piece.count]))
        else:
            return None
    if unit != "us" or not runs or not "".join(t for _, t in runs).isascii():
        return None
    texts = pc.cast(pa.array(local, pa.int64()).cast(pa.timestamp("us")), pa.string())
    data = texts.buffers()[2]
    if data is None or data.size < 26 * len(local) or pc.max(pc.binary_length(texts)).as_py() != 26:
        return None
    source = np.frombuffer(data, np.uint8)[: 26 * len(local)].reshape(-1, 26)
    matrix = np.empty((len(local), sum(len(t) for _, t in runs)), np.uint8)
    column = 0
    for place, text in _merged(runs):
        end = column + len(text)
        matrix[:, column:end] = (
            np.frombuffer(text.encode(), np.uint8) if place < 0 else source[:, place : place + len(text)]
        )
        column = end
    return _flushed([matrix])[0]


def _merged(runs: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Neighbours that also stand beside each other in the source, as one."""
    merged = [runs[0]]
    for place, text in runs[1:]:
        last, before = merged[-1]
        behind = last + len(before)
        if last >= 0 and (place == behind or (place < 0 and _ISO[behind : behind + len(text)] == text)):
            merged[-1] = (last, before + text)
        else:
            merged.append((place, text))
    return merged


def _flushed(fixed: list[Any]) -> list[pa.Array]:
    """Matrices of bytes beside each other as one column of texts."""
    if not fixed:
        return []
    matrix = np.concatenate(fixed, axis=1) if len(fixed) > 1 else np.ascontiguousarray(fixed[0])
    rows, width = matrix.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * width
    return [pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(matrix)))]


def _digits(values: Any, width: int) -> Any:
    """Numbers of at most `width` digits as a matrix of bytes; as a column of texts where one has more."""
    if len(values) and (int(values.max()) >= 10**width or int(values.min()) < 0):
        sign = pc.if_else(pa.array(values < 0), "-", "")
        return pc.binary_join_element_wise(
            sign, pc.utf8_lpad(pc.cast(pa.array(np.abs(values)), pa.string()), width, "0"), ""
        )
    matrix = np.empty((len(values), width), np.uint8)
    rest = values.astype(np.int64)
    for column in range(width - 1, -1, -1):
        rest, digit = np.divmod(rest, 10)
        matrix[:, column] = digit + 48
    return matrix


def _number(values: Any, count: int) -> Any:
    return pc.cast(pa.array(values), pa.string()) if count == 1 else _digits(values, count)


def _name(names: tuple[str, ...], places: Any, count: int) -> Any:
    """Names by number: of three letters as bytes, else whole (from four letters on), or the first letter (five)."""
    if count <= 3:
        table = np.array([list(n[:3].encode()) for n in names], np.uint8)
        return table[places]
    shown = [n[0] for n in names] if count == 5 else names
    return pa.array(shown).take(pa.array(places))


def _write(piece: Piece, at: _Moments, dialect: Dialect, zoned: bool, pattern: str) -> Any:
    letter, count = piece.letter, piece.count
    simple = dialect is Dialect.SIMPLE
    match letter:
        case "":
            return np.broadcast_to(
                np.frombuffer(piece.text.encode(), np.uint8), (len(at.values), len(piece.text.encode()))
            )
        case "y" | "Y" | "u" if not (simple and letter == "u"):
            years = at.week_year if letter == "Y" else at.year
            return _digits(years % 100, 2) if count == 2 else _number(years, count)
        case "u":
            return _number((at.weekday - 1) % 7 + 1, count)
        case "M" | "L":
            return (
                _number(at.month, count)
                if count <= 2
                else _name(MONTHS, at.month - 1, 4 if simple and count > 4 else count)
            )
        case "E":
            return _name(WEEKDAYS, at.weekday, 4 if simple and count > 4 else count)
        case "e" | "c":
            return _number(at.weekday + 1, count) if count <= 2 else _name(WEEKDAYS, at.weekday, count)
        case "a":
            return np.array([list(b"AM"), list(b"PM")], np.uint8)[(at.hour >= 12).astype(np.int64)]
        case "G":
            return pa.repeat(pa.scalar("Anno Domini" if count == 4 and not simple else "AD"), len(at.values))
        case "Q" | "q":
            quarter = (at.month - 1) // 3
            if count <= 2:
                return _number(quarter + 1, count)
            names = (
                ("Q1", "Q2", "Q3", "Q4") if count == 3 else ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
            )
            return pa.array(names).take(pa.array(quarter))
        case "S" if not simple:
            digits = 6 if at.per_second == 10**6 else 9
            scaled = at.fraction // 10 ** (digits - count) if count <= digits else at.fraction * 10 ** (count - digits)
            return _digits(scaled, count)
        case "S":
            return _number(at.fraction // (at.per_second // 1000), count)
        case "z" | "Z" | "X" | "x" | "V" | "O":
            if not zoned:
                raise ExpressionError(
                    f"the pattern '{pattern}' asks for a zone, which a time without one does not have", code="E2002"
                )
            return _zone(letter, count, at)
        case _:
            return _number(_plain_field(letter, at), count)


def _plain_field(letter: str, at: _Moments) -> Any:
    match letter:
        case "d":
            return at.day
        case "D":
            return at.day_of_year
        case "F":
            return (at.day - 1) // 7 + 1
        case "w":
            return at.week
        case "W":
            return at.week_of_month
        case "H":
            return at.hour
        case "k":
            return (at.hour - 1) % 24 + 1
        case "K":
            return at.hour % 12
        case "h":
            return (at.hour - 1) % 12 + 1
        case "m":
            return at.seconds // 60 % 60
        case "s":
            return at.seconds % 60
        case "A":
            return at.seconds * 1000 + at.fraction // (at.per_second // 1000)
        case "n":
            return at.fraction * (10**9 // at.per_second)
        case _:
            return at.seconds * 10**9 + at.fraction * (10**9 // at.per_second)


def _zone(letter: str, count: int, at: _Moments) -> pa.Array:
    if letter in "zV":
        seconds = from_numpy(np.floor_divide(at.instants, at.per_second), None, pa.int64())
        zone = zoneinfo.ZoneInfo(at.zone) if at.zone[0] not in "+-" else dt.timezone(_offset_of(at.zone))
        return map_distinct(
            lambda s: dt.datetime.fromtimestamp(s, zone).tzname() or at.zone, [seconds], pa.string(), len(at.values)
        )
    offset = at.offset
    sign = pc.if_else(pa.array(offset < 0), "-", "+")
    hours, minutes = np.divmod(np.abs(offset) // 60, 60)
    between = ":" if letter in "Xx" and count == 3 else ""
    parts = [sign, _flushed([_digits(hours, 2)])[0]]
    if not (letter in "Xx" and count == 1 and not minutes.any()):
        parts += [pa.repeat(pa.scalar(between), len(offset)), _flushed([_digits(minutes, 2)])[0]]
    texts = pc.binary_join_element_wise(*parts, "")
    return pc.if_else(pa.array(offset == 0), "Z", texts) if letter == "X" else texts


def _offset_of(zone: str) -> dt.timedelta:
    hours, _, minutes = zone[1:].partition(":")
    length = dt.timedelta(hours=int(hours), minutes=int(minutes or 0))
    return -length if zone[0] == "-" else length
