"""Scalar functions from one kind to another, in both tongues: times, texts, decimals at their edges, nested values."""

from __future__ import annotations

from collections.abc import Callable

from tests.oracle import large_decimals
from tests.oracle.generate_choices import Choices
from tests.oracle.generate_text import LARGE, Kind, Text, text

__all__ = ["FUNCTIONS", "Function"]

Make = Callable[..., Text]
Function = tuple[tuple[Kind, ...], Make]
"""The kinds of the arguments, and what makes the call of them."""


def _call(ours: str, duck: str | None = None) -> Make:
    """A pattern for each tongue, filled with the arguments in order."""

    def make(choose: Choices, *arguments: Text) -> Text:
        of = ours.format(*(a.ours for a in arguments))
        return Text(of, (ours if duck is None else duck).format(*(a.duck for a in arguments)))

    return make


def _units(ours: str, duck: str, units: tuple[str, ...]) -> Make:
    """The same with a unit of time in the place of `UNIT`."""

    def make(choose: Choices, *arguments: Text) -> Text:
        unit = choose.pick(units)
        return _call(ours.replace("UNIT", unit), duck.replace("UNIT", unit))(choose, *arguments)

    return make


_DATE_PARTS = ("DAY", "MONTH", "YEAR", "QUARTER", "WEEK", "DOY")
_TIME_PARTS = ("HOUR", "MINUTE", "SECOND")
_TRUNC = "date_trunc('UNIT', {0})"
_CEIL = f"CASE WHEN {_TRUNC} = {{0}} THEN {{0}} ELSE {_TRUNC} + INTERVAL 1 UNIT END"
_FLOORS = ("HOUR", "MINUTE", "SECOND", "DAY", "MONTH", "YEAR")
_TEXTS = (Kind.STRING, Kind.VARCHAR)


def _minutes(choose: Choices, value: Text) -> Text:
    sign = choose.pick(("+", "-"))
    return text(f"({{}} {sign} INTERVAL '{choose.pick((30, 1))}' MINUTE)", value)


