"""Operators: arithmetic, comparisons, truth, and the predicates that are short for them.

Both sides of a comparison are cast to one type. AND and OR come out with all their operands in one call; BETWEEN as two
comparisons; `x IN (list)` as `InList`; comparisons of rows written with parentheses field by field. Calls are named as
in the library: `+`, `<>`, `AND`, `IS NOT NULL`, `LIKE`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from runtime.core.errors import Span, TypeMismatchError, with_article
from runtime.core.types import BOOLEAN, STRING, UUID, DataType, TypeRoot
from runtime.expr.function import FunctionRegistry
from runtime.expr.nodes import TRUE, Call, Cast, Expr, InList, Literal, Parameter
from runtime.expr.typing import common_type, comparison_type, resolve_call
from sqlengine.bind.coerce import as_boolean, cast_to
from sqlengine.bind.constants import ConstantColumn, constant_column, constant_list
from sqlengine.bind.literals import number
from sqlengine.bind.session import ExpressionRules
from sqlengine.parse.constant_rows import ComparedConstants, ConstantRows
from sqlengine.parse.nodes import Difference, FunctionCall, IsJson, UnaryPlus
from sqlengine.parse.spans import span_of

__all__ = ["OPERATORS", "comparison", "conjunction", "equality", "negation", "scalar_call", "scalar_function"]

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
}
_ORDERING = frozenset({"<", "<=", ">", ">="})
_NEVER_NULL = frozenset({"IS DISTINCT FROM", "IS NOT DISTINCT FROM"})


def scalar_call(binder: ExpressionRules, name: str, args: Sequence[Expr], span: Span | None) -> Expr:
    """A call of a scalar function of the registry, its arguments cast to what its signature asks for."""
    return scalar_function(binder.env.context.functions, name, args, span)


def scalar_function(functions: FunctionRegistry, name: str, args: Sequence[Expr], span: Span | None) -> Expr:
    """The same, of a registry."""
    function = functions.scalar(name)
    literals = [a if isinstance(a, Literal) else None for a in args]
    wanted, result = resolve_call(function, [a.type for a in args], literals, span=span)
    return Call(
        function.name.upper(), tuple(cast_to(a, t) for a, t in zip(args, wanted, strict=True)), result, span=span
    )


def comparison(operator: str, left: Expr, right: Expr, span: Span | None) -> Expr:
    """`left operator right` in the type in which the two can be compared; E1304 when there is none."""
    left, right = _as_uuid(left, right.type, span), _as_uuid(right, left.type, span)
    common = comparison_type(left.type, right.type)
    if common is None and operator in _ORDERING:
        common = _number_of_text(left.type, right.type)
    if common is not None and common.is_unordered and operator in _ORDERING:
        raise TypeMismatchError(
            f"values of type {common.with_nullable(True)} have no order",
            code="E1304",
            span=span,
            hint="compare their parts, or use = and <>",
        )
    if common is None or common.root is TypeRoot.NULL:
        if common is not None:
            same = operator == "IS NOT DISTINCT FROM"
            return Literal(same, BOOLEAN.not_null()) if operator in _NEVER_NULL else Literal(None, BOOLEAN)
        shown = [str(t.materialized().with_nullable(True)) for t in (left.type, right.type)]
        raise TypeMismatchError(
            f"{shown[0]} and {shown[1]} cannot be compared",
            code="E1304",
            span=span,
            hint=_how_to_compare(left, right),
        )
    sides = (_side(left, common, span), _side(right, common, span))
    nullable = operator not in _NEVER_NULL and any(s.type.nullable for s in sides)
    return Call(operator, sides, BOOLEAN.with_nullable(nullable), span=span)


def _as_uuid(value: Expr, other: DataType, span: Span | None) -> Expr:
    """A text of the statement, or a parameter, that is compared with an identifier is one, in whatever form it is written."""
    if not other.is_uuid or value.type.is_uuid:
        return value
    if isinstance(value, Parameter) and value.type.root is TypeRoot.NULL:
        return value.with_(type=UUID)
    if isinstance(value, Literal | Parameter) and value.type.is_character:
        return Cast(value, UUID.with_nullable(value.type.nullable), span=span)
    return value


def _number_of_text(left: DataType, right: DataType) -> DataType | None:
    """The number's type where a number and a text are put in order: Flink reads the text as that number. (It refuses `=`
    and `<>` of the two.)"""
    if left.is_numeric and right.is_character:
        return left
    return right if left.is_character and right.is_numeric else None


def _how_to_compare(left: Expr, right: Expr) -> str:
    """What to write where two values cannot be compared."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Literal) and one.type.is_character and other.type.is_numeric:
            text = str(one.value)
            if text.replace(".", "", 1).lstrip("-").isdigit():
                return f"a number stands without quotes: {text}"
            return "CAST the number: CAST(.. AS STRING), or compare it with a number"
        if isinstance(one, Literal) and one.type.is_numeric and other.type.is_character:
            return f"a text stands in quotes: '{one.value}'; or CAST it AS {one.type.with_nullable(True)}"
    return f"CAST one of them, for example CAST(.. AS {_to_cast_to(left.type, right.type)})"


