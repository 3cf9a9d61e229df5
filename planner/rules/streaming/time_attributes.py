"""Which columns still are time attributes: event time that a watermark follows, or processing time.

The binder types a column `*ROWTIME*` wherever a query passes it on; but regular joins and unwindowed aggregates lose
the connection between rows and watermark (reference 3.1), and which joins are regular is only known here.
"""

from __future__ import annotations

from planner.logical.nodes import (
    Aggregate,
    AsofJoin,
    CurrentJoin,
    DependentJoin,
    Except,
    Expand,
    Intersect,
    IntervalJoin,
    Join,
    LogicalNode,
    LookupJoin,
    Match,
    ProcessTables,
    Project,
    Recursive,
    Scan,
    TemporalJoin,
    Union,
    Values,
    VectorSearch,
    WindowAggregate,
    WindowJoin,
    WindowTable,
    WindowTopN,
)
from planner.rule import RuleContext
from planner.traits.context import TraitContext
from runtime.core.types import TimeAttribute
from runtime.expr.nodes import Column, ColumnRef, Expr

__all__ = ["is_rowtime", "time_attributes"]

Attributes = dict[int, TimeAttribute]


def time_attributes(plan: LogicalNode, context: RuleContext) -> Attributes:
    """The time attributes among the plan's columns, by id."""
    return context.traits.derive(_derive, plan)


def is_rowtime(plan: LogicalNode, column: int, context: RuleContext) -> bool:
    return time_attributes(plan, context).get(column) is TimeAttribute.ROWTIME


def _derive(plan: LogicalNode, traits: TraitContext) -> Attributes:
    def below(source: LogicalNode) -> Attributes:
        return traits.derive(_derive, source)

    match plan:
        case Scan(scanned=columns):
            return _typed(columns)
        case (
            Values()
            | Aggregate()
            | Join()
            | AsofJoin()
            | CurrentJoin()
            | DependentJoin()
            | Intersect()
            | Except()
            | Expand()
            | Recursive()
        ):
            return {}
        case Project(input=source, items=items):
            known = below(source)
            found = _typed(tuple(c for c, e in items if not isinstance(e, ColumnRef)))
            return found | {c.id: known[e.id] for c, e in items if isinstance(e, ColumnRef) and e.id in known}
        case WindowTable(input=source, window_time=window_time):
            return below(source) | _typed((window_time,))
        case WindowTopN(input=source):
            return _of_windows(source, below(source))
        case ProcessTables(produced=produced):
            return _typed(produced)
        case WindowAggregate(properties=properties):
            return _typed(tuple(c for c, _ in properties))
        case Union(parts=parts, produced=produced):
            kinds = [[below(p).get(c.id) for c in p.columns] for p in parts]
            return {
                c.id: same[0]
                for c, same in zip(produced, zip(*kinds, strict=True), strict=True)
                if same[0] is not None and len(set(same)) == 1
            }
        case Match(input=source, partition=partition, found=found):
            known = below(source)
            values: list[tuple[Column, Expr]] = [*partition]
            values += [(i.column, i.call.args[0]) for i in found if i.offset is not None and i.call.args]
            return {c.id: known[e.id] for c, e in values if isinstance(e, ColumnRef) and e.id in known}
        case TemporalJoin(left=left) | VectorSearch(left=left):
            return below(left)
        case LookupJoin(input=source):
            return below(source)
        case IntervalJoin():
            return below(plan.left) if plan.kind.left_only else below(plan.left) | below(plan.right)
        case WindowJoin():
            left = _of_windows(plan.left, below(plan.left))
            return left if plan.kind.left_only else left | _of_windows(plan.right, below(plan.right))
        case _:
            return {id_: kind for source in plan.inputs for id_, kind in below(source).items()}


def _of_windows(plan: LogicalNode, known: Attributes) -> Attributes:
    """Those of `known` that are the last moment of a window: rows that wait for the end of their window are older than
    the watermark by every other time, Flink's attribute or not.
    """
    match plan:
        case WindowTable(window_time=window_time):
            ends = {window_time.id}
        case WindowAggregate():
            ends = set(known)
        case Project(input=source, items=items):
            refs = [(c.id, e.id) for c, e in items if isinstance(e, ColumnRef)]
            within = _of_windows(source, {below: known[id_] for id_, below in refs if id_ in known})
            ends = {id_ for id_, below in refs if below in within}
        case _:
            ends = {id_ for source in plan.inputs for id_ in _of_windows(source, known)}
    return {id_: kind for id_, kind in known.items() if id_ in ends}


def _typed(columns: tuple[Column, ...]) -> Attributes:
    return {c.id: c.type.time_attribute for c in columns if c.type.time_attribute is not None}
