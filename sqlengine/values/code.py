"""Pieces of SQL that know the Python they were written as.

The Table API writes SQL, and the parser and the binder read it: there is one language and one mechanism. A `Code` is a
piece of that SQL beside the Python expression that means it, with `marks`: which part of the one is which part of the
other. So an error of the binder, whose place is a place in the SQL, is shown as a place in the Python expression.
"""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any, NamedTuple

from runtime.core.errors import Span, SqlEngineError, TypeMismatchError
from runtime.core.types import DataType
from sqlengine.parse.cursor import RESERVED

__all__ = [
    "Code",
    "Mark",
    "compose",
    "inserted",
    "located_in_python",
    "name_sql",
    "operation",
    "path_sql",
    "type_sql",
    "value_sql",
]


class Mark(NamedTuple):
    """Characters `start` to `end` of the SQL are characters `python_start` to `python_end` of `python`; None means the
    Python text of the piece itself, which is not yet part of an operation."""

    start: int
    end: int
    python: str | None
    python_start: int
    python_end: int


@dataclass(frozen=True, slots=True)
class Code:
    """A piece of SQL, the Python it was written as, and which parts of them are the same."""

    sql: str
    python: str = ""
    marks: tuple[Mark, ...] = ()

    @staticmethod
    def atom(sql: str, python: str) -> Code:
        """A piece that is one whole."""
        return Code(sql, python, (Mark(0, len(sql), None, 0, len(python)),))


def compose(sql: Sequence[str | Code], python: Sequence[str | Code] = ()) -> Code:
    """A piece made of others: `sql` and `python` name them in the order of each of the two texts.

    Without `python` the result has no Python text of its own, and keeps the marks of pieces that are part of an
    operation already.
    """
    text, places = _joined(sql, lambda code: code.sql)
    written, python_places = _joined(python, lambda code: code.python)
    marks: list[Mark] = [Mark(0, len(text), None, 0, len(written))] if python else []
    for part in sql:
        if isinstance(part, Code):
            at, python_at = places[id(part)], python_places.get(id(part))
            for mark in part.marks:
                if mark.python is not None:
                    marks.append(mark._replace(start=mark.start + at, end=mark.end + at))
                elif python_at is not None:
                    marks.append(
                        Mark(
                            mark.start + at,
                            mark.end + at,
                            None,
                            mark.python_start + python_at,
                            mark.python_end + python_at,
                        )
                    )
    return Code(text, written, tuple(marks))


def inserted(code: Code, places: Sequence[int], text: str) -> Code:
    """The piece with a text put into its SQL at some places, in rising order; the Python stays as it is. What is marked
    up to a place does not hold the text."""

    def moved(at: int, ends: bool) -> int:
        return at + len(text) * sum(place < at if ends else place <= at for place in places)

    cuts = [0, *places, len(code.sql)]
    sql = text.join(code.sql[a:b] for a, b in itertools.pairwise(cuts))
    marks = tuple(m._replace(start=moved(m.start, False), end=moved(m.end, True)) for m in code.marks)
    return Code(sql, code.python, marks)


def _joined(parts: Sequence[str | Code], text_of: Any) -> tuple[str, dict[int, int]]:
    texts: list[str] = []
    places: dict[int, int] = {}
    length = 0
    for part in parts:
        text = part if isinstance(part, str) else text_of(part)
        if isinstance(part, Code):
            places.setdefault(id(part), length)
        texts.append(text)
        length += len(text)
    return "".join(texts), places


def operation(name: str, *arguments: Code | str) -> tuple[str, list[Code]]:
    """The Python text of an operation, `name(arguments)`, and its arguments as pieces whose marks point into it.

    A `str` is shown and is no piece of SQL.
    """
    text, codes = name + "(", []
    for index, argument in enumerate(arguments):
        text += ", " if index else ""
        if isinstance(argument, Code):
            codes.append((argument, len(text)))
            text += argument.python
        else:
            text += argument
    text += ")"
    return text, [
        Code(
            code.sql,
            code.python,
            tuple(
                m if m.python is not None else Mark(m.start, m.end, text, m.python_start + at, m.python_end + at)
                for m in code.marks
            ),
        )
        for code, at in codes
    ]


def located_in_python(error: SqlEngineError, code: Code, whole: str) -> SqlEngineError:
    """The error with its place in the Python text: the smallest marked part around it, else all of `whole`, the
    operation at hand. Errors that carry another text already stay as they are."""
    if error.text is not None and error.text != code.sql:
        return error
    if error.span is None:
        return error
    around = [m for m in code.marks if m.python is not None and m.start <= error.span.start and error.span.end <= m.end]
    best = min(around, key=lambda m: m.end - m.start, default=None)
    if best is None or best.python is None:
        error.text, error.span = whole, Span(0, len(whole))
    elif best.python[best.python_start : best.python_end] == code.sql[best.start : best.end]:
        # SQL that was written as SQL: its places are as exact as the binder's.
        error.text, error.span = best.python, error.span.shift(best.python_start - best.start)
    else:
        error.text, error.span = best.python, Span(best.python_start, best.python_end)
    return error


