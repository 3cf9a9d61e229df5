"""Words of SQL as PyFlink names them: units of time, clauses of the JSON functions, details of EXPLAIN.

Each is its SQL text, which may be given in its place: `col("ts").floor(TimeIntervalUnit.DAY)` is `col("ts").floor("DAY")`.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = [
    "ExplainDetail",
    "JsonExistsOnError",
    "JsonOnNull",
    "JsonQueryOnEmptyOrError",
    "JsonQueryWrapper",
    "JsonType",
    "JsonValueOnEmptyOrError",
    "TimeIntervalUnit",
    "TimePointUnit",
]


class TimeIntervalUnit(StrEnum):
    """Units that `extract`, `floor` and `ceil` take."""

    YEAR = "YEAR"
    QUARTER = "QUARTER"
    MONTH = "MONTH"
    WEEK = "WEEK"
    DAY = "DAY"
    HOUR = "HOUR"
    MINUTE = "MINUTE"
    SECOND = "SECOND"


class TimePointUnit(StrEnum):
    """Units that `timestamp_diff` counts in."""

    YEAR = "YEAR"
    QUARTER = "QUARTER"
    MONTH = "MONTH"
    WEEK = "WEEK"
    DAY = "DAY"
    HOUR = "HOUR"
    MINUTE = "MINUTE"
    SECOND = "SECOND"
    MILLISECOND = "MILLISECOND"
    MICROSECOND = "MICROSECOND"


class JsonType(StrEnum):
    """The kinds of JSON that `is_json` tests for."""

    VALUE = "VALUE"
    SCALAR = "SCALAR"
    ARRAY = "ARRAY"
    OBJECT = "OBJECT"


class JsonExistsOnError(StrEnum):
    """What `json_exists` returns for an error."""

    TRUE = "TRUE"
    FALSE = "FALSE"
    UNKNOWN = "UNKNOWN"
    ERROR = "ERROR"


class JsonValueOnEmptyOrError(StrEnum):
    """What `json_value` returns if the path finds nothing, or for an error."""

    NULL = "NULL"
    ERROR = "ERROR"
    DEFAULT = "DEFAULT"


class JsonQueryWrapper(StrEnum):
    """When `json_query` puts its result into an array."""

    WITHOUT_ARRAY = "WITHOUT ARRAY WRAPPER"
    CONDITIONAL_ARRAY = "WITH CONDITIONAL ARRAY WRAPPER"
    UNCONDITIONAL_ARRAY = "WITH UNCONDITIONAL ARRAY WRAPPER"


class JsonQueryOnEmptyOrError(StrEnum):
    """What `json_query` returns if the path finds nothing, or for an error."""

    NULL = "NULL"
    EMPTY_ARRAY = "EMPTY ARRAY"
    EMPTY_OBJECT = "EMPTY OBJECT"
    ERROR = "ERROR"


class JsonOnNull(StrEnum):
    """How NULLs are written into JSON."""

    NULL = "NULL ON NULL"
    ABSENT = "ABSENT ON NULL"


class ExplainDetail(StrEnum):
    """What `explain` can show beside the plans."""

    ESTIMATED_COST = "ESTIMATED_COST"
    CHANGELOG_MODE = "CHANGELOG_MODE"
    JSON_EXECUTION_PLAN = "JSON_EXECUTION_PLAN"
    PLAN_ADVICE = "PLAN_ADVICE"
