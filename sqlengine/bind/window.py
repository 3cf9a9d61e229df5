"""Takes functions with OVER out of expressions: one `Over` node computes all of a SELECT, over a projection of what
they read.

Before:  SELECT SUM(price * qty) OVER (PARTITION BY UPPER(item) ORDER BY ts) + 1
After:   Project[*, UPPER(item) as o0, price * qty as o1] -> Over[SUM(o1) OVER (PARTITION BY o0 ORDER BY ts) as w0]
         and w0 + 1
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.logical.nodes import LogicalNode, Over, Project
from runtime.expr.nodes import Column, ColumnRef, Expr, Literal, WindowCall, fresh_column, map_children, walk

__all__ = ["extract_windows"]


def extract_windows(
    plan: LogicalNode, expressions: Sequence[Expr], ttl: int | None = None
) -> tuple[LogicalNode, list[Expr]]:
    """The plan that computes the window calls of the expressions, and the expressions that read their columns.

    The plan keeps all columns it had. Without window calls everything comes back as it is. `ttl`: how long their state
    lives, from a hint.
    """
    calls = list(dict.fromkeys(e for root in expressions for e in walk(root) if isinstance(e, WindowCall)))
    if not calls:
        return plan, list(expressions)
    added: list[tuple[Column, Expr]] = []
    known: dict[Expr, ColumnRef] = {c.ref(): c.ref() for c in plan.columns}

    def column(expr: Expr) -> ColumnRef:
        found = known.get(expr)
        if found is None:
            fresh = fresh_column(f"o{len(added)}", expr.type)
            added.append((fresh, expr))
            found = known[expr] = fresh.ref()
        return found

    meaning: dict[Expr, ColumnRef] = {}
    computed: list[tuple[Column, WindowCall]] = []
    for number, call in enumerate(calls):
        over_columns = call.with_(
            args=tuple(a if isinstance(a, Literal) else column(a) for a in call.args),
            partition_by=tuple(column(p) for p in call.partition_by),
            order_by=tuple(k.with_(expr=column(k.expr)) for k in call.order_by),
            filter=None if call.filter is None else column(call.filter),
        )
        result = fresh_column(f"w{number}", call.type)
        computed.append((result, over_columns))
        meaning[call] = result.ref()
    if added:
        plan = Project(plan, (*((c, c.ref()) for c in plan.columns), *added))

    def rewrite(expr: Expr) -> Expr:
        return meaning.get(expr) or map_children(expr, rewrite)

    return Over(plan, tuple(computed), ttl), [rewrite(e) for e in expressions]
