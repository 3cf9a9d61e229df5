"""Scan, constant rows, filter, project, watermark, and changes as rows."""

from __future__ import annotations

from planner.logical import nodes as n
from planner.lower.consumers import require_append_only
from planner.lower.lowering import HIDDEN, Lowered, Lowering, lower_node, schema_of
from planner.lower.time_filter import time_filter
from planner.traits.changes import changes
from planner.traits.keys import unique_keys
from planner.traits.update_kind import Demand, follows_by_after, needs_memory
from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.errors import PlanningError, UnsupportedError
from runtime.core.options import bool_option, text_option
from runtime.core.schema import Field, Schema
from runtime.expr.analysis import follows_time
from runtime.expr.function import shown_name
from runtime.expr.nodes import TRUE
from runtime.plan.nodes import (
    ChangelogNormalizeExec,
    DropUpdateBeforeExec,
    FinalRowsExec,
    FromChangelogExec,
    PhysicalNode,
    ProcessTablesExec,
    RememberExec,
    SourceExec,
    ToChangelogExec,
    ValuesExec,
    WatermarkExec,
)
from runtime.spi.source import SourceTable

__all__ = ["CDC_DUPLICATES", "NULL_ROWTIME"]

CDC_DUPLICATES = bool_option(
    "table.exec.source.cdc-events-duplicate",
    False,
    "whether changelog sources may repeat changes, which are then removed by primary key",
)
NULL_ROWTIME = text_option(
    "table.exec.source.rowtime-null-handling",
    "FAIL",
    "what to do with rows whose event time is NULL",
    ("FAIL", "DROP", "SKIP_WATERMARK"),
)


@lower_node.register
def _(plan: n.Scan, run: Lowering, demand: Demand) -> Lowered:
    table = plan.table
    if table is None:
        raise UnsupportedError(
            f"table {plan.name} can only be looked up by key",
            code="E1602",
            span=plan.span,
            hint="join it with FOR SYSTEM_TIME AS OF a processing time column",
        )
    given = table.changelog_mode
    schema = schema_of(plan.columns)
    source = SourceExec(
        table,
        plan.name,
        schema,
        given,
        plan.idle_timeout,
        plan.alignment,
        plan.splits_in_order,
        rate_limit=plan.rate_limit,
        relied_on=plan.known_names,
    )
    ids = tuple(c.id for c in plan.columns)
    return Lowered(_as_demanded(plan, table, source, run, demand), ids)


@lower_node.register
def _(plan: n.Shared, run: Lowering, demand: Demand) -> Lowered:
    inner = run.restored(run.lower(plan.plan, demand), plan.plan.columns)
    ids = tuple(c.id for c in plan.produced)
    return Lowered(inner.node, ids + inner.ids[len(ids) :])


def _as_demanded(plan: n.Scan, table: SourceTable, source: SourceExec, run: Lowering, demand: Demand) -> PhysicalNode:
    """The source with what makes its changes those that are asked for: old images added, left out, or whole deletes."""
    given = table.changelog_mode
    if given.is_append_only:
        return source
    keys = Lowered(source, tuple(c.id for c in plan.columns)).key_positions(
        [frozenset(plan.keys[0])] if plan.keys else []
    )
    if given.is_upsert and keys is None:
        raise PlanningError(
            f"table {plan.name} gives updates without old values, so it needs a primary key",
            code="E1704",
            span=plan.span,
            hint="declare PRIMARY KEY (...) NOT ENFORCED",
        )
    if run.traits.batch:
        told = keys if given.is_upsert or given.key_only_deletes or run.context.options.get(CDC_DUPLICATES) else None
        return FinalRowsExec(source, told, source.schema, APPEND)
    kinds = changes(plan, run.traits)
    if keys is not None and run.context.options.get(CDC_DUPLICATES):
        return _normalized(source, keys, kinds.mode(before=demand.before), run)
    if demand.before:
        return (
            _normalized(source, keys, kinds.mode(before=True), run)
            if given.is_upsert or given.key_only_deletes
            else source
        )
    if given.key_only_deletes and demand.full_deletes:
        return _normalized(source, keys, kinds.mode(before=False), run)
    if given.update_before and given.update_after and keys is not None:
        return DropUpdateBeforeExec(
            source, source.schema, ChangelogMode(True, False, True, given.delete, given.key_only_deletes)
        )
    return source


def _normalized(source: SourceExec, keys: tuple[int, ...] | None, mode: ChangelogMode, run: Lowering) -> PhysicalNode:
    if keys is None:
        return source
    return ChangelogNormalizeExec(source, keys, source.schema, mode, run.ttl)


