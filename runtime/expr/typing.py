"""Typing rules: common types, comparisons, implicit and explicit casts, and which signature a call means.

The binder asks this module for every call and makes the casts it answers with explicit. The rules are Flink's
(Calcite's least restrictive type, Flink's LogicalTypeCasts). A type that does not fit is None here; `resolve_call`
raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runtime.core.errors import Span, TypeMismatchError
from runtime.core.types import (
    BIGINT,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    SMALLINT,
    STRING_LENGTH,
    TINYINT,
    VARIANT,
    DataType,
    RowField,
    TypeRoot,
)
from runtime.expr.digits import as_decimal
from runtime.expr.function import CallTypes, Nulls, Signature, ValueFunction, shown_name
from runtime.expr.nodes import Literal
from runtime.expr.nullability import call_type, cast_overflows, cast_type

__all__ = [
    "common_type",
    "comparison_type",
    "explicit_cast",
    "implicit_cast",
    "resolve_call",
    "signature_text",
]

_R = TypeRoot
_RANK = {_R.TINYINT: 0, _R.SMALLINT: 1, _R.INT: 2, _R.BIGINT: 3}
_BY_RANK = (TINYINT, SMALLINT, INT, BIGINT)


def common_type(types: Iterable[DataType]) -> DataType | None:
    """The least restrictive type that holds the values of all (CASE, COALESCE, IN, UNION, VALUES, ARRAY[...]).

    Nullable when one of them is, or has values that do not fit: the common DECIMAL has at most 38 digits. Untyped NULLs
    take part only so. None when the types do not mix.
    """
    all_types = [t.materialized() for t in types]
    nullable = any(t.nullable or t.root is _R.NULL for t in all_types)
    typed = [t for t in all_types if t.root is not _R.NULL]
    if not typed:
        return NULL
    result = typed[0]
    for other in typed[1:]:
        merged = _merge(result, other)
        if merged is None:
            return None
        result = merged
    return result.with_nullable(nullable or any(cast_overflows(t, result) for t in typed))


def _merge(a: DataType, b: DataType) -> DataType | None:
    nullable = a.nullable or b.nullable
    if a.with_nullable(nullable) == b.with_nullable(nullable):
        return a.with_nullable(nullable)
    if a.is_numeric and b.is_numeric:
        return _merge_numeric(a, b).with_nullable(nullable)
    if (a.is_character and b.is_character) or (a.is_binary and b.is_binary):
        return _merge_strings(a, b).with_nullable(nullable)
    if a.root is not b.root:
        return None
    if a.is_interval:
        # Intervals of other fields meet in the interval that expressions have.
        return a.undeclared().with_nullable(nullable)
    if a.words != b.words:
        return None
    match a.root:
        case _R.TIME | _R.TIMESTAMP | _R.TIMESTAMP_LTZ:
            return a.with_(precision=max(a.precision, b.precision), nullable=nullable)
        case _R.ARRAY | _R.MAP | _R.MULTISET:
            children = [common_type(pair) for pair in zip(a.children, b.children, strict=True)]
            if any(c is None for c in children):
                return None
            return a.with_(children=tuple(children), nullable=nullable)
        case _R.ROW:
            if len(a.fields) != len(b.fields):
                return None
            if a.words and [f.name for f in a.fields] != [f.name for f in b.fields]:
                return None
            fields: list[RowField] = []
            for mine, other in zip(a.fields, b.fields, strict=True):
                merged = common_type((mine.type, other.type))
                if merged is None:
                    return None
                fields.append(mine.with_(type=merged))
            return a.with_(fields=tuple(fields), nullable=nullable)
        case _:
            return a.with_nullable(nullable)


def _merge_strings(a: DataType, b: DataType) -> DataType:
    fixed = a.root if a.root in (_R.CHAR, _R.BINARY) else b.root
    if a.root is b.root and a.precision == b.precision:
        return a.with_(words=())
    varying = _R.VARBINARY if fixed in (_R.BINARY, _R.VARBINARY) else _R.VARCHAR
    return DataType(varying, max(a.precision, b.precision))


def _merge_numeric(a: DataType, b: DataType) -> DataType:
    if a.is_integer and b.is_integer:
        return _BY_RANK[max(_RANK[a.root], _RANK[b.root])]
    if a.is_approximate or b.is_approximate:
        if _R.DOUBLE in (a.root, b.root) or _R.DECIMAL in (a.root, b.root):
            return DOUBLE
        return FLOAT
    left, right = as_decimal(a), as_decimal(b)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    precision = min(whole + scale, 38)
    return DataType(_R.DECIMAL, precision, min(scale, precision))


_TIMES = (_R.DATE, _R.TIME, _R.TIMESTAMP, _R.TIMESTAMP_LTZ)


def comparison_type(a: DataType, b: DataType) -> DataType | None:
    """The type to compare two values in; None when they cannot be compared.

    Numbers meet in their common type, texts and times of a point in that of the time, DATE and TIMESTAMP in
    TIMESTAMP. Text and number do not meet: Flink wants a CAST there.
    """
    nullable = a.nullable or b.nullable
    common = common_type((a, b))
    if common is not None:
        if common.is_character:
            return DataType(_R.VARCHAR, STRING_LENGTH, nullable=nullable)
        if common.is_binary:
            return DataType(_R.VARBINARY, STRING_LENGTH, nullable=nullable)
        return common
    if a.is_character and b.root in _TIMES:
        return _text_as_time(b).with_nullable(nullable)
    if b.is_character and a.root in _TIMES:
        return _text_as_time(a).with_nullable(nullable)
    roots = {a.root, b.root}
    if roots <= {_R.DATE, _R.TIMESTAMP, _R.TIMESTAMP_LTZ}:
        root = _R.TIMESTAMP_LTZ if _R.TIMESTAMP_LTZ in roots else _R.TIMESTAMP
        precision = max(t.precision for t in (a, b) if t.root is not _R.DATE)
        return DataType(root, precision, nullable=nullable)
    return None


def _text_as_time(t: DataType) -> DataType:
    # A text may carry more digits than the column: compare all that the carrier holds.
    if t.root in (_R.TIMESTAMP, _R.TIMESTAMP_LTZ):
        return DataType(t.root, max(t.precision, 6))
    return t.materialized()


_CHARS = frozenset({_R.CHAR, _R.VARCHAR})
_BYTES = frozenset({_R.BINARY, _R.VARBINARY})
_INTS = frozenset(_RANK)
_NUMBERS = _INTS | {_R.DECIMAL, _R.FLOAT, _R.DOUBLE}
_IMPLICIT: dict[TypeRoot, frozenset[TypeRoot]] = {
    _R.CHAR: frozenset({_R.CHAR}),
    _R.VARCHAR: _CHARS,
    _R.BINARY: frozenset({_R.BINARY}),
    _R.VARBINARY: _BYTES,
    _R.BOOLEAN: frozenset({_R.BOOLEAN}),
    _R.TINYINT: frozenset({_R.TINYINT}),
    _R.SMALLINT: frozenset({_R.TINYINT, _R.SMALLINT}),
    _R.INT: frozenset({_R.TINYINT, _R.SMALLINT, _R.INT}),
    _R.BIGINT: _INTS,
    _R.DECIMAL: _NUMBERS,
    _R.FLOAT: _INTS | {_R.DECIMAL, _R.FLOAT},
    _R.DOUBLE: _NUMBERS,
    _R.DATE: frozenset({_R.DATE, _R.TIMESTAMP}),
    _R.TIME: frozenset({_R.TIME, _R.TIMESTAMP}),
    _R.TIMESTAMP: frozenset({_R.TIMESTAMP, _R.TIMESTAMP_LTZ}),
    _R.TIMESTAMP_LTZ: frozenset({_R.TIMESTAMP, _R.TIMESTAMP_LTZ}),
    _R.INTERVAL_MONTH: frozenset({_R.INTERVAL_MONTH}),
    _R.INTERVAL_SECOND: frozenset({_R.INTERVAL_SECOND}),
    _R.BITMAP: frozenset({_R.BITMAP}),
    _R.VARIANT: frozenset({_R.VARIANT}),
    _R.RAW: frozenset({_R.RAW}),
}
_TIME_SOURCES = frozenset({_R.DATE, _R.TIME, _R.TIMESTAMP, _R.TIMESTAMP_LTZ})
_EXPLICIT: dict[TypeRoot, frozenset[TypeRoot]] = {
    _R.BINARY: _CHARS | _BYTES | {_R.RAW},
    _R.VARBINARY: _CHARS | _BYTES | {_R.RAW},
    _R.BOOLEAN: _CHARS | _NUMBERS | {_R.BOOLEAN},
    **dict.fromkeys(_NUMBERS, _CHARS | _NUMBERS | {_R.BOOLEAN}),
    _R.DATE: _CHARS | {_R.DATE, _R.TIMESTAMP, _R.TIMESTAMP_LTZ},
    _R.TIME: _CHARS | {_R.TIME, _R.TIMESTAMP, _R.TIMESTAMP_LTZ},
    _R.TIMESTAMP: _CHARS | _TIME_SOURCES,
    _R.TIMESTAMP_LTZ: _CHARS | _TIME_SOURCES,
    _R.INTERVAL_MONTH: _INTS | {_R.INTERVAL_MONTH},
    _R.INTERVAL_SECOND: _INTS | {_R.INTERVAL_SECOND},
    _R.BITMAP: frozenset({_R.BITMAP}),
    _R.VARIANT: frozenset({_R.VARIANT}),
    _R.RAW: frozenset({_R.RAW}),
}
_IN_VARIANTS = _CHARS | _NUMBERS | {_R.BOOLEAN, _R.VARIANT}


def implicit_cast(source: DataType, target: DataType) -> bool:
    """Whether a value may become another type without CAST (function arguments, INSERT); Flink's implicit casts."""
    return _castable(source, target, _IMPLICIT)


