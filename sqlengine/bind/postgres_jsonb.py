"""Functions of jsonb whose names begin with `PG_JSONB`, as `sqlengine/bind/postgres.py` has those of other types."""

from __future__ import annotations

from collections.abc import Callable

from runtime.core.errors import Span, TypeMismatchError, UnsupportedError
from runtime.core.types import STRING, VARIANT, DataType, TypeRoot, array, char, map_of
from runtime.expr.nodes import Call, Cast, Expr, Literal
from runtime.expr.nullability import cast_type
from sqlengine.bind.coerce import cast_to
from sqlengine.bind.operators import scalar_call
from sqlengine.bind.postgres_values import as_array, jsonb, jsonb_of, text_of, texts
from sqlengine.bind.session import ExpressionRules

__all__ = ["RULES", "without"]

_Rule = Callable[[ExpressionRules, list[Expr], Span | None], Expr]
_TRUTH = DataType(TypeRoot.BOOLEAN, nullable=False)


def without(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    value, what = args
    if what.type.is_integer:
        return scalar_call(binder, "PG_JSONB_WITHOUT_ELEMENT", args, span)
    written = as_array(what, array(STRING), span)
    if written is not None or what.type.root is TypeRoot.ARRAY:
        return scalar_call(binder, "PG_JSONB_WITHOUT_KEYS", [value, what if written is None else written], span)
    return scalar_call(binder, "PG_JSONB_WITHOUT", args, span)


def _jsonb_set(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """JSONB_SET(value, path, new, create): values and path may be written as texts."""
    value, path, new, create = args
    value, new = (jsonb(binder, [v], span) if isinstance(v, Literal) else v for v in (value, new))
    return scalar_call(binder, "PG_JSONB_SET", [value, texts(path, span), new, create], span)


def _build_object(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    if not args:
        return scalar_call(binder, "PARSE_JSON", [Literal("{}", char(2).not_null())], span)
    if len(args) % 2:
        raise TypeMismatchError(
            "JSONB_BUILD_OBJECT takes pairs of key and value",
            code="E1301",
            span=span,
            hint="for example ('a', 1, 'b', 2)",
        )
    pairs: list[Expr] = []
    for key, value in zip(args[::2], args[1::2], strict=True):
        pairs += [cast_to(text_of(binder, [key], span), STRING, span), jsonb_of(binder, [value], span)]
    made = Call("MAP", tuple(pairs), map_of(STRING.not_null(), VARIANT).not_null(), span=span)
    return Cast(made, cast_type(made.type, VARIANT), span=span)


def _build_array(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    if not args:
        return scalar_call(binder, "PARSE_JSON", [Literal("[]", char(2).not_null())], span)
    made = Call("ARRAY", tuple(jsonb_of(binder, [a], span) for a in args), array(VARIANT).not_null(), span=span)
    return Cast(made, cast_type(made.type, VARIANT), span=span)


def _of_jsonb(name: str) -> _Rule:
    """A function whose first argument is jsonb, which may be written as a text."""

    def rule(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
        first, *rest = args
        if isinstance(first, Literal) and first.type.is_character:
            first = jsonb(binder, [first], span)
        return scalar_call(binder, name, [first, *rest], span)

    return rule


def _get_text(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    return scalar_call(binder, "PG_JSONB_TEXT", [scalar_call(binder, "PG_JSONB_GET", args, span)], span)


def _path(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """`jsonb #> '{a,0}'`, step by step."""
    value, steps = args
    steps = texts(steps, span)
    if not (isinstance(steps, Call) and steps.function == "ARRAY"):
        raise UnsupportedError(
            "a path is written in the statement", span=span, hint="for example v #> '{a,0}', or v -> 'a' -> 0"
        )
    for step in steps.args:
        value = scalar_call(binder, "PG_JSONB_STEP", [value, step], span)
    return value


def _path_text(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    return scalar_call(binder, "PG_JSONB_TEXT", [_path(binder, args, span)], span)


def _extract_path(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    value = jsonb(binder, args[:1], span) if isinstance(args[0], Literal) else args[0]
    for step in args[1:]:
        value = scalar_call(binder, "PG_JSONB_STEP", [value, step], span)
    return value


def _extract_path_text(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    return scalar_call(binder, "PG_JSONB_TEXT", [_extract_path(binder, args, span)], span)


def _of_texts(name: str) -> _Rule:
    """An operator whose right side is an array of texts, which may be written as `'{a,b}'`."""

    def rule(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
        value, given = args
        return scalar_call(binder, name, [value, texts(given, span)], span)

    return rule


def _insert(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
    """JSONB_INSERT(value, path, new, after): values and path may be written as texts."""
    value, path, new, after = args
    value, new = (jsonb(binder, [v], span) if isinstance(v, Literal) else v for v in (value, new))
    return scalar_call(binder, "PG_JSONB_INSERT", [value, texts(path, span), new, after], span)


def _all_texts(name: str) -> _Rule:
    """A function of arrays of texts, which may be written as `'{a,b}'`."""

    def rule(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
        return scalar_call(binder, name, [texts(a, span) for a in args], span)

    return rule


def _path_call(name: str, *, silent: bool = False) -> _Rule:
    """A function that takes a value, a path, variables and whether it passes over errors, of which the last two may be left out."""

    def rule(binder: ExpressionRules, args: list[Expr], span: Span | None) -> Expr:
        if not 2 <= len(args) <= 4:
            raise TypeMismatchError(
                f"{name.removeprefix('PG_')} takes a value of jsonb, a path, variables and whether it is silent",
                code="E1301",
                span=span,
                hint="for example (doc, '$.items[*] ? (@.n > $n)', '{\"n\": 1}')",
            )
        value, path, *rest = args
        variables = rest[0] if rest else Literal("{}", char(2).not_null())
        quiet = rest[1] if len(rest) > 1 else Literal(silent, _TRUTH)
        given = [jsonb(binder, [v], span) if isinstance(v, Literal) else v for v in (value, variables)]
        return scalar_call(binder, name, [given[0], path, given[1], quiet], span)

    return rule


RULES: dict[str, _Rule] = {
    "PG_JSONB_SET": _jsonb_set,
    "PG_JSONB": jsonb,
    "PG_JSONB_OF": jsonb_of,
    "PG_JSONB_BUILD_OBJECT": _build_object,
    "PG_JSONB_BUILD_ARRAY": _build_array,
    "PG_JSONB_GET_TEXT": _get_text,
    "PG_JSONB_PATH": _path,
    "PG_JSONB_PATH_TEXT": _path_text,
    "PG_JSONB_EXTRACT_PATH": _extract_path,
    "PG_JSONB_EXTRACT_PATH_TEXT": _extract_path_text,
    "PG_JSONB_HAS_ANY": _of_texts("PG_JSONB_HAS_ANY"),
    "PG_JSONB_HAS_ALL": _of_texts("PG_JSONB_HAS_ALL"),
    "PG_JSONB_WITHOUT_PATH": _of_texts("PG_JSONB_WITHOUT_PATH"),
    **{
        name: _of_jsonb(name)
        for name in (
            "PG_JSONB_GET",
            "PG_JSONB_HAS",
            "PG_JSONB_TYPEOF",
            "PG_JSONB_ARRAY_LENGTH",
            "PG_JSONB_STRIP_NULLS",
            "PG_JSONB_PRETTY",
        )
    },
    "PG_JSONB_INSERT": _insert,
    "PG_JSONB_OBJECT": _all_texts("PG_JSONB_OBJECT"),
    "PG_JSONB_OBJECT_OF_TWO": _all_texts("PG_JSONB_OBJECT_OF_TWO"),
    "PG_JSONB_PATH_FINDS": _path_call("PG_JSONB_PATH_EXISTS", silent=True),
    "PG_JSONB_PATH_IS": _path_call("PG_JSONB_PATH_MATCH", silent=True),
    **{
        name: _path_call(name)
        for name in (
            "PG_JSONB_PATH_ROWS",
            "PG_JSONB_PATH_ARRAY",
            "PG_JSONB_PATH_FIRST",
            "PG_JSONB_PATH_EXISTS",
            "PG_JSONB_PATH_MATCH",
        )
    },
}