def _to_cast_to(left: DataType, right: DataType) -> DataType:
    """The type that advice names: the one that is no text."""
    return (left if right.is_character else right).materialized().with_nullable(True)


def _side(expr: Expr, common: DataType, span: Span | None) -> Expr:
    # Texts and byte strings of different declared lengths compare as they are: a cast would not change a value.
    if (common.is_character and expr.type.is_character) or (common.is_binary and expr.type.is_binary):
        return expr
    return cast_to(expr, common, span)


def equality(left: Expr, right: Expr, span: Span | None = None) -> Expr:
    return comparison("=", left, right, span)


def conjunction(parts: Sequence[Expr]) -> Expr:
    """All parts, in one AND; TRUE for none."""
    flat = [p for part in parts for p in (part.args if isinstance(part, Call) and part.function == "AND" else (part,))]
    if not flat:
        return TRUE
    return flat[0] if len(flat) == 1 else _logical("AND", flat)


def negation(value: Expr, span: Span | None = None) -> Expr:
    return Call("NOT", (value,), BOOLEAN.with_nullable(value.type.nullable), span=span)


def _logical(operator: str, parts: Sequence[Expr], span: Span | None = None) -> Expr:
    return Call(operator, tuple(parts), BOOLEAN.with_nullable(any(p.type.nullable for p in parts)), span=span)


def _connected(operator: str) -> Callable[[ExpressionRules, exp.Expr], Expr]:
    def bind(binder: ExpressionRules, tree: exp.Expr) -> Expr:
        parts: list[Expr] = []
        _operands(binder, tree, type(tree), operator, parts)
        return _logical(operator, parts, span_of(tree))

    return bind


def _operands(binder: ExpressionRules, tree: exp.Expr, kind: type[exp.Expr], operator: str, into: list[Expr]) -> None:
    """The operands of a chain of one operator, left to right, without recursion along the left side."""
    pending = [tree]
    while pending:
        top = pending.pop()
        if type(top) is kind:
            pending += [top.expression, top.this]
            continue
        value = as_boolean(binder.bind(top), operator, span_of(top))
        into.extend(value.args if isinstance(value, Call) and value.function == operator else (value,))


def _compared_constants(binder: ExpressionRules, tree: ComparedConstants) -> Expr:
    """A chain of comparisons as one IN, where that is the same: of whole numbers, and of texts. Others are compared one
    by one, each in the type that it has in common with the value."""
    value = binder.bind(tree.this)
    items = constant_column(tree.cells(), binder.env.context.time_zone)
    alike = items is not None and (
        (value.type.is_integer and items.type.is_integer) or (value.type.is_character and items.type.is_character)
    )
    found = _among(value, items, binder.env.context.time_zone, None) if items is not None and alike else None
    if found is not None:
        return negation(found, span_of(tree)) if tree.negated else found
    parts = [binder.bind(part) for part in tree.comparisons()]
    return _logical("AND" if tree.negated else "OR", parts, span_of(tree))


def _not(binder: ExpressionRules, tree: exp.Not) -> Expr:
    inner = tree.this
    if isinstance(inner, exp.Is):
        return _is(binder, inner, negated=True)
    return negation(as_boolean(binder.bind(inner), "NOT", span_of(inner)), span_of(tree))


def _is(binder: ExpressionRules, tree: exp.Is, negated: bool = False) -> Expr:
    value, what = binder.bind(tree.this), tree.expression
    word = "IS NOT " if negated else "IS "
    if isinstance(what, exp.Boolean):
        as_boolean(value, f"IS {'TRUE' if what.this else 'FALSE'}", span_of(tree.this))
        name = word + ("TRUE" if what.this else "FALSE")
    else:
        if isinstance(what, exp.Var):
            as_boolean(value, "IS UNKNOWN", span_of(tree.this))
        name = word + "NULL"
    return Call(name, (value,), BOOLEAN.not_null(), span=span_of(tree))


def _is_json(binder: ExpressionRules, tree: IsJson) -> Expr:
    return scalar_call(binder, f"IS JSON {tree.args['kind']}", [binder.bind(tree.this)], span_of(tree))