def explicit_cast(source: DataType, target: DataType) -> bool:
    """Whether CAST and TRY_CAST take the pair; it may still fail on a row."""
    if target.is_character:
        return source.root is not _R.DESCRIPTOR and not _holds_raw(source)
    if target.is_interval and source.is_integer and len(target.words) > 1:
        return False
    if source.root is _R.VARIANT:
        return _from_variant(target)
    if target.root is _R.VARIANT:
        return _to_variant(source)
    return _castable(source, target, _EXPLICIT)


def _holds_raw(type_: DataType) -> bool:
    """Whether a value may hold RAW: its text is that of an object of Java, which is not there."""
    return type_.root is _R.RAW or any(_holds_raw(t) for t in (*type_.children, *(f.type for f in type_.fields)))


def _from_variant(target: DataType) -> bool:
    """Whether a VARIANT can be read as another type: a scalar that JSON has, or an ARRAY, MAP or ROW of such. As in Flink
    2.4; its times and bytes are not there, because JSON has none."""
    match target.root:
        case _R.ARRAY:
            return explicit_cast(VARIANT, target.children[0])
        case _R.MAP:
            return target.children[0].is_character and explicit_cast(VARIANT, target.children[1])
        case _R.ROW:
            return all(explicit_cast(VARIANT, f.type) for f in target.fields)
        case _:
            return target.root in _IN_VARIANTS


