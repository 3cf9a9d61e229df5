"""WITH RECURSIVE.

    WITH RECURSIVE r AS (first UNION [ALL] step)     →   Recursive (first) (step over LastRound r)

`step` is bound over the rows of the round before, whose types are those of `first`; where it gives wider ones it is bound
again over these, so that `1` and `'a'` begin columns that grow. Then each node on the way from those rows to the result
hands on the number of their round: that is possible where a row of the result comes from one row of the round before (or
from one of each of several). What depends on all of them together has no fixed point that a stream can follow, and is
refused as in PostgreSQL.
"""

from __future__ import annotations

from dataclasses import replace

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
    Recursive,
    Shared,
    Union,
    Unnest,
)
from runtime.core.errors import BindError, Span, TypeMismatchError
from runtime.core.types import BIGINT, BOOLEAN, BYTES, STRING, DataType, TypeRoot
from runtime.expr.nodes import Call, Case, Column, Expr, Literal, SubqueryExpr, fresh_column, walk
from runtime.expr.typing import common_type
from sqlengine.bind.aggregate import materialize_keys
from sqlengine.bind.coerce import cast_plan
from sqlengine.bind.search_cycle import Traces
from sqlengine.bind.session import BoundQuery, CommonTable, QueryEnv, RoundRows
from sqlengine.parse.spans import span_of

__all__ = ["bind_recursive", "is_recursive", "last_round"]

_ROUND = BIGINT.not_null()
_MOST_TRIALS = 8
"""How often a step is bound to find types that hold what it gives."""


def is_recursive(name: str, query: exp.Expr) -> bool:
    """Whether a query of WITH RECURSIVE reads its own rows."""
    return bool(_references(name, query))


def bind_recursive(common: CommonTable) -> BoundQuery:
    """The recursive query at one of its uses.

    Raises:
        BindError: E1223 for other numbers of columns, E1263 for a query that is no `first UNION [ALL] step`, or one that
            reads its rows where it cannot.
        TypeMismatchError: E1310, no type holds what a column begins with and what it becomes.
    """
    first, steps, every = _parts(common)
    start = common.env.query(first)
    names = common.columns or start.names
    _check_width(common, len(start.names), len(names), steps)
    types = [c.type.materialized().with_nullable(True) for c in start.plan.columns]
    for _ in range(_MOST_TRIALS):
        loop = fresh_column(common.name, _ROUND).id
        traces = Traces(common, names, types)
        given = (*names, *traces.names), (*types, *traces.types)
        rows = RoundRows(common.name, *given, loop, len(traces.names), traces.goes_on)
        env = common.env.with_tables({common.name: replace(common, rounds=rows, bound=[None])})
        bound = [env.inside(env.outer).query(step) for step in steps]
        for query, step in zip(bound, steps, strict=True):
            _check_width(common, len(start.names), len(query.names), [step])
        wider = _wider(common, types, [start.plan, *(query.plan for query in bound)], steps)
        if wider == types:
            break
        types = wider
    else:
        raise TypeMismatchError(
            f'the types of the recursive query "{common.name}" grow with each round',
            code="E1310",
            span=span_of(steps[0]),
            hint="CAST the columns of the recursive part to the types of the first part",
        )
    left = cast_plan(materialize_keys(start.plan), types, names)
    if traces.names:
        added = _named(traces.first([c.ref() for c in left.columns]), traces)
        left = Project(left, (*passing(left.columns), *added))
    right = _next_round(
        [materialize_keys(query.plan) for query in bound], types, names, _Way(common, loop, every, traces)
    )
    produced = tuple(fresh_column(n, t) for n, t in zip(rows.names, rows.types, strict=True))
    return BoundQuery(Recursive(left, right, produced, every, loop, common.name), rows.names)


def last_round(common: CommonTable, rows: RoundRows, tree: exp.Table, env: QueryEnv) -> BoundQuery:
    """The name of a recursive query within itself. Raises BindError E1263 within a subquery."""
    if env.outer is not common.env.outer:
        raise _refused(common.name, "within a subquery or LATERAL", span_of(tree))
    columns = tuple(fresh_column(n, t) for n, t in zip(rows.names, rows.types, strict=True))
    plan: LogicalNode = LastRound(columns, rows.loop, None, common.name)
    goes_on = rows.goes_on([c.ref() for c in columns])
    if goes_on is not None:
        plan = Filter(plan, goes_on)
    return BoundQuery(plan, rows.names)


def _parts(common: CommonTable) -> tuple[exp.Expr, list[exp.Expr], bool]:
    """The query that gives the rows of round 0, those that give the rows of the next round, and whether it is UNION
    ALL."""
    tree = common.query
    while isinstance(tree, exp.Subquery) and not any(tree.args.get(k) for k in ("order", "limit", "offset", "with_")):
        tree = tree.this
    if not isinstance(tree, exp.Union):
        reference = _references(common.name, tree)[0]
        raise BindError(
            f'the recursive query "{common.name}" is no UNION',
            code="E1263",
            span=span_of(reference),
            hint="write the rows that it begins with, then UNION or UNION ALL, then the query that reads them",
        )
    for key, word in (("order", "ORDER BY"), ("limit", "LIMIT"), ("offset", "OFFSET"), ("with_", "WITH")):
        if tree.args.get(key):
            raise BindError(
                f'the recursive query "{common.name}" has {word}',
                code="E1263",
                span=span_of(tree),
                hint=f"write {word} where the recursive query is read",
            )
    every = not tree.args.get("distinct")
    steps = [tree.expression]
    left = tree.this
    # first UNION ALL step UNION ALL step: each step reads the round before.
    while _references(common.name, left):
        same = isinstance(left, exp.Union) and every == (not left.args.get("distinct"))
        if not same or any(left.args.get(k) for k in ("order", "limit", "offset", "with_")):
            raise _refused(common.name, "within its first part", span_of(_references(common.name, left)[0]))
        steps.insert(0, left.expression)
        left = left.this
    for step in steps:
        if not _references(common.name, step):
            raise BindError(
                f'a part of the recursive query "{common.name}" does not read it',
                code="E1263",
                span=span_of(step),
                hint="write it before the parts that do",
            )
    return left, steps, every


