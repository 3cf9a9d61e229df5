"""Functions that give rows in a select list: UNNEST, GENERATE_SERIES, and what the dialect of PostgreSQL reads as UNNEST of an array.

Before:  SELECT id, UNNEST(tags) || '!', GENERATE_SERIES(1, n) FROM t
After:   Unnest PG_LOCKSTEP(tags, GENERATE_SERIES(1, n)) as (r0, r1) over the rows of t, and id, r0 || '!', r1

Rows are made above groups and window functions and below DISTINCT, ORDER BY and LIMIT; those of GROUP BY below the groups.
Several functions go side by side, shorter ones with NULL at their end; one within the arguments of another is below it.
Source: PostgreSQL 15, "SQL Functions Returning Sets", and `split_pathtarget_at_srfs` of tlist.c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.logical.nodes import LogicalNode, Unnest
from runtime.core.errors import Span, TypeMismatchError, UnsupportedError, with_article
from runtime.core.types import INT, TypeRoot
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import Call, Expr, Literal, fresh_column, map_children, walk
from sqlengine.bind.aggregate_parts import argument
from sqlengine.bind.coerce import cast_to
from sqlengine.bind.grouping import GroupBy
from sqlengine.bind.operators import scalar_call, scalar_function
from sqlengine.bind.session import ExpressionRules
from sqlengine.parse.nodes import FunctionCall
from sqlengine.parse.spans import span_of

__all__ = ["in_lockstep", "of_groups", "row_set", "spread"]

_UNNEST = "UNNEST"
_SMALL = 1 << 31


def row_set(binder: ExpressionRules, tree: FunctionCall) -> Expr:
    """UNNEST or GENERATE_SERIES in a select list, as the element that is in a row; `spread` makes the rows.

    Raises:
        TypeMismatchError: E1302, UNNEST of what has no elements of one column.
        UnsupportedError: it stands in another clause.
    """
    name, span = tree.name.upper(), span_of(tree)
    if not binder.clause.row_sets:
        form = "CROSS JOIN UNNEST(array) AS u (x)" if name == _UNNEST else f"CROSS JOIN LATERAL {name}(1, n) AS s (x)"
        raise UnsupportedError(
            f"{name} gives rows, and cannot stand in {binder.clause.name}",
            span=span,
            hint=f"write it in FROM: FROM t {form}",
        )
    args = [argument(binder, a) for a in tree.expressions]
    if name == _UNNEST:
        (collection,) = args
    else:
        collection = scalar_call(binder, name, args, span)
        if all(isinstance(a, Literal) and isinstance(a.value, int) and abs(a.value) < _SMALL for a in args):
            collection = cast_to(collection, collection.type.with_(children=(INT.not_null(),)), span)
    if collection.type.root not in (TypeRoot.ARRAY, TypeRoot.MULTISET):
        raise TypeMismatchError(
            f"UNNEST in a select list takes an ARRAY, and this is {with_article(collection.type.with_nullable(True))}",
            code="E1302",
            span=span_of(tree.expressions[0]),
            hint="ARRAY[x] is an array of one value; a map is taken apart in FROM: CROSS JOIN UNNEST(map) AS u (key, value)",
        )
    return Call(_UNNEST, (collection,), collection.type.children[0].with_nullable(True), span=span)


def spread(
    plan: LogicalNode, expressions: Sequence[Expr], functions: FunctionRegistry
) -> tuple[LogicalNode, list[Expr]]:
    """The plan with a row for each element that the expressions' functions give, and the expressions over its columns.

    The plan keeps all columns that it had. Without such functions everything comes back as it is.
    """
    values = list(expressions)
    while calls := [c for c in dict.fromkeys(_calls(values)) if not any(_calls(c.args))]:
        columns = [fresh_column(f"r{number}", call.type) for number, call in enumerate(calls)]
        plain = len(calls) == 1 and calls[0].type.root is not TypeRoot.ROW
        collection = calls[0].args[0] if plain else in_lockstep(functions, [c.args[0] for c in calls], calls[0].span)
        plan = Unnest(plan, collection, tuple(columns), False, False)
        meaning: dict[Expr, Expr] = {call: column.ref() for call, column in zip(calls, columns, strict=True)}
        values = [_replaced(value, meaning) for value in values]
    return plan, values


def of_groups(
    plan: LogicalNode, group: GroupBy, expressions: Sequence[Expr], functions: FunctionRegistry
) -> tuple[LogicalNode, GroupBy, list[Expr]]:
    """The rows, the groups, and the other expressions of a SELECT whose keys have functions that give rows."""
    if not any(_calls(group.keys)):
        return plan, group, list(expressions)
    if not group.is_simple:
        raise UnsupportedError(
            "a function that gives rows is not supported in GROUPING SETS, ROLLUP and CUBE",
            span=next(_calls(group.keys)).span,
            hint="take the array apart in FROM: FROM t CROSS JOIN UNNEST(array) AS u (x)",
        )
    inner = list(dict.fromkeys(_calls(group.keys)))
    plan, keys = spread(plan, [*group.keys, *inner], functions)
    count = len(group.keys)
    meaning: dict[Expr, Expr] = dict(zip(inner, keys[count:], strict=True))
    return plan, replace(group, keys=tuple(keys[:count])), [_replaced(e, meaning) for e in expressions]


def in_lockstep(functions: FunctionRegistry, arrays: Sequence[Expr], span: Span | None) -> Expr:
    """The elements of several arrays side by side, as an array of rows."""
    return scalar_function(functions, "PG_LOCKSTEP", arrays, span)


def _calls(expressions: Sequence[Expr]) -> Iterator[Call]:
    return (e for root in expressions for e in walk(root) if isinstance(e, Call) and e.function == _UNNEST)


def _replaced(expr: Expr, meaning: dict[Expr, Expr]) -> Expr:
    found = meaning.get(expr)
    return found if found is not None else map_children(expr, lambda child: _replaced(child, meaning))