def _to_variant(source: DataType) -> bool:
    """Whether a value can become a VARIANT: what `_from_variant` reads."""
    return source.root is _R.NULL or _from_variant(source)


def _castable(source: DataType, target: DataType, rules: dict[TypeRoot, frozenset[TypeRoot]]) -> bool:
    if source.root is _R.NULL:
        return True
    if source.is_nested or target.is_nested:
        if source.root is not target.root:
            return False
        if source.root is _R.ROW:
            return len(source.fields) == len(target.fields) and all(
                _castable_child(s.type, t.type, rules) for s, t in zip(source.fields, target.fields, strict=True)
            )
        return all(_castable_child(s, t, rules) for s, t in zip(source.children, target.children, strict=True))
    if source.root is _R.RAW and target.root is _R.RAW and source.words != target.words:
        return False
    return source.root in rules.get(target.root, frozenset())


def _castable_child(source: DataType, target: DataType, rules: dict[TypeRoot, frozenset[TypeRoot]]) -> bool:
    return explicit_cast(source, target) if rules is _EXPLICIT else _castable(source, target, rules)


def resolve_call(
    function: ValueFunction,
    arg_types: Sequence[DataType],
    literals: Sequence[Literal | None] = (),
    *,
    span: Span | None = None,
) -> tuple[tuple[DataType, ...], DataType]:
    """The types to cast the arguments to, and the type of the result.

    `literals` has the literal arguments (None where an argument is not one): some results depend on them, `ROUND(x,
    2)`. The first signature that takes the types as they are wins, else the first that takes them after implicit casts.
    Raises
    TypeMismatchError
    (E1301) with what was given and what would fit.
    """
    keeps_time = function.nulls is Nulls.RULE
    given = CallTypes((t if keeps_time else t.materialized() for t in arg_types), literals)
    for exact in (True, False):
        for signature in function.signatures:
            try:
                matched = _match(signature, given, exact)
            except TypeMismatchError as error:
                error.span = error.span or span
                raise
            if matched is not None:
                coerced, result = matched
                return coerced, call_type(function, given.replaced(coerced), result)
    takes = "; ".join(signature_text(function.name, s) for s in function.signatures)
    shown = ", ".join(str(t.with_nullable(True)) for t in arg_types)
    advice = _advice(function.name.upper(), arg_types, function.signatures)
    raise TypeMismatchError(
        f"{shown_name(function.name)} does not take ({shown})",
        code="E1301",
        span=span,
        hint=f"{advice}it takes: {takes}",
    )