def _references(name: str, tree: exp.Expr) -> list[exp.Table]:
    return [t for t in tree.find_all(exp.Table) if len(t.parts) == 1 and t.name == name]


def _check_width(common: CommonTable, first: int, other: int, steps: list[exp.Expr]) -> None:
    if first != other:
        raise BindError(
            f'the parts of the recursive query "{common.name}" have {first} and {other} columns',
            code="E1223",
            span=span_of(steps[0]),
            hint="select the same number of columns in all parts, and name that many",
        )


def _wider(
    common: CommonTable, types: list[DataType], plans: list[LogicalNode], steps: list[exp.Expr]
) -> list[DataType]:
    found: list[DataType] = []
    for index, type_ in enumerate(types):
        given = [plan.columns[index].type.materialized() for plan in plans]
        common_ = common_type([type_, *given])
        if common_ is None:
            shown = " and ".join(dict.fromkeys(str(t.with_nullable(True)) for t in given))
            raise TypeMismatchError(
                f'column {index + 1} of the recursive query "{common.name}" has no common type: {shown}',
                code="E1310",
                span=span_of(steps[-1]),
                hint="CAST one of them",
            )
        if common_.root is TypeRoot.NULL:
            raise TypeMismatchError(
                f'column {index + 1} of the recursive query "{common.name}" is NULL without a type',
                code="E1306",
                span=span_of(common.query),
                hint="write CAST(NULL AS STRING)",
            )
        found.append(_grown(type_, common_).with_nullable(True))
    return found


def _grown(before: DataType, now: DataType) -> DataType:
    """Texts and bytes that get longer in a round do so in each."""
    if before.same_ignoring_nullability(now):
        return now
    return STRING if now.is_character else BYTES if now.is_binary else now


class _Way:
    """What is known of a recursive query while the number of its rounds is handed on."""

    def __init__(self, common: CommonTable, loop: int, every: bool, traces: Traces) -> None:
        self.common = common
        self.loop = loop
        self.every = every
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
        return _refused(self.common.name, where, span_of(_references(self.common.name, self.common.query)[-1]))


def _refused(name: str, where: str, span: Span | None) -> BindError:
    return BindError(
        f'the recursive query "{name}" is read {where}',
        code="E1263",
        span=span,
        hint="read it in FROM or a join, and aggregate, sort or subtract where the whole query is read",
    )


def _next_round(plans: list[LogicalNode], types: list[DataType], names: tuple[str, ...], way: _Way) -> LogicalNode:
    """The steps as one plan, with the columns of SEARCH and CYCLE and the number of the round behind their own."""
    parts: list[LogicalNode] = []
    traces = way.traces
    for plan in plans:
        lifted, (*traced, round_) = _lifted(plan, way)
        cast = cast_plan(plan, types, names)
        items = cast.items if isinstance(cast, Project) and cast is not plan else passing(plan.columns)
        following: Expr = Call("+", (round_.ref(), Literal(1, _ROUND)), _ROUND)
        # A column that stands twice has got an id of its own by now.
        part = Project(lifted, (*items, *passing(traced), (fresh_column("$step", _ROUND), following)))
        if traced:
            own = [column for column, _ in items]
            values = traces.following([c.ref() for c in own], [c.ref() for c in traced])
            part = Project(part, (*passing(own), *_named(values, traces), *passing(part.columns[-1:])))
        parts.append(part)
    if len(parts) == 1:
        return parts[0]
    given = zip((*names, *traces.names, "$step"), (*types, *traces.types, _ROUND), strict=True)
    return Union(tuple(parts), tuple(fresh_column(n, t) for n, t in given))


def _named(values: list[Expr], traces: Traces) -> list[tuple[Column, Expr]]:
    return [(fresh_column(name, value.type), value) for name, value in zip(traces.names, values, strict=True)]


def _lifted(plan: LogicalNode, way: _Way) -> tuple[LogicalNode, tuple[Column, ...]]:
    """A plan that reads the rows of the round before, with more columns of those rows: what SEARCH and CYCLE have added to
    them, and the number of that round as the last one."""
    if way.asks(plan):
        raise way.refusal("within a subquery")
    match plan:
        case LastRound(produced=produced):
            numbered = plan.with_(round=fresh_column("$step", _ROUND))
            # The query may name the added columns as well; these are handed on whatever it makes of those.
            traced = produced[len(produced) - len(way.traces.names) :]
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


def _joined(plan: Join | DependentJoin, way: _Way) -> tuple[LogicalNode, tuple[Column, ...]]:
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
    if way.traces.names:
        raise way.refusal("twice in a join, and with SEARCH or CYCLE a row is made of one row")
    left, (one,) = _lifted(plan.left, way)
    right, (other,) = _lifted(plan.right, way)
    later: Expr = Case(((Call(">", (one.ref(), other.ref()), BOOLEAN.not_null()), one.ref()),), other.ref(), _ROUND)
    number = fresh_column("$step", _ROUND)
    return Project(plan.with_inputs(left, right), (*passing(plan.columns), (number, later))), (number,)


def _united(
    parts: tuple[LogicalNode, ...], produced: tuple[Column, ...], way: _Way
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
