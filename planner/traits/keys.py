"""Keys of a plan: which sets of columns tell its rows apart.

- A **unique key**: at the end of every epoch no two live rows agree on all of its columns (NULL equal to NULL).
- An **upsert key**: a unique key that a row keeps for life, so that a stream of after-images by this key is enough to
follow it. A source
  that sends after-images promises this for its primary key only.

The empty set is the key of a plan with at most one row. Keys are given smallest first, without supersets of one
another, at most 12.
Flink's rules (reference 7.4) also drop keys whose rows change tasks between two operators; epochs are complete at every
edge here, so that a removal never overtakes an insertion and such keys stay.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import singledispatch

from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from planner.traits.conditions import constant_columns, equated_columns, injective_source
from planner.traits.context import TraitContext
from runtime.expr.nodes import ColumnRef
from runtime.plan.nodes import JoinKind, RankFunction, WindowProperty
from runtime.plan.windows import AttachedWindow, CumulateWindow, HopWindow

__all__ = ["Key", "is_unique_on", "unique_keys", "upsert_keys"]

Key = frozenset[int]
Keys = tuple[Key, ...]

_MOST = 12


def unique_keys(plan: LogicalNode, context: TraitContext) -> Keys:
    """Sets of column ids that identify a row."""
    return context.derive(_unique, plan)


def upsert_keys(plan: LogicalNode, context: TraitContext) -> Keys:
    """Sets of column ids that identify a row for its whole life."""
    return context.derive(_upsert, plan)


def is_unique_on(plan: LogicalNode, columns: Iterable[int], context: TraitContext) -> bool:
    """Whether at most one row has given values in these columns."""
    given = frozenset(columns)
    return any(key <= given for key in unique_keys(plan, context))


def _unique(plan: LogicalNode, context: TraitContext) -> Keys:
    return _smallest(_keys(plan, context, False))


def _upsert(plan: LogicalNode, context: TraitContext) -> Keys:
    return _smallest(_keys(plan, context, True))


def _of(plan: LogicalNode, context: TraitContext, upsert: bool) -> Keys:
    return upsert_keys(plan, context) if upsert else unique_keys(plan, context)


def _smallest(keys: Iterable[Key]) -> Keys:
    kept: list[Key] = []
    for key in sorted(set(keys), key=lambda k: (len(k), sorted(k))):
        if not any(small <= key for small in kept):
            kept.append(key)
    return tuple(kept[:_MOST])


@singledispatch
def _keys(plan: LogicalNode, context: TraitContext, upsert: bool) -> Iterable[Key]:
    raise NotImplementedError(f"no keys are defined for {type(plan).__name__}")


@_keys.register
def _(plan: n.Scan, context: TraitContext, upsert: bool) -> Iterable[Key]:
    keys = [frozenset(key) for key in (*plan.keys, *plan.known_keys)]
    if upsert and plan.table is not None and plan.table.changelog_mode.is_upsert:
        return keys[:1]
    return keys


@_keys.register
def _(plan: n.Shared, context: TraitContext, upsert: bool) -> Iterable[Key]:
    outputs = {inner.id: [column.id] for inner, column in zip(plan.plan.columns, plan.produced, strict=True)}
    return renamed(_of(plan.plan, context, upsert), outputs)


@_keys.register
def _(plan: n.Values, context: TraitContext, upsert: bool) -> Iterable[Key]:
    return [frozenset()] if len(plan.rows) <= 1 else []


@_keys.register
def _(plan: n.Project, context: TraitContext, upsert: bool) -> Iterable[Key]:
    outputs: dict[int, list[int]] = {}
    for column, expr in plan.items:
        source = injective_source(expr)
        if source is not None:
            outputs.setdefault(source, []).append(column.id)
    return renamed(_of(plan.input, context, upsert), outputs)


def renamed(keys: Iterable[Key], outputs: dict[int, list[int]]) -> list[Key]:
    """The keys under the names their columns have further up; a key that loses a column is none."""
    found: list[Key] = []
    for key in keys:
        choices = [outputs.get(column, []) for column in sorted(key)]
        found.extend(frozenset(choice) for choice in itertools.islice(itertools.product(*choices), 4))
    return found


@_keys.register
def _(plan: n.Filter, context: TraitContext, upsert: bool) -> Iterable[Key]:
    constant = constant_columns(plan.predicate)
    return [key - constant for key in _of(plan.input, context, upsert)]


@_keys.register
def _(plan: n.Join, context: TraitContext, upsert: bool) -> Iterable[Key]:
    left_on, right_on = equated_columns(plan.condition, plan.left, plan.right)
    return _join_keys(plan.left, plan.right, plan.kind, left_on, right_on, context, upsert)


def _join_keys(
    left: LogicalNode,
    right: LogicalNode,
    kind: JoinKind,
    left_on: Key,
    right_on: Key,
    context: TraitContext,
    upsert: bool,
) -> list[Key]:
    lefts, rights = _of(left, context, upsert), _of(right, context, upsert)
    if kind.left_only:
        return list(lefts)
    found: list[Key] = []
    if kind in (JoinKind.INNER, JoinKind.LEFT) and is_unique_on(right, right_on, context):
        found.extend(lefts)
    if kind in (JoinKind.INNER, JoinKind.RIGHT) and is_unique_on(left, left_on, context):
        found.extend(rights)
    both = [a | b for a in lefts for b in rights]
    if kind is JoinKind.FULL:
        # Unmatched rows of both sides are padded with NULL; only keys that are never NULL keep them apart. Without
        # columns nothing does:
        # two sides of one row each may give two rows.
        never_null = {c.id for side in (left, right) for c in side.columns if not c.type.nullable}
        both = [key for key in both if key and key <= never_null]
    return found + both


@_keys.register
def _(plan: n.MultiJoin, context: TraitContext, upsert: bool) -> Iterable[Key]:
    return _of(n.chain(plan), context, upsert)


@_keys.register
def _(plan: n.DependentJoin, context: TraitContext, upsert: bool) -> Iterable[Key]:
    if plan.kind.left_only:
        return _of(plan.left, context, upsert)
    return [a | b for a in _of(plan.left, context, upsert) for b in _of(plan.right, context, upsert)]


@_keys.register
def _(plan: n.AsofJoin, context: TraitContext, upsert: bool) -> Iterable[Key]:
    # One row is the nearest.
    return _of(plan.left, context, upsert)


@_keys.register
def _(plan: n.TemporalJoin, context: TraitContext, upsert: bool) -> Iterable[Key]:
    # One version of the right row at most is valid at a time; a snapshot may have several rows.
    return _of(plan.left, context, upsert) if plan.snapshot is None else ()


@_keys.register
def _(plan: n.Aggregate, context: TraitContext, upsert: bool) -> Iterable[Key]:
    group = frozenset(g.id for g in plan.group)
    return [group, *(key for key in _of(plan.input, context, upsert) if key <= group)]


@_keys.register
def _(plan: n.Expand, context: TraitContext, upsert: bool) -> Iterable[Key]:
    return []


@_keys.register
def _(plan: n.WindowTable, context: TraitContext, upsert: bool) -> Iterable[Key]:
    several = isinstance(plan.window, HopWindow | CumulateWindow)
    return [key | {plan.end.id} if several else key for key in _of(plan.input, context, upsert)]


@_keys.register
def _(plan: n.Match, context: TraitContext, upsert: bool) -> Iterable[Key]:
    return []


@_keys.register
def _(plan: n.Over, context: TraitContext, upsert: bool) -> Iterable[Key]:
    keys = list(_of(plan.input, context, upsert))
    for column, call in plan.calls:
        if call.function == "ROW_NUMBER" and all(isinstance(p, ColumnRef) for p in call.partition_by):
            keys.append(frozenset([column.id, *(p.id for p in call.partition_by if isinstance(p, ColumnRef))]))
    return keys


@_keys.register
def _(plan: n.Sort, context: TraitContext, upsert: bool) -> Iterable[Key]:
    return [
        *_of(plan.input, context, upsert),
        *([frozenset[int]()] if plan.limit is not None and plan.limit <= 1 else []),
    ]


@_keys.register
def _(plan: n.Limit, context: TraitContext, upsert: bool) -> Iterable[Key]:
    return [
        *_of(plan.input, context, upsert),
        *([frozenset[int]()] if plan.limit is not None and plan.limit <= 1 else []),
    ]


@_keys.register
def _(plan: n.Union, context: TraitContext, upsert: bool) -> Iterable[Key]:
    if len(plan.parts) != 1:
        return []
    outputs = {source.id: [column.id] for source, column in zip(plan.parts[0].columns, plan.produced, strict=True)}
    return renamed(_of(plan.parts[0], context, upsert), outputs)


@_keys.register(n.Intersect)
@_keys.register(n.Except)
def _(plan: n.Intersect | n.Except, context: TraitContext, upsert: bool) -> Iterable[Key]:
    return [] if plan.all else [frozenset(c.id for c in plan.produced)]


@_keys.register
def _(plan: n.Unnest, context: TraitContext, upsert: bool) -> Iterable[Key]:
    if not plan.ordinality:
        return []
    return [key | {plan.produced[-1].id} for key in _of(plan.input, context, upsert)]


@_keys.register(n.AssignWatermark)
@_keys.register(n.Remember)
@_keys.register(n.Sink)
def _(plan: n.AssignWatermark | n.Remember | n.Sink, context: TraitContext, upsert: bool) -> Iterable[Key]:
    return _of(plan.input, context, upsert)


@_keys.register
def _(plan: n.WindowAggregate, context: TraitContext, upsert: bool) -> Iterable[Key]:
    group = frozenset(g.id for g in plan.group)
    shown = {kind: column.id for column, kind in plan.properties}
    if isinstance(plan.window, AttachedWindow):
        if WindowProperty.START in shown and WindowProperty.END in shown:
            return [group | {shown[WindowProperty.START], shown[WindowProperty.END]}]
        return []
    # The end of a window tells it from all others of its assigner; its start does not for CUMULATE.
    by_start = not isinstance(plan.window, CumulateWindow)
    return [group | {column} for kind, column in shown.items() if by_start or kind is not WindowProperty.START]


@_keys.register
def _(plan: n.IntervalJoin, context: TraitContext, upsert: bool) -> Iterable[Key]:
    left_on, right_on = equated_columns(plan.condition, plan.left, plan.right)
    return _join_keys(plan.left, plan.right, plan.kind, left_on, right_on, context, upsert)


@_keys.register
def _(plan: n.WindowJoin, context: TraitContext, upsert: bool) -> Iterable[Key]:
    left_on, right_on = equated_columns(plan.condition, plan.left, plan.right)
    left_on |= {r.id for r in plan.left_window}
    right_on |= {r.id for r in plan.right_window}
    return _join_keys(plan.left, plan.right, plan.kind, left_on, right_on, context, upsert)


@_keys.register
def _(plan: n.Recursive, context: TraitContext, upsert: bool) -> Iterable[Key]:
    return [] if plan.all else [frozenset(c.id for c in plan.produced)]


@_keys.register
def _(plan: n.CurrentJoin, context: TraitContext, upsert: bool) -> Iterable[Key]:
    _, right_on = equated_columns(plan.condition, plan.left, plan.right)
    return _of(plan.left, context, upsert) if is_unique_on(plan.right, right_on, context) else []


@_keys.register(n.LastRound)
@_keys.register(n.LookupJoin)
@_keys.register(n.VectorSearch)
@_keys.register(n.FromChangelog)
@_keys.register(n.ProcessTables)
@_keys.register(n.ToChangelog)
def _(plan: LogicalNode, context: TraitContext, upsert: bool) -> Iterable[Key]:
    return []


@_keys.register
def _(plan: n.TopN, context: TraitContext, upsert: bool) -> Iterable[Key]:
    return _ranked(plan, frozenset(p.id for p in plan.partition), context, upsert)


@_keys.register
def _(plan: n.WindowTopN, context: TraitContext, upsert: bool) -> Iterable[Key]:
    return _ranked(plan, frozenset([*(p.id for p in plan.partition), *(w.id for w in plan.window)]), context, upsert)


def _ranked(plan: n.TopN | n.WindowTopN, partition: Key, context: TraitContext, upsert: bool) -> list[Key]:
    # With the rank shown, a row's place is what changes: its own key does not follow it for life.
    keys = [] if upsert and plan.rank is not None else list(_of(plan.input, context, upsert))
    if plan.function is RankFunction.ROW_NUMBER:
        if plan.start == plan.end:
            keys.append(partition)
        elif plan.rank is not None:
            keys.append(partition | {plan.rank.id})
    return keys


@_keys.register
def _(plan: n.Deduplicate, context: TraitContext, upsert: bool) -> Iterable[Key]:
    wanted = frozenset(k.id for k in plan.keys)
    return [wanted, *(key for key in _of(plan.input, context, upsert) if key <= wanted)]
