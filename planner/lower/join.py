"""All joins: equalities become key columns, what is left becomes the residual condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from planner.logical import nodes as n
from planner.logical.build import passing
from planner.logical.nodes import JoinKind, LogicalNode
from planner.lower.consumers import require_append_only
from planner.lower.lowering import HIDDEN, Lowered, Lowering, lower_node
from planner.lower.window import window_is_proctime, window_zone
from planner.traits.boundedness import follows_watermark
from planner.traits.changes import is_append_only
from planner.traits.conditions import EquiPair, split_equalities
from planner.traits.keys import unique_keys, upsert_keys
from planner.traits.time import is_bounded, rowtime_columns
from planner.traits.update_kind import Demand
from runtime.core.changelog import APPEND
from runtime.core.errors import InternalError, PlanningError
from runtime.core.options import parse_duration
from runtime.core.schema import Field, Schema
from runtime.expr.analysis import is_true
from runtime.expr.nodes import TRUE, Call, Column, ColumnRef, Expr
from runtime.expr.rewrite import conjunction
from runtime.plan.nodes import (
    AsofJoinExec,
    CurrentJoinExec,
    HashJoinExec,
    IntervalJoinExec,
    LookupJoinExec,
    MultiJoinExec,
    SnapshotJoinExec,
    TemporalJoinExec,
    VectorSearchExec,
    WindowJoinExec,
)
from runtime.plan.parts import SnapshotLoad, WholeTable

__all__: list[str] = []


class _Sides(NamedTuple):
    """Both inputs with their key columns, and what a join node says of them."""

    left: Lowered
    right: Lowered
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    null_safe: tuple[bool, ...]
    condition: Expr | None


def _sides(run: Lowering, left: Lowered, right: Lowered, pairs: Sequence[EquiPair], rest: Sequence[Expr]) -> _Sides:
    left, left_keys = run.with_columns(left, [p.left for p in pairs])
    right, right_keys = run.with_columns(right, [p.right for p in pairs])
    both = Lowered(left.node, left.ids + right.ids)
    condition = conjunction(rest)
    residual = None if condition == TRUE else both.expr(condition)
    return _Sides(left, right, left_keys, right_keys, tuple(p.null_safe for p in pairs), residual)


def _joined_schema(sides: _Sides, kind: JoinKind) -> Schema:
    left, right = sides.left.node.schema, sides.right.node.schema
    if kind.left_only:
        return left
    return Schema((*_padded(left, kind.keeps_right), *_padded(right, kind.keeps_left)))


def _padded(schema: Schema, nullable: bool) -> tuple[Field, ...]:
    if not nullable:
        return schema.fields
    return tuple(f if f.type.nullable else Field(f.name, f.type.with_nullable(True)) for f in schema)


def _joined_ids(sides: _Sides, kind: JoinKind) -> tuple[int, ...]:
    return sides.left.ids if kind.left_only else sides.left.ids + sides.right.ids


@lower_node.register
def _(plan: n.Join, run: Lowering, demand: Demand) -> Lowered:
    pairs, rest = split_equalities(plan.condition, plan.left, plan.right)
    sides = _sides(run, run.input(plan, 0, demand), run.input(plan, 1, demand), pairs, rest)
    left_ttl, right_ttl = _join_ttl(plan, run)
    node = HashJoinExec(
        sides.left.node,
        sides.right.node,
        plan.kind,
        sides.left_keys,
        sides.right_keys,
        sides.null_safe,
        sides.condition,
        _row_key(plan.left, sides.left, run),
        _row_key(plan.right, sides.right, run),
        _joined_schema(sides, plan.kind),
        run.mode(plan, demand),
        left_ttl,
        right_ttl,
    )
    return run.restored(Lowered(node, _joined_ids(sides, plan.kind)), plan.columns)


def _row_key(plan: LogicalNode, source: Lowered, run: Lowering) -> tuple[int, ...] | None:
    """The key by which the join finds a side's row again: an upsert key where only after-images come."""
    keys = upsert_keys(plan, run.traits) if source.node.mode.is_upsert else unique_keys(plan, run.traits)
    return source.key_positions(keys)