def _compare(binder: ExpressionRules, tree: exp.Binary) -> Expr:
    operator = _COMPARISONS[type(tree)]
    left_fields, right_fields = _row_fields(tree.this), _row_fields(tree.expression)
    if left_fields and right_fields and (operator == "=" or operator in _ORDERING):
        if len(left_fields) != len(right_fields):
            raise TypeMismatchError(
                f"a row of {len(left_fields)} and a row of {len(right_fields)} values cannot be compared",
                code="E1304",
                span=span_of(tree),
                hint="give both rows the same number of values",
            )
        pairs = [(binder.bind(a), binder.bind(b)) for a, b in zip(left_fields, right_fields, strict=True)]
        if operator in _ORDERING:
            return _in_order(operator, pairs, span_of(tree))
        return conjunction([comparison("=", a, b, span_of(tree)) for a, b in pairs])
    return comparison(operator, binder.bind(tree.this), binder.bind(tree.expression), span_of(tree))


def _in_order(operator: str, pairs: list[tuple[Expr, Expr]], span: Span | None) -> Expr:
    """Rows are compared by their first fields that differ."""
    (left, right), *rest = pairs
    if not rest:
        return comparison(operator, left, right, span)
    before = comparison(operator[0], left, right, span)
    same = comparison("=", left, right, span)
    return _logical("OR", [before, conjunction([same, _in_order(operator, rest, span)])], span)


def _row_fields(tree: exp.Expr) -> list[exp.Expr] | None:
    if isinstance(tree, exp.Tuple):
        return list(tree.expressions)
    if isinstance(tree, FunctionCall) and tree.name.upper() == "ROW" and not tree.qualifier:
        return list(tree.expressions)
    return None


def _arithmetic(binder: ExpressionRules, tree: exp.Binary) -> Expr:
    operands = [binder.bind(tree.this), binder.bind(tree.expression)]
    return scalar_call(binder, _ARITHMETIC[type(tree)], operands, span_of(tree))


def _negative(binder: ExpressionRules, tree: exp.Neg) -> Expr:
    if isinstance(tree.this, exp.Literal) and not tree.this.is_string:
        return number(tree.this, negative=True)
    value = binder.bind(tree.this)
    if not (value.type.is_numeric or value.type.is_interval or value.type.root is TypeRoot.NULL):
        raise TypeMismatchError(
            f"{with_article(value.type.with_nullable(True))} has no negative",
            code="E1302",
            span=span_of(tree),
            hint="only numbers and intervals do",
        )
    return scalar_call(binder, NEGATE, [value], span_of(tree))


NEGATE = "NEGATE"
"""The library's name of the minus sign before a value."""


def _positive(binder: ExpressionRules, tree: UnaryPlus) -> Expr:
    value = binder.bind(tree.this)
    if not (value.type.is_numeric or value.type.is_interval):
        raise TypeMismatchError(
            f"+ takes no {value.type.with_nullable(True)}",
            code="E1302",
            span=span_of(tree),
            hint="leave it out; || puts texts together",
        )
    return value


def _difference(binder: ExpressionRules, tree: Difference) -> Expr:
    """`(a - b) DAY TO SECOND`: milliseconds or, for years and months, whole months between two points in time."""
    name = "MINUS_MONTHS" if tree.args["unit"] in ("YEAR", "QUARTER", "MONTH") else "MINUS_DATE"
    return scalar_call(binder, name, [binder.bind(tree.this), binder.bind(tree.expression)], span_of(tree))


def _like(binder: ExpressionRules, tree: exp.Binary, escape: exp.Expr | None = None) -> Expr:
    name = "SIMILAR TO" if isinstance(tree, exp.SimilarTo) else "LIKE"
    args = [binder.bind(tree.this), binder.bind(tree.expression)]
    if escape is not None:
        args.append(binder.bind(escape))
    if isinstance(tree, exp.ILike):
        args = [scalar_call(binder, "LOWER", [a], span_of(tree)) for a in args]
    return scalar_call(binder, name, args, span_of(tree))


def _matches(binder: ExpressionRules, tree: exp.RegexpLike | exp.RegexpILike) -> Expr:
    """PostgreSQL's `text ~ pattern`, and `~*` whatever the case."""
    text, pattern = binder.bind(tree.this), binder.bind(tree.expression)
    if isinstance(tree, exp.RegexpILike):
        if isinstance(pattern, Literal) and isinstance(pattern.value, str):
            pattern = Literal(f"(?i){pattern.value}", STRING.not_null())
        else:
            either_case = Literal("(?i)", STRING.not_null())
            pattern = scalar_call(binder, "||", [either_case, pattern], span_of(tree.expression))
    return scalar_call(binder, "~", [text, pattern], span_of(tree))


