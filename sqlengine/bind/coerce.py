"""Casts that nobody wrote: bringing values to the type that a place asks for, and to one type among several.

The rules of what fits are `runtime/expr/typing.py`; here they become `Cast` nodes. A literal is turned into a literal
of the new type at once where that cannot fail, so that plans stay readable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal

from planner.logical.nodes import LogicalNode, Project, Values
from runtime.core.errors import Span, TypeMismatchError
from runtime.core.types import BOOLEAN, DataType, TypeRoot
from runtime.expr.nodes import Cast as CastExpr
from runtime.expr.nodes import Column, ColumnRef, Expr, Literal, Parameter, fresh_column
from runtime.expr.nullability import cast_type
from runtime.expr.typing import common_type

__all__ = ["as_boolean", "cast_plan", "cast_to", "condition", "unify", "with_types"]


_WIDE = Context(prec=76)
"""Enough digits for any DECIMAL with any scale."""


def cast_to(expr: Expr, target: DataType, span: Span | None = None) -> Expr:
    """The expression as a value of `target`; itself when it is one already (nullability and time attribute apart)."""
    if expr.type.root is TypeRoot.NULL:
        if isinstance(expr, Parameter):
            return expr.with_(type=target.materialized().with_nullable(True))
        if isinstance(expr, Literal):
            return Literal(None, target.materialized().with_nullable(True))
        return CastExpr(expr, target.materialized().with_nullable(True), span=span)
    if expr.type.same_ignoring_nullability(target):
        return expr
    if isinstance(expr, Literal):
        folded = _literal_as(expr, target.materialized().with_nullable(expr.type.nullable))
        if folded is not None:
            return folded
    return CastExpr(expr, cast_type(expr.type, target), span=span)


def _literal_as(literal: Literal, target: DataType) -> Literal | None:
    """The literal in another type, where every value of its own type has exactly one there; else None."""
    source, value = literal.type, literal.value
    if value is None:
        return Literal(None, target)
    if source.is_character and target.root is TypeRoot.VARCHAR and target.precision >= source.precision:
        return Literal(value, target)
    if source.is_binary and target.root is TypeRoot.VARBINARY and target.precision >= source.precision:
        return Literal(value, target)
    if source.root is TypeRoot.DECIMAL and target.root is TypeRoot.DECIMAL and target.scale >= source.scale:
        whole = target.precision - target.scale
        return (
            Literal(value.quantize(Decimal(1).scaleb(-target.scale), context=_WIDE), target)
            if abs(value) < 10**whole
            else None
        )
    if not source.is_integer:
        return None
    if target.is_integer:
        bits = {TypeRoot.TINYINT: 7, TypeRoot.SMALLINT: 15, TypeRoot.INT: 31, TypeRoot.BIGINT: 63}[target.root]
        return Literal(value, target) if -(1 << bits) <= value < (1 << bits) else None
    if target.root is TypeRoot.DECIMAL:
        fits = abs(value) < 10 ** (target.precision - target.scale)
        return (
            Literal(Decimal(value).quantize(Decimal(1).scaleb(-target.scale), context=_WIDE), target) if fits else None
        )
    if target.root is TypeRoot.DOUBLE and abs(value) <= 1 << 53:
        return Literal(float(value), target)
    return None


def unify(values: Sequence[Expr], what: str, span: Span | None = None) -> tuple[list[Expr], DataType]:
    """Values brought to their common type, as CASE, ARRAY[..], VALUES and IN ask for it.

    Raises:
        TypeMismatchError: E1303 when there is no such type.
    """
    target = common_type(dict.fromkeys(v.type for v in values))
    if target is None:
        shown = ", ".join(dict.fromkeys(str(v.type.materialized().with_nullable(True)) for v in values))
        raise TypeMismatchError(
            f"the values of {what} have no common type: {shown}", code="E1303", span=span, hint="CAST them to one type"
        )
    given = [cast_to(v, target, span) for v in values]
    return given, target.with_nullable(any(v.type.nullable for v in given))


def as_boolean(expr: Expr, place: str, span: Span | None) -> Expr:
    """A truth value, as WHERE, ON, HAVING and AND ask for it; E1302 for anything else."""
    if expr.type.root is TypeRoot.NULL:
        return cast_to(expr, BOOLEAN, span) if isinstance(expr, Parameter) else Literal(None, BOOLEAN)
    if expr.type.root is not TypeRoot.BOOLEAN:
        raise TypeMismatchError(
            f"{place} takes a BOOLEAN, and this is {_article(expr.type)}",
            code="E1302",
            span=span,
            hint="compare it with something, for example x > 0",
        )
    return expr


condition = as_boolean


def cast_plan(
    plan: LogicalNode, targets: Sequence[DataType], names: Sequence[str], span: Span | None = None
) -> LogicalNode:
    """The plan with its columns cast to the types, by position; the plan itself when nothing changes.

    Columns that need no cast keep their ids; a column that stands twice gets a fresh id the second time.
    """
    plan = with_types(plan, targets)
    items: list[tuple[Column, Expr]] = []
    seen: set[int] = set()
    changed = False
    for column, target, name in zip(plan.columns, targets, names, strict=True):
        ref: Expr = column.ref()
        value = cast_to(ref, target, span)
        if value is ref and isinstance(ref, ColumnRef) and column.id not in seen:
            seen.add(column.id)
            items.append((Column(column.id, name, column.type), ref))
        else:
            changed = True
            items.append((fresh_column(name, value.type), value))
    return Project(plan, tuple(items)) if changed else plan


def with_types(plan: LogicalNode, types: Sequence[DataType]) -> LogicalNode:
    """The plan with its columns that are nothing but NULL or parameters without a type in these types, by position."""
    wanted = {c.id: t for c, t in zip(plan.columns, types, strict=True) if c.type.root is TypeRoot.NULL}
    return _with_types(plan, wanted) if wanted else plan


def _with_types(plan: LogicalNode, wanted: Mapping[int, DataType]) -> LogicalNode:
    match plan:
        case Values(rows=rows, produced=columns):
            kinds = [
                wanted.get(c.id) if all(isinstance(e, Parameter | Literal) for e in cells) else None
                for c, cells in zip(columns, zip(*rows, strict=True), strict=True)
            ]
            typed = tuple(
                tuple(e if kind is None else cast_to(e, kind) for e, kind in zip(row, kinds, strict=True))
                for row in rows
            )
            named = tuple(
                c if k is None else c.with_type(k.materialized().with_nullable(True))
                for c, k in zip(columns, kinds, strict=True)
            )
            return plan.with_(rows=typed, produced=named)
        case Project(items=items):
            below = {value.id: wanted[c.id] for c, value in items if c.id in wanted and isinstance(value, ColumnRef)}
            source = _with_types(plan.input, below) if below else plan.input
            types = {c.id: c.type for c in source.columns}
            changed: list[tuple[Column, Expr]] = []
            for column, value in items:
                if column.id in wanted and isinstance(value, Parameter | Literal):
                    value = cast_to(value, wanted[column.id])
                elif isinstance(value, ColumnRef) and value.id in below:
                    value = ColumnRef(value.id, value.name, types[value.id])
                changed.append((column.with_type(value.type) if column.id in wanted else column, value))
            return plan.with_(input=source, items=tuple(changed))
        case _:
            return plan


def _article(type_: DataType) -> str:
    text = str(type_.materialized().with_nullable(True))
    return f"{'an' if text[0] in 'AEIOU' else 'a'} {text}"