# --- names, types and values as SQL

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TAKEN = RESERVED | {
    *("DATE", "TIME", "TIMESTAMP", "INTERVAL", "ROW", "ARRAY", "MAP", "VALUES", "TABLE", "UNNEST", "TRUE", "UNKNOWN"),
    *("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "DEFAULT", "END", "START"),
    *("SYMMETRIC", "ASYMMETRIC", "BOTH", "LEADING", "TRAILING", "MULTISET", "MODEL", "DESCRIPTOR", "EXISTS", "PERIOD"),
}


def name_sql(name: str) -> str:
    """A name as an identifier; in backticks where it could be read as anything else."""
    if _PLAIN.fullmatch(name) and name.upper() not in _TAKEN:
        return name
    return "`" + name.replace("`", "``") + "`"


def path_sql(path: str) -> str:
    """`catalog.database.table` as SQL; a path that has backticks is taken as it is."""
    return path if "`" in path else ".".join(name_sql(part) for part in path.split("."))


def type_sql(type_: DataType) -> str:
    """A type as CAST takes it, without NOT NULL."""
    return str(type_.materialized().with_nullable(True))


def value_sql(value: Any) -> str:
    """A Python value as a SQL literal.

    bool, int, float, Decimal, str, bytes, date, time, datetime (with a zone: TIMESTAMP_LTZ), timedelta, None, list
    (ARRAY), tuple (ROW), dict (MAP).

    Raises TypeMismatchError E1321 for a value of any other type.
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float() | decimal.Decimal():
            return _number(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes() | bytearray():
            return f"X'{bytes(value).hex().upper()}'"
        case dt.datetime():
            return _timestamp(value)
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case dt.time():
            return f"TIME '{value.isoformat()}'"
        case dt.timedelta():
            return interval_sql(value // dt.timedelta(milliseconds=1))
        case list():
            return f"ARRAY[{_values(value)}]"
        case tuple():
            return f"ROW({_values(value)})"
        case Mapping():
            return f"MAP[{_values(part for pair in value.items() for part in pair)}]"
        case _ if hasattr(value, "item") and not isinstance(value, type):
            # A number of numpy.
            return value_sql(value.item())
        case _ if isinstance(instead := getattr(value, "instead_of_a_value", None), str):
            raise TypeMismatchError(
                f"a Python value of type {type(value).__name__} has no SQL literal", code="E1321", hint=instead
            )
        case MethodType():
            raise TypeMismatchError(
                f".{value.__name__} is a method, and its parentheses are missing",
                code="E1321",
                hint=f"write .{value.__name__}(..)",
            )
        case _:
            raise TypeMismatchError(
                f"a Python value of type {type(value).__name__} has no SQL literal",
                code="E1321",
                hint="columns are col('name'); values are numbers, texts, dates, times, lists, tuples and dicts",
            )


def _values(values: Iterable[Any]) -> str:
    return ", ".join(map(value_sql, values))


def _number(value: int | float | decimal.Decimal) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, decimal.Decimal):
        if not value.is_finite():
            raise TypeMismatchError(f"DECIMAL has no {value}", code="E1321", hint="DOUBLE has: lit(float(value))")
        return format(value, "f")
    if value != value or value in (float("inf"), float("-inf")):
        text = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        return f"CAST('{text}' AS DOUBLE)"
    digits = repr(value)
    return digits if "e" in digits else f"{digits}e0"


def _timestamp(value: dt.datetime) -> str:
    if value.tzinfo is None:
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    micros = (value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    return f"TO_TIMESTAMP_LTZ({micros}, 6)" if micros % 1000 else f"TO_TIMESTAMP_LTZ({micros // 1000}, 3)"


_UNITS = (("DAY", 86_400_000), ("HOUR", 3_600_000), ("MINUTE", 60_000))


def interval_sql(milliseconds: int) -> str:
    """A length of time as an INTERVAL literal, in the largest unit that fits."""
    sign, length = ("-" if milliseconds < 0 else ""), abs(milliseconds)
    for unit, size in _UNITS:
        if length and length % size == 0:
            return _interval(sign, str(length // size), unit)
    whole, millis = divmod(length, 1000)
    digits = len(str(whole))
    if millis:
        return f"INTERVAL {sign}'{whole}.{millis:03d}' SECOND({max(2, digits)}, 3)"
    return _interval(sign, str(whole), "SECOND")


def months_sql(months: int) -> str:
    """A number of months as an INTERVAL literal."""
    return _interval("-" if months < 0 else "", str(abs(months)), "MONTH")


def _interval(sign: str, number: str, unit: str) -> str:
    precision = f"({len(number)})" if len(number) > 2 else ""
    return f"INTERVAL {sign}'{number}' {unit}{precision}"


__all__ += ["interval_sql", "months_sql"]
