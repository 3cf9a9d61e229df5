"""Writing to a table: what its changes must look like, and what to put in between (reference 0.3 last rows, 1.8, trap
2).

| the sink takes | its key | the query gives | what is put before the sink |
|---|---|---|---|
| insertions only | any | updates | nothing: E1701, naming what updates |
| after-images | is an upsert key of the query | after-images | nothing |
| after-images | contains a key of the query | full images | old images dropped by the sink's key |
| any | none of these | updates | SinkMaterialize, if ON CONFLICT says what a clash means (E1703 otherwise) |
| any | no key of the query | insertions | SinkMaterialize, if ON CONFLICT says DO NOTHING or DO ERROR |
"""

from __future__ import annotations

from planner.logical import nodes as n
from planner.logical.nodes import LogicalNode
from planner.lower.lowering import Lowered, Lowering, lower_node
from planner.traits.changes import changes
from planner.traits.keys import unique_keys, upsert_keys
from planner.traits.naming import describe, place_of, updating_origin
from planner.traits.time import has_watermark, is_bounded
from planner.traits.update_kind import FULL_IMAGES, Demand, follows_by_after
from runtime.core.changelog import APPEND, UPSERT, ChangelogMode
from runtime.core.errors import PlanningError
from runtime.core.options import bool_option, text_option
from runtime.core.schema import Schema
from runtime.plan.nodes import DropUpdateBeforeExec, PhysicalNode, SinkExec, SinkMaterializeExec

__all__ = ["NOT_NULL_ENFORCER", "REQUIRE_ON_CONFLICT", "UPSERT_MATERIALIZE"]

NOT_NULL_ENFORCER = text_option(
    "table.exec.sink.not-null-enforcer",
    "ERROR",
    "what to do with NULL for a NOT NULL column of a sink",
    ("ERROR", "DROP"),
)
UPSERT_MATERIALIZE = text_option(
    "table.exec.sink.upsert-materialize",
    "AUTO",
    "whether rows are kept by the sink's key to repair their order",
    ("NONE", "AUTO", "FORCE"),
)
REQUIRE_ON_CONFLICT = bool_option(
    "table.exec.sink.require-on-conflict",
    True,
    "whether INSERT must say ON CONFLICT when the query's key is not the sink's primary key",
)


@lower_node.register
def _(plan: n.Sink, run: Lowering, demand: Demand) -> Lowered:
    source = _changes_for(plan, run)
    fields = plan.table.schema.fields
    required = tuple(i for i, f in enumerate(fields) if not f.type.nullable)
    enforcer = run.context.options.get(NOT_NULL_ENFORCER).upper()
    node = SinkExec(source, plan.table, plan.name, required, enforcer, Schema(fields), source.mode)
    return Lowered(node, tuple(c.id for c in plan.columns))


def _changes_for(plan: n.Sink, run: Lowering) -> PhysicalNode:
    query, table = plan.input, plan.table
    kinds = changes(query, run.traits)
    key = _primary_key(plan)
    # A table with a key is offered after-images first: fewer rows, and their order is that of its own key.
    accepted = table.accepts(kinds.mode(before=key is None))
    if kinds.append_only:
        node = _rows(plan, FULL_IMAGES, run)
        clash = key is not None and plan.on_conflict in ("NOTHING", "ERROR") and not _covered(query, key, run)
        return _materialized(plan, node, run) if _forced(plan, run) or (clash and _materializes(run)) else node
    if accepted.is_append_only:
        raise _updates_into_append_sink(plan, run)
    wants_before = accepted.update_before
    if key is None:
        if kinds.update and not wants_before:
            raise PlanningError(
                f"table {_short(plan.name)} takes updates by key, but has no primary key",
                code="E1704",
                span=plan.span,
                hint="declare PRIMARY KEY (...) NOT ENFORCED in CREATE TABLE",
            )
        return _rows(plan, FULL_IMAGES, run)
    keys = upsert_keys(query, run.traits)
    if _forced(plan, run) or (_materializes(run) and not _covered(query, key, run)):
        _require_on_conflict(plan, run)
        return _materialized(plan, _rows(plan, FULL_IMAGES, run), run)
    if wants_before:
        return _rows(plan, FULL_IMAGES, run)
    if key in keys and follows_by_after(query, run.traits):
        return _rows(plan, Demand(False, not accepted.key_only_deletes), run)
    node = _rows(plan, FULL_IMAGES, run)
    return _by_key(node, _positions(plan, key))


