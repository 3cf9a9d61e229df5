"""Fields, rounding and patterns of times against Python's datetime over random moments, and Flink's peculiar
answers."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import zoneinfo

import pytest
from calls import NOW, column, evaluate, value

from runtime.core.errors import ExpressionError
from runtime.core.types import BIGINT, DATE, TIME, timestamp, timestamp_ltz
from runtime.expr.nodes import Literal

RANDOM = random.Random(11)
EPOCH = dt.datetime(1970, 1, 1)
MOMENTS = [EPOCH + dt.timedelta(milliseconds=RANDOM.randrange(1 << 42)) for _ in range(400)]
MOMENTS += [
    dt.datetime(2024, 2, 29),
    dt.datetime(2020, 12, 31, 23, 59, 59),
    dt.datetime(2024, 12, 30),
    dt.datetime(2021, 1, 3),
    EPOCH,
]
TIMES = column(*MOMENTS, type_=timestamp(3))
DATES = column(*(m.date() for m in MOMENTS), type_=DATE)
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")

FIELDS = {
    "YEAR": lambda m: m.year,
    "QUARTER": lambda m: (m.month + 2) // 3,
    "MONTH": lambda m: m.month,
    "DAY": lambda m: m.day,
    "WEEK": lambda m: m.isocalendar()[1],
    "ISOYEAR": lambda m: m.isocalendar()[0],
    "DOY": lambda m: m.timetuple().tm_yday,
    "DOW": lambda m: m.isoweekday() % 7 + 1,
    "ISODOW": lambda m: m.isoweekday(),
    "HOUR": lambda m: m.hour,
    "MINUTE": lambda m: m.minute,
    "SECOND": lambda m: m.second,
    "MILLISECOND": lambda m: m.microsecond // 1000,
    "EPOCH": lambda m: (m - EPOCH) // dt.timedelta(seconds=1),
    "CENTURY": lambda m: (m.year + 99) // 100,
    "DECADE": lambda m: m.year // 10,
}


@pytest.mark.parametrize("unit", FIELDS)
def test_extract(unit: str) -> None:
    assert evaluate("EXTRACT", unit, TIMES) == [FIELDS[unit](m) for m in MOMENTS]


def test_fields_of_local_time() -> None:
    instants = [m.replace(tzinfo=dt.UTC) for m in MOMENTS]
    got = evaluate("HOUR", column(*instants, type_=timestamp_ltz(3)), zone="Europe/Berlin")
    assert got == [m.astimezone(BERLIN).hour for m in instants]


EARLY = [
    dt.datetime(1969, 7, 20, 20, 17, 40),
    dt.datetime(1, 1, 1),
    *(dt.datetime(1, 1, 2) + dt.timedelta(milliseconds=RANDOM.randrange(9998 * 31_556_952_000)) for _ in range(300)),
]


@pytest.mark.parametrize("unit", FIELDS)
def test_fields_at_any_time(unit: str) -> None:
    assert evaluate("EXTRACT", unit, column(*EARLY, type_=timestamp(3))) == [FIELDS[unit](m) for m in EARLY]
    if unit == "EPOCH":
        return
    # Before 1900 many zones were off by seconds, too.
    for zone in ("America/New_York", "Asia/Kolkata", "Europe/Amsterdam"):
        known = zoneinfo.ZoneInfo(zone)
        instants = [m.replace(tzinfo=dt.UTC) for m in EARLY[2:]]
        local = [m.astimezone(known) for m in instants]
        assert evaluate("EXTRACT", unit, column(*instants, type_=timestamp_ltz(3)), zone=zone) == [
            FIELDS[unit](m) for m in local
        ]


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("YEAR", "YEAR"),
        ("QUARTER", "QUARTER"),
        ("MONTH", "MONTH"),
        ("WEEK", "WEEK"),
        ("DAYOFYEAR", "DOY"),
        ("DAYOFMONTH", "DAY"),
        ("DAYOFWEEK", "DOW"),
        ("HOUR", "HOUR"),
        ("MINUTE", "MINUTE"),
        ("SECOND", "SECOND"),
    ],
)
def test_functions_of_fields(name: str, unit: str) -> None:
    assert evaluate(name, column(*EARLY, type_=timestamp(3))) == [FIELDS[unit](m) for m in EARLY]


def test_the_small_fields_before_1970_count_forward() -> None:
    moment = column(dt.datetime(1969, 12, 31, 23, 59, 59, 250_000), type_=timestamp(3))
    fields = [evaluate("EXTRACT", u, moment)[0] for u in ("MILLISECOND", "MICROSECOND", "NANOSECOND", "EPOCH")]
    assert fields == [250, 250_000, 250_000_000, -1]


def _floor(moment: dt.datetime, unit: str) -> dt.datetime:
    day = dt.datetime(moment.year, moment.month, moment.day)
    match unit:
        case "YEAR":
            return day.replace(month=1, day=1)
        case "QUARTER":
            return day.replace(month=(moment.month - 1) // 3 * 3 + 1, day=1)
        case "MONTH":
            return day.replace(day=1)
        case "WEEK":
            return day - dt.timedelta(days=day.isoweekday() % 7)
        case "DAY":
            return day
        case "HOUR":
            return moment.replace(minute=0, second=0, microsecond=0)
        case _:
            return moment.replace(second=0, microsecond=0)


@pytest.mark.parametrize("unit", ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE"])
def test_floor_and_ceil(unit: str) -> None:
    floors = evaluate("FLOOR", TIMES, unit)
    assert floors == [_floor(m, unit) for m in MOMENTS]
    # What is on the boundary stays; anything else becomes the next boundary.
    assert evaluate("CEIL", column(*floors, type_=timestamp(3)), unit) == floors
    ceils = evaluate("CEIL", TIMES, unit)
    assert evaluate("FLOOR", column(*ceils, type_=timestamp(3)), unit) == ceils
    assert all(f == m == c or f < m < c for f, m, c in zip(floors, MOMENTS, ceils, strict=True))


@pytest.mark.parametrize("unit", ["DECADE", "CENTURY", "MILLENNIUM"])
def test_floor_and_ceil_to_many_years(unit: str) -> None:
    first = {"DECADE": (2020, 2030), "CENTURY": (2001, 2101), "MILLENNIUM": (2001, 3001)}[unit]
    low, high = (dt.datetime(y, 1, 1) for y in first)
    moments = column(low, low + dt.timedelta(milliseconds=1), high - dt.timedelta(milliseconds=1), type_=timestamp(3))
    assert evaluate("FLOOR", moments, unit) == [low] * 3
    assert evaluate("CEIL", moments, unit) == [low, high, high]


def test_ceil_to_a_long_unit_sees_the_time_of_day() -> None:
    at_ten = column(dt.datetime(2024, 5, 1, 10), type_=timestamp(3))
    assert evaluate("CEIL", at_ten, "MONTH") == [dt.datetime(2024, 6, 1)]
    assert evaluate("CEIL", at_ten, "DAY") == [dt.datetime(2024, 5, 2)]


def test_months_between_times_are_the_same_both_ways() -> None:
    pairs = [(RANDOM.choice(EARLY), RANDOM.choice(EARLY)) for _ in range(200)]
    near = [dt.datetime(2024, 1, 15, 10), dt.datetime(2024, 2, 15, 9), dt.datetime(2024, 2, 15, 10)]
    pairs += list(itertools.product(near, repeat=2))
    starts, ends = (column(*m, type_=timestamp(3)) for m in zip(*pairs, strict=True))
    forth, back = evaluate("TIMESTAMPDIFF", "MONTH", starts, ends), evaluate("TIMESTAMPDIFF", "MONTH", ends, starts)
    assert forth == [-m for m in back]
    assert forth[-9:] == [0, 0, 1, 0, 0, 0, -1, 0, 0]


PATTERNS = {
    "yyyy-MM-dd HH:mm:ss.SSS": lambda m: m.strftime("%Y-%m-%d %H:%M:%S.") + f"{m.microsecond // 1000:03}",
    "yyyyMMdd": lambda m: m.strftime("%Y%m%d"),
    "HH:mm": lambda m: m.strftime("%H:%M"),
    "EEE, d MMM yy": lambda m: f"{m.strftime('%a')}, {m.day} {m.strftime('%b %y')}",
    "EEEE MMMM DDD h a": lambda m: f"{m.strftime('%A %B %j')} {(m.hour - 1) % 12 + 1} {m.strftime('%p')}",
    "''yyyy'T'k": lambda m: f"'{m.year}T{(m.hour - 1) % 24 + 1}",
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_date_format(pattern: str) -> None:
    assert evaluate("DATE_FORMAT", TIMES, pattern) == [PATTERNS[pattern](m) for m in MOMENTS]


@pytest.mark.parametrize(
    "pattern", ["yyyy-MM-dd HH:mm:ss.SSS", "dd/MM/yyyy H:m:s.SSS", "d MMM yyyy hh:mm:ss.SSS a", "yyyyMMddHHmmssSSS"]
)
def test_what_is_written_can_be_read(pattern: str) -> None:
    texts = evaluate("DATE_FORMAT", TIMES, pattern)
    assert evaluate("TO_TIMESTAMP", column(*texts), pattern) == MOMENTS
    assert evaluate("UNIX_TIMESTAMP", column(*texts), pattern) == [int((m - EPOCH).total_seconds()) for m in MOMENTS]


def test_an_unknown_letter_is_an_error() -> None:
    with pytest.raises(ExpressionError, match="letter"):
        evaluate("DATE_FORMAT", TIMES, "yyyy-jj")


def test_weeks_of_the_us() -> None:
    assert evaluate("DATE_FORMAT", column(dt.datetime(2024, 12, 30), type_=timestamp(3)), "YYYY-ww-e") == ["2025-01-2"]


def test_what_is_no_date_cannot_be_read() -> None:
    for text in ("2024-02-30", "2023-02-29", "2024-13-01", "2024-00-10", "2024-04-31", "0000-01-01"):
        assert value("TO_DATE", text) is None
        assert value("TO_DATE", text, "yyyy-MM-dd") is None
        assert value("TO_TIMESTAMP", f"{text} 00:00:00") is None
        assert value("TO_TIMESTAMP", f"{text} 00:00:00", "yyyy-MM-dd HH:mm:ss") is None
        assert value("UNIX_TIMESTAMP", f"{text} 00:00:00") == -(1 << 63)
    assert value("TO_DATE", "2023-366", "yyyy-DDD") is None
    assert value("TO_DATE", "2024-366", "yyyy-DDD") == dt.date(2024, 12, 31)
    assert value("DATE_FORMAT", "2024-01-01 25:00:00", "HH") is None


def test_reading() -> None:
    assert value("TO_TIMESTAMP", "1999-9-10", "yyyy-MM-dd HH:mm:ss") == dt.datetime(1999, 9, 10)
    assert value("UNIX_TIMESTAMP", "1970-01-02 00:00:00 and more") == 86400
    assert value("UNIX_TIMESTAMP", "bad") == -(1 << 63)
    assert value("UNIX_TIMESTAMP", "1970-01-01 02:00 +0200", "yyyy-MM-dd HH:mm Z", zone="Asia/Tokyo") == 0
    assert value("TO_DATE", "24", "yy") == dt.date(2024, 1, 1)
    assert value("TO_DATE", "99", "yy") == dt.date(1999, 1, 1)


def test_changes_of_clocks() -> None:
    # In the gap of spring, and in the hour that happens twice: the later one, as java.util.Calendar has it.
    assert value("UNIX_TIMESTAMP", "2024-03-31 02:30:00", zone="Europe/Berlin") == 1711848600
    assert value("CONVERT_TZ", "2024-10-27 02:30:00", "Europe/Berlin", "UTC") == "2024-10-27 01:30:00"
    assert value("CONVERT_TZ", "2024-01-01 00:00:00", "UTC", "No/Where") == "2024-01-01 00:00:00"


def _added(day: dt.date, months: int) -> dt.date:
    month = day.year * 12 + day.month - 1 + months
    for last in (day.day, 30, 29, 28):
        try:
            return dt.date(month // 12, month % 12 + 1, min(day.day, last))
        except ValueError:
            continue
    raise AssertionError


def test_months_between_dates() -> None:
    pairs = [(RANDOM.choice(MOMENTS).date(), RANDOM.choice(MOMENTS).date()) for _ in range(300)]
    starts, ends = (column(*days, type_=DATE) for days in zip(*pairs, strict=True))
    for (start, end), months in zip(pairs, evaluate("TIMESTAMPDIFF", "MONTH", starts, ends), strict=True):
        low, high, count = (start, end, months) if start <= end else (end, start, -months)
        assert _added(low, count) <= high < _added(low, count + 1)


def test_timestampdiff_truncates() -> None:
    start, end = (
        column(dt.datetime(2024, 1, 1, 10), type_=timestamp(3)),
        column(dt.datetime(2024, 1, 1, 8, 30), type_=timestamp(3)),
    )
    assert evaluate("TIMESTAMPDIFF", "HOUR", start, end) == [-1]
    assert evaluate("TIMESTAMPDIFF", "MINUTE", end, start) == [90]


def test_timestampadd_types() -> None:
    day = column(dt.date(2024, 1, 31), type_=DATE)
    assert evaluate("TIMESTAMPADD", "MONTH", 1, day) == [dt.date(2024, 2, 29)]
    assert evaluate("TIMESTAMPADD", "HOUR", 25, day) == [dt.datetime(2024, 2, 1, 1)]
    assert evaluate("TIMESTAMPADD", "SECOND", 90, column(dt.time(23, 59), type_=TIME)) == [dt.time(0, 0, 30)]
    assert evaluate(
        "TIMESTAMPADD", "DAY", column(1, None), column(dt.date(2024, 1, 1), dt.date(2024, 1, 1), type_=DATE)
    ) == [dt.date(2024, 1, 2), None]


def test_epochs_of_any_unit() -> None:
    def ltz(number: int, precision: int) -> dt.datetime | None:
        found = value("TO_TIMESTAMP_LTZ", Literal(number, BIGINT.not_null()), precision)
        return None if found is None else found.replace(tzinfo=None)

    assert ltz(-1, 0) == dt.datetime(1969, 12, 31, 23, 59, 59)
    assert ltz(15, 1) == EPOCH + dt.timedelta(seconds=1.5)
    assert ltz(1_234_567_890_123_456, 6) == EPOCH + dt.timedelta(microseconds=1_234_567_890_123_456)
    assert ltz(253_402_300_800, 0) is None


def test_the_clock_is_that_of_the_epoch() -> None:
    assert value("CURRENT_DATE", zone="Asia/Tokyo") == dt.date(2023, 11, 15)
    assert value("LOCALTIMESTAMP") == EPOCH + dt.timedelta(milliseconds=NOW)
    assert value("UNIX_TIMESTAMP") == NOW // 1000
    rows = column(EPOCH, EPOCH, type_=timestamp(3))
    assert evaluate("CURRENT_WATERMARK", rows) == [None, None]
    assert evaluate("CURRENT_WATERMARK", rows, watermark=5) == [EPOCH + dt.timedelta(milliseconds=5)] * 2
