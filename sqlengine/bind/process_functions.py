"""Process table functions of users in FROM.

f(input => TABLE t PARTITION BY k, n => 3, on_time => DESCRIPTOR(ts), uid => 'x')
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.logical.nodes import LogicalNode, ProcessTables
from runtime.core.errors import TypeMismatchError, UnsupportedError, did_you_mean
from runtime.core.types import DataType
from runtime.eval.constant import fold_constant
from runtime.expr.function import ProcessFunction, ProcessTable
from runtime.expr.nodes import Column, ColumnRef, Literal, SortKey, fresh_column
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.function_arguments import call_arguments, check_uid, refused, typed_argument
from sqlengine.bind.scope import Scope, Source
from sqlengine.bind.session import Clause, QueryEnv
from sqlengine.bind.sort_keys import sort_key
from sqlengine.parse.nodes import Descriptor, FunctionCall, TableArg
from sqlengine.parse.spans import span_of

__all__ = ["bind_process_function"]

RelationOf = Callable[[exp.Expr], tuple[LogicalNode, Source]]


def bind_process_function(
    function: ProcessFunction, call: FunctionCall, env: QueryEnv, relation: RelationOf
) -> LogicalNode:
    """The relation of a call; `relation` binds table arguments.

    Raises:
        BindError: E1230 for wrong arguments, E1201 for unknown columns.
        TypeMismatchError: E1230 for values and keys of wrong types, E1231 for `on_time` of a column that is no time
            attribute.
        UnsupportedError: E1600 in batch mode.
    """
    name = call.name.lower()
    tables = {t.name: t for t in function.tables}
    optional = [n for n, _, left_out in function.scalars if left_out]
    shown = ", ".join(
        f"{p} => TABLE t{' PARTITION BY k' if tables[p].is_set else ''}" if p in tables else f"{p} => .."
        for p in function.parameters
    )
    usage = f"write {name}({shown})"
    arguments = call_arguments(name, call, function.parameters, optional, usage)
    if env.context.batch:
        raise UnsupportedError(
            f"the process table function {name} does not run in batch mode",
            span=span_of(call),
            hint="SET 'execution.runtime-mode' = 'streaming'",
        )
    if "uid" in arguments:
        check_uid(arguments["uid"])
    bound = [_table(name, t, arguments[t.name], env, relation, usage) for t in function.tables]
    parts, sources = tuple(p for p, _, _ in bound), tuple(s for _, s, _ in bound)
    keys = tuple(k for _, _, k in bound)
    _check_keys(name, keys, call)
    each = not function.tables[0].is_set
    times = _times(name, function, arguments.get("on_time"), sources, call)
    passes = "PASS_COLUMNS_THROUGH" in function.tables[0].traits
    order = _order(name, [arguments[t.name] for t in function.tables], sources, times, env, each, passes)
    if order and not function.takes_order:
        raise refused(
            f"{name} takes the rows of an epoch at once, so its timers do not come between them",
            call,
            "leave ORDER BY out, or write it row by row, without func_type",
        )
    front = sources[0].columns if passes else tuple(_plain(k) for each_keys in keys for k in each_keys)
    columns = [(c.name, c.type.materialized()) for c in front] + list(function.result)
    if times:
        columns.append(("rowtime", times[0].type.with_(precision=3, nullable=False)))
    produced = tuple(fresh_column(n, t) for n, t in _apart(columns))
    given = tuple(
        (n, _constant(name, n, type_, arguments[n], env)) for n, type_, _ in function.scalars if n in arguments
    )
    return ProcessTables(
        parts,
        function.name,
        keys,
        times,
        tuple(tuple(c.name for c in s.columns) for s in sources),
        given,
        produced,
        order,
        each,
        passes,
        tuple("SUPPORT_UPDATES" in t.traits for t in function.tables),
        function.updates,
        span_of(call),
    )


def _table(
    name: str, table: ProcessTable, tree: exp.Expr, env: QueryEnv, relation: RelationOf, usage: str
) -> tuple[LogicalNode, Source, tuple[ColumnRef, ...]]:
    if not isinstance(tree, TableArg):
        raise refused(f"the argument {table.name} of {name} is a table", tree, usage)
    plan, source = relation(tree.this)
    by = tree.args.get("partition_by") or ()
    if by and not table.is_set:
        raise refused(
            f"{name} takes each row of {table.name} by itself, so it has no PARTITION BY",
            tree,
            "leave PARTITION BY out",
        )
    if not by and table.is_set and "OPTIONAL_PARTITION_BY" not in table.traits:
        raise refused(f"{name} takes the rows of {table.name} by key, and there is no PARTITION BY", tree, usage)
    binder = ExpressionBinder(env, Scope([source]), Clause(f"the arguments of {name}", subqueries=False))
    keys: list[ColumnRef] = []
    for key in by:
        value = binder.bind(key)
        if not isinstance(value, ColumnRef):
            raise refused(f"PARTITION BY of {name} takes columns", key, "compute the column in a query: (SELECT ..)")
        keys.append(value)
    return plan, source, tuple(keys)


def _order(
    name: str,
    trees: list[exp.Expr],
    sources: tuple[Source, ...],
    times: tuple[ColumnRef, ...],
    env: QueryEnv,
    each: bool,
    passes: bool,
) -> tuple[tuple[SortKey, ...], ...]:
    """How the rows of each table are ordered: all tables are, or none is."""
    given = [tree.args.get("order") for tree in trees]
    if not any(given):
        return ()
    if passes:
        raise refused(f"{name} passes the columns of its table on as rows come", trees[0], "leave ORDER BY out")
    for tree, order in zip(trees, given, strict=True):
        if order is None or each or not times:
            lacks = "has row semantics" if each else "has no ORDER BY" if times else "needs on_time => DESCRIPTOR(time)"
            raise refused(
                f"{name} has a table with ORDER BY: {'this one' if times else 'the call'} {lacks}",
                tree,
                "order all tables by their time, or none",
            )
    found: list[tuple[SortKey, ...]] = []
    for order, source, time in zip(given, sources, times, strict=True):
        binder = ExpressionBinder(env, Scope([source]), Clause(f"the arguments of {name}", subqueries=False))
        keys = tuple(sort_key(binder.bind(o.this), o) for o in order.expressions) if order is not None else ()
        if not all(isinstance(k.expr, ColumnRef) for k in keys):
            raise refused(
                f"ORDER BY of {name} takes columns", order or trees[0], "compute them in a query: (SELECT ..)"
            )
        by = [k.expr for k in keys]
        if not keys or keys[0].descending or by[0] != time:
            raise refused(
                f"ORDER BY of {name} begins with the column of on_time, ascending",
                order or trees[0],
                f"write ORDER BY {time.name}",
            )
        found.append(keys)
    return tuple(found)


def _check_keys(name: str, keys: tuple[tuple[ColumnRef, ...], ...], call: FunctionCall) -> None:
    first = [k.type for k in keys[0]]
    for other in keys[1:]:
        if len(other) != len(first) or not all(
            k.type.same_ignoring_nullability(t) for k, t in zip(other, first, strict=True)
        ):
            raise TypeMismatchError(
                f"the tables of {name} are partitioned by keys of different types",
                code="E1230",
                span=span_of(call),
                hint="partition them by as many columns of the same types; cast them in a query: (SELECT ..)",
            )


def _times(
    name: str, function: ProcessFunction, tree: exp.Expr | None, sources: tuple[Source, ...], call: FunctionCall
) -> tuple[ColumnRef, ...]:
    """The time attribute of each table."""
    if tree is None:
        for table in function.tables:
            if "REQUIRE_ON_TIME" in table.traits:
                raise refused(f"{name} needs a time", call, "write on_time => DESCRIPTOR(time)")
        return ()
    if not isinstance(tree, Descriptor):
        raise refused("on_time is DESCRIPTOR(column)", tree, "write on_time => DESCRIPTOR(time)")
    if function.updates:
        raise refused(f"the rows of {name} are changes, which have no time", tree, "leave on_time out")
    found: list[ColumnRef] = []
    for table, source in zip(function.tables, sources, strict=True):
        columns = [c for named in tree.expressions for c in source.find(named.name)]
        if not columns:
            named = tree.expressions[0]
            raise refused(
                f'the table {table.name} of {name} has no column "{named.name}"',
                named,
                did_you_mean(named.name, [c.name for c in source.columns]) or "name a column of each table",
            )
        if not columns[0].type.is_rowtime:
            raise TypeMismatchError(
                f'on_time of {name} is an event-time attribute, and "{columns[0].name}" is a plain {columns[0].type.with_nullable(True)}',
                code="E1231",
                span=span_of(tree),
                hint="name it in WATERMARK FOR of its table; expressions and aggregates make a plain value of it",
            )
        found.append(columns[0].ref())
    return tuple(found)


def _plain(key: ColumnRef) -> Column:
    return Column(key.id, key.name, key.type)


def _apart(columns: list[tuple[str, DataType]]) -> list[tuple[str, DataType]]:
    """Columns with names that tell them apart: a name that is there already gets a number, `name`, `name0`."""
    taken: set[str] = set()
    found: list[tuple[str, DataType]] = []
    for name, type_ in columns:
        unique, number = name, 0
        while unique in taken:
            unique, number = f"{name}{number}", number + 1
        taken.add(unique)
        found.append((unique, type_))
    return found


def _constant(function: str, name: str, type_: DataType | None, tree: exp.Expr, env: QueryEnv) -> Literal:
    """A constant of the declared type."""
    value = typed_argument(function, name, type_, tree, env)
    return fold_constant(value, env.context.functions, env.context.time_zone, env.context.now)
