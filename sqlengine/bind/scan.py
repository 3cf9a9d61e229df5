"""A table of the catalog as a plan: its scan, then its computed columns, then its watermark.

The scan reads physical and metadata columns under fresh ids. A projection adds computed columns and puts all in
declared order. The rowtime column carries its time attribute from the scan (or the projection) on, so that the columns
of the whole plan agree.
"""

from __future__ import annotations

from sqlglot import exp

from planner.logical.nodes import AssignWatermark, Except, LogicalNode, Project, Scan
from runtime.core.errors import (
    BindError,
    InternalError,
    Span,
    TypeMismatchError,
    UnsupportedError,
    did_you_mean,
    with_article,
)
from runtime.core.types import DataType, TimeAttribute
from runtime.expr.nodes import Call, Column, Expr, fresh_column
from runtime.spi.source import SourceTable
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.scope import Scope, Source
from sqlengine.bind.session import Clause, QueryEnv
from sqlengine.catalog.objects import CatalogTable, ComputedColumn, OpenTable, PhysicalColumn, Watermark
from sqlengine.parse.spans import span_of

__all__ = ["bind_computed", "bind_watermark", "scan_table", "visible_columns"]


def scan_table(
    table: OpenTable, env: QueryEnv, span: Span | None, *, for_lookup: bool = False, name: str = ""
) -> LogicalNode:
    """The plan of a table reference.

    Args:
        for_lookup: it stands behind FOR SYSTEM_TIME AS OF, where a table that can only be looked up may stand too.
        name: what plans call it; its path when not given.
    """
    declared = table.table
    schema = (
        table.source.schema if table.source is not None else table.lookup.schema if table.lookup is not None else None
    )
    if schema is None:
        raise UnsupportedError(
            f'the table "{declared.path.name}" can be written but not read',
            span=span,
            hint=f"its connector '{declared.connector}' is a sink",
        )
    if table.source is None and not for_lookup:
        raise UnsupportedError(
            f'the table "{declared.path.name}" can only be looked up by key',
            code="E1628",
            span=span,
            hint=f"write JOIN {declared.path.name} FOR SYSTEM_TIME AS OF t.proctime ON ..",
        )
    watermark = declared.watermark
    rowtime = watermark.column[0] if watermark is not None and len(watermark.column) == 1 else None
    # A materialized view has event time of its own: the watermark of its query.
    timed = {c.name for c in declared.columns if isinstance(c, PhysicalColumn) and c.type.is_rowtime} | {rowtime}
    left_out = None if for_lookup else table.left_out
    if left_out is not None and timed != {None}:
        raise UnsupportedError(
            f'"{declared.path.name}" has a watermark: from a moment on only tables without one are read',
            code="E1600",
            span=span,
            hint="leave START_MODE out, and say in WHERE which rows count",
        )
    scanned = tuple(
        fresh_column(f.name, _rowtime_type(f.type, f.name, declared) if f.name in timed else f.type) for f in schema
    )
    by_name = {c.name: c for c in scanned}
    scan = Scan(
        table.source,
        name or str(declared.path),
        scanned,
        _keys(declared, by_name),
        table.lookup,
        table.idle_timeout,
        table.alignment,
        table.splits_in_order,
        table.rate_limit,
        span=span,
        measured=declared.measured.table() if declared.measured is not None else None,
        known_keys=tuple(tuple(by_name[name].id for name in key) for key in table.known_keys),
    )
    plan: LogicalNode = scan
    if left_out is not None:
        plan = _without(scan, left_out)
        by_name = {c.name: c for c in plan.columns}
    if any(isinstance(c, ComputedColumn) for c in declared.columns) or _order(declared, by_name) != [
        c.name for c in scanned
    ]:
        plan = _project(plan, declared, by_name, rowtime, env)
    if watermark is None:
        return plan
    if rowtime is None:
        raise UnsupportedError(
            f'the watermark of "{declared.path.name}" is on a field of a row',
            span=span,
            hint="name the field as a computed column first",
        )
    visible = {c.name: c for c in plan.columns}
    if rowtime not in visible:
        raise BindError(
            f'WATERMARK FOR names "{rowtime}", which is no column of the table',
            code="E1201",
            span=span,
            hint=did_you_mean(rowtime, visible),
        )
    time = visible[rowtime].ref()
    return AssignWatermark(plan, time, bind_watermark(watermark, plan.columns, env, _path(declared)))


def _without(plan: Scan, left_out: SourceTable) -> LogicalNode:
    """The rows of a table without some of them."""
    past = tuple(fresh_column(c.name, c.type) for c in plan.columns)
    return Except(
        plan,
        Scan(left_out, f"{plan.name} before", past),
        True,
        tuple(fresh_column(c.name, c.type) for c in plan.columns),
    )


