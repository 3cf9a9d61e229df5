"""Questions to JSON texts: IS JSON, JSON_EXISTS, JSON_VALUE, JSON_QUERY. Documents are read once per distinct text.

The binder appends the clauses as texts in a fixed order: `RETURNING` and a NULL of the type, `CONDITIONAL WRAPPER`,
`NULL ON EMPTY`, `DEFAULT ON ERROR` and the default, ... A value that RETURNING's type cannot hold is an error of the
row, so that ON ERROR decides (Flink fails the job with a ClassCastException there).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from runtime.core.errors import ExpressionError, TypeMismatchError
from runtime.core.types import BOOLEAN, STRING, DataType, TypeRoot
from runtime.expr.distinct import map_distinct
from runtime.expr.function import CallTypes, EvalContext, Nulls, Value
from runtime.expr.json_path import JsonPath, NotFound, NotJson, json_path, parse_json, write_json
from runtime.expr.library.declare import CHARACTER, Family
from runtime.expr.typing import explicit_cast

__all__ = ["FAMILY"]

FAMILY = Family("json queries")
_R = TypeRoot
_Typed = tuple[tuple[DataType, ...], DataType]


def _kind(name: str, document: str, test: Callable[[Any], bool]) -> None:
    @FAMILY.scalar(f"IS JSON {name}", [CHARACTER], BOOLEAN, document, nulls=Nulls.NEVER, syntax=f"s IS JSON {name}")
    def evaluate(context: EvalContext, text: Value) -> Value:
        def check(given: str | None) -> bool:
            try:
                return given is not None and test(parse_json(given))
            except NotJson:
                return False

        return map_distinct(check, [text], pa.bool_(), context.num_rows, sees_nulls=True)


_kind("VALUE", "Whether a text is JSON; FALSE for NULL.", lambda v: True)
_kind(
    "SCALAR",
    "Whether a text is a JSON number, string, boolean or null; FALSE for NULL.",
    lambda v: not isinstance(v, dict | list),
)
_kind("ARRAY", "Whether a text is a JSON array; FALSE for NULL.", lambda v: isinstance(v, list))
_kind("OBJECT", "Whether a text is a JSON object; FALSE for NULL.", lambda v: isinstance(v, dict))


@dataclass(frozen=True, slots=True)
class _Clauses:
    """What a call says behind its path: words by what they are about, and where its defaults stand among the
    arguments."""

    words: dict[str, str]
    defaults: dict[str, int]
    returning: DataType | None


def _clauses_of(args: Sequence[Value], types: Sequence[DataType]) -> _Clauses:
    """The clauses of a call that the rule has let through."""
    found = _clauses(lambda i: args[i].as_py(), types)
    assert found is not None
    return found


def _clauses(words: Callable[[int], Any], types: Sequence[DataType]) -> _Clauses | None:
    """The clauses behind the path; None when something else stands there."""
    found: dict[str, str] = {}
    defaults: dict[str, int] = {}
    returning = None
    index = 2
    while index < len(types):
        word = words(index)
        if not isinstance(word, str):
            return None
        if word == "RETURNING":
            index += 1
            returning = types[index]
        else:
            for about in ("WRAPPER", "ON EMPTY", "ON ERROR"):
                if word.endswith(about):
                    found[about] = word.removesuffix(about).strip()
                    if found[about] == "DEFAULT":
                        index += 1
                        defaults[about] = index
        index += 1
    return _Clauses(found, defaults, returning)


def _rule(name: str, allowed: Callable[[DataType], bool], shown: str) -> Callable[[CallTypes], _Typed | None]:
    def rule(types: CallTypes) -> _Typed | None:
        if len(types) < 2 or not all(t.is_character or t.root is _R.NULL for t in types[:2]):
            return None
        clauses = _clauses(types.literal, types)
        if clauses is None:
            return None
        result = STRING if clauses.returning is None else clauses.returning.with_nullable(True)
        if not allowed(result):
            raise TypeMismatchError(f"{name} cannot return {result}", code="E1301", hint=f"it returns {shown}")
        given = [t if t.root is not _R.NULL else STRING for t in types]
        for about, index in clauses.defaults.items():
            if not explicit_cast(types[index], result):
                raise TypeMismatchError(
                    f"the default {about} of {name} is {types[index].not_null()}, not {result}", code="E1301"
                )
            given[index] = result.with_nullable(types[index].nullable)
        return tuple(given), result

    return rule


def _exists_rule(types: CallTypes) -> _Typed | None:
    typed = _rule("JSON_EXISTS", lambda t: True, "BOOLEAN")(types)
    return None if typed is None else (typed[0], BOOLEAN)


class _Failed(Exception):
    """The row is in error, for the reason given."""


def _read(text: str, path: str) -> tuple[Any, JsonPath]:
    """What a path finds in a text. Raises _Failed where ON ERROR decides; a lax path finds nothing in what is no
    JSON."""
    read = json_path(path)
    if read is None:
        raise _Failed(f"the JSON path '{path}' is wrong")
    try:
        return read.read(parse_json(text)), read
    except NotJson:
        if read.lax:
            return None, read
        raise _Failed(f"'{text[:60]}' is no JSON") from None
    except NotFound as error:
        raise _Failed(f"{error}: '{path}'") from None


@FAMILY.special(
    "JSON_EXISTS",
    _exists_rule,
    "Whether a path finds something in a JSON text.",
    form=("CHARACTER", "CHARACTER"),
    nulls=Nulls.RULE,
    can_fail=True,
    syntax="JSON_EXISTS(text, path [{TRUE|FALSE|UNKNOWN|ERROR} ON ERROR])",
)
def json_exists(context: EvalContext, *args: Value) -> Value:
    clauses = _clauses_of(args, context.arg_types)
    behaviour = clauses.words.get("ON ERROR", "FALSE")

    def exists(text: str, path: str) -> bool | None:
        try:
            return _read(text, path)[0] is not None
        except _Failed as error:
            if behaviour == "ERROR":
                raise ExpressionError(f"JSON_EXISTS: {error}", code="E2002") from None
            return {"TRUE": True, "FALSE": False}.get(behaviour)

    return map_distinct(exists, args[:2], pa.bool_(), context.num_rows)


def _behaviour(function: str, clauses: _Clauses, about: str, reason: str, default: Any) -> Any:
    """The value that ON EMPTY or ON ERROR gives; raises for ERROR."""
    match clauses.words.get(about, "NULL"):
        case "ERROR":
            raise ExpressionError(f"{function}: {reason}", code="E2002") from None
        case "DEFAULT":
            return default
        case "EMPTY ARRAY":
            return [] if clauses.returning is not None and clauses.returning.root is _R.ARRAY else "[]"
        case "EMPTY OBJECT":
            if clauses.returning is not None and clauses.returning.root is _R.ARRAY:
                raise ExpressionError(f"{function} returns an array and cannot give an empty object", code="E2002")
            return "{}"
        case _:
            return None


def _scalar_text(value: Any) -> str:
    return value if isinstance(value, str) else write_json(value)


def _returned(value: Any, type_: DataType) -> Any:
    """A scalar of JSON as RETURNING's type; raises _Failed where it is another kind of value."""
    match type_.root:
        case _R.BOOLEAN if isinstance(value, bool):
            return value
        case _R.INT if isinstance(value, int) and not isinstance(value, bool) and -(1 << 31) <= value < 1 << 31:
            return value
        case _R.DOUBLE if isinstance(value, int | Decimal) and not isinstance(value, bool):
            return float(value)
        case _R.VARCHAR | _R.CHAR:
            return _scalar_text(value)
        case _:
            raise _Failed(f"{_scalar_text(value)} is no {type_.not_null()}")


