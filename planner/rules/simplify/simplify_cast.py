"""Remove casts that change nothing, and compare integers in their own type.

    CAST(x AS INT)                  → x        (x is INT)
    CAST(CAST(x AS BIGINT) AS INT)  → x        (x is INT)
    CAST(x AS BIGINT) > 5           → x > 5    (x is INT, 5 fits)

Streaming: no state, keeps the changelog mode; a bare column can be pushed into a source or matched with a key.
A cast that takes the time attribute from a column stays: it makes the column a plain timestamp.
"""

from __future__ import annotations

from planner.logical.expressions import map_expressions
from planner.rule import RuleContext, expression_rule
from planner.rules.simplify.places import PLACES
from planner.rules.simplify.simplify_comparison import MIRRORED
from runtime.core.types import DataType, TypeRoot
from runtime.expr.nodes import Call, Cast, Constants, Expr, InList, Literal, transform

__all__ = ["RULE"]

_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}


def simplify_cast(expr: Expr, context: RuleContext) -> Expr:
    return transform(expr, _simplified)


def _simplified(expr: Expr) -> Expr:
    match expr:
        case Cast(value=value, type=target) if (
            value.type.time_attribute == target.time_attribute and value.type.same_ignoring_nullability(target)
        ):
            return value
        case Cast(value=Cast(value=inner) as outer, type=target) if (
            _widens(inner.type, outer.type) and target.root in _BITS
        ):
            if inner.type.root is target.root:
                return inner
            return expr.with_(value=inner)
        case Call(function=function, args=(Cast(value=value, type=wide), Literal() as literal)) if (
            function in MIRRORED and _widens(value.type, wide)
        ):
            narrow = _narrow(literal, value.type)
            return expr if narrow is None else expr.with_(args=(value, narrow))
        case InList(value=Cast(value=value, type=wide), items=items) if _widens(value.type, wide):
            narrowed = tuple(_narrow_item(i, value.type) for i in items)
            fitting = tuple(n for n in narrowed if n is not None)
            return expr.with_(value=value, items=fitting) if len(fitting) == len(items) else expr
        case _:
            return expr


def _widens(source: DataType, target: DataType) -> bool:
    return source.root in _BITS and target.root in _BITS and _BITS[source.root] <= _BITS[target.root]


def _narrow_item(item: Expr, type_: DataType) -> Expr | None:
    """An item of IN in a narrower integer type; None when it is no constant, or does not fit."""
    match item:
        case Literal():
            return _narrow(item, type_)
        case Constants(values=values):
            narrow = [_narrow(Literal(v, item.type), type_) for v in (min(values, key=_size), max(values, key=_size))]
            fits = all(n is not None for n in narrow)
            return Constants(values, type_.with_nullable(item.type.nullable)) if fits else None
        case _:
            return None


def _size(value: int | None) -> int:
    return 0 if value is None else value


def _narrow(literal: Literal, type_: DataType) -> Literal | None:
    """The literal in a narrower integer type, None when it does not fit."""
    if literal.value is None:
        return Literal(None, type_.with_nullable(True))
    limit = 1 << (_BITS[type_.root] - 1)
    if not isinstance(literal.value, int) or not -limit <= literal.value < limit:
        return None
    return Literal(literal.value, type_.not_null())


RULE = expression_rule("simplify_cast", PLACES, simplify_cast, map_expressions)