def _rows(plan: n.Sink, demand: Demand, run: Lowering) -> PhysicalNode:
    source = run.lower(plan.input, demand)
    return run.restored(source, plan.input.columns).node


def _by_key(node: PhysicalNode, key: tuple[int, ...]) -> PhysicalNode:
    """Full images as after-images by key: an old image whose key gets no new row becomes a delete."""
    if not node.mode.update_before:
        return node
    return DropUpdateBeforeExec(node, node.schema, ChangelogMode(True, False, True, True), key)


def _covered(query: LogicalNode, key: frozenset[int], run: Lowering) -> bool:
    """Whether two live rows of the query never share a sink key."""
    return any(k <= key for k in unique_keys(query, run.traits))


def _primary_key(plan: n.Sink) -> frozenset[int] | None:
    names = plan.table.primary_key
    if not names:
        return None
    ids = [c.id for c in plan.input.columns]
    return frozenset(ids[plan.table.schema.index_of(name)] for name in names)


def _positions(plan: n.Sink, key: frozenset[int]) -> tuple[int, ...]:
    return tuple(i for i, c in enumerate(plan.input.columns) if c.id in key)


def _strategy(run: Lowering) -> str:
    return run.context.options.get(UPSERT_MATERIALIZE).upper()


def _materializes(run: Lowering) -> bool:
    return _strategy(run) != "NONE"


def _forced(plan: n.Sink, run: Lowering) -> bool:
    return _strategy(run) == "FORCE" and bool(plan.table.primary_key)


def _materialized(plan: n.Sink, node: PhysicalNode, run: Lowering) -> PhysicalNode:
    key = tuple(plan.table.schema.index_of(name) for name in plan.table.primary_key)
    action = plan.on_conflict or "DEDUPLICATE"
    appends = node.mode.is_append_only
    if action == "DEDUPLICATE":
        if run.traits.batch:
            return SinkMaterializeExec(node, key, node.schema, APPEND, waits=True)
        return SinkMaterializeExec(node, key, node.schema, UPSERT, run.ttl)
    unique = None if appends else _identity(plan, run)
    mode = APPEND if appends else UPSERT
    waits = is_bounded(plan.input, run.traits) or has_watermark(plan.input, run.traits)
    return SinkMaterializeExec(node, key, node.schema, mode, run.ttl, action, unique, waits)


def _identity(plan: n.Sink, run: Lowering) -> tuple[int, ...] | None:
    """What tells the rows of the query apart, by position: the shortest of its keys."""
    ids = [c.id for c in plan.input.columns]
    keys = [tuple(ids.index(c) for c in key) for key in upsert_keys(plan.input, run.traits) if key <= set(ids)]
    return min((tuple(sorted(k)) for k in keys if k), key=lambda k: (len(k), k), default=None)


def _require_on_conflict(plan: n.Sink, run: Lowering) -> None:
    if plan.on_conflict is not None or not run.context.options.get(REQUIRE_ON_CONFLICT):
        return
    names = ", ".join(plan.table.primary_key)
    columns = {c.id: c.name for c in plan.input.columns}
    keys = [", ".join(columns[c] for c in sorted(k)) for k in upsert_keys(plan.input, run.traits)]
    its_own = f"its rows are told apart by ({keys[0]})" if keys and keys[0] else "its rows have no key"
    raise PlanningError(
        f"rows of the query may clash on the primary key ({names}) of {_short(plan.name)}: {its_own}",
        code="E1703",
        span=plan.span,
        hint="say what a clash means with ON CONFLICT DO DEDUPLICATE (the last row shows), DO NOTHING (the first stays) "
        "or DO ERROR, or make the primary key the key of the query",
    )


def _updates_into_append_sink(plan: n.Sink, run: Lowering) -> PlanningError:
    origin = updating_origin(plan.input, run.traits)
    what = describe(origin)
    hint = (
        "write to a table with a primary key that takes updates, or aggregate by window so that each result comes once"
    )
    if isinstance(origin, n.Scan):
        hint = "write to a table that takes updates"
    return PlanningError(
        f"table {_short(plan.name)} takes only insertions, but {what} updates or removes rows",
        code="E1701",
        span=place_of(origin),
        hint=hint,
    )


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1]