def _join_ttl(plan: n.Join, run: Lowering) -> tuple[int, int]:
    hints = {side.lower(): parse_duration(text) for side, text in plan.hints if side.lower() in ("left", "right")}
    return run.ttl_of(hints.get("left")), run.ttl_of(hints.get("right"))


@lower_node.register
def _(plan: n.MultiJoin, run: Lowering, demand: Demand) -> Lowered:
    found = [run.with_columns(run.input(plan, number, demand), keys) for number, keys in enumerate(plan.keys)]
    parts = [source for source, _ in found]
    fields = [
        f for kind, source in zip(plan.kinds, parts, strict=True) for f in _padded(source.node.schema, kind.keeps_left)
    ]
    node = MultiJoinExec(
        tuple(source.node for source in parts),
        plan.kinds,
        tuple(keys for _, keys in found),
        tuple(_row_key(part, source, run) for part, source in zip(plan.parts, parts, strict=True)),
        Schema(tuple(fields)),
        run.mode(plan, demand),
    )
    return run.restored(Lowered(node, tuple(i for source in parts for i in source.ids)), plan.columns)


@lower_node.register
def _(plan: n.IntervalJoin, run: Lowering, demand: Demand) -> Lowered:
    require_append_only(plan, "the interval join", run.traits)
    pairs, rest = split_equalities(plan.condition, plan.left, plan.right)
    # Null-safe keys are not known to this operator; such an equality is checked on each pair.
    plain = [p for p in pairs if not p.null_safe]
    rest = rest + [_null_safe(p) for p in pairs if p.null_safe]
    sides = _sides(run, run.input(plan, 0), run.input(plan, 1), plain, rest)
    node = IntervalJoinExec(
        sides.left.node,
        sides.right.node,
        plan.kind,
        sides.left_keys,
        sides.right_keys,
        sides.left.position(plan.left_time),
        sides.right.position(plan.right_time),
        plan.lower,
        plan.upper,
        sides.condition,
        _joined_schema(sides, plan.kind),
        APPEND,
        plan.left_time.type.is_proctime,
    )
    return run.restored(Lowered(node, _joined_ids(sides, plan.kind)), plan.columns)


def _null_safe(pair: EquiPair) -> Expr:
    return Call("IS NOT DISTINCT FROM", (pair.left, pair.right), TRUE.type)


@lower_node.register
def _(plan: n.WindowJoin, run: Lowering, demand: Demand) -> Lowered:
    require_append_only(plan, "the window join", run.traits)
    pairs, rest = split_equalities(plan.condition, plan.left, plan.right)
    sides = _sides(run, run.input(plan, 0), run.input(plan, 1), pairs, rest)
    start, end = sides.left.positions_of(plan.left_window)
    right_start, right_end = sides.right.positions_of(plan.right_window)
    node = WindowJoinExec(
        sides.left.node,
        sides.right.node,
        plan.kind,
        sides.left_keys,
        sides.right_keys,
        sides.null_safe,
        (start, end),
        (right_start, right_end),
        window_zone(plan.left, run),
        sides.condition,
        _joined_schema(sides, plan.kind),
        APPEND,
        proctime=window_is_proctime(plan.left, run),
    )
    return run.restored(Lowered(node, _joined_ids(sides, plan.kind)), plan.columns)


