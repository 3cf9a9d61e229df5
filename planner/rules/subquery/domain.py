"""The general way to make a subquery independent of the outer row: compute it for all outer rows at once.

The *domain* is the set of distinct values of the outer columns that the subquery reads. `Unnesting.push` joins the
domain to the subquery's leaves and carries its columns upwards through every operator (to group by, to partition by,
to join on), so that the result holds the subquery's rows for each value. After T. Neumann and A. Kemper, "Unnesting
Arbitrary Queries" (BTW 2015).
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.logical.build import not_distinct, passing, renaming, resolve_outer, without_row_of_nothing
from planner.logical.expressions import map_expressions, node_expressions, outer_ids
from planner.logical.nodes import (
    Aggregate,
    Except,
    Expand,
    Filter,
    Intersect,
    Join,
    Limit,
    LogicalNode,
    Over,
    Project,
    Sort,
    TopN,
    Union,
    Unnest,
    Values,
    WindowTable,
)
from planner.rule import RuleContext
from runtime.core.errors import UnsupportedError
from runtime.expr.analysis import outer_columns_of
from runtime.expr.nodes import TRUE, Column, ColumnRef, fresh_column
from runtime.expr.rewrite import conjunction
from runtime.plan.nodes import JoinKind, RankFunction

__all__ = ["Bound", "Unnesting"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A plan that holds the rows of a subquery for every value of the domain: `columns` tells by the id of an outer
    column where its value is."""

    plan: LogicalNode
    columns: dict[int, Column]

    @property
    def refs(self) -> tuple[ColumnRef, ...]:
        return tuple(c.ref() for c in self.columns.values())


