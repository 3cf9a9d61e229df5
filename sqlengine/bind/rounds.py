"""A step of a recursive query, with the number of the round handed on.

Each node on the way from the rows of the round before to the result of the step hands on the number of their round, and
what SEARCH and CYCLE have added to them. That is possible where a row of the result comes from one row of the round before
(or from one of each of several). What depends on all of them together has no fixed point that a stream can follow, and is
refused as in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from planner.logical.build import passing
from planner.logical.expressions import node_expressions, walk_plan
from planner.logical.nodes import (
    Aggregate,
    DependentJoin,
    Filter,
    Join,
    JoinKind,
    LastRound,
    LogicalNode,
    Project,
    Shared,
    Union,
    Unnest,
)
from runtime.core.errors import BindError, Span
from runtime.core.types import BIGINT, BOOLEAN, DataType
from runtime.expr.nodes import Call, Case, Column, Expr, Literal, SubqueryExpr, fresh_column, walk
from sqlengine.bind.coerce import cast_plan
from sqlengine.bind.search_cycle import Traces
from sqlengine.parse.spans import span_of

__all__ = ["ROUND", "STEP", "Way", "next_round", "refused"]

ROUND = BIGINT.not_null()
STEP = "$step"
"""The column with the number of the round."""


class Way:
    """What is known of a recursive query while the number of its rounds is handed on."""

    def __init__(self, reference: exp.Table, loop: int, every: bool, traces: Traces | None) -> None:
        """`reference`: where the step names the recursive query; `every`: UNION ALL."""
        self._reference = reference
        self.loop = loop
        self.every = every
        self.traced = () if traces is None else traces.names
        self.traces = traces

    def reads(self, plan: LogicalNode) -> bool:
        """Whether a plan reads the rows of the round before, in subqueries too."""
        return any(
            (isinstance(node, LastRound) and node.loop == self.loop)
            or (isinstance(node, Shared) and self.reads(node.plan))
            or self.asks(node)
            for node in walk_plan(plan)
        )

    def asks(self, node: LogicalNode) -> bool:
        """Whether a subquery in the node's expressions does."""
        parts = (part for expression in node_expressions(node) for part in walk(expression))
        return any(
            isinstance(p, SubqueryExpr) and isinstance(p.plan, LogicalNode) and self.reads(p.plan) for p in parts
        )

    def refusal(self, where: str) -> BindError:
        return refused(self._reference.name, where, span_of(self._reference))


def refused(name: str, where: str, span: Span | None) -> BindError:
    """E1263: the recursive query of a name is read where its rows cannot be followed."""
    return BindError(
        f'the recursive query "{name}" is read {where}',
        code="E1263",
        span=span,
        hint="read it in FROM or a join, and aggregate, sort or subtract where the whole query is read",
    )


def next_round(plan: LogicalNode, types: Sequence[DataType], names: Sequence[str], way: Way) -> LogicalNode:
    """A step in the types of the recursive query, with the columns of SEARCH and CYCLE and the number of the round behind
    its own.

    Raises:
        BindError: E1263, the step reads the recursive query where its rows cannot be followed.
    """
    lifted, (*traced, round_) = _lifted(plan, way)
    cast = cast_plan(plan, types, names)
    items = cast.items if isinstance(cast, Project) and cast is not plan else passing(plan.columns)
    following: Expr = Call("+", (round_.ref(), Literal(1, ROUND)), ROUND)
    # A column that stands twice has got an id of its own by now.
    part = Project(lifted, (*items, *passing(traced), (fresh_column(STEP, ROUND), following)))
    if way.traces is None or not traced:
        return part
    own = [column for column, _ in items]
    values = way.traces.following([c.ref() for c in own], [c.ref() for c in traced])
    added = [(fresh_column(name, value.type), value) for name, value in zip(way.traced, values, strict=True)]
    return Project(part, (*passing(own), *added, *passing(part.columns[-1:])))


