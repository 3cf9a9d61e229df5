"""The types of a DataFrame's columns in SQL, and what Spark has to give in the place of those that it cannot send.

Told by the schema alone, so that asking costs no Spark job and works over Spark Connect.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.core.errors import SparkError, SqlEngineError, TypeMismatchError
from runtime.core.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    VARIANT,
    DataType,
    TypeRoot,
    array,
    decimal,
    interval,
    map_of,
    row,
    timestamp,
    timestamp_ltz,
)

__all__ = ["SparkColumns", "columns_of", "is_pandas_frame"]

_PLAIN = {
    "string": STRING,
    "binary": BYTES,
    "boolean": BOOLEAN,
    "byte": TINYINT,
    "short": SMALLINT,
    "integer": INT,
    "long": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "date": DATE,
    "timestamp": timestamp_ltz(6),
    "timestamp_ntz": timestamp(6),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_TEXT = re.compile(r"(char|varchar)\((\d+)\)")
_TIME = re.compile(r"time\((\d+)\)")
_INTERVAL = re.compile(r"interval (year|month|day|hour|minute|second)(?: to (month|hour|minute|second))?")
_CHAR_NOTE = "__CHAR_VARCHAR_TYPE_STRING"
_COLLATION_NOTE = "__COLLATIONS"
_TIME_DIGITS = 3


@dataclass(frozen=True, slots=True)
class SparkColumns:
    """A DataFrame, and the names and types of its columns.

    `frame` gives values that Arrow can carry: VARIANT as text of JSON, intervals of months as their number.
    `required` are the columns that Spark says have no NULL; the types of all say nothing of it.
    """

    frame: Any
    types: tuple[tuple[str, DataType], ...]
    required: frozenset[str]


def is_pandas_frame(thing: object) -> bool:
    """Whether something is a DataFrame of pandas on Spark, told without importing it."""
    return type(thing).__module__.startswith("pyspark.pandas.") and hasattr(thing, "to_spark")


def columns_of(frame: Any, declared: Mapping[str, DataType] | None = None) -> SparkColumns:
    """What a DataFrame (also one of pandas on Spark, without its index) looks like in SQL.

    Args:
        declared: types that are given for columns. A column whose type has no twin can be a STRING so.

    Raises:
        TypeMismatchError: E1306 a column is NULL without a type.
        SparkError: E3609 the type of a column has no twin; E3610 two columns have one name.
    """
    frame = _without_index(frame) if is_pandas_frame(frame) else frame
    fields: list[dict[str, Any]] = frame.schema.jsonValue()["fields"]
    _check_names([field["name"] for field in fields], _sensitive(frame))
    declared = declared or {}
    types: list[tuple[str, DataType]] = []
    read: dict[str, str] = {}
    for field in fields:
        name = field["name"]
        type_, expression = _column(name, field, declared.get(name))
        types.append((name, type_))
        if expression:
            read[name] = expression
    if read:
        frame = frame.selectExpr(*(f"{read.get(n, _quoted(n))} AS {_quoted(n)}" for n, _ in types))
    return SparkColumns(frame, tuple(types), frozenset(f["name"] for f in fields if not f["nullable"]))


def _without_index(frame: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It tells that the index is left out.
        return frame.to_spark()


def _column(name: str, field: Mapping[str, Any], declared: DataType | None) -> tuple[DataType, str]:
    """The type of a column, and the expression that reads it; "" for its name."""
    quoted = _quoted(name)
    kind, notes = field["type"], field.get("metadata") or {}
    text = declared is not None and declared.root is TypeRoot.VARCHAR
    if kind == "variant":
        return (declared if declared is not None and text else VARIANT), f"to_json({quoted})"
    if isinstance(kind, str) and (found := _INTERVAL.fullmatch(kind)):
        if declared is not None and text:
            return declared, f"CAST({quoted} AS STRING)"
        return _interval(found), f"CAST(CAST({quoted} AS INTERVAL MONTH) AS INT)" if _months(found) else ""
    if kind == "void":
        if declared is None:
            raise _null(name)
        return declared, f"CAST({quoted} AS STRING)"
    collation = (notes.get(_COLLATION_NOTE) or {}).get(name) if kind == "string" else None
    try:
        if collation is not None:
            raise _no_twin(
                name, f"STRING COLLATE {collation.rpartition('.')[2]}", "CAST({column} AS STRING COLLATE UTF8_BINARY)"
            )
        if notes.get(_COLLATION_NOTE):
            raise _no_twin(name, "a type with collations", "CAST its texts to STRING COLLATE UTF8_BINARY")
        type_ = _type(name, _sized(kind, notes))
    except SqlEngineError:
        if declared is not None and text:
            return declared, f"CAST({quoted} AS STRING)"
        raise
    return declared or type_, ""


def _sized(kind: Any, notes: Mapping[str, Any]) -> Any:
    """The type of a text column with its length, which Spark keeps in a note."""
    note = notes.get(_CHAR_NOTE, "")
    return note if kind == "string" and _TEXT.fullmatch(note) else kind


def _type(path: str, kind: Any) -> DataType:
    """The type of a column or of a part of one. Raises SparkError E3609."""
    if isinstance(kind, dict):
        return _nested(path, kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if (found := _DECIMAL.fullmatch(kind)) and int(found[2]) >= 0:
        return decimal(int(found[1]), int(found[2]))
    if found := _TEXT.fullmatch(kind):
        return DataType(TypeRoot.CHAR if found[1] == "char" else TypeRoot.VARCHAR, int(found[2]))
    if found := _TIME.fullmatch(kind):
        # A time with more digits than a type has here is refused when it is read.
        return DataType(TypeRoot.TIME, min(int(found[1]), _TIME_DIGITS))
    if (found := _INTERVAL.fullmatch(kind)) and not _months(found):
        return _interval(found)
    if kind == "void":
        raise _null(path)
    raise _no_twin(path, kind.upper(), "to_json({column})" if kind == "variant" else "CAST({column} AS STRING)")


def _nested(path: str, kind: Mapping[str, Any]) -> DataType:
    match kind["type"]:
        case "struct":
            fields: Sequence[Mapping[str, Any]] = kind["fields"]
            return row(*((f["name"], _type(f"{path}.{f['name']}", f["type"])) for f in fields))
        case "array":
            return array(_type(f"{path}.element", kind["elementType"]))
        case "map":
            return map_of(_type(f"{path}.key", kind["keyType"]), _type(f"{path}.value", kind["valueType"]))
        case "udt":
            return _type(path, kind["sqlType"])
        case other:
            raise _no_twin(path, str(other).upper(), "CAST({column} AS STRING)")


def _months(found: re.Match[str]) -> bool:
    return found[1] in ("year", "month")


def _interval(found: re.Match[str]) -> DataType:
    if _months(found):
        return interval("YEAR", "MONTH", 4)
    return interval("DAY", "SECOND", 6, 3)


def _null(path: str) -> TypeMismatchError:
    what, column = _named(path)
    return TypeMismatchError(
        f"{what} of the DataFrame is NULL without a type",
        code="E1306",
        hint=f'cast it in Spark (CAST(NULL AS STRING)), or declare the column: schema={{"{column}": "STRING"}}',
    )


def _no_twin(path: str, kind: str, hint: str) -> SparkError:
    what, column = _named(path)
    return SparkError(
        f"{what} of the DataFrame is {kind}, a type that SQL does not have here",
        code="E3609",
        hint="leave the column out, or convert it in Spark: " + hint.format(column=_quoted(column)),
    )


def _named(path: str) -> tuple[str, str]:
    """A column or a part of one in words, and the column."""
    column, _, part = path.partition(".")
    return (f'"{part}" of the column "{column}"' if part else f'the column "{column}"'), column


def _check_names(names: Sequence[str], sensitive: bool) -> None:
    """Spark itself cannot tell columns apart by such names."""
    counted = Counter(name if sensitive else name.lower() for name in names)
    twice = next((name for name in names if counted[name if sensitive else name.lower()] > 1), None)
    if twice is not None:
        raise SparkError(
            f'the DataFrame has more than one column "{twice}"',
            code="E3610",
            hint='rename or drop one of them: df.drop(other["id"]), df.toDF("id", "id_2")',
        )


def _sensitive(frame: Any) -> bool:
    return str(frame.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
