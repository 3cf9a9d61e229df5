"""Values as PostgreSQL takes them where a text may stand for them: texts, arrays of texts, and jsonb."""

from __future__ import annotations

from sqlglot import exp

from runtime.core.errors import Span, UnsupportedError
from runtime.core.types import STRING, VARIANT, DataType, RowField, TypeRoot, array
from runtime.expr.nodes import Call, Cast, Expr, Literal
from runtime.expr.nullability import cast_type
from sqlengine.bind.coerce import cast_to
from sqlengine.bind.construct import row_of, written_array
from sqlengine.bind.operators import scalar_call
from sqlengine.bind.session import ExpressionRules
from sqlengine.parse.nodes import FunctionCall
from sqlengine.parse.spans import span_of

__all__ = ["as_array", "jsonb", "jsonb_of", "row_or", "text_of", "texts"]

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
    type_ = value.type
    if type_.root is _R.ROW and isinstance(value, Call) and value.function == "ROW":
        # ROW(..) without names has f1, f2, ..
        fields = tuple(
            RowField(f"f{i}" if f.name == f"EXPR${i - 1}" else f.name, f.type) for i, f in enumerate(type_.fields, 1)
        )
        value = Cast(value, type_.with_(fields=fields), span=span)
    return value if value.type.root is _R.VARIANT else Cast(value, cast_type(value.type, VARIANT), span=span)


def row_or(binder: ExpressionRules, tree: FunctionCall) -> Expr:
    """A name as a column, or where there is none, as the rows of a relation. The second argument says whether the relation may
    be on the side of a join that has no row.

    Raises:
        UnsupportedError: a row that may be missing, which is NULL there, and would be a row of NULLs here.
    """
    column, may_miss = tree.expressions
    sources = binder.scope.sources
    source = next((s for s in sources if s.name == column.name), None)
    if source is None or any(s.find(column.name) for s in sources):
        return binder.bind(column)
    if bool(may_miss.this):
        raise UnsupportedError(
            f'the row "{column.name}" may be missing behind an outer join',
            span=span_of(tree),
            hint="make the row in a query within FROM: (SELECT row_to_json(t) AS j FROM t)",
        )
    span = span_of(tree)
    if span is not None:
        for shown in source.shown:
            binder.mentions.setdefault(shown.id, span)
    made = row_of([c.ref() for c in source.shown], span)
    fields = tuple(RowField(c.name, f.type) for c, f in zip(source.shown, made.type.fields, strict=True))
    return Cast(made, made.type.with_(fields=fields), span=span)
