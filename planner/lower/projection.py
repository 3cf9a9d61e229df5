"""Filters and projections as one CalcExec: stacked ones are merged when that changes neither values nor errors."""

from __future__ import annotations

from collections import Counter

from runtime.core.schema import Field, Schema
from runtime.expr.analysis import can_fail, is_deterministic, rejects_rows
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import TRUE, Expr, InputRef, Literal, walk
from runtime.expr.rewrite import conjunction, substitute_inputs
from runtime.plan.nodes import CalcExec, PhysicalNode, RejectingCalcExec, ValuesExec

__all__ = ["calc", "renamed"]

_LARGEST = 400
_MOST_FOLDED_ROWS = 64


def calc(
    source: PhysicalNode,
    condition: Expr | None,
    projections: tuple[Expr, ...],
    names: tuple[str, ...],
    functions: FunctionRegistry,
) -> PhysicalNode:
    """A node that filters and projects `source`; `source` itself when that changes nothing but names.

    A projection without columns keeps one constant column, because an edge has at least one.
    """
    if not projections:
        projections, names = (TRUE,), ("$any",)
    if condition is None and _is_identity(source, projections):
        return source
    rejects = any(rejects_rows(p, functions) for p in projections)
    if condition is None and isinstance(source, ValuesExec) and len(source.rows) <= _MOST_FOLDED_ROWS and not rejects:
        rows = tuple(tuple(substitute_inputs(p, row) for p in projections) for row in source.rows)
        return ValuesExec(rows, _schema(projections, names), source.mode)
    if isinstance(source, CalcExec) and _may_merge(source, condition, projections, functions):
        merged = tuple(substitute_inputs(p, source.projections) for p in projections)
        own = None if condition is None else substitute_inputs(condition, source.projections)
        both = (
            source.condition
            if own is None
            else own
            if source.condition is None
            else conjunction([source.condition, own])
        )
        return calc(source.input, both, merged, names, functions)
    if condition is not None and rejects_rows(condition, functions):
        rejects = True
    kind = RejectingCalcExec if rejects else CalcExec
    return kind(source, condition, projections, _schema(projections, names), source.mode)


def renamed(source: PhysicalNode, names: tuple[str, ...]) -> PhysicalNode:
    """The same rows under other column names."""
    if source.schema.names == names:
        return source
    schema = Schema(tuple(Field(n, f.type) for n, f in zip(names, source.schema, strict=True)))
    if isinstance(source, CalcExec | RejectingCalcExec | ValuesExec):
        return source.with_(schema=schema)
    projections = tuple(InputRef(i, f.type) for i, f in enumerate(source.schema))
    return CalcExec(source, None, projections, schema, source.mode)


def _schema(projections: tuple[Expr, ...], names: tuple[str, ...]) -> Schema:
    return Schema(tuple(Field(name, e.type) for name, e in zip(names, projections, strict=True)))


def _is_identity(source: PhysicalNode, projections: tuple[Expr, ...]) -> bool:
    if len(projections) != len(source.schema):
        return False
    return all(
        isinstance(p, InputRef) and p.index == i and p.type.materialized() == source.schema[i].type.materialized()
        for i, p in enumerate(projections)
    )


def _may_merge(
    source: CalcExec, condition: Expr | None, projections: tuple[Expr, ...], functions: FunctionRegistry
) -> bool:
    """Not when a random value would be drawn twice (here, or for another reader of the source), a failing condition would
    lose its guard, or large expressions would be repeated."""
    own = source.projections if source.condition is None else (*source.projections, source.condition)
    if not all(is_deterministic(e, functions) for e in own):
        return False
    exprs = projections if condition is None else (*projections, condition)
    reads = Counter(e.index for p in exprs for e in walk(p) if isinstance(e, InputRef))
    size = 0
    for index, times in reads.items():
        inner = source.projections[index]
        if isinstance(inner, InputRef | Literal):
            continue
        parts = walk(inner)
        size += times * len(parts)
    if size > _LARGEST:
        return False
    if condition is None or source.condition is None:
        return True
    return not can_fail(substitute_inputs(condition, source.projections), functions)
