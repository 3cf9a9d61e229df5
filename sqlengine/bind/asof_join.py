"""ASOF joins: which equalities, and which comparison of times, their conditions are made of.

ASOF JOIN b ON a.k = b.k AND a.t >= b.t                     DuckDB
ASOF JOIN b MATCH_CONDITION (a.t >= b.t) [ON a.k = b.k]     Snowflake, Calcite
ASOF JOIN b USING (k, t)                                    DuckDB: a.t >= b.t of the last column
"""

from __future__ import annotations

from sqlglot import exp

from planner.logical.nodes import AsofJoin, JoinKind, LogicalNode
from planner.traits.conditions import equi_pair
from runtime.core.errors import BindError, Span, UnsupportedError
from runtime.core.types import TypeRoot
from runtime.expr.analysis import columns_of, conjuncts
from runtime.expr.nodes import Call, Expr
from sqlengine.bind.operators import conjunction
from sqlengine.parse.spans import span_of

__all__ = ["asof_plan", "check_asof"]

_MIRRORED = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}
_HINT = "write ON a.key = b.key AND a.time >= b.time"


def check_asof(right: exp.Expr, kind: JoinKind, tree: exp.Join) -> None:
    """Refuses kinds and relations that an ASOF join does not take."""
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise UnsupportedError(
            f"an ASOF join is INNER or LEFT, not {kind.name}",
            span=span_of(tree),
            hint="exchange the sides of the join and turn the comparison around",
        )
    if isinstance(right, exp.Unnest | exp.Lateral) or right.args.get("version") is not None:
        raise UnsupportedError(
            "on the right of an ASOF join stands a table or query that does not refer to its left",
            span=span_of(right),
            hint="put it into a subquery of its own",
        )


def asof_plan(
    left: LogicalNode, right: LogicalNode, kind: JoinKind, condition: Expr, nearest: Expr | None, tree: exp.Join
) -> AsofJoin:
    """The join whose ON (or USING) is `condition`, and whose MATCH_CONDITION is `nearest`.

    Raises:
        BindError: E1235, there is not one comparison of the two sides besides equalities.
    """
    span = span_of(tree)
    parts = list(conjuncts(condition))
    if tree.args.get("using") and nearest is None:
        *parts, last = parts
        if not isinstance(last, Call):
            raise _wrong("the last column of USING cannot be compared", span)
        parts.append(Call(">=", last.args, last.type, span=last.span))
    lefts, rights = (frozenset(c.id for c in side.columns) for side in (left, right))
    equal: list[Expr] = []
    ordered: list[tuple[Expr, str, Expr]] = []
    for part in [*parts, *(conjuncts(nearest) if nearest is not None else ())]:
        pair = equi_pair(part, lefts, rights)
        comparison = _comparison(part, lefts, rights)
        if pair is not None and not pair.null_safe:
            equal.append(part)
        elif comparison is not None:
            ordered.append(comparison)
        else:
            raise _wrong(
                "an ASOF join takes equalities of both sides and one comparison of times, and this is neither",
                getattr(part, "span", None) or span,
                "filter in WHERE what comes out, or in a subquery the rows among which the nearest is looked for",
            )
    if len(ordered) != 1:
        found = "none" if not ordered else f"{len(ordered)}"
        raise _wrong(f"an ASOF join takes one comparison with >=, >, <= or < of both sides, and here is {found}", span)
    left_time, operator, right_time = ordered[0]
    if left_time.type.root in (TypeRoot.BOOLEAN, TypeRoot.NULL):
        raise _wrong("an ASOF join is by times, numbers or texts", span)
    return AsofJoin(left, right, kind, left_time, operator, right_time, conjunction(equal), span=span)


def _comparison(part: Expr, left: frozenset[int], right: frozenset[int]) -> tuple[Expr, str, Expr] | None:
    """`left time, comparison, right time` of a conjunct that compares the two sides."""
    if not isinstance(part, Call) or part.function not in _MIRRORED:
        return None
    a, b = part.args
    a_reads, b_reads = columns_of(a), columns_of(b)
    if not a_reads or not b_reads:
        return None
    if a_reads <= left and b_reads <= right:
        return a, part.function, b
    return (b, _MIRRORED[part.function], a) if a_reads <= right and b_reads <= left else None


def _wrong(message: str, span: Span | None, hint: str = _HINT) -> BindError:
    return BindError(message, code="E1235", span=span, hint=hint)
