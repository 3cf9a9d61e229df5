"""From a parsed query to a physical plan: bind, optimize, lower. The one place where the rooms of planning meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from connectors.memory import MemorySink, MemoryTable
from planner.advice import warnings
from planner.logical.nodes import Aggregate, AssignWatermark, LogicalNode, Project, Scan, Sink, Sort
from planner.logical.shared import holds_shared, map_shared
from planner.lower import LowerContext, lower, lower_statement_set
from planner.optimizer import optimize, optimize_set
from planner.rule import RuleContext
from planner.trace import Trace
from planner.traits.changes import ordered_by_time
from planner.traits.context import DELTA_JOIN, TraitContext
from planner.traits.keys import upsert_keys
from runtime.core.errors import PlanningError, UnsupportedError
from runtime.core.rooms import Room
from runtime.core.schema import Field, Schema
from runtime.expr.nodes import Column, ColumnRef, SortKey
from runtime.local.dataflow import Dataflow
from runtime.plan.nodes import PhysicalNode, SortSpec, SourceExec
from runtime.plan.parts import Alignment
from runtime.plan.walk import walk
from runtime.spi.reader import ReadContext, SourceReader
from runtime.spi.sink import SinkTable
from runtime.spi.source import EndingInserts, Split
from sqlengine.bind import BoundQuery, bind_insert, bind_query
from sqlengine.catalog.catalog import CatalogObject
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView, OpenTable
from sqlengine.database.binding import Binding
from sqlengine.database.session import Session, physical_schema
from sqlengine.options.database import FOLLOW
from sqlengine.options.verify import rule_options
from sqlengine.parse import statement_nodes as st
from sqlengine.parse.spans import span_of
from sqlengine.parse.trees import Tree, select_all
from sqlengine.table_options.watermarks import WatermarkOptions

if TYPE_CHECKING:
    import planner.logical.known_keys as _known_keys
    import planner.lower.delta_join as _delta_join
    import sqlengine.database.numbering as _numbering
    import sqlengine.parameters.rows as _rows
else:
    _known_keys = Room("planner.logical.known_keys")
    _delta_join = Room("planner.lower.delta_join")
    _numbering = Room("sqlengine.database.numbering")
    _rows = Room("sqlengine.parameters.rows")

__all__ = [
    "Planned",
    "PlannedQuery",
    "PlannedView",
    "bound_insert",
    "bound_schema",
    "bound_view",
    "check_declaration",
    "object_schema",
    "plan_insert",
    "plan_inserted",
    "plan_query",
    "plan_statement_set",
    "plan_view",
    "query_schema",
]


@dataclass(frozen=True)
class Planned:
    """A statement on its way: the plan as bound, the plan after the rules, how it runs, and which rules fired."""

    bound: LogicalNode
    optimized: LogicalNode
    physical: PhysicalNode
    trace: Trace
    batch: bool = field(default=False, kw_only=True)
    """Whether it has its batch meaning: the answer over all input, in insertions."""


@dataclass(frozen=True)
class PlannedQuery(Planned):
    """A query whose rows are wanted. `schema` has `visible` columns for the reader and, behind them, columns that only
    `order` needs."""

    schema: Schema
    visible: int
    order: tuple[SortSpec, ...]
    sorts_shown_rows: bool = False
    """Whether ORDER BY is no part of the plan: the rows are sorted when they are shown."""


Keys = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class PlannedView(Planned):
    """A query whose answer is kept. `keys`: the positions of columns by which its rows are told apart for life; `own_keys`:
    those that it would have if no view that it reads had any; `known_keys`: those of the views that it reads, by name."""

    keys: Keys
    own_keys: Keys
    known_keys: Mapping[str, tuple[tuple[str, ...], ...]]


def plan_query(session: Session, query: Tree, *, live: bool = False, follow: bool = False) -> PlannedQuery:
    """Plan a query for display. ORDER BY at the top without LIMIT becomes the order in which a bounded result is
    shown. `follow`: tables in memory are streams.

    Raises PlanningError E1614 when there is such an order and the input has no end (but not for a view, `live`).
    """
    parameters = session.parameters
    if parameters is not None and parameters.plans is not None and not live and not follow:
        return parameters.plans.query(session, parameters, lambda: _plan_query(session, query, live=False))
    return _plan_query(session, query, live=live, follow=follow)


def _plan_query(session: Session, query: Tree, *, live: bool, follow: bool = False) -> PlannedQuery:
    binding = Binding(session, live or follow)
    return _planned(session, _bound_query(query, binding), binding, query, live=live)


def plan_inserted(session: Session, statement: st.Insert, target: CatalogTable) -> PlannedQuery:
    """The rows that an INSERT gives its table, as a query: in the columns of the table. Raises what `plan_insert`
    raises, and PlanningError E1614 as `plan_query`."""
    sink = session.open_sink(target, st.options_dict(statement.hints), live=False, span=statement.table.span)
    binding = Binding(session, False)
    plan = bound_insert(statement, target, sink, binding).input
    bound = BoundQuery(plan, sink.schema.names)
    return _planned(session, bound, binding, statement.query.query, live=False)


def _planned(session: Session, bound: BoundQuery, binding: Binding, query: Tree, *, live: bool) -> PlannedQuery:
    whole = _as_batch(bound.plan) if binding.batch else bound.plan
    plan, order_keys = _without_top_sort(whole)
    optimized, trace = _optimize(session, plan, displayed=True, batch=binding.batch)
    fields = [Field(name, column.type) for name, column in zip(bound.names, optimized.columns, strict=False)]
    fields += [Field(column.name, column.type) for column in optimized.columns[len(fields) :]]
    physical = lower(optimized, lower_context(session, batch=binding.batch), [f.name for f in fields])
    physical = _with_delta_joins(session, physical) if live else _checked(session, physical)
    positions = {column.id: i for i, column in enumerate(optimized.columns)}
    order = tuple(SortSpec(positions[_column_id(k)], k.descending, k.nulls_last) for k in order_keys)
    sorts, endless = plan is not whole, not live and not _ends(physical)
    if endless:
        _numbering.refuse_numbers([physical], "a query without end")
    if sorts and endless:
        raise PlanningError(
            "ORDER BY without LIMIT needs input that ends",
            code="E1614",
            span=span_of(query.args.get("order")),
            hint="add LIMIT n to keep the first n rows up to date, or sort by an event-time column",
        )
    schema = Schema(tuple(fields))
    return PlannedQuery(
        bound.plan, optimized, physical, trace, schema, len(bound.names), order, sorts, batch=binding.batch
    )


def _bound_query(query: Tree, binding: Binding) -> BoundQuery:
    """The query as bound, with the values of its parameters."""
    if binding.parameters is None:
        return bind_query(query, binding)
    names: list[tuple[str, ...]] = []

    def bind() -> LogicalNode:
        bound = bind_query(query, binding)
        names.append(bound.names)
        return bound.plan

    return BoundQuery(_rows.bound(binding.parameters, bind), names[-1])


def _ends(plan: PhysicalNode) -> bool:
    return all(node.table.bounded for node in walk(plan) if isinstance(node, SourceExec))


def _as_batch(plan: LogicalNode) -> LogicalNode:
    """The plan with the batch meaning of a global aggregate: one row also over no rows, where a stream has none before
    the first."""
    return _everywhere(plan, _scalar)


def _everywhere(plan: LogicalNode, change: Callable[[LogicalNode], LogicalNode]) -> LogicalNode:
    """The plan changed, and each plan that stands in several places in it, once."""
    done: dict[LogicalNode, LogicalNode] = {}

    def whole(part: LogicalNode) -> LogicalNode:
        return change(map_shared(part, whole, done) if holds_shared(part) else part)

    return whole(plan)


def _scalar(plan: LogicalNode) -> LogicalNode:
    plan = plan.with_inputs(*(_scalar(source) for source in plan.inputs))
    return plan.with_(scalar=True) if isinstance(plan, Aggregate) and not plan.group else plan


def _at_its_end(plan: LogicalNode) -> LogicalNode:
    """An optimized plan with the batch meaning of time: it moves once, at the end, so that no row is late.

    Raises UnsupportedError E1621 for a table that has no end.
    """
    plan = plan.with_inputs(*(_at_its_end(source) for source in plan.inputs))
    match plan:
        case Scan(table=table) if table is not None and not table.bounded:
            raise UnsupportedError(
                f"batch mode reads tables that end, and {plan.name} has no end",
                code="E1621",
                span=plan.span,
                hint="SET 'execution.runtime-mode' = 'streaming'",
            )
        case Scan(alignment=Alignment()):
            return plan.with_(alignment=None)
        case AssignWatermark(input=source):
            return source
        case _:
            return plan


def _column_id(key: SortKey) -> int:
    if not isinstance(key.expr, ColumnRef):
        raise UnsupportedError(
            "ORDER BY takes columns of the result here",
            code="E1605",
            hint="give the expression a name in the SELECT list",
        )
    return key.expr.id


def _without_top_sort(plan: LogicalNode) -> tuple[LogicalNode, tuple[SortKey, ...]]:
    """The plan without an ORDER BY at its top, with what that sorts by kept as extra columns behind the visible ones.

    ORDER BY with LIMIT stays (it chooses rows); its keys still say how to show them where they are visible. ORDER BY
    event time stays, too: it works on a stream without an end.
    """
    match plan:
        case Sort(keys=keys) | Project(input=Sort(keys=keys)) if ordered_by_time(keys):
            return plan, ()
        case Sort(input=source, keys=keys, limit=None, offset=0):
            return source, keys
        case Sort(keys=keys):
            return plan, keys
        case Project(input=Sort(input=source, keys=keys, limit=None, offset=0), items=items):
            shown = {column.id for column, _ in items}
            hidden = [k.expr for k in keys if isinstance(k.expr, ColumnRef) and k.expr.id not in shown]
            extra = tuple((Column(r.id, r.name, r.type), r) for r in dict.fromkeys(hidden))
            return Project(source, items + extra), keys
        case Project(input=Project(input=Sort()) as inner, items=items):
            # The columns of a table that is written, over those of the query.
            source, keys = _without_top_sort(inner)
            if source is inner:
                return plan, ()
            shown = {column.id for column, _ in items}
            hidden = [k.expr for k in keys if isinstance(k.expr, ColumnRef) and k.expr.id not in shown]
            extra = tuple((Column(r.id, r.name, r.type), r) for r in dict.fromkeys(hidden))
            return Project(source, items + extra), keys
        case Project(input=Sort(keys=keys), items=items):
            shown = {column.id for column, _ in items}
            return plan, keys if all(isinstance(k.expr, ColumnRef) and k.expr.id in shown for k in keys) else ()
        case _:
            return plan, ()


def bound_view(session: Session, query: Tree, start: int | None = None) -> BoundQuery:
    """The query of a materialized view as bound: it follows tables in memory. `start`: the moment (milliseconds since 1970)
    from which on rows count."""
    return bind_query(query, Binding(session, True, start=start))


def plan_view(
    session: Session, bound: BoundQuery, contents: MemoryTable, names: Sequence[str], *, knows_keys: bool = True
) -> PlannedView:
    """Plan a query whose answer is kept in memory and published epoch by epoch. It is the plan that says nothing of the keys
    of views that are read where that is no other one, or they are not to count (`knows_keys`)."""
    plan, _ = _without_top_sort(bound.plan)
    if len(plan.columns) > len(names):
        plan = Project(plan, tuple((c, c.ref()) for c in plan.columns[: len(names)]))
    sink = Sink(plan, MemorySink(contents, live=True), contents.name)
    found = _plan_of_view(session, sink)
    keyless, known = _known_keys.without_known_keys(sink)
    if known:
        other = _plan_of_view(session, keyless)
        used = found if knows_keys and found.physical != other.physical else other
        found = replace(used, keys=found.keys, own_keys=other.keys, known_keys=known)
    _note(session, [found.optimized])
    _numbering.refuse_numbers([found.physical], "a materialized view")
    return found


def _plan_of_view(session: Session, sink: LogicalNode) -> PlannedView:
    optimized, trace = _optimize(session, sink, displayed=False, batch=False)
    context = lower_context(session)
    physical = _with_delta_joins(session, lower(optimized, context))
    keys: Keys = ()
    # What was forgotten begins anew beside the row that is there.
    if not _forgets(physical):
        (source,) = optimized.inputs
        positions = {column.id: i for i, column in reversed(list(enumerate(source.columns)))}
        found = upsert_keys(source, context.traits)
        keys = tuple(tuple(sorted(positions[c] for c in key)) for key in found if key <= positions.keys())
    return PlannedView(sink, optimized, physical, trace, keys=keys, own_keys=keys, known_keys={})


def _forgets(plan: PhysicalNode) -> bool:
    inner = (getattr(node, name) for node in walk(plan) for name in node.inner_fields)
    return any(node.expires for node in walk(plan)) or any(map(_forgets, inner))


def _with_delta_joins(session: Session, plan: PhysicalNode) -> PhysicalNode:
    """The plan of a materialized view, whose joins read tables of the database where they can."""
    settings = session.job_settings([plan])
    return _delta_join.with_delta_joins(plan, settings.options, session.functions, here=settings.dataflow is Dataflow)


def _checked(session: Session, plan: PhysicalNode) -> PhysicalNode:
    """The plan of something else; raises UnsupportedError E1644 where its joins were to keep nothing."""
    if session.options.get(DELTA_JOIN).upper() == "FORCE":
        _delta_join.check_forced(plan)
    return plan


def plan_insert(session: Session, statement: st.Insert, target: CatalogTable, *, live: bool) -> Planned:
    """Plan INSERT INTO."""
    sink = _bound_insert(session, statement, target, live=live)
    batch = Binding(session, live).batch
    optimized, trace = _optimize(session, sink, displayed=False, batch=batch)
    _note(session, [optimized], batch=batch)
    physical = _checked(session, lower(optimized, lower_context(session, batch=batch)))
    _check_overwrite(statement, physical)
    return Planned(sink, optimized, physical, trace, batch=batch)


def plan_statement_set(
    session: Session, inserts: Sequence[tuple[st.Insert, CatalogTable]], *, live: bool
) -> list[Planned]:
    """Plan several INSERTs that run as one dataflow; what they have in common is equal, so that it runs once."""
    bound = [_bound_insert(session, statement, target, live=live) for statement, target in inserts]
    traces = [Trace() for _ in bound]
    batch = Binding(session, live).batch
    context = RuleContext(session.functions, rule_options(session.options), session.time_zone, False, batch)
    optimized = optimize_set(bound, context, traces)
    _note(session, optimized, batch=batch)
    if batch:
        optimized = [_everywhere(plan, _at_its_end) for plan in optimized]
    physical = lower_statement_set(optimized, lower_context(session, batch=batch))
    for (statement, target), plan in zip(inserts, physical, strict=True):
        _check_overwrite(statement, _checked(session, plan))
        if statement.overwrite and sum(other.path == target.path for _, other in inserts) > 1:
            raise UnsupportedError(
                f'"{target.path.name}" is overwritten, and another INSERT of the set writes to it, too',
                code="E1619",
                span=statement.table.span,
                hint="write all its rows with one INSERT and UNION ALL",
            )
    return [Planned(b, o, p, t, batch=batch) for b, o, p, t in zip(bound, optimized, physical, traces, strict=True)]


def _check_overwrite(statement: st.Insert, plan: PhysicalNode) -> None:
    if statement.overwrite and not _ends(plan):
        words = "REPLACE TABLE over the same files" if statement.replaces else "INSERT OVERWRITE"
        raise UnsupportedError(
            f"{words} needs input that ends: only then are all rows there that replace the others",
            code="E1619",
            span=statement.query.span,
            hint="give the new table another 'path'" if statement.replaces else "INSERT INTO adds rows as they come",
        )


def _bound_insert(session: Session, statement: st.Insert, target: CatalogTable, *, live: bool) -> Sink:
    if statement.conflict_target or statement.on_conflict == "UPDATE":
        stored = target.connector is None
        raise UnsupportedError(
            "ON CONFLICT with columns or with DO UPDATE "
            + ("has no plan: it is a statement of its own" if stored else "works on tables without connector"),
            code="E1607",
            span=statement.table.span,
            hint="EXPLAIN and statement sets take ON CONFLICT DO NOTHING, DO ERROR and DO DEDUPLICATE"
            if stored
            else "a sink takes ON CONFLICT DO NOTHING, DO ERROR or DO DEDUPLICATE, about the rows of the statement",
        )
    sink: SinkTable = session.open_sink(target, st.options_dict(statement.hints), live=live, span=statement.table.span)
    # Otherwise, and in batch mode, tables are read as they are now.
    lasts = target.connector is not None and session.options.get(FOLLOW) and not Binding(session, live).batch
    binding = Binding(session, lasts or session.harness.inserts_follow, lasts=lasts)
    bound = bound_insert(statement, target, sink, binding)
    return bound.with_inputs(_as_batch(bound.input)) if binding.batch else bound


def bound_insert(statement: st.Insert, target: CatalogTable, sink: SinkTable, binding: Binding) -> Sink:
    """INSERT INTO as bound, with the values of its parameters."""
    if binding.parameters is None:
        return bind_insert(statement, target, sink, binding)
    return _rows.bound(binding.parameters, lambda: bind_insert(statement, target, sink, binding))


def _note(session: Session, plans: Sequence[LogicalNode], *, batch: bool = False) -> None:
    """What may be wrong with plans that run for long is said with the result of their statement."""
    traits = TraitContext(session.functions, session.options, batch=batch)
    session.notes += [note for plan in plans for note in warnings(plan, traits)]


def _optimize(session: Session, plan: LogicalNode, *, displayed: bool, batch: bool) -> tuple[LogicalNode, Trace]:
    trace = Trace()
    context = RuleContext(session.functions, rule_options(session.options), session.time_zone, displayed, batch)
    optimized = optimize(plan, context, trace)
    return _everywhere(optimized, _at_its_end) if batch else optimized, trace


def lower_context(session: Session, *, batch: bool = False) -> LowerContext:
    """What lowering is told of the session."""
    return LowerContext(TraitContext(session.functions, session.options, batch=batch), session.time_zone)


def query_schema(session: Session, query: Tree) -> Schema:
    """Names and types of a query's columns."""
    return bound_schema(_bound_query(query, Binding(session, False)))