def _advice(name: str, types: Sequence[DataType], signatures: Sequence[Signature]) -> str:
    """What was meant, where that is known."""
    if not any(s.args and _takes_so_many(s, len(types)) for s in signatures):
        return ""
    if name == "-" and len(types) == 2 and all(t.is_timestamp or t.root is TypeRoot.DATE for t in types):
        return "the time between two is TIMESTAMPDIFF(SECOND, from, to); "
    if name == "+" and any(t.is_character for t in types):
        return "texts are joined with ||, and CAST makes a number of a text; "
    times = any(t.is_timestamp or t.root is TypeRoot.DATE for t in types)
    if name in ("+", "-") and times and any(t.is_numeric for t in types):
        return "add or take away an interval, such as INTERVAL '5' MINUTE; "
    if name in ("||", "CONCAT", "CONCAT_WS") and not all(t.is_character for t in types):
        return "make texts of the others with CAST(.. AS STRING); "
    if name in ("COALESCE", "IFNULL", "NULLIF", "GREATEST", "LEAST", "IF") and len(types) > 1:
        return "its values are of one type: CAST the others; "
    return ""


def _takes_so_many(signature: Signature, count: int) -> bool:
    required = sum(not a.is_optional for a in signature.args)
    return required <= count and (count <= len(signature.args) or signature.variadic)


def _match(signature: Signature, given: CallTypes, exact: bool) -> tuple[tuple[DataType, ...], DataType] | None:
    if signature.rule is not None:
        return signature.rule(given)
    if not _takes_so_many(signature, len(given)):
        return None
    formal = signature.args
    coerced: list[DataType] = []
    for index, type_ in enumerate(given):
        argument = formal[min(index, len(formal) - 1)]
        if argument.accepts(type_):
            coerced.append(type_)
        elif exact:
            return None
        else:
            target = argument.coerce(type_)
            if target is None:
                return None
            coerced.append(cast_type(type_, target))
    if signature.unify and coerced:
        unified = _unify(signature, coerced)
        if unified is None:
            return None
        coerced = unified
    returns = signature.returns
    result = returns if isinstance(returns, DataType) else returns(given.replaced(coerced))
    return tuple(coerced), result


def _unify(signature: Signature, types: list[DataType]) -> list[DataType] | None:
    formal = [signature.args[min(i, len(signature.args) - 1)] for i in range(len(types))]
    some_any = any(a.name == "ANY" for a in formal)
    chosen = [i for i, a in enumerate(formal) if a.name == "ANY" or not some_any]
    common = common_type(types[i] for i in chosen)
    if common is None:
        return None
    result = list(types)
    for i in chosen:
        result[i] = cast_type(types[i], common)
    return result


def signature_text(name: str, signature: Signature) -> str:
    """A signature as a person reads it: `SUBSTR(<CHARACTER>, <INTEGER> [, <INTEGER>])`, `<NUMERIC> + <NUMERIC>`."""
    shown = [f"<{a.name}>" for a in signature.args]
    name = shown_name(name)
    if not name[0].isalpha() and len(shown) == 2:
        return f"{shown[0]} {name} {shown[1]}"
    text = ""
    for index, (argument, spelled) in enumerate(zip(signature.args, shown, strict=True)):
        separator = ", " if index else ""
        text += f"[{separator}{spelled}]" if argument.is_optional else separator + spelled
    if signature.variadic:
        text += ", ..."
    return f"{name}({text})"
