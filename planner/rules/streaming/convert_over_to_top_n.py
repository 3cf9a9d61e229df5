"""A filter on a row number is a top-n.

    Filter rn <= 3 (Over rn = ROW_NUMBER() OVER (PARTITION BY team ORDER BY pts DESC) X)
      →   TopN 1..3 by team order pts DESC as rn X

`<`, `<=`, `=`, `>`, `>=`, BETWEEN and IN one number; RANK and DENSE_RANK too. Other conditions stay above, other
calls stay below:

    Filter rn = 1 AND s > 5 (Over rn = ROW_NUMBER() …, s = SUM(x) … X)
      →   Filter s > 5 (TopN 1..1 … as rn (Over s = SUM(x) … X))

Streaming: only the first rows are kept and followed; the output retracts. Not applied without an upper bound (`rn >=
2`, `rn <= n`): that stays an OVER aggregate whose rows are all numbered.
"""

from __future__ import annotations

from planner.logical.build import filtered, projected
from planner.logical.nodes import Filter, LogicalNode, Over, RankFunction, TopN
from planner.rule import Rule, RuleContext
from runtime.expr.analysis import conjuncts
from runtime.expr.nodes import Call, Column, ColumnRef, Expr, Literal, WindowCall

__all__ = ["RULE"]

_RANKS = {f.name for f in RankFunction}


def convert_over_to_top_n(node: Filter, context: RuleContext) -> LogicalNode | None:
    over = node.input
    if not isinstance(over, Over):
        return None
    for index, (column, call) in enumerate(over.calls):
        if call.function not in _RANKS or not all(
            isinstance(e, ColumnRef) for e in (*call.partition_by, *(k.expr for k in call.order_by))
        ):
            continue
        found = _bounds(node.predicate, column)
        if found is None:
            continue
        start, end, used = found
        others = over.calls[:index] + over.calls[index + 1 :]
        source = over.with_(calls=others) if others else over.input
        rest = [c for c in conjuncts(node.predicate) if c not in used]
        return projected(filtered(_top_n(source, column, call, start, end, over.ttl), rest), node.columns)
    return None


def _top_n(source: LogicalNode, column: Column, call: WindowCall, start: int, end: int, ttl: int | None) -> TopN:
    partition = tuple(p for p in call.partition_by if isinstance(p, ColumnRef))
    return TopN(source, RankFunction[call.function], partition, call.order_by, start, end, column, ttl)


def _bounds(predicate: Expr, rank: Column) -> tuple[int, int, list[Expr]] | None:
    """The first and last rank that pass, and the conditions that say so; None without a last one."""
    start, end = 1, None
    used: list[Expr] = []
    for condition in conjuncts(predicate):
        match condition:
            case Call(function=function, args=(ColumnRef(id=id_), Literal(value=int() as value))) if id_ == rank.id:
                lower, upper = _range(function, value)
            case _:
                continue
        if lower is None and upper is None:
            continue
        used.append(condition)
        start = start if lower is None else max(start, lower)
        end = end if upper is None else upper if end is None else min(end, upper)
    return None if end is None or end < start else (start, end, used)


def _range(function: str, value: int) -> tuple[int | None, int | None]:
    match function:
        case "=":
            return value, value
        case "<=":
            return None, value
        case "<":
            return None, value - 1
        case ">=":
            return value, None
        case ">":
            return value + 1, None
        case _:
            return None, None


RULE = Rule("convert_over_to_top_n", Filter, convert_over_to_top_n)
