"""JSON texts made of values: JSON_STRING, JSON_OBJECT, JSON_ARRAY, JSON, JSON_QUOTE, JSON_UNQUOTE.

The binder puts two texts before the arguments of JSON_OBJECT and JSON_ARRAY: `NULL ON NULL` or `ABSENT ON NULL`, and
which values are JSON already (`1`, results of JSON functions, put in as they are) or not (`0`).
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import ExpressionError, TypeMismatchError
from runtime.core.types import STRING, DataType, TypeRoot
from runtime.expr.distinct import map_distinct
from runtime.expr.function import CallTypes, EvalContext, Nulls, Value
from runtime.expr.json_path import NotJson, parse_json, write_json
from runtime.expr.json_text import json_text, quoted, serializable
from runtime.expr.library.declare import CHARACTER, Family
from runtime.expr.lists import by_row, join_known
from runtime.expr.texts import on_rows

__all__ = ["FAMILY"]

FAMILY = Family("json values")
_R = TypeRoot
_Typed = tuple[tuple[DataType, ...], DataType]
_ABSENT = "ABSENT ON NULL"


def _check(name: str, type_: DataType) -> None:
    if not serializable(type_):
        raise TypeMismatchError(f"{name} does not take {type_.not_null()}", code="E1301", hint="CAST it to STRING")


def _string_rule(types: CallTypes) -> _Typed | None:
    if len(types) != 1:
        return None
    _check("JSON_STRING", types[0])
    return tuple(types), STRING.with_nullable(types[0].nullable)


@FAMILY.special("JSON_STRING", _string_rule, "A value as JSON text.", form=("ANY",))
@by_row
def json_string(context: EvalContext, length: int, value: pa.Array) -> pa.Array:
    return json_text(value, context.arg_types[0])


@FAMILY.scalar("JSON_QUOTE", [CHARACTER], STRING, "A text as a JSON string.")
def json_quote(context: EvalContext, text: Value) -> Value:
    return on_rows(quoted, text, context.num_rows)


@FAMILY.scalar("JSON_UNQUOTE", [CHARACTER], STRING, "The text of a JSON string; what is no JSON string stays as it is.")
def json_unquote(context: EvalContext, text: Value) -> Value:
    def unquote(given: str) -> str:
        if not (given.startswith('"') and given.endswith('"') and len(given) > 1):
            return given
        try:
            value = json.loads(given)
        except ValueError:
            return given
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(value, str) else given

    return map_distinct(unquote, [text], pa.string(), context.num_rows)


@FAMILY.scalar(
    "JSON",
    [CHARACTER],
    STRING,
    "Marks a text as JSON, inside JSON_OBJECT and JSON_ARRAY.",
    nulls=Nulls.MAYBE,
    can_fail=True,
)
def json_(context: EvalContext, text: Value) -> Value:
    def check(given: str) -> str | None:
        if not given.strip():
            return None
        try:
            return write_json(parse_json(given.strip()))
        except NotJson as error:
            raise ExpressionError(f"'{given[:60]}' is no JSON: {error}", code="E2002") from None

    return map_distinct(check, [text], pa.string(), context.num_rows)


def _has_clauses(types: CallTypes) -> bool:
    return len(types) >= 2 and all(isinstance(types.literal(i), str) for i in range(2))


def _object_rule(types: CallTypes) -> _Typed | None:
    if len(types) % 2 or not _has_clauses(types):
        return None
    for index in range(2, len(types), 2):
        if not isinstance(types.literal(index), str):
            raise TypeMismatchError(
                "the keys of JSON_OBJECT are texts that are not NULL, written in the query", code="E1301"
            )
        _check("JSON_OBJECT", types[index + 1])
    return tuple(types), STRING.not_null()


def _value_texts(context: EvalContext, places: range, columns: tuple[pa.Array, ...], raw: str) -> list[pa.Array]:
    return [columns[i] if raw[n] == "1" else json_text(columns[i], context.arg_types[i]) for n, i in enumerate(places)]


@FAMILY.special(
    "JSON_OBJECT",
    _object_rule,
    "A JSON object of keys and values.",
    form=("CHARACTER", "ANY"),
    nulls=Nulls.RULE,
    can_fail=True,
    syntax="JSON_OBJECT([[KEY] key VALUE value, ...] [{NULL|ABSENT} ON NULL])",
)
@by_row
def json_object(context: EvalContext, length: int, on_null: pa.Array, raw: pa.Array, *pairs: pa.Array) -> pa.Array:
    """Keys are in order; of equal keys the last counts."""
    columns = (on_null, raw, *pairs)
    if not length:
        return pa.nulls(0, pa.string())
    absent = on_null[0].as_py() == _ABSENT
    texts = _value_texts(context, range(3, len(columns), 2), columns, raw[0].as_py())
    members = {pairs[2 * i][0].as_py(): text for i, text in enumerate(texts)}
    pieces: list[pa.Array] = []
    for key in sorted(members):
        value = members[key] if absent else pc.fill_null(members[key], "null")
        pieces.append(pc.binary_join_element_wise(write_json(key), value, ":"))
    return _enclosed(pieces, length, "{", "}")


def _enclosed(pieces: list[pa.Array], length: int, before: str, after: str) -> pa.Array:
    """Pieces with commas between, those that are NULL left out."""
    return pc.binary_join_element_wise(before, join_known(pieces, ",", length), after, "")


def _array_rule(types: CallTypes) -> _Typed | None:
    if not _has_clauses(types):
        return None
    for type_ in types[2:]:
        _check("JSON_ARRAY", type_)
    return tuple(types), STRING.not_null()


@FAMILY.special(
    "JSON_ARRAY",
    _array_rule,
    "A JSON array of values.",
    form=("ANY?",),
    nulls=Nulls.RULE,
    can_fail=True,
    syntax="JSON_ARRAY([value, ...] [{NULL|ABSENT} ON NULL])",
)
@by_row
def json_array(context: EvalContext, length: int, on_null: pa.Array, raw: pa.Array, *values: pa.Array) -> pa.Array:
    if not length:
        return pa.nulls(0, pa.string())
    columns = (on_null, raw, *values)
    texts = _value_texts(context, range(2, len(columns)), columns, raw[0].as_py())
    if on_null[0].as_py() != _ABSENT:
        texts = [pc.fill_null(t, "null") for t in texts]
    return _enclosed(texts, length, "[", "]")
