"""Conditions of a query as filters of MongoDB, where they mean the same there.

MongoDB compares a field with values of its kind alone, and knows no unknown: so a negation is not translated, and neither is the
order of texts, floating numbers, and times, of which it keeps fewer digits than a constant may have. Of a number that a
document has otherwise than its column says the row would be refused; a filter may leave it out instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from connectors.kit.predicates import Condition
from connectors.mongodb.address import bson
from connectors.mongodb.values import constant, id_of
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from runtime.expr.nodes import Call, Constants, Expr, InList, InputRef, Literal

__all__ = ["as_filters", "filter_of"]

_R = TypeRoot
_ORDERED = frozenset((_R.TINYINT, _R.SMALLINT, _R.INT, _R.BIGINT))
_COMPARISONS = {"<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte"}
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def as_filters(
    filters: Sequence[Expr], schema: Schema, already: Iterable[Condition] = ()
) -> tuple[tuple[Condition, ...], list[Expr]]:
    """As `as_conditions`: what is taken, as extended JSON, and what the engine must still apply."""
    taken, left = list(already), list[Expr]()
    known = {condition.sql for condition in taken}
    for expression in filters:
        found = _filter(expression, schema)
        if found is None:
            left.append(expression)
            continue
        text = bson().json_util.dumps(found, json_options=bson().json_util.CANONICAL_JSON_OPTIONS, sort_keys=True)
        if text not in known:
            known.add(text)
            taken.append(Condition(text, True, expression, schema.names))
    return tuple(taken), left


def filter_of(conditions: Iterable[Condition]) -> dict[str, Any]:
    """The filter of all of these conditions."""
    parts = [bson().json_util.loads(condition.sql) for condition in conditions]
    return {"$and": parts} if parts else {}


def _filter(expr: Expr, schema: Schema) -> dict[str, Any] | None:
    match expr:
        case Call(function="AND" | "OR" as name, args=args):
            parts = [_filter(a, schema) for a in args]
            return None if any(p is None for p in parts) else {f"${name.lower()}": parts}
        case Call(function="IS NULL" | "IS NOT NULL" as name, args=(InputRef() as ref,)):
            return {schema[ref.index].name: {"$eq" if name == "IS NULL" else "$ne": None}}
        case Call(function=name, args=(InputRef() as ref, Literal() as given)) if name in _MIRRORED:
            return _compared(schema[ref.index].name, name, ref.type, given)
        case Call(function=name, args=(Literal() as given, InputRef() as ref)) if name in _MIRRORED:
            return _compared(schema[ref.index].name, _MIRRORED[name], ref.type, given)
        case InList(value=InputRef() as ref, items=items):
            parts = [_compared(schema[ref.index].name, "=", ref.type, item) for item in _each(items)]
            return None if not parts or any(p is None for p in parts) else {"$or": parts}
        case _:
            return None


def _each(items: Iterable[Expr]) -> list[Expr]:
    found: list[Expr] = []
    for item in items:
        found += [Literal(v, item.type) for v in item.values] if isinstance(item, Constants) else [item]
    return found


def _compared(name: str, comparison: str, column: DataType, given: Expr) -> dict[str, Any] | None:
    """A field compared with a constant; None where it may mean something else there."""
    if not isinstance(given, Literal) or given.value is None:
        return None
    value = given.value
    if column.root in _ORDERED and given.type.root in _ORDERED:
        number = constant(value, column.with_(root=_R.BIGINT))
        return {name: {_COMPARISONS.get(comparison, "$eq"): number}}
    if comparison != "=":
        return None
    if column.root is _R.BOOLEAN and isinstance(value, bool):
        return {name: {"$eq": value}}
    if column.root is _R.VARCHAR and given.type.root in (_R.CHAR, _R.VARCHAR) and not value.endswith(" "):
        # An ObjectId is read as its text.
        found = id_of(value)
        return {name: {"$in": [value] if found is value else [value, found]}}
    return None