def visible_columns(
    table: CatalogTable, physical: tuple[Column, ...], env: QueryEnv
) -> tuple[tuple[str, DataType], ...]:
    """Names and types of a table's columns as `SELECT *` and DESCRIBE show them, from its physical and metadata
    columns.
    """
    by_name = {c.name: c for c in physical}
    shown: list[tuple[str, DataType]] = []
    for column in table.columns:
        if isinstance(column, ComputedColumn):
            shown.append((column.name, bind_computed(column, physical, env, _path(table)).type))
        else:
            shown.append((column.name, by_name[column.name].type if column.name in by_name else column.type))
    if table.watermark is not None and len(table.watermark.column) == 1:
        rowtime = table.watermark.column[0]
        shown = [(n, _rowtime_type(t, n, table) if n == rowtime else t) for n, t in shown]
    return tuple(shown)


def bind_computed(
    column: ComputedColumn, columns: tuple[Column, ...], env: QueryEnv, path: tuple[str, ...] = ()
) -> Expr:
    """The value of a computed column over the physical and metadata columns."""
    clause = Clause(f'the computed column "{column.name}"', subqueries=False)
    return _bound(column.expression, columns, env, clause, path)


def bind_watermark(
    watermark: Watermark, columns: tuple[Column, ...], env: QueryEnv, path: tuple[str, ...] = ()
) -> Expr:
    """The watermark of a row: a timestamp of the same kind as the rowtime column.

    Raises:
        TypeMismatchError: E1312 when it is no such timestamp.
    """
    name = watermark.column[-1]
    clause = Clause(f'the watermark of "{name}"', subqueries=False)
    value = _bound(watermark.expression, columns, env, clause, path)
    time = next((c for c in columns if c.name == name), None)
    if time is not None and value.type.root is not time.type.root:
        raise TypeMismatchError(
            f'the watermark of "{name}" is {with_article(value.type.materialized())}, '
            f"and the column {with_article(time.type.materialized())}",
            code="E1312",
            span=span_of(watermark.expression),
            hint=f"for example WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND",
        )
    return value


def _bound(tree: exp.Expr, columns: tuple[Column, ...], env: QueryEnv, clause: Clause, path: tuple[str, ...]) -> Expr:
    scope = Scope([Source(path[-1] if path else None, columns, path)])
    try:
        return ExpressionBinder(QueryEnv(env.binder, env.context), scope, clause).bind(tree)
    except InternalError:
        raise
    except (BindError, TypeMismatchError, UnsupportedError) as error:
        # Its place is one in CREATE TABLE, whose check is where such an error shows first.
        error.message = f"{clause.name} of {path[-1]}: {error.message}" if path else error.message
        raise


def _project(
    plan: LogicalNode, declared: CatalogTable, by_name: dict[str, Column], rowtime: str | None, env: QueryEnv
) -> LogicalNode:
    items: list[tuple[Column, Expr]] = []
    for column in declared.columns:
        if not isinstance(column, ComputedColumn):
            if column.name in by_name:
                kept = by_name[column.name]
                items.append((kept, kept.ref()))
            continue
        value = bind_computed(column, plan.columns, env, _path(declared))
        kind = value.type
        if not (isinstance(value, Call) and value.function == "PROCTIME"):
            kind = kind.materialized()
        if column.name == rowtime:
            kind = _rowtime_type(kind, column.name, declared)
        items.append((fresh_column(column.name, kind), value))
    return Project(plan, tuple(items))


def _rowtime_type(type_: DataType, name: str, table: CatalogTable) -> DataType:
    if not type_.is_timestamp or type_.precision > 3:
        hint = "WATERMARK FOR takes a TIMESTAMP or TIMESTAMP_LTZ column with a precision of at most 3"
        if type_.is_integer:
            hint += f"; add a column AS TO_TIMESTAMP_LTZ({name}, 3) for milliseconds since 1970"
        elif type_.is_character:
            hint += f"; add a column AS TO_TIMESTAMP({name})"
        elif type_.is_timestamp:
            hint += f"; add a column AS CAST({name} AS TIMESTAMP(3))"
        raise TypeMismatchError(
            f'the rowtime column "{name}" of {table.path.name} is {with_article(type_.materialized().with_nullable(True))}',
            code="E1312",
            hint=hint,
        )
    if type_.is_proctime:
        raise TypeMismatchError(
            f'"{name}" is processing time and cannot have a watermark',
            code="E1312",
            hint="leave WATERMARK out: processing time goes by itself",
        )
    return type_.with_(time_attribute=TimeAttribute.ROWTIME)


def _keys(declared: CatalogTable, by_name: dict[str, Column]) -> tuple[tuple[int, ...], ...]:
    if not declared.primary_key or not all(k in by_name for k in declared.primary_key):
        return ()
    return (tuple(by_name[k].id for k in declared.primary_key),)


def _order(declared: CatalogTable, by_name: dict[str, Column]) -> list[str]:
    return [c.name for c in declared.columns if c.name in by_name]


def _path(declared: CatalogTable) -> tuple[str, ...]:
    return (declared.path.catalog, declared.path.database, declared.path.name)
