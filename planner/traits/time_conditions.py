"""Conditions over the time that passes: when a row comes in, and when it leaves.

    placed + INTERVAL '1' HOUR > MZ_NOW()     the row is in while now < placed + 1 h
    placed BETWEEN MZ_NOW() - .. AND MZ_NOW()  from placed on, until placed + ..
    vip OR placed > MZ_NOW() - INTERVAL '1' DAY    always for the rows of which vip is true

Each comparison is between a value of the row and a moment: an expression over MZ_NOW() alone that never gets less when
time passes. So it holds from one point in time on, or until one, and a row has one span of time in which it is in.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.logical import nodes as n
from planner.logical.expressions import walk_plan
from planner.logical.nodes import LogicalNode
from runtime.core.errors import PlanningError
from runtime.core.types import TypeRoot
from runtime.expr.analysis import PASSING_TIME, conjuncts, disjuncts, follows_time, is_deterministic, is_dynamic
from runtime.expr.display import show
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import Call, Cast, Expr, Literal
from runtime.expr.rewrite import conjunction, disjunction
from runtime.expr.zones import is_fixed_zone

__all__ = ["Bound", "has_time_condition", "parted"]

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_POINTS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ, TypeRoot.DATE)
_STEADY = (TypeRoot.TIMESTAMP_LTZ, TypeRoot.DATE)
_DAYS = ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "DECADE", "CENTURY", "MILLENNIUM")
_HINT = (
    "compare a column with it: placed > MZ_NOW() - INTERVAL '1' HOUR, placed + INTERVAL '1' MONTH > MZ_NOW(); "
    "alternatives may differ in what does not follow the time"
)


@dataclass(frozen=True, slots=True)
class Bound:
    """Rows are in while `moment` is less than `value` (`upper`), or from when it is greater; `strict`: not when both are
    equal. Rows of which `unless` is true are not bound."""

    value: Expr
    moment: Expr
    upper: bool
    strict: bool
    unless: Expr | None = None


def has_time_condition(plan: LogicalNode) -> bool:
    """Whether rows of the plan leave when time passes."""
    for node in walk_plan(plan):
        if isinstance(node, n.Filter) and follows_time(node.predicate):
            return True
        if isinstance(node, n.Shared) and has_time_condition(node.plan):
            return True
    return False


def parted(predicate: Expr, functions: FunctionRegistry, zone: str) -> tuple[Expr, tuple[Bound, ...]]:
    """What of a condition does not follow the time that passes, and the bounds of the rest. `zone` is the session's.

    Raises:
        PlanningError: E1707 where a row might come in and leave more than once.
    """
    conditions = _Conditions(functions, is_fixed_zone(zone))
    rest: list[Expr] = []
    bounds: list[Bound] = []
    for part in conjuncts(predicate):
        if follows_time(part):
            bounds += conditions.bounds(part)
        else:
            rest.append(part)
    return conjunction(rest), tuple(bounds)


class _Conditions:
    """Reads conditions. `steady`: the clock on the wall is never put back."""

    def __init__(self, functions: FunctionRegistry, steady: bool) -> None:
        self._functions = functions
        self._steady = steady

    def bounds(self, part: Expr) -> list[Bound]:
        alternatives = disjuncts(part)
        if len(alternatives) > 1:
            timed = [a for a in alternatives if follows_time(a)]
            if len(timed) > 1 or not all(follows_time(c) for c in conjuncts(timed[0])):
                raise _refused("alternatives that follow the time that passes", part)
            unless = disjunction([a for a in alternatives if not follows_time(a)])
            return [_unless(b, unless) for c in conjuncts(timed[0]) for b in self.bounds(c)]
        if isinstance(part, Call) and part.function == "NOT":
            inner = part.args[0]
            if isinstance(inner, Call) and inner.function in _NEGATED:
                return self.bounds(Call(_NEGATED[inner.function], inner.args, inner.type, span=part.span))
        if isinstance(part, Call) and part.function in _TURNED:
            left, right = part.args
            if not follows_time(left):
                return self._compared(part, left, part.function, right)
            if not follows_time(right):
                return self._compared(part, right, _TURNED[part.function], left)
        raise _refused("this condition over the time that passes", part)

    def _compared(self, part: Expr, value: Expr, operator: str, moment: Expr) -> list[Bound]:
        """`value operator moment`."""
        if isinstance(moment, Call) and moment.function == "MINUS_DATE":
            return self._difference(part, value, operator, moment)
        if not self._is_moment(moment):
            raise _refused(f"{show(moment)}, which may get less when time passes,", part)
        if not is_deterministic(value, self._functions) or is_dynamic(value, self._functions):
            raise _refused("a value that is another one each time", part)
        if operator == "=":
            return [Bound(value, moment, upper, False) for upper in (False, True)]
        # value > moment holds until the moment has come.
        return [Bound(value, moment, operator in (">", ">="), operator in (">", "<"))]

    def _difference(self, part: Expr, value: Expr, operator: str, moment: Call) -> list[Bound]:
        """`interval > MZ_NOW() - placed` as `placed + interval > MZ_NOW()`, and the other way round."""
        first, second = moment.args
        if value.type.root is TypeRoot.INTERVAL_SECOND and not (follows_time(first) and follows_time(second)):
            if follows_time(first):
                return self._compared(part, _call("+", second, value), operator, first)
            return self._compared(part, _call("-", first, value), _TURNED[operator], second)
        raise _refused("this difference of times", part)

    def _is_moment(self, expr: Expr) -> bool:
        """Whether it is a point in time that never gets less when time passes: a month before it, of the 30th and the
        31st of March the end of February, may do."""
        match expr:
            case Call(function=name) if name == PASSING_TIME:
                return True
            case Cast(value=value, type=target):
                return (self._steady or target.root in _STEADY) and target.root in _POINTS and self._is_moment(value)
            case Call(function="+", args=(left, right)):
                return (self._is_moment(left) and _is_length(right)) or (_is_length(left) and self._is_moment(right))
            case Call(function="-", args=(left, right)):
                return self._is_moment(left) and _is_length(right)
            case Call(function="FLOOR", args=(moment, Literal(value=unit))):
                return (self._steady or unit in _DAYS) and self._is_moment(moment)
            case _:
                return False


def _unless(bound: Bound, unless: Expr) -> Bound:
    both = unless if bound.unless is None else disjunction([bound.unless, unless])
    return Bound(bound.value, bound.moment, bound.upper, bound.strict, both)


def _call(function: str, point: Expr, interval: Expr) -> Expr:
    return Call(function, (point, interval), point.type.with_nullable(point.type.nullable or interval.type.nullable))


def _is_length(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.type.root is TypeRoot.INTERVAL_SECOND


def _refused(what: str, part: Expr) -> PlanningError:
    return PlanningError(
        f"{what} cannot let rows in and out", code="E1707", span=getattr(part, "span", None), hint=_HINT
    )
