"""Values as PostgreSQL takes them where a text may stand for them: texts, arrays of texts, and jsonb."""

from __future__ import annotations

from sqlglot import exp

from runtime.core.errors import Span
from runtime.core.types import STRING, VARIANT, DataType, TypeRoot, array
from runtime.expr.nodes import Cast, Expr, Literal
from runtime.expr.nullability import cast_type
from sqlengine.bind.coerce import cast_to
from sqlengine.bind.construct import written_array
from sqlengine.bind.operators import scalar_call
from sqlengine.bind.session import ExpressionRules

__all__ = ["as_array", "jsonb", "jsonb_of", "text_of", "texts"]

_R = TypeRoot
_TRUTH = DataType(TypeRoot.BOOLEAN, nullable=False)


def as_array(value: Expr, type_: DataType, span: Span | None) -> Expr | None:
    """A text such as `'{1,2}'` beside an array, as an array of its type."""
    if isinstance(value, Literal) and isinstance(value.value, str) and value.value.lstrip().startswith("{"):
        return written_array(exp.Literal(this=value.value, is_string=True), type_)
    return None


def texts(value: Expr, span: Span | None) -> Expr:
    """An array of texts, which may be written as `'{a,b}'`."""
    written = as_array(value, array(STRING), span)
    return value if written is None else written


def text_of(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    (value,) = args
    if value.type.is_character:
        return value
    if value.type.root is _R.VARIANT:
        return scalar_call(binder, "PG_JSONB_SHOWN", [value], span)
    text = cast_to(value, STRING, span)
    return scalar_call(binder, "LOWER", [text], span) if value.type.root is _R.BOOLEAN else text


def jsonb(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """A CAST to jsonb reads texts as JSON."""
    (value,) = args
    if value.type.root is _R.VARIANT:
        return value
    if value.type.is_character:
        repeats = Literal(True, _TRUTH)
        return scalar_call(binder, "PARSE_JSON", [value, repeats], span)
    return jsonb_of(binder, args, span)


def jsonb_of(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """TO_JSONB: a value as jsonb, texts as strings."""
    (value,) = args
    return value if value.type.root is _R.VARIANT else Cast(value, cast_type(value.type, VARIANT), span=span)