@lower_node.register
def _(plan: n.TemporalJoin, run: Lowering, demand: Demand) -> Lowered:
    pairs, rest = split_equalities(plan.condition, plan.left, plan.right)
    if plan.snapshot is not None:
        return _snapshot(plan, plan.snapshot, pairs, rest, run)
    if not isinstance(plan.time, ColumnRef) or not plan.time.type.is_rowtime:
        raise PlanningError(
            "FOR SYSTEM_TIME AS OF takes an event-time column of the left table",
            code="E1705",
            span=plan.span,
            hint="declare WATERMARK FOR that column in its table",
        )
    versions = rowtime_columns(plan.right, run.traits)
    if not versions:
        raise PlanningError(
            "the right table of a temporal join has no event time",
            code="E1705",
            span=plan.span,
            hint="declare WATERMARK FOR one of its columns, and keep that column in the view",
        )
    keyed = _version_key(plan, pairs, run)
    keys = [p for p in keyed if not p.null_safe]
    others = [Call("=", (p.left, p.right), TRUE.type) for p in pairs if p not in keys]
    # In batch mode, too, the versions are what is joined, not the last of them.
    following = run.following() if run.traits.batch else run
    right = following.input(plan.with_(right=_all_versions(plan.right, following)), 1, demand)
    sides = _sides(run, run.input(plan, 0, demand), right, keys, [*others, *rest])
    node = TemporalJoinExec(
        sides.left.node,
        sides.right.node,
        plan.kind,
        sides.left_keys,
        sides.right_keys,
        sides.left.position(plan.time),
        sides.right.position(versions[0].ref()),
        sides.condition,
        _joined_schema(sides, plan.kind),
        run.mode(plan, demand),
        run.ttl,
    )
    return run.restored(Lowered(node, _joined_ids(sides, plan.kind)), plan.columns)


def _snapshot(
    plan: n.TemporalJoin, load: SnapshotLoad, pairs: Sequence[EquiPair], rest: Sequence[Expr], run: Lowering
) -> Lowered:
    require_append_only(n.Filter(plan.left, TRUE), "the left side of a join with SNAPSHOT", run.traits)
    keys = [p for p in pairs if not p.null_safe]
    others = [_null_safe(p) for p in pairs if p.null_safe]
    time = rowtime_columns(plan.right, run.traits)[0]
    sides = _sides(run, run.input(plan, 0), run.input(plan, 1), keys, [*others, *rest])
    node = SnapshotJoinExec(
        sides.left.node,
        sides.right.node,
        plan.kind,
        sides.left_keys,
        sides.right_keys,
        sides.right.position(time.ref()),
        load,
        sides.condition,
        _joined_schema(sides, plan.kind),
        APPEND,
        run.ttl if load.ttl is None else load.ttl,
    )
    return run.restored(Lowered(node, _joined_ids(sides, plan.kind)), plan.columns)


def _all_versions(plan: n.LogicalNode, run: Lowering) -> n.LogicalNode:
    """The versioned side without a last-row-by-key view at its top.

    The join finds the last row up to a time itself, and the view would show only the newest of an epoch's versions.
    """
    match plan:
        case n.Deduplicate(input=source, time=time, keep_last=True) if time.type.is_rowtime and is_append_only(
            source, run.traits
        ):
            return source
        case n.Remember(input=source, values=values):
            # A version is replaced and removed by its key, whatever its values are.
            return n.Project(_all_versions(source, run), (*passing(source.columns), *values))
        case n.Project(input=source, items=items) if all(isinstance(e, ColumnRef) for _, e in items):
            return plan.with_inputs(_all_versions(source, run))
        case _:
            return plan


def _version_key(plan: n.TemporalJoin, pairs: Sequence[EquiPair], run: Lowering) -> list[EquiPair]:
    """The equalities that make up a unique key of the right side."""
    by_column = {p.right.id: p for p in pairs if isinstance(p.right, ColumnRef)}
    keys = upsert_keys(plan.right, run.traits)
    for key in keys:
        if key and key <= by_column.keys():
            return [by_column[column] for column in sorted(key)]
    if not keys:
        raise PlanningError(
            "the right table of a temporal join has no primary key",
            code="E1705",
            span=plan.span,
            hint="declare PRIMARY KEY (...) NOT ENFORCED, or use a view that keeps the last row by key",
        )
    names = {c.id: c.name for c in plan.right.columns}
    wanted = ", ".join(names.get(c, "?") for c in sorted(keys[0]))
    raise PlanningError(
        f"a temporal join needs an equality on the whole primary key of the right table: {wanted}",
        code="E1705",
        span=plan.span,
        hint="add the missing columns to ON",
    )