_SCALARS = (_R.CHAR, _R.VARCHAR, _R.BOOLEAN, _R.INT, _R.DOUBLE)


@FAMILY.special(
    "JSON_VALUE",
    _rule("JSON_VALUE", lambda t: t.root in _SCALARS, "STRING, BOOLEAN, INTEGER or DOUBLE"),
    "The scalar that a path finds in a JSON text.",
    form=("CHARACTER", "CHARACTER"),
    nulls=Nulls.RULE,
    can_fail=True,
    syntax="JSON_VALUE(text, path [RETURNING type] [{NULL|ERROR|DEFAULT e} ON EMPTY] [.. ON ERROR])",
)
def json_value(context: EvalContext, *args: Value) -> Value:
    clauses = _clauses_of(args, context.arg_types)
    order = list(clauses.defaults)

    def value(text: str | None, path: str | None, *defaults: Any) -> Any:
        if text is None or path is None:
            return None
        given = dict(zip(order, defaults, strict=True))
        try:
            found, read = _read(text, path)
            if found is None or (read.lax and isinstance(found, dict | list)):
                return _behaviour("JSON_VALUE", clauses, "ON EMPTY", f"'{path}' finds no value", given.get("ON EMPTY"))
            if isinstance(found, dict | list):
                raise _Failed(f"'{path}' finds an object or an array")
            return _returned(found, context.result_type)
        except _Failed as error:
            return _behaviour("JSON_VALUE", clauses, "ON ERROR", str(error), given.get("ON ERROR"))

    columns = [*args[:2], *(args[i] for i in clauses.defaults.values())]
    return map_distinct(value, columns, context.result_type.arrow, context.num_rows, sees_nulls=True)


def _text_or_texts(type_: DataType) -> bool:
    return type_.is_character or (type_.root is _R.ARRAY and type_.children[0].is_character)


@FAMILY.special(
    "JSON_QUERY",
    _rule("JSON_QUERY", _text_or_texts, "STRING or ARRAY<STRING>"),
    "The object or array that a path finds in a JSON text.",
    form=("CHARACTER", "CHARACTER"),
    nulls=Nulls.RULE,
    can_fail=True,
    syntax="JSON_QUERY(text, path [RETURNING type] [{WITHOUT|WITH [CONDITIONAL|UNCONDITIONAL]} WRAPPER] "
    "[.. ON EMPTY] [.. ON ERROR])",
)
def json_query(context: EvalContext, *args: Value) -> Value:
    clauses = _clauses_of(args, context.arg_types)
    wrapper = clauses.words.get("WRAPPER", "WITHOUT")
    as_array = context.result_type.root is _R.ARRAY

    def query(text: str, path: str) -> Any:
        try:
            found, read = _read(text, path)
            if found is not None and (
                wrapper == "UNCONDITIONAL" or (wrapper == "CONDITIONAL" and not isinstance(found, list))
            ):
                found = [found]
            if found is None or (read.lax and not isinstance(found, dict | list)):
                return _behaviour("JSON_QUERY", clauses, "ON EMPTY", f"'{path}' finds nothing", None)
            if not isinstance(found, dict | list):
                raise _Failed(f"'{path}' finds a scalar")
            if not as_array:
                return write_json(found)
            if not isinstance(found, list):
                raise _Failed(f"'{path}' finds no array")
            return [None if v is None else _scalar_text(v) for v in found]
        except _Failed as error:
            return _behaviour("JSON_QUERY", clauses, "ON ERROR", str(error), None)

    return map_distinct(query, args[:2], context.result_type.arrow, context.num_rows)
