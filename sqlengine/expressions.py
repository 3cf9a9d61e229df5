"""Where expressions begin, under the names and with the arguments of `pyflink.table.expressions`:

    from sqlengine.expressions import col, concat, current_timestamp, lit

All other functions of SQL are in `sqlengine.functions`, by their SQL names.
"""

from __future__ import annotations

from typing import Any

from sqlengine.expression.column_selection import range_, with_columns, without_columns
from sqlengine.expression.constructors import (
    and_,
    array,
    call,
    call_sql,
    coalesce,
    col,
    current_date,
    current_timestamp,
    if_then_else,
    lit,
    map_,
    not_,
    null_of,
    or_,
    row,
    with_all_columns,
)
from sqlengine.expression.expression import Expression, as_code, as_expression, call_expression
from sqlengine.expression.method_parts import given
from sqlengine.expression.sql_words import JsonOnNull, TimePointUnit
from sqlengine.table_api.windows import CURRENT_RANGE, CURRENT_ROW, UNBOUNDED_RANGE, UNBOUNDED_ROW, row_interval
from sqlengine.values.code import Code, compose

__all__ = [
    "CURRENT_RANGE",
    "CURRENT_ROW",
    "UNBOUNDED_RANGE",
    "UNBOUNDED_ROW",
    "and_",
    "array",
    "atan2",
    "call",
    "call_sql",
    "coalesce",
    "col",
    "concat",
    "concat_ws",
    "convert_tz",
    "current_database",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_watermark",
    "date_format",
    "e",
    "from_unixtime",
    "if_then_else",
    "json",
    "json_array",
    "json_array_agg",
    "json_object",
    "json_object_agg",
    "json_string",
    "lag",
    "lead",
    "lit",
    "local_time",
    "local_timestamp",
    "log",
    "map_",
    "map_from_arrays",
    "negative",
    "not_",
    "null_of",
    "object_of",
    "or_",
    "pi",
    "rand",
    "rand_integer",
    "range_",
    "row",
    "row_interval",
    "source_watermark",
    "temporal_overlaps",
    "timestamp_diff",
    "to_date",
    "to_timestamp",
    "to_timestamp_ltz",
    "unix_timestamp",
    "uuid",
    "with_all_columns",
    "with_columns",
    "without_columns",
]


# --- what the environment knows


def current_database() -> Expression:
    """CURRENT_DATABASE(): the name of the current database."""
    return call_expression("CURRENT_DATABASE", ())


def current_time() -> Expression:
    """CURRENT_TIME: the time of day of the epoch in the session's time zone."""
    return Expression(Code.atom("CURRENT_TIME", "current_time()"))


def local_time() -> Expression:
    """LOCALTIME: the time of day of the epoch in the session's time zone."""
    return Expression(Code.atom("LOCALTIME", "local_time()"))


def local_timestamp() -> Expression:
    """LOCALTIMESTAMP: the time of the epoch in the session's time zone, as a TIMESTAMP."""
    return Expression(Code.atom("LOCALTIMESTAMP", "local_timestamp()"))


def current_watermark(rowtime_attribute: Any) -> Expression:
    """CURRENT_WATERMARK: how far event time has come for a rowtime column; NULL before its first watermark."""
    return call_expression("CURRENT_WATERMARK", (rowtime_attribute,))


def source_watermark() -> Expression:
    """SOURCE_WATERMARK(): the watermark that the source tells, in WATERMARK FOR."""
    return call_expression("SOURCE_WATERMARK", ())


# --- times


def to_date(date_str: Any, format: Any = None) -> Expression:
    """TO_DATE: a text as a DATE, by a pattern such as 'yyyy-MM-dd'."""
    return call_expression("TO_DATE", (date_str, *given(format)))


def to_timestamp(timestamp_str: Any, format: Any = None) -> Expression:
    """TO_TIMESTAMP: a text as a TIMESTAMP, by a pattern such as 'yyyy-MM-dd HH:mm:ss'."""
    return call_expression("TO_TIMESTAMP", (timestamp_str, *given(format)))


def to_timestamp_ltz(*args: Any) -> Expression:
    """TO_TIMESTAMP_LTZ: a number since 1970 (and its precision), or a text (its pattern and zone), as a TIMESTAMP_LTZ."""
    return call_expression("TO_TIMESTAMP_LTZ", args)


def temporal_overlaps(
    left_time_point: Any, left_temporal: Any, right_time_point: Any, right_temporal: Any
) -> Expression:
    """OVERLAPS: whether two spans of time have a moment in common; each is a start and an end or a length."""
    a, b, c, d = map(as_code, (left_time_point, left_temporal, right_time_point, right_temporal))
    sql = ["(", a, ", ", b, ") OVERLAPS (", c, ", ", d, ")"]
    shown = compose(sql, ["temporal_overlaps(", a, ", ", b, ", ", c, ", ", d, ")"])
    return Expression(shown, level=4)


def date_format(timestamp: Any, format: Any) -> Expression:
    """DATE_FORMAT: a point in time as a text, by a pattern of Java such as 'yyyy-MM-dd HH:mm'."""
    return call_expression("DATE_FORMAT", (timestamp, format))


