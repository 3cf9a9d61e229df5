"""VECTOR_SEARCH in FROM: the rows of a table whose vectors are nearest to one.

    q, LATERAL TABLE(VECTOR_SEARCH(TABLE t, DESCRIPTOR(embedding), q.vector, 10 [, MAP['metric', 'cosine']]))
    VECTOR_SEARCH(TABLE t, DESCRIPTOR(embedding), ARRAY[0.1, 0.2], 10)
    SEARCH_TABLE, COLUMN_TO_SEARCH, COLUMN_TO_QUERY, TOP_K, CONFIG

The columns of `t`, then `score`. In a stream each row is answered from the table as it is at the end of the epoch in
which the row comes, and keeps that answer; in batch mode from the whole table.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.logical.nodes import JoinKind, LogicalNode, VectorSearch
from runtime.core.errors import TypeMismatchError, did_you_mean, pointing_at, with_article
from runtime.core.options import Option, bool_option, duration_option, int_option, text_option
from runtime.core.types import DOUBLE, DataType, TypeRoot, array
from runtime.expr.nodes import Column, Expr, fresh_column
from runtime.expr.typing import implicit_cast
from runtime.plan.parts import METRICS, VectorIndexSpec
from sqlengine.bind.coerce import cast_to
from sqlengine.bind.expression import ExpressionBinder
from sqlengine.bind.function_arguments import (
    call_arguments,
    constant_argument,
    descriptor_column,
    input_column,
    refused,
    text_map,
)
from sqlengine.bind.scope import Scope, Source
from sqlengine.bind.session import BoundRelation, Clause, QueryEnv
from sqlengine.parse.nodes import FunctionCall, TableArg
from sqlengine.parse.spans import span_of

__all__ = ["bind_search"]

_PARAMETERS = ("SEARCH_TABLE", "COLUMN_TO_SEARCH", "COLUMN_TO_QUERY", "TOP_K", "CONFIG")
_USAGE = "write VECTOR_SEARCH(TABLE t, DESCRIPTOR(embedding), q.vector, 10)"
_MOST = 10_000
"""The most rows that are found for one."""
_METRIC = text_option("metric", "cosine", "what near is: " + ", ".join(f"'{m}'" for m in METRICS), METRICS)
_INDEX = text_option("index", "flat", "'flat' is exact, 'hnsw' is faster over many rows", ("flat", "hnsw"))
_CONNECTIVITY = int_option("hnsw.connectivity", 0, "how many neighbours a vector has in the graph")
_ADD = int_option("hnsw.expansion-add", 0, "how many candidates are looked at when a vector is added")
_SEARCH = int_option("hnsw.expansion-search", 0, "how many candidates are looked at in a search")
_CONFIG: dict[str, Option[object]] = {
    option.key: option  # type: ignore[misc]
    for option in (
        _METRIC,
        _INDEX,
        _CONNECTIVITY,
        _ADD,
        _SEARCH,
        bool_option("async", True, "whether searches may run side by side"),
        int_option("max-concurrent-operations", 10, "how many searches run at a time"),
        text_option("output-mode", "ordered", "'ordered' or 'allow_unordered'", ("ordered", "allow_unordered")),
        duration_option("timeout", 180_000, "how long a search may take"),
    )
}

RelationOf = Callable[[exp.Expr], tuple[LogicalNode, Source]]


def bind_search(
    call: FunctionCall, env: QueryEnv, left: BoundRelation, seen: Scope, kind: JoinKind, relation: RelationOf
) -> tuple[LogicalNode, tuple[Column, ...]]:
    """The rows of `left` with what is found for them, and the columns of that.

    Raises:
        BindError: E1230 for wrong arguments, E1201 for a column that is not there.
        TypeMismatchError: E1303 for what is no vector.
    """
    arguments = call_arguments("VECTOR_SEARCH", call, _PARAMETERS, ("CONFIG",), _USAGE, system=())
    searched = arguments["SEARCH_TABLE"]
    if not isinstance(searched, TableArg):
        raise refused("the first argument of VECTOR_SEARCH is a table", searched, _USAGE)
    if searched.args.get("partition_by") or searched.args.get("order") is not None:
        raise refused(
            "VECTOR_SEARCH searches the whole table: no PARTITION BY, no ORDER BY", searched, "leave them out"
        )
    plan, source = relation(searched.this)
    named = descriptor_column(arguments["COLUMN_TO_SEARCH"], "COLUMN_TO_SEARCH")
    column = input_column(source, named.name, named, "VECTOR_SEARCH")
    if not _is_vector(column.type):
        raise TypeMismatchError(
            f'the column "{column.name}" is {with_article(column.type.with_nullable(True))}, and vectors are ARRAY<FLOAT> or '
            "ARRAY<DOUBLE>",
            code="E1303",
            span=span_of(named),
            hint="cast it in the searched table: TABLE (SELECT CAST(v AS ARRAY<FLOAT>) AS v, .. FROM t)",
        )
    query = _query(arguments["COLUMN_TO_QUERY"], column, env, seen)
    score = fresh_column("score", DOUBLE.not_null())
    found = VectorSearch(
        left.plan,
        plan,
        kind,
        query,
        column.ref(),
        _top_k(arguments["TOP_K"], env),
        _index(arguments.get("CONFIG"), env),
        score,
        span_of(call),
    )
    return found, found.columns[len(left.plan.columns) :]


def _is_vector(type_: DataType) -> bool:
    return type_.root is TypeRoot.ARRAY and type_.children[0].root in (TypeRoot.FLOAT, TypeRoot.DOUBLE)


def _query(tree: exp.Expr, column: Column, env: QueryEnv, seen: Scope) -> Expr:
    bound = ExpressionBinder(env, seen, Clause("the arguments of VECTOR_SEARCH", subqueries=False)).bind(tree)
    wanted = array(column.type.children[0].with_nullable(True))
    is_numbers = bound.type.root is TypeRoot.ARRAY and bound.type.children[0].is_numeric
    if not is_numbers and not (bound.type.root is TypeRoot.NULL or implicit_cast(bound.type, wanted)):
        raise TypeMismatchError(
            f"what is searched for is {with_article(bound.type.with_nullable(True))}, and the column is "
            f"{with_article(column.type.with_nullable(True))}",
            code="E1303",
            span=span_of(tree),
            hint="search for an array of numbers",
        )
    return cast_to(bound, wanted.with_nullable(bound.type.nullable))


def _top_k(tree: exp.Expr, env: QueryEnv) -> int:
    value = constant_argument(tree, "TOP_K", env)
    if not value.type.is_integer or not isinstance(value.value, int):
        raise refused("TOP_K is a whole number", tree, _USAGE)
    if not 0 < value.value <= _MOST:
        raise refused(f"TOP_K is from 1 to {_MOST:,}, and not {value.value}", tree, "how many rows are to be found")
    return value.value


def _index(tree: exp.Expr | None, env: QueryEnv) -> VectorIndexSpec:
    given = {} if tree is None else dict(text_map(tree, "CONFIG", env))
    assert tree is not None or not given
    for key, value in given.items():
        if key not in _CONFIG:
            hint = did_you_mean(key, _CONFIG) or "there is " + ", ".join(sorted(_CONFIG))
            assert tree is not None
            raise refused(f"CONFIG has the key '{key}', which VECTOR_SEARCH does not know", tree, hint)
        with pointing_at(None if tree is None else span_of(tree)):
            _CONFIG[key].read(value)

    def number(option: Option[int]) -> int:
        return max(0, option.read(given[option.key])) if option.key in given else 0

    return VectorIndexSpec(
        given.get("metric", "cosine").lower(),
        given.get("index", "flat").lower(),
        number(_CONNECTIVITY),
        number(_ADD),
        number(_SEARCH),
    )
