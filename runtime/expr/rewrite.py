"""Building new expressions from old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from runtime.core.types import BOOLEAN
from runtime.expr.nodes import TRUE, Call, Column, ColumnRef, Expr, InputRef, Literal, map_children, transform

__all__ = [
    "FALSE",
    "conjunction",
    "disjunction",
    "negation",
    "remap_columns",
    "remap_inputs",
    "shift_inputs",
    "substitute",
    "substitute_inputs",
    "to_column_refs",
    "to_input_refs",
]

FALSE = Literal(False, BOOLEAN.not_null())


def conjunction(conditions: Iterable[Expr]) -> Expr:
    """AND over all: nested ANDs are flattened, duplicates and TRUE left out; TRUE when nothing is left."""
    return _connect("AND", conditions, TRUE)


def disjunction(conditions: Iterable[Expr]) -> Expr:
    """OR over all: nested ORs are flattened, duplicates and FALSE left out; FALSE when nothing is left."""
    return _connect("OR", conditions, FALSE)


def _connect(function: str, conditions: Iterable[Expr], neutral: Literal) -> Expr:
    parts: dict[Expr, None] = {}
    for condition in conditions:
        found = condition.args if isinstance(condition, Call) and condition.function == function else (condition,)
        for part in found:
            if not (isinstance(part, Literal) and part.value is neutral.value):
                parts[part] = None
    if not parts:
        return neutral
    if len(parts) == 1:
        return next(iter(parts))
    nullable = any(p.type.nullable for p in parts)
    return Call(function, tuple(parts), BOOLEAN.with_nullable(nullable))


def negation(condition: Expr) -> Expr:
    """NOT of a condition; a double negation falls away (it keeps the three values)."""
    if isinstance(condition, Call) and condition.function == "NOT":
        return condition.args[0]
    return Call("NOT", (condition,), BOOLEAN.with_nullable(condition.type.nullable))


def substitute(expr: Expr, replacements: Mapping[int, Expr]) -> Expr:
    """The expression with column references replaced by the expressions of their ids; other columns stay."""

    def change(e: Expr) -> Expr:
        return replacements.get(e.id, e) if isinstance(e, ColumnRef) else e

    return transform(expr, change)


def remap_columns(expr: Expr, columns: Mapping[int, Column]) -> Expr:
    """The expression over other columns, by id."""
    return substitute(expr, {old: new.ref() for old, new in columns.items()})


def remap_inputs(expr: Expr, position: Callable[[int], int] | Mapping[int, int]) -> Expr:
    """The expression with input positions changed."""
    move = position if callable(position) else position.__getitem__

    def change(e: Expr) -> Expr:
        return InputRef(move(e.index), e.type) if isinstance(e, InputRef) else e

    return transform(expr, change)


def shift_inputs(expr: Expr, by: int) -> Expr:
    """The expression with all input positions moved."""
    return remap_inputs(expr, lambda index: index + by) if by else expr


def substitute_inputs(expr: Expr, values: Sequence[Expr]) -> Expr:
    """The expression with each input reference replaced by the expression at its position (merging two projections)."""

    def change(e: Expr) -> Expr:
        return values[e.index] if isinstance(e, InputRef) else e

    return transform(expr, change)


def to_input_refs(expr: Expr, columns: Sequence[Column] | Mapping[int, int]) -> Expr:
    """Column references as positions among `columns` (or by a map from id to position); KeyError for a column that is
    not there."""
    positions = columns if isinstance(columns, Mapping) else {c.id: i for i, c in enumerate(columns)}

    def change(e: Expr) -> Expr:
        return InputRef(positions[e.id], e.type) if isinstance(e, ColumnRef) else map_children(e, change)

    return change(expr)


def to_column_refs(expr: Expr, columns: Sequence[Column]) -> Expr:
    """Positions as references to `columns`."""
    return substitute_inputs(expr, [c.ref() for c in columns])
