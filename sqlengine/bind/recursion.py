"""WITH RECURSIVE.

    WITH RECURSIVE r AS (first UNION [ALL] step)     →   Recursive (first) (step over LastRound r)

    WITH RECURSIVE a AS (first of a UNION [ALL] step that reads a and b),
                   b AS (first of b UNION [ALL] step that reads a and b)
                     →   a is Filter 1 = $query (Recursive (first of a as 1 UNION ALL first of b as 2) (...))

`step` is bound over the rows of the round before, whose types are those of `first`; where it gives wider ones it is bound
again over these, so that `1` and `'a'` begin columns that grow. Then the number of the round is handed on (`rounds.py`).

Queries that read each other are one loop: its rows say of which query they are, and have the columns of all, one for
several where types are the same. Which queries belong together, and which of them are only read within the steps of
others: `common_groups.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.logical.build import passing
from planner.logical.nodes import Filter, LastRound, LogicalNode, Project, Recursive, Union
from runtime.core.errors import BindError, TypeMismatchError
from runtime.core.types import BOOLEAN, BYTES, INT, STRING, DataType, TypeRoot
from runtime.expr.nodes import Call, Column, Expr, Literal, fresh_column
from runtime.expr.typing import common_type
from sqlengine.bind.aggregate import materialize_keys
from sqlengine.bind.coerce import cast_plan
from sqlengine.bind.common_groups import named_tables
from sqlengine.bind.rounds import ROUND, STEP, Way, next_round, refused
from sqlengine.bind.search_cycle import Traces
from sqlengine.bind.session import BoundQuery, CommonTable, QueryEnv, RoundRows
from sqlengine.parse.spans import span_of

__all__ = ["bind_recursive", "last_round"]

_MOST_TRIALS = 8
"""How often steps are bound to find types that hold what they give."""
_QUERY = INT.not_null()


@dataclass(frozen=True, slots=True)
class _Parts:
    """One of the queries of a loop: the query that gives its rows of round 0, bound as `start`, and those that give its rows
    of the next round. `every`: UNION ALL."""

    common: CommonTable
    start: BoundQuery
    steps: list[exp.Expr]
    every: bool

    @property
    def names(self) -> tuple[str, ...]:
        return self.common.columns or self.start.names

    def check_width(self, other: int, step: exp.Expr) -> None:
        if len(self.start.names) != other:
            raise BindError(
                f'the parts of the recursive query "{self.common.name}" have {len(self.start.names)} and {other} columns',
                code="E1223",
                span=span_of(step),
                hint="select the same number of columns in all parts, and name that many",
            )


class _Loop:
    """What the rows of a loop look like: `$query` and the columns of all queries, or the columns of the only one with those
    of SEARCH and CYCLE behind them."""

    def __init__(self, queries: Sequence[_Parts], types: Sequence[Sequence[DataType]]) -> None:
        self.id = fresh_column("loop", ROUND).id
        self.name = ", ".join(q.common.name for q in queries)
        self._queries, self._types = queries, types
        self.traces = Traces(queries[0].common, queries[0].names, types[0]) if len(queries) == 1 else None
        self.columns: list[tuple[str, DataType]] = []
        self._places: list[list[int]] = []
        if self.traces is not None:
            added = zip(self.traces.names, self.traces.types, strict=True)
            self.columns = [*zip(queries[0].names, types[0], strict=True), *added]
            return
        self.columns.append(("$query", _QUERY))
        for parts, own in zip(queries, types, strict=True):
            places: list[int] = []
            for name, type_ in zip(parts.names, own, strict=True):
                free = (i for i, (_, t) in enumerate(self.columns) if i and i not in places and t == type_)
                place = next(free, len(self.columns))
                if place == len(self.columns):
                    self.columns.append((name, type_))
                places.append(place)
            self._places.append(places)

    def rows(self, number: int) -> RoundRows:
        """What the name of a query means in the steps."""
        names, traces = self._queries[number].names, self.traces
        added = () if traces is None else traces.names
        return RoundRows(self._queries[number].common.name, (*names, *added), len(added), lambda: self._read(number))

    def _read(self, number: int) -> LogicalNode:
        columns = tuple(fresh_column(n, t) for n, t in self.columns)
        plan: LogicalNode = LastRound(columns, self.id, None, self.name)
        if self.traces is None:
            return self.of(number, plan)
        goes_on = self.traces.goes_on([c.ref() for c in columns])
        return plan if goes_on is None else Filter(plan, goes_on)

    def of(self, number: int, plan: LogicalNode) -> LogicalNode:
        """The rows of one query among those of the loop."""
        if self.traces is not None:
            return plan
        mine = Call("=", (plan.columns[0].ref(), Literal(number + 1, _QUERY)), BOOLEAN.not_null())
        columns = [plan.columns[place] for place in self._places[number]]
        items = ((fresh_column(n, c.type), c.ref()) for n, c in zip(self._queries[number].names, columns, strict=True))
        return Project(Filter(plan, mine), tuple(items))

    def first(self, number: int) -> LogicalNode:
        """The rows that a query begins with, as rows of the loop."""
        names = self._queries[number].names
        plan = cast_plan(materialize_keys(self._queries[number].start.plan), self._types[number], names)
        if self.traces is None:
            return self._among(number, plan)
        values = self.traces.first([c.ref() for c in plan.columns])
        added = [(fresh_column(n, v.type), v) for n, v in zip(self.traces.names, values, strict=True)]
        return Project(plan, (*passing(plan.columns), *added)) if added else plan

    def step(self, number: int, tree: exp.Expr, plan: LogicalNode) -> LogicalNode:
        """The rows that a step gives, as rows of the loop with the number of their round."""
        parts = self._queries[number]
        way = Way(_reading(parts.common, tree)[-1], self.id, parts.every, self.traces)
        plan = next_round(materialize_keys(plan), self._types[number], parts.names, way)
        return plan if self.traces is not None else self._among(number, plan, plan.columns[-1])

    def _among(self, number: int, plan: LogicalNode, *more: Column) -> LogicalNode:
        by_place = dict(zip(self._places[number], plan.columns, strict=False))
        values: list[Expr] = [Literal(number + 1, _QUERY)]
        for place, (_, type_) in list(enumerate(self.columns))[1:]:
            values.append(by_place[place].ref() if place in by_place else Literal(None, type_))
        items = [(fresh_column(n, v.type), v) for (n, _), v in zip(self.columns, values, strict=True)]
        return Project(plan, (*items, *passing(more)))


def bind_recursive(common: CommonTable) -> BoundQuery:
    """The recursive query at one of its uses.

    Raises:
        BindError: E1223 for other numbers of columns, E1263 for a query that is no `first UNION [ALL] step`, or one that
            reads its rows where it cannot, E1264 for SEARCH and CYCLE of queries that read each other.
        TypeMismatchError: E1310, no type holds what a column begins with and what it becomes.
    """
    looping = [replace(m, group=common.group) for m in common.group if m.recursive] or [common]
    queries = [_parts(each) for each in looping]
    number = next(i for i, each in enumerate(looping) if each.name == common.name)
    _check_together(queries)
    types = [[c.type.materialized().with_nullable(True) for c in q.start.plan.columns] for q in queries]
    for _ in range(_MOST_TRIALS):
        loop = _Loop(queries, types)
        env = _within(common, {q.common.name: loop.rows(i) for i, q in enumerate(queries)})
        bound = [[env.inside(env.outer).query(step) for step in q.steps] for q in queries]
        for parts, given in zip(queries, bound, strict=True):
            for query, step in zip(given, parts.steps, strict=True):
                parts.check_width(len(query.names), step)
        wider = [_wider(q, t, [each.plan for each in b]) for q, t, b in zip(queries, types, bound, strict=True)]
        if wider == types:
            break
        types = wider
    else:
        raise TypeMismatchError(
            f'the types of the recursive query "{common.name}" grow with each round',
            code="E1310",
            span=span_of(queries[number].steps[0]),
            hint="CAST the columns of the recursive part to the types of the first part",
        )
    left = _all([loop.first(i) for i in range(len(queries))], loop.columns)
    steps = [
        loop.step(i, tree, query.plan)
        for i, q in enumerate(queries)
        for tree, query in zip(q.steps, bound[i], strict=True)
    ]
    right = _all(steps, [*loop.columns, (STEP, ROUND)])
    produced = tuple(fresh_column(n, t) for n, t in loop.columns)
    plan = loop.of(number, Recursive(left, right, produced, queries[0].every, loop.id, loop.name))
    return BoundQuery(plan, loop.rows(number).names)


def last_round(common: CommonTable, rows: RoundRows, tree: exp.Table, env: QueryEnv) -> BoundQuery:
    """The name of a recursive query within a step. Raises BindError E1263 within a subquery."""
    if env.outer is not common.env.outer:
        raise refused(common.name, "within a subquery or LATERAL", span_of(tree))
    return BoundQuery(rows.read(), rows.names)


def _within(common: CommonTable, rows: dict[str, RoundRows]) -> QueryEnv:
    """The surroundings of the steps: the names of the loop are the rows of the round before, and what reads those is bound
    anew over them."""
    env = common.env
    group = common.group or (common,)
    looping = {m.name: replace(m, rounds=rows[m.name], bound=[None]) for m in group if m.name in rows}
    env = env.with_tables(looping)
    for member in group:
        if member.name not in rows:
            within = replace(member, env=env.inside(env.outer), uses=1, bound=[])
            env = env.with_tables({member.name: within})
    return env


def _all(plans: Sequence[LogicalNode], columns: Sequence[tuple[str, DataType]]) -> LogicalNode:
    if len(plans) == 1:
        return plans[0]
    return Union(tuple(plans), tuple(fresh_column(n, t) for n, t in columns))


def _check_together(queries: Sequence[_Parts]) -> None:
    if len(queries) == 1:
        return
    one, other = queries[0].common, next((q for q in queries if q.every != queries[0].every), queries[0]).common
    if one is not other:
        raise BindError(
            f'the recursive queries "{one.name}" and "{other.name}" read each other, one with UNION and one with UNION ALL',
            code="E1263",
            span=span_of(other.query),
            hint="write UNION in all of them, or UNION ALL",
        )
    for parts in queries:
        clause = parts.common.search or parts.common.cycle
        if clause is not None:
            raise BindError(
                f'the recursive query "{parts.common.name}" and others read each other, so it has no SEARCH and CYCLE',
                code="E1264",
                span=span_of(clause),
                hint="write one recursive query, whose rows say what they are",
            )


def _reading(common: CommonTable, tree: exp.Expr) -> list[exp.Table]:
    """Where a part of a query names one of the queries that it forms a loop with."""
    names = {m.name for m in common.group} or {common.name}
    return [t for t in named_tables(tree) if t.name in names]


def _parts(common: CommonTable) -> _Parts:
    tree = common.query
    while isinstance(tree, exp.Subquery) and not any(tree.args.get(k) for k in ("order", "limit", "offset", "with_")):
        tree = tree.this
    if not isinstance(tree, exp.Union):
        reference = _reading(common, tree)[0]
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
    while _reading(common, left):
        same = isinstance(left, exp.Union) and every == (not left.args.get("distinct"))
        if not same or any(left.args.get(k) for k in ("order", "limit", "offset", "with_")):
            raise refused(common.name, "within its first part", span_of(_reading(common, left)[0]))
        steps.insert(0, left.expression)
        left = left.this
    for step in steps:
        if not _reading(common, step):
            raise BindError(
                f'a part of the recursive query "{common.name}" does not read it',
                code="E1263",
                span=span_of(step),
                hint="write it before the parts that do",
            )
    parts = _Parts(common, common.env.query(left), steps, every)
    parts.check_width(len(parts.names), steps[0])
    return parts


def _wider(parts: _Parts, types: list[DataType], steps: list[LogicalNode]) -> list[DataType]:
    name, found = parts.common.name, list[DataType]()
    for index, type_ in enumerate(types):
        given = [plan.columns[index].type.materialized() for plan in (parts.start.plan, *steps)]
        common_ = common_type([type_, *given])
        if common_ is None:
            shown = " and ".join(dict.fromkeys(str(t.with_nullable(True)) for t in given))
            raise TypeMismatchError(
                f'column {index + 1} of the recursive query "{name}" has no common type: {shown}',
                code="E1310",
                span=span_of(parts.steps[-1]),
                hint="CAST one of them",
            )
        if common_.root is TypeRoot.NULL:
            raise TypeMismatchError(
                f'column {index + 1} of the recursive query "{name}" is NULL without a type',
                code="E1306",
                span=span_of(parts.common.query),
                hint="write CAST(NULL AS STRING)",
            )
        found.append(_grown(type_, common_).with_nullable(True))
    return found


def _grown(before: DataType, now: DataType) -> DataType:
    """Texts and bytes that get longer in a round do so in each."""
    if before.same_ignoring_nullability(now):
        return now
    return STRING if now.is_character else BYTES if now.is_binary else now
