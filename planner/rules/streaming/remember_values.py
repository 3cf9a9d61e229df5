"""What would be another value if it were computed again is computed once for each row that may be taken back.

    Project id, UUID() AS u X             →   Project id, u (Remember u = UUID() X)
    Filter (p AND r(v) > 1) X             →   Filter kept (Remember kept = (r(v) > 1) (Filter p X))
    Join INNER (k AND r(x, y)) X Y        →   Filter r(x, y) (Join INNER k X Y)
    Join LEFT (k AND r(y)) X Y            →   Join LEFT (k AND kept) X (Remember kept = r(y) Y)
    Join LEFT (a = r(y)) X Y              →   Join LEFT (a = value) X (Remember value = r(y) Y)
    Join LEFT (k AND r(x, y)) X Y         →   Join LEFT (n = m) X' (Project n AS m, … (Filter r(x, y) (Join INNER k X' Y)))
                                              where X' = Remember n = UUID() X
    Unnest r(v), Aggregate SUM(r(v)), … X →   Unnest value, Aggregate SUM(value), … (Remember value = r(v) X)

Streaming: state for each row of the input, only where its rows may be updated or removed; a retraction then leaves with
the values that came with the row. A whole item is one value, so that CASE and COALESCE guard what is in them. A condition
of an outer, semi or anti join that reads one side is asked once for each row of that side; one that reads both sides, or
none, for each pair of rows: the pairs that it lets pass are kept by numbers of the rows of the kept sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.logical.build import equal, filtered, passing, renaming
from planner.logical.expressions import map_expressions
from planner.logical.nodes import (
    Aggregate,
    AsofJoin,
    Filter,
    Join,
    JoinKind,
    LogicalNode,
    MultiJoin,
    Project,
    Remember,
    TemporalJoin,
    Unary,
    WindowAggregate,
)
from planner.rule import Rule, RuleContext
from planner.traits.conditions import equi_pair
from planner.traits.determinism import culprit, takes_back
from runtime.core.types import STRING
from runtime.expr.analysis import can_fail, columns_of, conjuncts, disjuncts, follows_time
from runtime.expr.nodes import AggregateCall, Call, Column, Expr, WindowCall, fresh_column, map_children
from runtime.expr.rewrite import conjunction, disjunction

__all__ = ["RULE"]


def remember_values(node: LogicalNode, context: RuleContext) -> LogicalNode | None:
    if not takes_back(node, context.traits):
        return None

    def differs(expr: Expr) -> bool:
        return culprit(expr, context.traits) is not None

    match node:
        case Project(input=source, items=items):
            values = tuple((c, e) for c, e in items if differs(e))
            passed = tuple((c, c.ref() if differs(e) else e) for c, e in items)
            return node.with_(input=Remember(source, values), items=passed) if values else None
        case Filter(predicate=predicate):
            return _filter(node, context, differs) if differs(predicate) else None
        case Join() | TemporalJoin():
            return _join(node, context, differs) if differs(node.condition) else None
        case AsofJoin():
            return _asof(node, differs)
        case MultiJoin():
            return _several(node, differs)
        case Unary():
            return _unary(node, differs)
        case _:
            return None


Differs = Callable[[Expr], bool]


class _Memory:
    """Values to be remembered of the rows of one input, each expression once."""

    def __init__(self, source: LogicalNode) -> None:
        self._source = source
        self._found: dict[Expr, Column] = {}

    def of(self, expr: Expr) -> Expr:
        """The column that stands for an expression over the input."""
        if expr not in self._found:
            self._found[expr] = fresh_column(f"$given{len(self._found)}", expr.type)
        return self._found[expr].ref()

    @property
    def plan(self) -> LogicalNode:
        """The input, with the values behind its columns."""
        values = tuple((column, expr) for expr, column in self._found.items())
        return Remember(self._source, values) if values else self._source


def _filter(node: Filter, context: RuleContext, differs: Differs) -> LogicalNode:
    parts = conjuncts(node.predicate)
    first = [p for p in parts if not differs(p)]
    if any(can_fail(p, context.functions) for p in first):
        # The others may guard it.
        first = []
    memory = _Memory(filtered(node.input, first))
    rest = [p for p in parts if p not in first]
    values = [p for p in rest if not follows_time(p)]
    kept = [memory.of(conjunction(values))] if values else []
    for part in rest:
        if follows_time(part):
            # What lets a row in and out is no value; what it is an alternative to may be.
            either = disjuncts(part)
            kept.append(disjunction([memory.of(e) if differs(e) and not follows_time(e) else e for e in either]))
    return _exactly(filtered(memory.plan, kept), node.columns)


def _unary(node: Unary, differs: Differs) -> LogicalNode | None:
    """The arguments of a node over one input."""
    memory = _Memory(node.input)

    def argument(expr: Expr) -> Expr:
        return memory.of(expr) if differs(expr) else expr

    def change(expr: Expr) -> Expr:
        return map_children(expr, argument) if isinstance(expr, AggregateCall | WindowCall) else argument(expr)

    changed = map_expressions(node, change)
    if changed is node:
        return None
    made = changed.with_inputs(memory.plan)
    return made if isinstance(node, Aggregate | WindowAggregate) else _exactly(made, node.columns)


def _several(node: MultiJoin, differs: Differs) -> LogicalNode | None:
    memories = [_Memory(part) for part in node.parts]
    keys = tuple(
        tuple(memory.of(k) if differs(k) else k for k in each) for memory, each in zip(memories, node.keys, strict=True)
    )
    if keys == node.keys:
        return None
    return _exactly(node.with_(parts=tuple(m.plan for m in memories), keys=keys), node.columns)


def _asof(node: AsofJoin, differs: Differs) -> LogicalNode | None:
    sides = _Sides(node, differs)
    made = node.with_(
        left_time=sides.left.of(node.left_time) if differs(node.left_time) else node.left_time,
        right_time=sides.right.of(node.right_time) if differs(node.right_time) else node.right_time,
        equal=conjunction([sides.keys(part) or part for part in conjuncts(node.equal)]),
    )
    return None if made == node else _exactly(made.with_inputs(sides.left.plan, sides.right.plan), node.columns)


class _Sides:
    """What is remembered of both sides of a join."""

    def __init__(self, join: AsofJoin | Join | TemporalJoin, differs: Differs) -> None:
        self._differs = differs
        self.left, self.right = _Memory(join.left), _Memory(join.right)
        self._lefts, self._rights = ({c.id for c in side.columns} for side in join.inputs)

    def keys(self, part: Expr) -> Expr | None:
        """The conjunct as an equality of the two sides over columns that are remembered; None for any other."""
        pair = equi_pair(part, frozenset(self._lefts), frozenset(self._rights))
        if pair is None:
            return None
        left = self.left.of(pair.left) if self._differs(pair.left) else pair.left
        right = self.right.of(pair.right) if self._differs(pair.right) else pair.right
        return Call("IS NOT DISTINCT FROM" if pair.null_safe else "=", (left, right), part.type)

    def one(self, part: Expr) -> Expr | None:
        """The conjunct as a column of the side that it reads; None where it reads both, or none."""
        reads = columns_of(part)
        if reads and reads <= self._lefts:
            return self.left.of(part)
        return self.right.of(part) if reads and reads <= self._rights else None


def _join(node: Join | TemporalJoin, context: RuleContext, differs: Differs) -> LogicalNode | None:
    """Keys and what reads one side become columns of that side; the rest is asked of pairs of rows."""
    sides = _Sides(node, differs)
    keys: list[Expr] = []
    rest: list[Expr] = []
    for part in conjuncts(node.condition):
        key = sides.keys(part)
        if key is not None:
            keys.append(key)
        else:
            rest.append((sides.one(part) or part) if differs(part) else part)
    pairs = [part for part in rest if differs(part)]
    if pairs and any(can_fail(part, context.functions) for part in rest if part not in pairs):
        # The others may guard it.
        pairs = rest
    join = node.with_(
        left=sides.left.plan,
        right=sides.right.plan,
        condition=conjunction((*keys, *(part for part in rest if part not in pairs))),
    )
    if isinstance(join, TemporalJoin) and (join.right is not node.right or (pairs and join.kind is not JoinKind.INNER)):
        # The versions of a table are all of its changes, each as it came.
        return None
    if pairs and isinstance(join, Join) and join.kind is not JoinKind.INNER:
        join = _by_pairs(join, conjunction(pairs))
    else:
        join = filtered(join, pairs)
    return _exactly(join, node.columns)


def _by_pairs(join: Join, condition: Expr) -> LogicalNode:
    """An outer, semi or anti join with those pairs of rows that pass a further condition, by numbers of the rows."""
    left, right, kind = join.left, join.right, join.kind
    first, second = fresh_column("$left", _NUMBER.type), fresh_column("$right", _NUMBER.type)
    if kind.keeps_left or kind.left_only:
        left = Remember(left, ((first, _NUMBER),))
    if kind.keeps_right:
        right = Remember(right, ((second, _NUMBER),))
    pairs = Filter(Join(left, right, JoinKind.INNER, join.condition), condition)
    if kind is JoinKind.FULL:
        found, (mine, theirs) = renaming(pairs, (first, second))
        both = Join(left, found, JoinKind.LEFT, equal(first.ref(), mine.ref()))
        return Join(both, right, kind, equal(theirs.with_type(_NUMBER.type.with_nullable(True)).ref(), second.ref()))
    if kind is JoinKind.RIGHT:
        number = fresh_column("$pair", _NUMBER.type)
        found = Project(pairs, ((number, second.ref()), *passing(join.left.columns)))
        return Join(found, right, kind, equal(number.ref(), second.ref()))
    number = fresh_column("$pair", _NUMBER.type)
    passed = () if kind.left_only else passing(join.right.columns)
    found = Project(pairs, ((number, first.ref()), *passed))
    return Join(left, found, kind, equal(first.ref(), number.ref()))


_NUMBER = Call("UUID", (), STRING.not_null())
"""What tells rows apart that are equal."""


def _exactly(plan: LogicalNode, columns: Sequence[Column]) -> LogicalNode:
    """The plan without the columns that were only made to be read."""
    return plan if plan.columns == tuple(columns) else Project(plan, passing(columns))


RULE = Rule("remember_values", LogicalNode, remember_values, essential=True)
