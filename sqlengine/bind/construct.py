"""Values made of values: rows, arrays and maps, their fields and elements; CAST and CASE; names of columns.

`ROW`, `ARRAY` and `MAP` are calls; `GET_FIELD(row, 'name')` takes a field, `ITEM(array, n)` an element (from 1) and
`ITEM(map, key)` a value.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlglot import exp

from runtime.core.errors import BindError, Span, SqlSyntaxError, TypeMismatchError, did_you_mean
from runtime.core.rooms import Room
from runtime.core.types import BOOLEAN, STRING, VARIANT, DataType, RowField, TypeRoot, array, char, map_of
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import Call, Case, Cast, ColumnRef, Expr, Literal, Parameter
from runtime.expr.nullability import cast_type
from runtime.expr.time_range import limits, out_of_range
from runtime.expr.typing import comparison_type, explicit_cast, implicit_cast
from sqlengine.bind.coerce import as_boolean, cast_to, unify
from sqlengine.bind.operators import comparison, scalar_function
from sqlengine.bind.session import ExpressionRules
from sqlengine.parse.literals import interval_unit
from sqlengine.parse.nodes import Assigned, FunctionCall, MapConstructor
from sqlengine.parse.spans import span_of

if TYPE_CHECKING:
    import sqlengine.bind.array_texts as _array_texts
    import sqlengine.bind.fitting as _fits
else:
    _array_texts = Room("sqlengine.bind.array_texts")
    _fits = Room("sqlengine.bind.fitting")

__all__ = ["CONSTRUCTS", "assigned_text", "cast_explicitly", "get_field", "row_of", "written_array"]


def _column(binder: ExpressionRules, tree: exp.Column) -> Expr:
    if isinstance(tree.this, exp.Star):
        raise BindError(
            "* cannot stand inside an expression", code="E1206", span=span_of(tree), hint="name the columns"
        )
    parts = tuple(p.name for p in tree.parts)
    span = span_of(tree)
    found = binder.scope.resolve(parts, span)
    if isinstance(found.value, ColumnRef) and span is not None:
        binder.mentions.setdefault(found.value.id, span)
    value = found.value
    for name in found.fields:
        value = get_field(value, name, span)
    return value


def _dot(binder: ExpressionRules, tree: exp.Dot) -> Expr:
    if isinstance(tree.expression, exp.Star):
        raise BindError(
            "* cannot stand inside an expression", code="E1206", span=span_of(tree), hint="name the columns"
        )
    return get_field(binder.bind(tree.this), tree.expression.name, span_of(tree))


def get_field(row: Expr, name: str, span: Span | None) -> Expr:
    """A field of a row by name; E1207 when the value has no such field."""
    if row.type.root is not TypeRoot.ROW:
        raise BindError(
            f'a value of type {row.type.with_nullable(True)} has no field "{name}"',
            code="E1207",
            span=span,
            hint={
                TypeRoot.MAP: f"the value of a map is m['{name}']",
                TypeRoot.VARIANT: f"the member of a variant is v['{name}']",
            }.get(row.type.root),
        )
    index = _field_index(row.type, name)
    if index is not None:
        field = row.type.fields[index]
        if isinstance(row, Call) and row.function == "ROW":
            return row.args[index]
        nullable = field.type.nullable or row.type.nullable
        key = Literal(field.name, char(len(field.name)).not_null())
        return Call("GET_FIELD", (row, key), field.type.with_nullable(nullable), span=span)
    raise BindError(
        f'the row has no field "{name}"',
        code="E1207",
        span=span,
        hint=did_you_mean(name, [f.name for f in row.type.fields]),
    )


def _field_index(row: DataType, name: str) -> int | None:
    """Which field a name means: the one that is called so, or the first that differs in case only, as in Flink."""
    names = [f.name for f in row.fields]
    if name in names:
        return names.index(name)
    lower = [n.lower() for n in names]
    return lower.index(name.lower()) if name.lower() in lower else None


def _item(binder: ExpressionRules, tree: exp.Bracket) -> Expr:
    value, span = binder.bind(tree.this), span_of(tree)
    index = binder.bind(tree.expressions[0])
    match value.type.root:
        case TypeRoot.ARRAY:
            if not index.type.is_integer:
                raise TypeMismatchError(
                    f"the index of an array is a number, not {index.type.with_nullable(True)}",
                    code="E1302",
                    span=span,
                    hint="the first element is [1]",
                )
            if isinstance(index, Literal) and index.value is not None and index.value < 1:
                raise TypeMismatchError(
                    f"an array has no element {index.value}", code="E1302", span=span, hint="the first element is [1]"
                )
            return Call("ITEM", (value, index), value.type.children[0].with_nullable(True), span=span)
        case TypeRoot.MAP:
            key_type, value_type = value.type.children
            if comparison_type(key_type, index.type) is None:
                key = key_type.with_nullable(True)
                raise TypeMismatchError(
                    f"the keys of the map are {key}, and this one is {index.type.with_nullable(True)}",
                    code="E1304",
                    span=span,
                    hint="for example ['key']" if key.is_character else f"CAST it AS {key}",
                )
            return Call("ITEM", (value, cast_to(index, key_type, span)), value_type.with_nullable(True), span=span)
        case TypeRoot.VARIANT:
            if not index.type.is_integer and not index.type.is_character:
                raise TypeMismatchError(
                    f"a part of a VARIANT has a name or a number, not a {index.type.with_nullable(True)}",
                    code="E1302",
                    span=span,
                    hint="for example v['key'] or v[1]",
                )
            return Call("ITEM", (value, index), VARIANT, span=span)
        case _:
            raise TypeMismatchError(
                f"[..] takes an ARRAY, a MAP or a VARIANT, not {value.type.with_nullable(True)}",
                code="E1302",
                span=span,
                hint="a field of a row is read as r.name",
            )


def row_of(values: list[Expr], span: Span | None) -> Expr:
    """A row of values; its fields are named `EXPR$0`, `EXPR$1` and so on, as in Flink."""
    fields = tuple(RowField(f"EXPR${i}", v.type.materialized()) for i, v in enumerate(values))
    return Call("ROW", tuple(values), DataType(TypeRoot.ROW, fields=fields, nullable=False), span=span)


def _tuple(binder: ExpressionRules, tree: exp.Tuple) -> Expr:
    return row_of([binder.bind(e) for e in tree.expressions], span_of(tree))


def _array(binder: ExpressionRules, tree: exp.Array) -> Expr:
    span = span_of(tree)
    if not tree.expressions:
        raise TypeMismatchError(
            "ARRAY[] needs at least one element",
            code="E1301",
            span=span,
            hint="CAST(NULL AS ARRAY<INT>) is an array without a value",
        )
    values, element = unify([binder.bind(e) for e in tree.expressions], "an ARRAY", span)
    return Call("ARRAY", tuple(values), array(element).not_null(), span=span)


def _map(binder: ExpressionRules, tree: MapConstructor) -> Expr:
    span, written = span_of(tree), tree.expressions
    if not written or len(written) % 2:
        raise TypeMismatchError(
            f"MAP[..] takes pairs of a key and a value, and this has {len(written)} values",
            code="E1301",
            span=span,
            hint="write MAP[key, value, key, value]",
        )
    bound = [binder.bind(e) for e in written]
    keys, key_type = unify(bound[::2], "the keys of a MAP", span)
    values, value_type = unify(bound[1::2], "the values of a MAP", span)
    pairs = tuple(e for pair in zip(keys, values, strict=True) for e in pair)
    return Call("MAP", pairs, map_of(key_type, value_type).not_null(), span=span)


def _cast_hint(source: DataType, target: DataType) -> str:
    times = (TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
    if source.root in times and target.is_numeric:
        return "EXTRACT takes a part of a time, UNIX_TIMESTAMP and TIMESTAMPDIFF count its seconds"
    if source.is_numeric and target.root in times:
        return "TO_TIMESTAMP_LTZ makes a time of a number of seconds or milliseconds"
    if target.is_interval and source.is_integer:
        return f"a number becomes an interval of one field, for example CAST(.. AS INTERVAL {target.words[-1]})"
    if source.root is TypeRoot.RAW:
        return "CAST(.. AS BYTES) gives its bytes"
    if source.root is TypeRoot.VARIANT:
        return f"JSON has no such values: CAST(CAST(.. AS STRING) AS {target.with_nullable(True)}) reads a text"
    if target.root is TypeRoot.VARIANT:
        return "JSON has no such values: CAST it to STRING first"
    return "take it apart, or build the value, with functions: SHOW FUNCTIONS lists them"


def cast_explicitly(value: Expr, target: DataType, safe: bool, span: Span | None) -> Expr:
    """CAST or TRY_CAST (`safe`); E1305 when no value of the type can become one of the target."""
    if not explicit_cast(value.type, target):
        raise TypeMismatchError(
            f"a value of type {value.type.materialized().with_nullable(True)} "
            f"cannot be cast to {target.with_nullable(True)}",
            code="E1305",
            span=span,
            hint=_cast_hint(value.type, target),
        )
    target = target.undeclared()
    if isinstance(value, Parameter) and value.type.root is TypeRoot.NULL:
        return cast_to(value, target, span)
    if isinstance(value, Literal) and value.value is None:
        return Literal(None, target.with_nullable(True))
    if not safe and isinstance(value, Literal):
        folded = cast_to(value, target)
        if isinstance(folded, Literal) and folded.type.same_ignoring_nullability(target):
            return folded
    wanted = cast_type(value.type, target, safe=safe)
    if value.type == wanted:
        return value
    if not safe and isinstance(value, Literal) and target.root is TypeRoot.DECIMAL and _has_room(value.value, target):
        wanted = wanted.not_null()
    return Cast(value, wanted, safe, span=span)


def _has_room(number: object, target: DataType) -> bool:
    """Whether a number has no more digits before the point than a DECIMAL, with a digit to spare for rounding."""
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        return False
    return abs(number) < 10 ** (target.precision - target.scale) - 1


def written_array(text: exp.Literal, target: DataType, *, safe: bool = False) -> Expr:
    """The array that a text says, such as '{1,2}'. Raises TypeMismatchError E1305 when it is none."""
    span = span_of(text)
    return _array_of(_array_texts.array_elements(str(text.this), span), target, safe, span)


def _array_of(elements: list[_array_texts.ArrayText], target: DataType, safe: bool, span: Span | None) -> Expr:
    """An array whose elements are given as texts, each cast to what it is to be."""
    element = target.children[0]

    def value(written: _array_texts.ArrayText) -> Expr:
        if isinstance(written, list):
            if element.root is not TypeRoot.ARRAY:
                raise TypeMismatchError(
                    f"there is an array within an array of {element.with_nullable(True)}",
                    code="E1305",
                    span=span,
                    hint=f"cast to {target}[]",
                )
            return _array_of(written, element, safe, span)
        if written is None or element.root is not TypeRoot.ARRAY:
            text = Literal(written, STRING.with_nullable(written is None))
            return cast_explicitly(text, element, safe, span)
        raise TypeMismatchError(f"'{written[:60]}' is no array", code="E1305", span=span, hint="write {{1,2},{3}}")

    values, found = [value(written) for written in elements], array(element).not_null()
    return Call("ARRAY", tuple(values), found, span=span) if values else Literal((), found)


def _cast(binder: ExpressionRules, tree: exp.Cast) -> Expr:
    target, written = tree.args["to"].data_type, tree.this
    if target.root is TypeRoot.ARRAY and isinstance(written, exp.Literal) and written.is_string:
        return written_array(written, target, safe=isinstance(tree, exp.TryCast))
    value = binder.bind(written)
    if target.is_interval and _is_number(written) and isinstance(value, Literal) and len(target.words) < 2:
        return _interval_of(value, target, span_of(tree))
    return cast_explicitly(value, target, isinstance(tree, exp.TryCast), span_of(tree))


def _is_number(written: exp.Expr) -> bool:
    number = written.this if isinstance(written, exp.Neg) else written
    return isinstance(number, exp.Literal) and not number.is_string and "e" not in str(number.this).lower()


def _interval_of(number: Literal, target: DataType, span: Span | None) -> Expr:
    """A number that stands in the statement as so many of the interval's field. Any other number is, as in Flink, one of
    months or milliseconds, whatever the field."""
    plain = target.undeclared().not_null()
    unit = target.words[0] if target.words else str(target).split()[1].partition("(")[0]
    amount = int(number.value * interval_unit(unit))
    low, high = limits(plain)
    if not low <= amount <= high:
        raise SqlSyntaxError(
            f"the interval of {number.value} {unit} is out of range",
            code="E1308",
            span=span,
            hint=out_of_range(plain).hint,
        )
    return Literal(amount, plain)


def assigned_text(functions: FunctionRegistry, text: Expr, wanted: DataType, span: Span | None) -> Expr | None:
    """A text as the value of a column that it writes, as PostgreSQL reads it; None where it writes none."""
    if wanted.is_character:
        return _fits.fitting(functions, text, wanted, span) or cast_to(text, wanted)
    if wanted.root is TypeRoot.VARIANT:
        return scalar_function(functions, "PARSE_JSON", [text, Literal(True, BOOLEAN.not_null())], span)
    if wanted.root is TypeRoot.TIMESTAMP_LTZ:
        return cast_to(scalar_function(functions, "PG_TIMESTAMPTZ", [text], span), wanted)
    if not explicit_cast(text.type, wanted) or wanted.is_nested:
        return None
    if wanted.root in (TypeRoot.TIMESTAMP, TypeRoot.TIME):
        text = scalar_function(functions, "PG_TIME_TEXT", [text], span)
    return cast_explicitly(text, wanted, False, span)


def _assigned(binder: ExpressionRules, tree: Assigned) -> Expr:
    """What UPDATE gives a column: without CAST only what INSERT takes, too."""
    written, wanted = tree.this, tree.args["to"].data_type
    untyped = isinstance(written, FunctionCall) and written.name == "PG_UNTYPED"
    narrowing = isinstance(written, FunctionCall) and written.name == "PG_ASSIGNED"
    if untyped or narrowing:
        (written,) = written.expressions
    if untyped:
        if wanted.root is TypeRoot.ARRAY and isinstance(written, exp.Literal) and written.is_string:
            return cast_to(written_array(written, wanted), wanted)
    value = binder.bind(written)
    if untyped and value.type.is_character:
        found = assigned_text(binder.env.context.functions, value, wanted, span_of(written))
        if found is not None:
            return found
    if narrowing:
        found = _fits.fitting(binder.env.context.functions, value, wanted, span_of(written))
        if found is not None:
            return found
    if value.type.root is not TypeRoot.NULL and not implicit_cast(value.type.materialized(), wanted):
        raise TypeMismatchError(
            f'the column "{tree.args["column"]}" is {wanted}, and its new value {value.type.materialized().with_nullable(True)}',
            code="E1313",
            span=span_of(written),
            hint=f"CAST(.. AS {wanted})",
        )
    return cast_to(value, wanted)


def _case(binder: ExpressionRules, tree: exp.Case) -> Expr:
    span = span_of(tree)
    operand = binder.bind(tree.this) if tree.this is not None else None
    conditions: list[Expr] = []
    values: list[Expr] = []
    for branch in tree.args["ifs"]:
        tested = binder.bind(branch.this)
        if operand is not None:
            conditions.append(comparison("=", operand, tested, span_of(branch.this)))
        else:
            conditions.append(as_boolean(tested, "WHEN", span_of(branch.this)))
        values.append(binder.bind(branch.args["true"]))
    default = tree.args.get("default")
    values.append(binder.bind(default) if default is not None else Literal(None, DataType(TypeRoot.NULL)))
    unified, result = unify(values, "CASE", span)
    return Case(tuple(zip(conditions, unified, strict=False)), unified[-1], result)


def _subscript_star(binder: ExpressionRules, tree: exp.Star) -> Expr:
    raise BindError("* cannot stand inside an expression", code="E1206", span=span_of(tree), hint="name the columns")


def _unit(_: ExpressionRules, tree: exp.Var) -> Expr:
    text = str(tree.this)
    return Literal(text, char(len(text)).not_null())


CONSTRUCTS: dict[type[exp.Expr], Callable[..., Expr]] = {
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Bracket: _item,
    exp.Tuple: _tuple,
    exp.Array: _array,
    MapConstructor: _map,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    Assigned: _assigned,
    exp.Case: _case,
    exp.Star: _subscript_star,
    exp.Var: _unit,
}
