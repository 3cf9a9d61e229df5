"""A join of two windowed inputs on equal windows is a window join.

    Join k (a.window_start = b.window_start AND a.window_end = b.window_end AND c) X Y
      →   WindowJoin k (window of a) = (window of b) on c X Y

Streaming: pairs come out once, when the watermark passes the window's end; append-only, also for outer and anti
joins; state is freed then. Both sides must be append-only and have their windows from the same function with the same
parameters; else it stays a regular join.
"""

from __future__ import annotations

from planner.logical.nodes import Join, LogicalNode, WindowJoin
from planner.rule import Rule, RuleContext
from planner.rules.streaming.windowed import Windowed, windowed
from planner.traits.changes import is_append_only
from planner.traits.conditions import split_equalities
from runtime.expr.analysis import conjuncts
from runtime.expr.nodes import Call, ColumnRef, Expr
from runtime.expr.rewrite import conjunction

__all__ = ["RULE"]


def convert_join_to_window_join(node: Join, context: RuleContext) -> LogicalNode | None:
    pairs, _ = split_equalities(node.condition, node.left, node.right)
    equal = {(p.left.id, p.right.id) for p in pairs if isinstance(p.left, ColumnRef) and isinstance(p.right, ColumnRef)}
    match = _match(windowed(node.left, context), windowed(node.right, context), equal)
    if match is None or not all(is_append_only(side, context.traits) for side in node.inputs):
        return None
    left, right = match
    refs = {c.id: c.ref() for side in node.inputs for c in side.columns}
    rest = (c for c in conjuncts(node.condition) if not _equates_windows(c, left, right))
    return WindowJoin(
        node.left,
        node.right,
        node.kind,
        (refs[left.start], refs[left.end]),
        (refs[right.start], refs[right.end]),
        conjunction(rest),
    )


def _match(
    lefts: tuple[Windowed, ...], rights: tuple[Windowed, ...], equal: set[tuple[int, int]]
) -> tuple[Windowed, Windowed] | None:
    for left in lefts:
        for right in rights:
            if left.spec == right.spec and {(left.start, right.start), (left.end, right.end)} <= equal:
                return left, right
    return None


def _equates_windows(condition: Expr, left: Windowed, right: Windowed) -> bool:
    if not isinstance(condition, Call) or condition.function not in ("=", "IS NOT DISTINCT FROM"):
        return False
    ids = [a.id for a in condition.args if isinstance(a, ColumnRef)]
    return any(
        set(ids) == {a, b}
        for a, b in ((left.start, right.start), (left.end, right.end), (left.time, right.time))
        if a is not None
    )


RULE = Rule("convert_join_to_window_join", Join, convert_join_to_window_join)