def bound_schema(bound: BoundQuery) -> Schema:
    """Names and types of the columns of a bound query."""
    return Schema(tuple(Field(n, c.type) for n, c in zip(bound.names, bound.plan.columns, strict=True)))


def object_schema(session: Session, thing: CatalogObject) -> Schema:
    """All columns of a table or view, computed ones too."""
    if isinstance(thing, MaterializedView):
        return Schema(tuple(Field(c.name, c.type) for c in thing.columns))
    if isinstance(thing, CatalogView):
        schema = query_schema_within(session, thing)
        return schema
    return _declared_schema(session, thing)


def query_schema_within(session: Session, view: CatalogView) -> Schema:
    """The columns of a view, under its own column names."""
    bound = bind_query(view.query, Binding(session, False).within(view))
    names = view.columns or bound.names
    return Schema(tuple(Field(n, c.type) for n, c in zip(names, bound.plan.columns, strict=True)))


def check_declaration(session: Session, table: CatalogTable) -> None:
    """Bind the computed columns and the watermark of a table, so that mistakes show when it is declared. Opens
    nothing."""
    WatermarkOptions.read(table, {}, session.options)
    _declared_schema(session, table)


def _declared_schema(session: Session, table: CatalogTable) -> Schema:
    binding = _DeclaredBinding(session, False, None, table)
    bound = bind_query(select_all(table.path.parts), binding)
    return Schema(tuple(Field(n, c.type) for n, c in zip(bound.names, bound.plan.columns, strict=True)))


@dataclass(frozen=True)
class _DeclaredBinding(Binding):
    """A binding in which every name is one table, described but not opened."""

    declared: CatalogTable | None = None

    def resolve(self, path: tuple[str, ...], span: object, options: object) -> OpenTable:
        assert self.declared is not None
        return OpenTable(self.declared, _DeclaredSource(physical_schema(self.declared)), None)


@dataclass(frozen=True)
class _DeclaredSource(EndingInserts):
    """The columns of a table that nobody reads."""

    schema: Schema

    def splits(self) -> list[Split]:
        return []

    def open(self, split: Split, context: ReadContext) -> SourceReader:
        raise UnsupportedError("a declaration cannot be read")

    def describe(self) -> dict[str, Any]:
        return {"connector": "none"}
