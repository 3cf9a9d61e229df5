"""UNION, INTERSECT and EXCEPT, with and without ALL.

Columns go together by position and get one type; names come from the first query. UNION ALL of many queries is one
node. UNION without ALL is the different rows of UNION ALL. NULL is equal to NULL.
"""

from __future__ import annotations

from sqlglot import exp

from planner.logical.nodes import Except, Intersect, LogicalNode, Union
from runtime.core.errors import BindError, TypeMismatchError
from runtime.core.types import DataType
from runtime.expr.nodes import Column, fresh_column
from runtime.expr.typing import common_type
from sqlengine.bind.aggregate import group_distinct, materialize_keys
from sqlengine.bind.coerce import cast_plan
from sqlengine.bind.session import BoundQuery, QueryEnv
from sqlengine.parse.spans import span_of

__all__ = ["bind_set_operation"]


def bind_set_operation(tree: exp.SetOperation, env: QueryEnv) -> BoundQuery:
    """The operation without the ORDER BY around it.

    Raises:
        BindError: E1223 when the queries have different numbers of columns.
        TypeMismatchError: E1310 when two columns have no common type.
    """
    distinct = bool(tree.args.get("distinct"))
    sides = _chain(tree) if isinstance(tree, exp.Union) and not distinct else [tree.this, tree.expression]
    queries = [env.inside(env.outer).query(side) for side in sides]
    word = _word(tree)
    _check_counts(queries, sides, word)
    types = _types(queries, sides, word)
    plans = [cast_plan(q.plan, types, q.names) for q in queries]
    names = queries[0].names
    if isinstance(tree, exp.Union):
        plan: LogicalNode = Union(tuple(plans), _produced(names, types))
        return BoundQuery(group_distinct(plan) if distinct else plan, names)
    # Rows are compared as values here, so time attributes become plain timestamps.
    left, right = (materialize_keys(p) for p in plans)
    produced = _produced(names, [t.materialized() for t in types])
    node = Except if isinstance(tree, exp.Except) else Intersect
    return BoundQuery(node(left, right, not distinct, produced), names)


def _chain(tree: exp.Expr) -> list[exp.Expr]:
    """The queries of a chain of UNION ALL, left to right, without recursion along the left side."""
    found: list[exp.Expr] = []
    top = tree
    while isinstance(top, exp.Union) and not top.args.get("distinct") and (top is tree or _is_bare(top)):
        found.append(top.expression)
        top = top.this
    return [top, *reversed(found)]


def _is_bare(tree: exp.Expr) -> bool:
    return not any(tree.args.get(k) for k in ("order", "limit", "offset", "with_"))


def _word(tree: exp.SetOperation) -> str:
    words: dict[type, str] = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}
    word = words[type(tree)]
    return word if tree.args.get("distinct") else f"{word} ALL"


def _check_counts(queries: list[BoundQuery], sides: list[exp.Expr], word: str) -> None:
    first = len(queries[0].names)
    for query, side in zip(queries[1:], sides[1:], strict=True):
        if len(query.names) != first:
            raise BindError(
                f"the queries of {word} have {first} and {len(query.names)} columns",
                code="E1223",
                span=span_of(side),
                hint="select the same number of columns on both sides",
            )


def _types(queries: list[BoundQuery], sides: list[exp.Expr], word: str) -> list[DataType]:
    types: list[DataType] = []
    for index, columns in enumerate(zip(*(q.plan.columns for q in queries), strict=True)):
        common = common_type([c.type for c in columns])
        if common is None:
            shown = " and ".join(dict.fromkeys(str(c.type.materialized().with_nullable(True)) for c in columns))
            raise TypeMismatchError(
                f"column {index + 1} of {word} has no common type: {shown}",
                code="E1310",
                span=span_of(sides[-1]),
                hint="CAST one of them",
            )
        attributes = {c.type.time_attribute for c in columns}
        types.append(common.with_(time_attribute=attributes.pop()) if len(attributes) == 1 else common)
    return types


def _produced(names: tuple[str, ...], types: list[DataType]) -> tuple[Column, ...]:
    return tuple(fresh_column(n, t) for n, t in zip(names, types, strict=True))