def _lifted(plan: LogicalNode, way: Way) -> tuple[LogicalNode, tuple[Column, ...]]:
    """A plan that reads the rows of the round before, with more columns of those rows: what SEARCH and CYCLE have added to
    them, and the number of that round as the last one."""
    if way.asks(plan):
        raise way.refusal("within a subquery")
    match plan:
        case LastRound(produced=produced):
            numbered = plan.with_(round=fresh_column(STEP, ROUND))
            # The query may name the added columns as well; these are handed on whatever it makes of those.
            traced = produced[len(produced) - len(way.traced) :]
            copies = [(fresh_column(c.name, c.type), c.ref()) for c in traced]
            if not copies:
                return numbered, numbered.columns[-1:]
            copied = Project(numbered, (*passing(produced), *copies, *passing(numbered.columns[-1:])))
            return copied, copied.columns[len(produced) :]
        case Filter() | Unnest():
            below, carried = _lifted(plan.input, way)
            return plan.with_inputs(below), carried
        case Project(input=source, items=items):
            below, carried = _lifted(source, way)
            return Project(below, (*items, *passing(carried))), carried
        case Aggregate(input=source, group=group, calls=(), scalar=False):
            below, carried = _lifted(source, way)
            return plan.with_(input=below, group=(*group, *(c.ref() for c in carried))), carried
        case Join() | DependentJoin():
            return _joined(plan, way)
        case Union(parts=parts, produced=produced):
            return _united(parts, produced, way)
        case _:
            raise way.refusal(_WHERE.get(type(plan).__name__, "where all of its rows are wanted at once"))


_WHERE = {
    "Aggregate": "within an aggregation",
    "Over": "within a window function",
    "Sort": "within ORDER BY with LIMIT",
    "Limit": "within LIMIT",
    "Except": "within EXCEPT",
    "Intersect": "within INTERSECT",
    "Recursive": "within another recursive query",
    "Shared": "within a query of WITH that is used several times",
    "WindowTable": "within a window function",
    "Match": "within MATCH_RECOGNIZE",
    "ProcessTables": "within a process table function",
    "TemporalJoin": "within a temporal join",
    "AsofJoin": "within an ASOF join",
}


def _joined(plan: Join | DependentJoin, way: Way) -> tuple[LogicalNode, tuple[Column, ...]]:
    in_left, in_right = way.reads(plan.left), way.reads(plan.right)
    kind = plan.kind
    if in_right and (kind in (JoinKind.LEFT, JoinKind.FULL) or (in_left and kind is JoinKind.RIGHT)):
        raise way.refusal("on the side of an outer join that is filled with NULL")
    if in_left and kind in (JoinKind.RIGHT, JoinKind.FULL):
        raise way.refusal("on the side of an outer join that is filled with NULL")
    if in_right and (kind.left_only or isinstance(plan, DependentJoin)):
        raise way.refusal("within a subquery or LATERAL")
    if not (in_left and in_right):
        below, carried = _lifted(plan.left if in_left else plan.right, way)
        return plan.with_inputs(*((below, plan.right) if in_left else (plan.left, below))), carried
    if way.every:
        raise way.refusal("twice in a join of UNION ALL, where each round has its own rows")
    if way.traced:
        raise way.refusal("twice in a join, and with SEARCH or CYCLE a row is made of one row")
    left, (one,) = _lifted(plan.left, way)
    right, (other,) = _lifted(plan.right, way)
    later: Expr = Case(((Call(">", (one.ref(), other.ref()), BOOLEAN.not_null()), one.ref()),), other.ref(), ROUND)
    number = fresh_column(STEP, ROUND)
    return Project(plan.with_inputs(left, right), (*passing(plan.columns), (number, later))), (number,)


def _united(
    parts: tuple[LogicalNode, ...], produced: tuple[Column, ...], way: Way
) -> tuple[LogicalNode, tuple[Column, ...]]:
    found: list[LogicalNode] = []
    handed: tuple[Column, ...] = ()
    for part in parts:
        if not way.reads(part):
            raise way.refusal("in some parts of a UNION ALL and not in others")
        below, carried = _lifted(part, way)
        found.append(Project(below, (*passing(part.columns), *passing(carried))))
        handed = handed or tuple(fresh_column(c.name, c.type) for c in carried)
    return Union(tuple(found), (*produced, *handed)), handed