@lower_node.register
def _(plan: n.Values, run: Lowering, demand: Demand) -> Lowered:
    if not plan.produced:
        # An edge has at least one column.
        rows = tuple((TRUE,) for _ in plan.rows)
        return Lowered(ValuesExec(rows, Schema((Field("$any", TRUE.type),)), APPEND), (HIDDEN,))
    return Lowered(ValuesExec(plan.rows, schema_of(plan.produced), APPEND), tuple(c.id for c in plan.produced))


@lower_node.register
def _(plan: n.Filter, run: Lowering, demand: Demand) -> Lowered:
    if follows_time(plan.predicate) and not run.traits.batch:
        return time_filter(plan, run)
    source = run.input(plan, 0, demand)
    return run.projected(source, plan.predicate, [(c, c.ref()) for c in plan.columns])


@lower_node.register
def _(plan: n.Project, run: Lowering, demand: Demand) -> Lowered:
    return run.projected(run.input(plan, 0, demand), None, plan.items)


@lower_node.register
def _(plan: n.Remember, run: Lowering, demand: Demand) -> Lowered:
    source = run.input(plan, 0, demand)
    if not needs_memory(plan, demand, run.traits):
        return run.projected(source, None, (*((c, c.ref()) for c in plan.input.columns), *plan.values))
    given = source.node
    fields = tuple(Field(c.name, c.type) for c, _ in plan.values)
    node: PhysicalNode = RememberExec(
        given,
        tuple(source.expr(e) for _, e in plan.values),
        source.key_positions(unique_keys(plan.input, run.traits)),
        Schema((*given.schema, *fields)),
        given.mode,
        run.ttl,
    )
    if given.mode.update_before and not demand.before and follows_by_after(plan, run.traits):
        mode = ChangelogMode(True, False, given.mode.update_after, given.mode.delete)
        node = DropUpdateBeforeExec(node, node.schema, mode)
    return Lowered(node, source.ids + tuple(c.id for c, _ in plan.values))


@lower_node.register
def _(plan: n.AssignWatermark, run: Lowering, demand: Demand) -> Lowered:
    source = run.input(plan, 0, demand)
    nulls = run.context.options.get(NULL_ROWTIME).upper()
    node = WatermarkExec(
        source.node, source.position(plan.time), source.expr(plan.expr), source.node.schema, source.node.mode, nulls
    )
    return Lowered(node, source.ids)


@lower_node.register
def _(plan: n.FromChangelog, run: Lowering, demand: Demand) -> Lowered:
    hint = "give it the rows of a log; a table that is updated is its own changelog already"
    require_append_only(plan, "FROM_CHANGELOG", run.traits, hint)
    source = run.input(plan, 0)
    at = source.position(plan.op)
    fields = tuple(f for i, f in enumerate(source.node.schema) if i != at)
    mode = changes(plan, run.traits).mode(before=True)
    node = FromChangelogExec(source.node, at, plan.codes, plan.skip, Schema(fields), mode)
    return Lowered(node, tuple(id_ for i, id_ in enumerate(source.ids) if i != at))


@lower_node.register
def _(plan: n.ToChangelog, run: Lowering, demand: Demand) -> Lowered:
    source = run.input(plan, 0)
    schema = Schema((Field(plan.op.name, plan.op.type), *source.node.schema.fields))
    return Lowered(ToChangelogExec(source.node, plan.codes, schema, APPEND), (plan.op.id, *source.ids))


@lower_node.register
def _(plan: n.ProcessTables, run: Lowering, demand: Demand) -> Lowered:
    function = run.context.functions.process(plan.function)
    for part, takes in zip(plan.parts, plan.takes_updates, strict=True):
        if not takes or plan.times:
            hint = None if plan.times else "declare its table with SUPPORT_UPDATES, and it gets the kind of each row"
            require_append_only(n.Filter(part, TRUE), f"the function {shown_name(plan.function)}", run.traits, hint)
    sources = [run.restored(run.input(plan, i), part.columns) for i, part in enumerate(plan.parts)]
    order = [run.sort_specs(s, keys)[1] for s, keys in zip(sources, plan.order, strict=True)] if plan.order else []
    node = ProcessTablesExec(
        tuple(s.node for s in sources),
        plan.function,
        tuple(s.positions_of(k) for s, k in zip(sources, plan.keys, strict=True)),
        tuple(s.position(t) for s, t in zip(sources, plan.times, strict=True)) if plan.times else (),
        plan.names,
        plan.arguments,
        Schema(tuple(Field(s.name, s.type) for s in function.states)),
        tuple(run.ttl if s.ttl is None else s.ttl for s in function.states),
        schema_of(plan.columns),
        changes(plan, run.traits).mode(before=True),
        tuple(order),
        plan.each,
        plan.passes,
        function.clock,
    )
    return Lowered(node, tuple(c.id for c in plan.produced))
