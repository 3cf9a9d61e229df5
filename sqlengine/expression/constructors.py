"""Where expressions begin: columns, literals, calls, and what SQL writes with words of its own."""

from __future__ import annotations

from typing import Any

from runtime.core.types import DataType
from sqlengine.expression.expression import Expression, as_code, as_expression, call_expression, column, literal
from sqlengine.values.code import Code, compose, type_sql

__all__ = [
    "and_",
    "array",
    "call",
    "call_sql",
    "coalesce",
    "col",
    "current_date",
    "current_timestamp",
    "if_then_else",
    "lit",
    "map_",
    "not_",
    "null_of",
    "or_",
    "proctime",
    "row",
    "unnest",
    "with_all_columns",
]


def col(name: str) -> Expression:
    """The column of a name: `col("price")`. Names are case-sensitive, and may hold any character."""
    return column(name)


def lit(value: Any, data_type: DataType | str | None = None) -> Expression:
    """A Python value as a SQL literal, of its own type or a given one: `lit(1)`, `lit(1, "BIGINT")`.

    bool, int, float, Decimal, str, bytes, date, time, datetime, timedelta, list (ARRAY), tuple (ROW), dict (MAP). None
    needs a type. Raises TypeMismatchError E1321 for other values.
    """
    made = literal(value, f"lit({value!r})")
    if data_type is None:
        return made
    spelled = data_type if isinstance(data_type, str) else type_sql(data_type)
    return Expression(Code.atom(f"CAST({made.code.sql} AS {spelled})", f"lit({value!r}, {spelled!r})"))


def null_of(data_type: DataType | str) -> Expression:
    """NULL of a type."""
    spelled = data_type if isinstance(data_type, str) else type_sql(data_type)
    return Expression(Code.atom(f"CAST(NULL AS {spelled})", f"null_of({spelled!r})"))


def call(function: Any, *args: Any) -> Expression:
    """A call of a SQL function by name, `call("REGEXP_EXTRACT", col("a"), "x+", 0)`, or of a Python function that is
    registered under its name or decorated with `udf` and its kind."""
    if isinstance(function, str):
        return call_expression(function, args, quoted=True)
    return function(*args)


def call_sql(text: str) -> Expression:
    """A SQL expression as it is: `call_sql("a + INTERVAL '1' DAY")`."""
    return Expression(Code.atom(f"({text})", f"call_sql({text!r})"))


def row(*values: Any) -> Expression:
    """ROW: a row of values."""
    return call_expression("ROW", values, "row")


def array(*values: Any) -> Expression:
    """ARRAY: an array of values."""
    return _bracketed("ARRAY", "array", values)


def map_(*keys_and_values: Any) -> Expression:
    """MAP: a map of keys and values in turn."""
    return _bracketed("MAP", "map_", keys_and_values)


def _bracketed(word: str, shown: str, values: tuple[Any, ...]) -> Expression:
    inner: list[str | Code] = []
    for index, value in enumerate(values):
        inner += [", ", as_code(value)] if index else [as_code(value)]
    return Expression(compose([f"{word}[", *inner, "]"], [f"{shown}(", *inner, ")"]))


def if_then_else(condition: Any, if_true: Any, if_false: Any) -> Expression:
    """CASE WHEN: one of two values."""
    parts = as_code(condition), as_code(if_true), as_code(if_false)
    sql = ["CASE WHEN ", parts[0], " THEN ", parts[1], " ELSE ", parts[2], " END"]
    return Expression(compose(sql, ["if_then_else(", parts[0], ", ", parts[1], ", ", parts[2], ")"]))


def coalesce(*values: Any) -> Expression:
    """COALESCE: the first value that is not NULL."""
    return call_expression("COALESCE", values)


def and_(first: Any, *more: Any) -> Expression:
    """All conditions hold."""
    found = as_expression(first)
    for condition in more:
        found = found & condition
    return found


def or_(first: Any, *more: Any) -> Expression:
    """At least one condition holds."""
    found = as_expression(first)
    for condition in more:
        found = found | condition
    return found


def not_(condition: Any) -> Expression:
    """The condition does not hold."""
    return ~as_expression(condition)


def unnest(collection: Any) -> Expression:
    """The elements of an array, map or multiset as rows, for `join_lateral`."""
    return call_expression("UNNEST", (collection,))


def current_date() -> Expression:
    """CURRENT_DATE: the date of the epoch in the session's time zone."""
    return Expression(Code.atom("CURRENT_DATE", "current_date()"))


def current_timestamp() -> Expression:
    """CURRENT_TIMESTAMP: the time of the epoch."""
    return Expression(Code.atom("CURRENT_TIMESTAMP", "current_timestamp()"))


def proctime() -> Expression:
    """PROCTIME(): processing time as a time attribute."""
    return Expression(Code.atom("PROCTIME()", "proctime()"))


def with_all_columns() -> Expression:
    """All columns: `*` of SELECT."""
    return Expression(Code.atom("*", "with_all_columns()"))
