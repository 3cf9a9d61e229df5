"""The binder's front: whole queries, the source of INSERT, and single expressions of DDL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from planner.logical.nodes import LogicalNode, Values
from runtime.core.errors import BindError, TypeMismatchError, UnsupportedError
from runtime.core.rooms import Room
from runtime.core.types import TypeRoot
from runtime.expr.nodes import Column, Expr, fresh_column
from sqlengine.bind.coerce import unify
from sqlengine.bind.constants import constant_columns, constant_query, other_width
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.output import finish, item_spans, output_names
from sqlengine.bind.scan import bind_watermark
from sqlengine.bind.scope import Scope, Source
from sqlengine.bind.select import bind_select
from sqlengine.bind.session import BoundQuery, Clause, CommonTable, QueryBinder, QueryEnv
from sqlengine.bind.set_ops import bind_set_operation
from sqlengine.catalog.objects import BindContext, Watermark
from sqlengine.parse.constant_rows import ConstantRows, values_rows
from sqlengine.parse.spans import span_of

if TYPE_CHECKING:
    import sqlengine.bind.common_groups as _common_groups
else:
    _common_groups = Room("sqlengine.bind.common_groups")

__all__ = ["BoundQuery", "bind_expression", "bind_query", "bind_values", "bind_watermark_expression", "source_query"]


class Binder(QueryBinder):
    """Binds queries of any form."""

    def query(self, tree: exp.Expr, env: QueryEnv) -> BoundQuery:
        with_ = tree.args.get("with_")
        if with_ is not None:
            env = _with_common_tables(with_, env)
        match tree:
            case exp.Select():
                return bind_select(tree, env)
            case exp.Union() | exp.Except() | exp.Intersect():
                return finish(bind_set_operation(tree, env), tree, env)
            case exp.Values():
                return finish(_values(tree, env), tree, env)
            case exp.Subquery():
                if any(tree.args.get(k) for k in ("order", "limit", "offset")):
                    return finish(env.inside(env.outer).query(tree.this), tree, env)
                return self.query(tree.this, env)
            case _:
                raise UnsupportedError(
                    "this is not a query", span=span_of(tree), hint="a query is SELECT, VALUES or WITH"
                )


def bind_query(query: exp.Expr, context: BindContext) -> BoundQuery:
    """The logical plan of a query. Its columns are exactly the output, in order, under `names`.

    Raises:
        BindError: names and clauses; TypeMismatchError: types; UnsupportedError: SQL that this engine does not run. The
        codes stand in
            the docstring of the package.
    """
    bound = source_query(query, context)
    if context.parameters is not None and context.parameters.asks:
        return bound
    spans = item_spans(query, len(bound.names))
    for column, name, span in zip(bound.plan.columns, bound.names, spans, strict=True):
        if column.type.root is TypeRoot.NULL:
            raise TypeMismatchError(
                f'the column "{name}" is NULL without a type',
                code="E1306",
                span=span,
                hint="write CAST(NULL AS STRING)",
            )
    return bound


def source_query(query: exp.Expr, context: BindContext) -> BoundQuery:
    """A query whose untyped NULLs get their type later, from the table that it is inserted into."""
    return Binder().query(query, QueryEnv(Binder(), context))


def bind_values(tree: exp.Values, context: BindContext) -> BoundQuery:
    """The rows of VALUES as a plan; columns are named EXPR$0, EXPR$1 and so on."""
    return source_query(tree, context)


def bind_expression(
    tree: exp.Expr,
    columns: Sequence[Column],
    context: BindContext,
    *,
    place: str = "an expression",
    subqueries: bool = False,
) -> Expr:
    """An expression over given columns, as in computed columns, UPDATE, DELETE and CALL. `place` names it in
    messages.
    """
    env = QueryEnv(Binder(), context)
    return ExpressionBinder(env, Scope([Source(None, tuple(columns))]), Clause(place, subqueries=subqueries)).bind(tree)


def bind_watermark_expression(watermark: Watermark, columns: Sequence[Column], context: BindContext) -> Expr:
    """The expression of WATERMARK FOR over the table's columns, checked against its rowtime column (E1312)."""
    return bind_watermark(watermark, tuple(columns), QueryEnv(Binder(), context))


def _with_common_tables(tree: exp.With, env: QueryEnv) -> QueryEnv:
    whole = tree.parent if tree.parent is not None else tree
    uses = Counter(table.name for table in whole.find_all(exp.Table) if len(table.parts) == 1)
    tables: list[CommonTable] = []
    around = env
    for table in tree.expressions:
        name = table.args["alias"].this.name
        if any(name == t.name for t in tables):
            raise BindError(f'WITH names "{name}" twice', code="E1222", span=span_of(table), hint="rename one of them")
        columns = tuple(c.name for c in table.args["alias"].args.get("columns") or ())
        search, cycle = table.args.get("search"), table.args.get("cycle")
        common = CommonTable(name, table.this, columns, env.inside(env.outer), uses[name], search=search, cycle=cycle)
        tables.append(common)
        env = env.with_tables({name: common})
    if tree.args.get("recursive"):
        env = _common_groups.recursive_tables(tables, around)
    for name in (t.name for t in tables):
        common = env.tables[name]
        clause = common.search or common.cycle
        if clause is not None and not common.recursive:
            raise BindError(
                f'"{name}" does not read its own rows, so it has no SEARCH and CYCLE',
                code="E1264",
                span=span_of(clause),
                hint="write WITH RECURSIVE, and a query that reads itself, or sort where it is read",
            )
    return env


_MOST_EXPRESSIONS = 64
"""Rows of VALUES up to here are expressions, of which rules may make something; more of them are a table."""


def _constants(tree: exp.Values, env: QueryEnv) -> BoundQuery | None:
    match tree.expressions:
        case [ConstantRows() as rows] if rows.text_value.count("(") > _MOST_EXPRESSIONS:
            columns = constant_columns(rows, env.context.time_zone)
            return None if columns is None else constant_query(columns)
    return None


def _values(tree: exp.Values, env: QueryEnv) -> BoundQuery:
    constants = _constants(tree, env)
    if constants is not None:
        return constants
    binder = ExpressionBinder(env, Scope(parent=env.outer), Clause("VALUES", subqueries=False))
    written = values_rows(tree)
    rows = [[binder.bind(e) for e in row.expressions] for row in written]
    width = len(rows[0])
    for row, place in zip(rows, written, strict=True):
        if len(row) != width:
            error = other_width(len(row), width)
            error.span = span_of(place)
            raise error
    columns = [
        unify(column, f"column {i + 1} of VALUES", span_of(tree)) for i, column in enumerate(zip(*rows, strict=True))
    ]
    names = output_names([None] * width)
    produced = tuple(fresh_column(n, t.materialized()) for n, (_, t) in zip(names, columns, strict=True))
    plan: LogicalNode = Values(tuple(zip(*(values for values, _ in columns), strict=True)), produced)
    return BoundQuery(plan, names)