class Unnesting:
    """Joins one domain to one subquery. `domain` has one row per combination of values, `columns` its columns by the
    id of the outer column."""

    def __init__(self, domain: LogicalNode, columns: dict[int, Column], context: RuleContext) -> None:
        self._domain = domain
        self._columns = columns
        self._context = context

    def fresh(self) -> Bound:
        """The domain under column ids of its own, so that it can stand in several places of a plan."""
        plan, columns = renaming(self._domain, tuple(self._columns.values()))
        return Bound(plan, dict(zip(self._columns, columns, strict=True)))

    def push(self, plan: LogicalNode) -> Bound:
        """The plan computed for every value of the domain; raises UnsupportedError where no form is known."""
        if not outer_ids(plan) & self._columns.keys():
            bound = self.fresh()
            return Bound(Join(bound.plan, plan, JoinKind.INNER, TRUE), bound.columns)
        match plan:
            case Values():
                return self._values(plan)
            case Join():
                return self._join(plan)
            case Union():
                return self._union(plan)
            case Intersect() | Except():
                left, right = self.push(plan.left), self.push(plan.right)
                produced = plan.produced + tuple(fresh_column(c.name, c.type) for c in left.columns.values())
                new = plan.with_(
                    left=self._ordered(left, plan.left), right=self._ordered(right, plan.right), produced=produced
                )
                return Bound(new, dict(zip(left.columns, produced[len(plan.produced) :], strict=True)))
            case _ if len(plan.inputs) == 1:
                bound = self.push(plan.inputs[0])
                return self._above(map_expressions(plan, lambda e: resolve_outer(e, bound.columns)), bound)
            case _:
                raise self._refusal()

    def _above(self, plan: LogicalNode, bound: Bound) -> Bound:
        """The node over its input computed for every value of the domain."""
        source, refs = bound.plan, bound.refs
        match plan:
            case Filter() | Unnest():
                return Bound(plan.with_inputs(source), bound.columns)
            case Project(items=items):
                return Bound(Project(source, items + passing(bound.columns.values())), bound.columns)
            case Aggregate(scalar=True, group=()):
                return self._scalar_aggregate(plan, bound)
            case Aggregate(group=group):
                return Bound(plan.with_(input=source, group=group + refs), bound.columns)
            case Over(calls=calls):
                return Bound(
                    plan.with_(
                        input=source, calls=tuple((c, w.with_(partition_by=w.partition_by + refs)) for c, w in calls)
                    ),
                    bound.columns,
                )
            case Sort(limit=None, offset=0):
                return bound
            case Sort(offset=offset, limit=limit) | Limit(offset=offset, limit=limit):
                order = plan.keys if isinstance(plan, Sort) else ()
                last = None if limit is None else offset + limit
                return Bound(TopN(source, RankFunction.ROW_NUMBER, refs, order, offset + 1, last, None), bound.columns)
            case TopN(partition=partition):
                return Bound(plan.with_(input=source, partition=partition + refs), bound.columns)
            case WindowTable(partition=partition):
                return Bound(
                    plan.with_(input=source, partition=partition + refs if partition else partition), bound.columns
                )
            case Expand(projections=projections, produced=produced):
                copies = tuple(fresh_column(c.name, c.type) for c in bound.columns.values())
                new = plan.with_(
                    input=source, projections=tuple(p + refs for p in projections), produced=produced + copies
                )
                return Bound(new, dict(zip(bound.columns, copies, strict=True)))
            case _:
                raise self._refusal()

    def _scalar_aggregate(self, plan: Aggregate, bound: Bound) -> Bound:
        """A row for every value of the domain, also for those without input: COUNT is 0 there."""
        mine = self.fresh()
        right, values = without_row_of_nothing(plan, self._context.functions, bound.plan, tuple(bound.columns.values()))
        condition = conjunction(not_distinct(mine.columns[i].ref(), bound.columns[i].ref()) for i in mine.columns)
        join = Join(mine.plan, right, JoinKind.LEFT, condition)
        return Bound(Project(join, (*values, *passing(mine.columns.values()))), mine.columns)

    def _join(self, join: Join) -> Bound:
        own = self._columns.keys()
        in_left, in_right = bool(outer_ids(join.left) & own), bool(outer_ids(join.right) & own)
        in_condition = bool(outer_columns_of(node_expressions(join)) & own)
        if not in_right and join.kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI):
            bound = self.push(join.left)
            return Bound(
                join.with_(left=bound.plan, condition=resolve_outer(join.condition, bound.columns)), bound.columns
            )
        if not in_left and join.kind in (JoinKind.INNER, JoinKind.RIGHT):
            bound = self.push(join.right)
            return Bound(
                join.with_(right=bound.plan, condition=resolve_outer(join.condition, bound.columns)), bound.columns
            )
        if join.kind is JoinKind.FULL:
            raise self._refusal()
        left, right = self.push(join.left), self.push(join.right)
        kept, other = (right, left) if join.kind is JoinKind.RIGHT else (left, right)
        condition = resolve_outer(join.condition, kept.columns) if in_condition else join.condition
        same = (not_distinct(kept.columns[i].ref(), other.columns[i].ref()) for i in kept.columns)
        return Bound(
            join.with_(left=left.plan, right=right.plan, condition=conjunction((condition, *same))), kept.columns
        )

    def _union(self, union: Union) -> Bound:
        bounds = [self.push(part) for part in union.parts]
        copies = tuple(fresh_column(c.name, c.type) for c in self._columns.values())
        parts = tuple(self._ordered(bound, part) for bound, part in zip(bounds, union.parts, strict=True))
        return Bound(Union(parts, union.produced + copies), dict(zip(self._columns, copies, strict=True)))

    def _values(self, values: Values) -> Bound:
        rows: list[tuple[LogicalNode, Bound]] = []
        for row in values.rows:
            bound = self.fresh()
            columns = tuple(fresh_column(c.name, c.type) for c in values.produced)
            items = tuple((c, resolve_outer(e, bound.columns)) for c, e in zip(columns, row, strict=True))
            rows.append((Project(bound.plan, items + passing(bound.columns.values())), bound))
        copies = tuple(fresh_column(c.name, c.type) for c in self._columns.values())
        return Bound(
            Union(tuple(plan for plan, _ in rows), values.produced + copies),
            dict(zip(self._columns, copies, strict=True)),
        )

    @staticmethod
    def _ordered(bound: Bound, plan: LogicalNode) -> LogicalNode:
        """The columns of the plan as it was, then those of the domain."""
        return Project(bound.plan, passing((*plan.columns, *bound.columns.values())))

    @staticmethod
    def _refusal() -> UnsupportedError:
        return UnsupportedError(
            "this correlated subquery cannot be computed as a join",
            hint="move the reference to the outer table into a WHERE condition of the subquery",
        )