def timestamp_diff(time_point_unit: TimePointUnit | str, time_point1: Any, time_point2: Any) -> Expression:
    """TIMESTAMPDIFF: how many units the second time is behind the first one."""
    a, b = as_code(time_point1), as_code(time_point2)
    unit = time_point_unit.upper()
    shown = [f'timestamp_diff("{unit}", ', a, ", ", b, ")"]
    return Expression(compose([f"TIMESTAMPDIFF({unit}, ", a, ", ", b, ")"], shown))


def convert_tz(date_str: Any, tz_from: Any, tz_to: Any) -> Expression:
    """CONVERT_TZ: a time as text in another zone."""
    return call_expression("CONVERT_TZ", (date_str, tz_from, tz_to))


def from_unixtime(unixtime: Any, format: Any = None) -> Expression:
    """FROM_UNIXTIME: seconds since 1970 as a text in the session's zone."""
    return call_expression("FROM_UNIXTIME", (unixtime, *given(format)))


def unix_timestamp(date_str: Any = None, format: Any = None) -> Expression:
    """UNIX_TIMESTAMP: seconds since 1970, of now or of a time as text."""
    return call_expression("UNIX_TIMESTAMP", (*given(date_str), *given(format)))


# --- numbers and texts


def pi() -> Expression:
    """PI(): the number pi."""
    return call_expression("PI", ())


def e() -> Expression:
    """E(): Euler's number."""
    return call_expression("E", ())


def rand(seed: Any = None) -> Expression:
    """RAND: a number from 0 up to 1, another one for each row."""
    return call_expression("RAND", given(seed))


def rand_integer(bound: Any, seed: Any = None) -> Expression:
    """RAND_INTEGER: an integer from 0 up to a bound, another one for each row."""
    return call_expression("RAND_INTEGER", (*given(seed), bound))


def atan2(y: Any, x: Any) -> Expression:
    """ATAN2: the angle of a point, in radians."""
    return call_expression("ATAN2", (y, x))


def negative(v: Any) -> Expression:
    """The value with the other sign."""
    return -as_expression(v)


def log(v: Any, base: Any = None) -> Expression:
    """LOG: the logarithm to a base, or the natural one."""
    return call_expression("LOG", (*given(base), v))


def concat(first: Any, *others: Any) -> Expression:
    """CONCAT: texts one after another."""
    return call_expression("CONCAT", (first, *others))


def concat_ws(separator: Any, first: Any, *others: Any) -> Expression:
    """CONCAT_WS: texts with a separator between them, without those that are NULL."""
    return call_expression("CONCAT_WS", (separator, first, *others))


def uuid() -> Expression:
    """UUID(): a random UUID, another one for each row."""
    return call_expression("UUID", ())


# --- values made of values


def map_from_arrays(key: Any, value: Any) -> Expression:
    """MAP_FROM_ARRAYS: a map of an array of keys and one of values."""
    return call_expression("MAP_FROM_ARRAYS", (key, value))


def object_of(class_name: str, *args: Any) -> Expression:
    """OBJECT_OF: a structured object; names and values of its fields in turn."""
    return call_expression("OBJECT_OF", (class_name, *args))


def json(value: Any) -> Expression:
    """JSON: a text that is JSON already, inside `json_object` and `json_array`."""
    return call_expression("JSON", (value,))


def json_string(value: Any) -> Expression:
    """JSON_STRING: a value as a JSON text."""
    return call_expression("JSON_STRING", (value,))


def json_object(on_null: JsonOnNull | str = JsonOnNull.NULL, *args: Any) -> Expression:
    """JSON_OBJECT: keys and values in turn as a JSON object."""
    return _json("JSON_OBJECT", "json_object", on_null, args, pairs=True)


def json_object_agg(on_null: JsonOnNull | str, key_expr: Any, value_expr: Any) -> Expression:
    """JSON_OBJECTAGG: the keys and values of a group as a JSON object."""
    return _json("JSON_OBJECTAGG", "json_object_agg", on_null, (key_expr, value_expr), pairs=True)


def json_array(on_null: JsonOnNull | str = JsonOnNull.ABSENT, *args: Any) -> Expression:
    """JSON_ARRAY: values as a JSON array."""
    return _json("JSON_ARRAY", "json_array", on_null, args, pairs=False)


def json_array_agg(on_null: JsonOnNull | str, item_expr: Any) -> Expression:
    """JSON_ARRAYAGG: the values of a group as a JSON array."""
    return _json("JSON_ARRAYAGG", "json_array_agg", on_null, (item_expr,), pairs=False)


def _json(name: str, python: str, on_null: str, args: tuple[Any, ...], *, pairs: bool) -> Expression:
    words = JsonOnNull(on_null)
    sql: list[str | Code] = [f"{name}("]
    shown: list[str | Code] = [f"{python}(JsonOnNull.{words.name}"]
    for index, argument in enumerate(args):
        code = as_code(argument)
        is_value = pairs and index % 2
        sql += [" VALUE " if is_value else ", " if index else "", "KEY " if pairs and not is_value else "", code]
        shown += [", ", code]
    return Expression(compose([*sql, f" {words})" if args else ")"], [*shown, ")"]))


# --- other rows


def lag(expr: Any, offset: int = 1, default: Any = None) -> Expression:
    """LAG: the value of an earlier row, for `.over(..)`."""
    return call_expression("LAG", (expr, offset, *given(default)))


def lead(expr: Any, offset: int = 1, default: Any = None) -> Expression:
    """LEAD: the value of a later row, for `.over(..)`."""
    return call_expression("LEAD", (expr, offset, *given(default)))