def _power(binder: ExpressionRules, tree: exp.Pow) -> Expr:
    return scalar_call(binder, "POWER", [binder.bind(tree.this), binder.bind(tree.expression)], span_of(tree))


def _escape(binder: ExpressionRules, tree: exp.Escape) -> Expr:
    return _like(binder, tree.this, tree.expression)


def _between(binder: ExpressionRules, tree: exp.Between) -> Expr:
    value, low, high = binder.bind(tree.this), binder.bind(tree.args["low"]), binder.bind(tree.args["high"])
    span = span_of(tree)

    def inside(a: Expr, b: Expr) -> Expr:
        return conjunction([comparison(">=", value, a, span), comparison("<=", value, b, span)])

    if not tree.args.get("symmetric"):
        return inside(low, high)
    return _logical("OR", [inside(low, high), inside(high, low)], span)


def _in(binder: ExpressionRules, tree: exp.In) -> Expr:
    """`x IN (values)`; IN over a query belongs to the room of subqueries."""
    written = tree.expressions
    if len(written) == 1 and isinstance(written[0], ConstantRows):
        value = binder.bind(tree.this)
        found = None if value.type.is_uuid else _in_constants(value, written[0], binder, span_of(tree))
        if found is not None:
            return found
        (row,) = written[0].rows()
        written = row.expressions
    rows = [_row_fields(item) for item in written]
    fields, span = _row_fields(tree.this), span_of(tree)
    if fields is not None and all(r is not None and len(r) == len(fields) for r in rows):
        values = [binder.bind(f) for f in fields]
        matches = [
            conjunction([equality(v, binder.bind(f), span) for v, f in zip(values, row, strict=True)])
            for row in rows
            if row is not None
        ]
        return matches[0] if len(matches) == 1 else _logical("OR", matches, span)
    value = binder.bind(tree.this)
    items = [_as_uuid(binder.bind(item), value.type, span) for item in written]
    common = common_type([value.type, *(i.type for i in items)])
    if common is None:
        kind = _kind_of_items(value.type, [i.type for i in items])
        if kind is not None:
            items, common = [cast_to(i, kind) for i in items], kind
    if common is None:
        common = value.type
        for item, where in zip(items, written, strict=True):
            merged = comparison_type(common, item.type)
            if merged is None:
                comparison("=", value, item, span_of(where))
                raise TypeMismatchError(
                    "the values of IN have no common type", code="E1303", span=span, hint="CAST them to one type"
                )
            common = merged
    value, choices = _side(value, common, span), tuple(_side(i, common, span) for i in items)
    return InList(value, choices, BOOLEAN.with_nullable(any(e.type.nullable for e in (value, *choices))))


def _in_constants(value: Expr, written: ConstantRows, binder: ExpressionRules, span: Span | None) -> Expr | None:
    """`value IN (..)` over a long list of constants; None where they have to be looked at one by one."""
    zone = binder.env.context.time_zone
    items = constant_list(written, zone)
    if items is None or items.type.root is TypeRoot.NULL:
        return None
    return _among(value, items, zone, span)


def _among(value: Expr, items: ConstantColumn, zone: str, span: Span | None) -> Expr | None:
    common = common_type([value.type, items.type])
    if common is None or common.is_unordered:
        return None
    value = _side(value, common, span)
    texts = common.is_character and items.type.is_character
    wanted = items.type if texts else common.materialized().with_nullable(items.type.nullable)
    constants = items.as_expression(wanted, zone)
    return None if constants is None else InList(value, (constants,), BOOLEAN.with_nullable(common.nullable))


def _kind_of_items(value: DataType, items: Sequence[DataType]) -> DataType | None:
    """What Flink reads the items of `number IN (texts)` and `text IN (numbers)` as: values of the left side's kind."""
    if value.is_numeric and all(i.is_character for i in items):
        return value
    if value.is_character and all(i.is_numeric for i in items):
        return STRING
    return None


def _paren(binder: ExpressionRules, tree: exp.Paren) -> Expr:
    return binder.bind(tree.this)


OPERATORS: dict[type[exp.Expr], Callable[..., Expr]] = {
    **dict.fromkeys(_COMPARISONS, _compare),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    exp.And: _connected("AND"),
    exp.Or: _connected("OR"),
    ComparedConstants: _compared_constants,
    exp.Not: _not,
    exp.Is: _is,
    IsJson: _is_json,
    exp.Neg: _negative,
    UnaryPlus: _positive,
    Difference: _difference,
    exp.Like: _like,
    exp.ILike: _like,
    exp.SimilarTo: _like,
    exp.RegexpLike: _matches,
    exp.RegexpILike: _matches,
    exp.Pow: _power,
    exp.Escape: _escape,
    exp.Between: _between,
    exp.Paren: _paren,
}
IN_LIST = _in