FUNCTIONS: dict[Kind, tuple[Function, ...]] = {
    Kind.INT: (
        *(((k,), _call("CHAR_LENGTH({})", "length({})")) for k in (*_TEXTS, Kind.CHAR)),
        ((Kind.INTS,), _call("CARDINALITY({})", "len({})")),
        ((Kind.STRINGS,), _call("CARDINALITY({})", "len({})")),
        ((Kind.MAP,), _call("CARDINALITY({})", "cardinality({})")),
        ((Kind.INTS,), _call("({})[1]")),
        ((Kind.MAP,), _call("({})['a']")),
        ((Kind.ROW,), _call("({}).x")),
        ((Kind.STRING,), _call("POSITION('b' IN {})", "strpos({}, 'b')")),
        (
            (Kind.TIMESTAMP, Kind.TIMESTAMP),
            _units("TIMESTAMPDIFF(UNIT, {}, {})", "date_sub('UNIT', {}, {})", ("HOUR", "DAY", "MINUTE")),
        ),
    ),
    Kind.BIGINT: (
        ((Kind.TIMESTAMP,), _units("EXTRACT(UNIT FROM {})", "EXTRACT(UNIT FROM {})", (*_TIME_PARTS, *_DATE_PARTS))),
        ((Kind.TIMESTAMP,), _call("EXTRACT(DOW FROM {})", "(EXTRACT(DOW FROM {}) + 1)")),
        ((Kind.TIMESTAMP,), _units("UNIT({})", "EXTRACT(UNIT FROM {})", (*_TIME_PARTS, "YEAR", "MONTH"))),
        ((Kind.DATE,), _units("EXTRACT(UNIT FROM {})", "EXTRACT(UNIT FROM {})", _DATE_PARTS)),
        ((Kind.TIME,), _units("EXTRACT(UNIT FROM {})", "EXTRACT(UNIT FROM {})", _TIME_PARTS)),
    ),
    Kind.STRING: (
        ((Kind.STRING,), _call("UPPER({})")),
        ((Kind.STRING,), _call("LOWER({})")),
        ((Kind.STRING,), _call("SUBSTRING({}, 2, 2)", "substr({}, 2, 2)")),
        ((Kind.STRING,), _call("SUBSTRING({} FROM 2)", "substr({}, 2)")),
        ((Kind.STRING,), _call("LPAD({}, 3, '😀')")),
        ((Kind.STRING,), _call("REPLACE({}, 'a', '😀')")),
        ((Kind.STRING,), _call("REVERSE({})")),
        ((Kind.STRING,), _call("LEFT({}, 2)", '"left"({}, 2)')),
        ((Kind.VARCHAR,), _call("({} || 'é')")),
        ((Kind.CHAR,), _call("({} || '😀')")),
        ((Kind.CHAR,), _call("CAST({} AS STRING)", "{}")),
        ((Kind.CHAR,), _call("TRIM({})")),
        ((Kind.VARCHAR,), _call("CAST({} AS STRING)", "{}")),
        ((Kind.INT,), _call("CAST({} AS STRING)", "CAST({} AS VARCHAR)")),
        ((Kind.BIGINT,), _call("CAST({} AS STRING)", "CAST({} AS VARCHAR)")),
        ((Kind.BOOLEAN,), _call("CAST({} AS STRING)", "upper(CAST({} AS VARCHAR))")),
        ((Kind.DATE,), _call("CAST({} AS STRING)", "CAST({} AS VARCHAR)")),
        ((Kind.TIMESTAMP,), _call("CAST({} AS STRING)", "strftime({}, '%Y-%m-%d %H:%M:%S.%g')")),
        ((Kind.TIMESTAMP,), _call("DATE_FORMAT({}, 'yyyy-MM-dd HH:mm')", "strftime({}, '%Y-%m-%d %H:%M')")),
        ((Kind.STRINGS,), _call("({})[1]")),
        ((Kind.ROW,), _call("({}).y")),
    ),
    Kind.DECIMAL: tuple(((k,), lambda choose, value, kind=k: large_decimals.fitted(kind, value)) for k in LARGE),
    Kind.TIMESTAMP: (
        ((Kind.TIMESTAMP,), _minutes),
        ((Kind.TIMESTAMP,), _units("FLOOR({} TO UNIT)", _TRUNC, _FLOORS)),
        ((Kind.TIMESTAMP,), _units("CEIL({} TO UNIT)", _CEIL, _FLOORS[:4])),
        (
            (Kind.TIMESTAMP,),
            _units("TIMESTAMPADD(UNIT, -1, {})", "({} - INTERVAL 1 UNIT)", ("HOUR", "DAY", "MONTH", "SECOND")),
        ),
        ((Kind.DATE,), _call("CAST({} AS TIMESTAMP(3))", "CAST({} AS TIMESTAMP)")),
    ),
    Kind.DATE: (((Kind.TIMESTAMP,), _call("CAST({} AS DATE)")),),
    Kind.TIME: (((Kind.TIMESTAMP,), _call("CAST({} AS TIME(0))", "CAST(date_trunc('second', {}) AS TIME)")),),
    Kind.CHAR: (
        ((Kind.STRING,), _call("CAST({} AS CHAR(3))", "rpad({}, 3, ' ')")),
        ((Kind.VARCHAR,), _call("CAST({} AS CHAR(3))", "rpad({}, 3, ' ')")),
    ),
    Kind.VARCHAR: (
        ((Kind.STRING,), _call("CAST({} AS VARCHAR(4))", '"left"({}, 4)')),
        ((Kind.CHAR,), _call("CAST({} AS VARCHAR(4))", "{}")),
    ),
    Kind.BOOLEAN: (
        (
            (Kind.INTS, Kind.INT),
            _call(
                "ARRAY_CONTAINS({}, {})",
                "CASE WHEN {0} IS NULL THEN NULL WHEN {1} IS NULL THEN list_contains([v IS NULL FOR v IN {0}], TRUE)"
                " ELSE list_contains({0}, {1}) END",
            ),
        ),
        *(((k,), _call("({} IS NULL)")) for k in (Kind.INT, Kind.STRING, Kind.INTS, *LARGE)),
    ),
    Kind.INTS: (
        ((Kind.INT, Kind.INT), _call("ARRAY[{}, {}]", "[{}, {}]")),
        ((Kind.INTS,), _call("ARRAY_SORT({})", "list_sort({}, 'ASC', 'NULLS FIRST')")),
    ),
    Kind.STRINGS: (((Kind.STRING,), _call("ARRAY[{}]", "[{}]")), ((Kind.MAP,), _call("MAP_KEYS({})"))),
    Kind.MAP: (((Kind.INT,), _call("MAP['a', {}]", "MAP(['a'], [{}])")),),
    Kind.ROW: (
        (
            (Kind.INT, Kind.STRING),
            _call(
                "CAST(ROW({}, {}) AS ROW<x INT, y STRING>)", "CAST({{'x': {}, 'y': {}}} AS STRUCT(x INT, y VARCHAR))"
            ),
        ),
    ),
}
"""By the kind of the result."""