@lower_node.register
def _(plan: n.VectorSearch, run: Lowering, demand: Demand) -> Lowered:
    left, right = run.input(plan, 0, demand), run.input(plan, 1, demand)
    position = right.position(plan.column)
    outer = plan.kind.keeps_left
    found = (
        Field("searched", right.node.schema[position].type.with_nullable(True)),
        *_padded(right.node.schema, outer),
        Field(plan.score.name, plan.score.type.with_nullable(plan.score.type.nullable or outer)),
    )
    node = VectorSearchExec(
        left.node,
        right.node,
        plan.kind,
        left.expr(plan.query),
        position,
        plan.top_k,
        plan.index,
        _row_key(plan.left, left, run),
        _row_key(plan.right, right, run),
        Schema((*left.node.schema, *found)),
        left.node.mode,
        run.traits.batch or (is_bounded(plan.left, run.traits) and is_bounded(plan.right, run.traits)),
        run.ttl,
    )
    return run.restored(Lowered(node, (*left.ids, HIDDEN, *right.ids, plan.score.id)), plan.columns)


@lower_node.register
def _(plan: n.AsofJoin, run: Lowering, demand: Demand) -> Lowered:
    pairs, rest = split_equalities(plan.equal, plan.left, plan.right)
    if rest or any(pair.null_safe for pair in pairs):
        raise InternalError("an ASOF join has another condition than equalities")
    sides = _sides(run, run.input(plan, 0, demand), run.input(plan, 1, demand), pairs, ())
    left, (left_time,) = run.with_columns(sides.left, [plan.left_time])
    right, (right_time,) = run.with_columns(sides.right, [plan.right_time])
    sides = sides._replace(left=left, right=right)
    node = AsofJoinExec(
        left.node,
        right.node,
        plan.kind,
        sides.left_keys,
        sides.right_keys,
        left_time,
        right_time,
        plan.comparison,
        _row_key(plan.left, left, run),
        _row_key(plan.right, right, run),
        follows_watermark(plan, run.traits),
        _joined_schema(sides, plan.kind),
        run.mode(plan, demand),
    )
    return run.restored(Lowered(node, _joined_ids(sides, plan.kind)), plan.columns)


@lower_node.register
def _(plan: n.CurrentJoin, run: Lowering, demand: Demand) -> Lowered:
    pairs, rest = split_equalities(plan.condition, plan.left, plan.right)
    plain = [p for p in pairs if not p.null_safe]
    rest = rest + [_null_safe(p) for p in pairs if p.null_safe]
    sides = _sides(run, run.input(plan, 0), run.input(plan, 1, demand), plain, rest)
    node = CurrentJoinExec(
        sides.left.node,
        sides.right.node,
        plan.kind,
        sides.left_keys,
        sides.right_keys,
        sides.condition,
        _row_key(plan.right, sides.right, run),
        _joined_schema(sides, plan.kind),
        sides.left.node.mode,
        run.ttl,
    )
    return run.restored(Lowered(node, _joined_ids(sides, plan.kind)), plan.columns)


@lower_node.register
def _(plan: n.LookupJoin, run: Lowering, demand: Demand) -> Lowered:
    source = run.input(plan, 0)
    table_schema = plan.table.schema
    keys: list[tuple[Expr, int]] = []
    for expr, name in plan.keys:
        keys.append((source.expr(expr), table_schema.index_of(name)))
    # The table gives all of its columns; a column that was pruned keeps its place without an id.
    by_name = {c.name: c for c in plan.produced}
    exact = len(plan.produced) == len(table_schema)
    found: list[Column | None] = list(plan.produced) if exact else [by_name.get(name) for name in table_schema.names]
    ids = (*source.ids, *(HIDDEN if c is None else c.id for c in found))
    fields = [
        Field(f.name if c is None else c.name, f.type.with_nullable(True) if plan.kind.keeps_left else f.type)
        for f, c in zip(table_schema, found, strict=True)
    ]
    condition = None if is_true(plan.condition) else Lowered(source.node, ids).expr(plan.condition)
    node = LookupJoinExec(
        source.node,
        plan.table,
        plan.name,
        plan.kind,
        tuple(keys),
        condition,
        Schema((*source.node.schema.fields, *fields)),
        source.node.mode,
        run.ttl,
        # What a whole table does not have it will not have before it is read again.
        None if isinstance(plan.table, WholeTable) else plan.retry,
        plan.requests,
        _row_key(plan.input, source, run),
    )
    return run.restored(Lowered(node, ids), plan.columns)
