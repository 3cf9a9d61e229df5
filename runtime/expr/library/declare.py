"""How to declare functions: argument families, result rules, and one `Family` per file of this folder.

A file holds one family and is listed in `runtime/expr/library/__init__.py`:

    FAMILY = Family("string")

    @FAMILY.scalar("UPPER", [CHARACTER], same(0), "The text in upper case.")
    def upper(_: EvalContext, text: Value) -> Value:
        return pc.utf8_upper(text)

A function with several forms lists further signatures; one with several names, aliases. `CallTypes` is what rules see:

    @FAMILY.scalar("LTRIM", [CHARACTER, optional(CHARACTER)], STRING, "The text without leading spaces, or ...",
                   also=[([BINARY_], BYTES)], aliases=["LEFT_TRIM"])

    @FAMILY.scalar("ROUND", [EXACT, optional(INTEGER)], lambda types: round_type(types[0], types.literal(1)), "...")

A result is NULL exactly when an argument is (`Nulls.STRICT`, the default: Arrow kernels and DuckDB do so by
themselves) or where it `overflows`, may be NULL for any (`MAYBE`), is never NULL (`NEVER`), or has the nullability that
the rule gives it (`RULE`).

A function that DuckDB evaluates is a template, `{0}` the first argument, `{args}` all of them with commas. Missing
optional arguments are not in the template's arguments, so give a form per count:

    FAMILY.sql_scalar("REVERSE", [CHARACTER], STRING, "reverse({0})", "The text back to front.")

An evaluation gets Arrow arrays or scalars (literals) and may give either. `context.result_type` and
`context.arg_types` are the SQL types of the call; `context.num_rows` is the length to give when all arguments are
scalars and the result is not constant.
For numpy work use `runtime.expr.columns`: `values, valid = numbers(x, context.num_rows)` and `from_numpy(values,
valid, type)`.
A row that cannot be computed raises `ExpressionError` (code E20xx, naming the value) and the declaration says
`can_fail=True`.

`family.special` declares a function whose argument types need a rule of their own (`+` over numbers, dates and
intervals): the rule gives the types to cast the arguments to and the result, or None when they do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from runtime.core.types import (
    BIGINT,
    BITMAP,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    INTERVAL_MONTH,
    INTERVAL_SECOND,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    VARIANT,
    DataType,
    TypeRoot,
    decimal,
)
from runtime.expr.function import (
    ArgumentType,
    CallRule,
    CallTypes,
    FunctionRegistry,
    Nulls,
    Overflows,
    ReturnType,
    ScalarFunction,
    Signature,
    Value,
    family,
    optional,
)

__all__ = [
    "ANY",
    "APPROX",
    "ARRAY_",
    "BIGINT_",
    "BINARY_",
    "BITMAP_",
    "BOOLEAN_",
    "CHARACTER",
    "DATETIME",
    "DATE_",
    "DATE_OR_TIMESTAMP",
    "DESCRIPTOR_",
    "DOUBLE_",
    "EXACT",
    "INTEGER",
    "INTERVAL_",
    "INT_",
    "MAP_",
    "MULTISET_",
    "NUMERIC",
    "ROW_",
    "STRING_OR_BYTES",
    "TEXT",
    "TEXT_OR_NUMBER",
    "TIMESTAMP_ANY",
    "TIME_",
    "VARIANT_",
    "WHOLE_",
    "Declare",
    "Family",
    "element_of",
    "exactly",
    "key_of",
    "nullable",
    "optional",
    "same",
    "value_of",
]

_R = TypeRoot
_INTEGERS = frozenset({_R.TINYINT, _R.SMALLINT, _R.INT, _R.BIGINT})
_NUMBERS = _INTEGERS | {_R.DECIMAL, _R.FLOAT, _R.DOUBLE}
_TIMESTAMPS = frozenset({_R.TIMESTAMP, _R.TIMESTAMP_LTZ})


def _anything(type_: DataType) -> bool:
    return True


def _itself(type_: DataType) -> DataType:
    return type_


ANY = ArgumentType("ANY", _anything, _itself)
"""Any type; with `unify=True` all ANY arguments get one common type."""
CHARACTER = family("CHARACTER", frozenset({_R.CHAR, _R.VARCHAR}), STRING)
TEXT = CHARACTER
TEXT_OR_NUMBER = family("CHARACTER or NUMERIC", frozenset({_R.CHAR, _R.VARCHAR}) | _NUMBERS, STRING)
BINARY_ = family("BINARY", frozenset({_R.BINARY, _R.VARBINARY}), BYTES)
STRING_OR_BYTES = family("CHARACTER or BINARY", frozenset({_R.CHAR, _R.VARCHAR, _R.BINARY, _R.VARBINARY}), STRING)
VARIANT_ = family("VARIANT", frozenset({_R.VARIANT}), VARIANT)
BITMAP_ = family("BITMAP", frozenset({_R.BITMAP}), BITMAP)
BOOLEAN_ = family("BOOLEAN", frozenset({_R.BOOLEAN}), BOOLEAN)
NUMERIC = family("NUMERIC", _NUMBERS, INT)
INTEGER = family("INTEGER", _INTEGERS, INT)
EXACT = family("EXACT_NUMERIC", _INTEGERS | {_R.DECIMAL}, INT)
APPROX = family("APPROXIMATE_NUMERIC", frozenset({_R.FLOAT, _R.DOUBLE}), DOUBLE)
DATE_ = family("DATE", frozenset({_R.DATE}), DATE)
TIME_ = family("TIME", frozenset({_R.TIME}), TIME)
TIMESTAMP_ANY = family("TIMESTAMP", _TIMESTAMPS, TIMESTAMP)
TIMESTAMP_ = family("TIMESTAMP", frozenset({_R.TIMESTAMP}), TIMESTAMP)
TIMESTAMP_LTZ_ = family("TIMESTAMP_LTZ", frozenset({_R.TIMESTAMP_LTZ}), TIMESTAMP_LTZ)
DATE_OR_TIMESTAMP = family("DATE or TIMESTAMP", _TIMESTAMPS | {_R.DATE}, TIMESTAMP)
DATETIME = family("DATETIME", _TIMESTAMPS | {_R.DATE, _R.TIME}, TIMESTAMP)
INTERVAL_ = family("INTERVAL", frozenset({_R.INTERVAL_MONTH, _R.INTERVAL_SECOND}), INTERVAL_SECOND)
INTERVAL_MONTH_ = family("INTERVAL MONTH", frozenset({_R.INTERVAL_MONTH}), INTERVAL_MONTH)
INTERVAL_SECOND_ = family("INTERVAL SECOND", frozenset({_R.INTERVAL_SECOND}), INTERVAL_SECOND)
ARRAY_ = family("ARRAY", frozenset({_R.ARRAY}), DataType(_R.ARRAY, children=(NULL,)))
MAP_ = family("MAP", frozenset({_R.MAP}), DataType(_R.MAP, children=(NULL, NULL)))
MULTISET_ = family("MULTISET", frozenset({_R.MULTISET}), DataType(_R.MULTISET, children=(NULL,)))
ROW_ = family("ROW", frozenset({_R.ROW}))
DESCRIPTOR_ = family("DESCRIPTOR", frozenset({_R.DESCRIPTOR}))

_WIDENS: dict[TypeRoot, frozenset[TypeRoot]] = {
    _R.INT: frozenset({_R.TINYINT, _R.SMALLINT, _R.INT}),
    _R.BIGINT: _INTEGERS,
    _R.DOUBLE: _NUMBERS,
    _R.FLOAT: _NUMBERS - {_R.DOUBLE},
    _R.DECIMAL: _NUMBERS,
}


def exactly(type_: DataType) -> ArgumentType:
    """An argument of one type, to which narrower numbers, shorter texts and untyped NULLs are cast."""
    takes = _WIDENS.get(type_.root, frozenset({type_.root}))

    def coerce(given: DataType) -> DataType | None:
        if given.root in takes or given.root is _R.NULL:
            return type_
        return type_ if given.is_character and type_.is_character else None

    def accepts(given: DataType) -> bool:
        return given.with_nullable(type_.nullable) == type_

    return ArgumentType(str(type_), accepts, coerce)


DOUBLE_ = exactly(DOUBLE)
"""Any number, cast to DOUBLE."""
INT_ = exactly(INT)
"""TINYINT, SMALLINT or INT, cast to INT."""
WHOLE_ = ArgumentType(
    "INTEGER", lambda t: t.root is _R.INT, lambda t: INT if t.is_integer or t.root is _R.NULL else None
)
"""Any integer, BIGINT too, cast to INT: a position or a count in a text or an array."""
BIGINT_ = exactly(BIGINT)
"""Any integer, cast to BIGINT."""
ANY_DECIMAL = family("DECIMAL", frozenset({_R.DECIMAL}), decimal(10, 0))


def same(index: int) -> Callable[[CallTypes], DataType]:
    """The result has the type of an argument."""
    return lambda types: types[index]


def nullable(rule: Callable[[CallTypes], DataType]) -> Callable[[CallTypes], DataType]:
    """The type of a rule, but nullable; for `Nulls.RULE`."""
    return lambda types: rule(types).with_nullable(True)


def element_of(index: int) -> Callable[[CallTypes], DataType]:
    """The element type of an ARRAY or MULTISET argument."""
    return lambda types: types[index].children[0]


def key_of(index: int) -> Callable[[CallTypes], DataType]:
    """The key type of a MAP argument."""
    return lambda types: types[index].children[0]


def value_of(index: int) -> Callable[[CallTypes], DataType]:
    """The value type of a MAP argument."""
    return lambda types: types[index].children[1]


Declare = Callable[[Callable[..., Value]], Callable[..., Value]]
Form = tuple[Sequence[ArgumentType], ReturnType]


class Family:
    """The functions of one file, in the order of declaration; `register_into` gives them to a registry."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.functions: list[ScalarFunction] = []

    def scalar(
        self,
        name: str,
        args: Sequence[ArgumentType],
        returns: ReturnType,
        document: str,
        *,
        also: Sequence[Form] = (),
        aliases: Sequence[str] = (),
        variadic: bool = False,
        unify: bool = False,
        nulls: Nulls = Nulls.STRICT,
        deterministic: bool = True,
        dynamic: bool = False,
        dynamic_alone: bool = False,
        can_fail: bool = False,
        monotonic: bool = False,
        duckdb: str | Mapping[int, str] | None = None,
        syntax: str | None = None,
        overflows: Overflows | None = None,
    ) -> Declare:
        """Decorator for `evaluate(context, *args)`. `also` has further forms `(args, returns)`; `variadic` and
        `unify` hold for all."""
        signatures = tuple(Signature(tuple(a), r, variadic, unify) for a, r in ((args, returns), *also))

        def declare(evaluate: Callable[..., Value]) -> Callable[..., Value]:
            for each in (name, *aliases):
                self.functions.append(
                    ScalarFunction(
                        name=each,
                        signatures=signatures,
                        document=document,
                        evaluate=evaluate,
                        duckdb=duckdb,
                        nulls=nulls,
                        deterministic=deterministic,
                        dynamic=dynamic,
                        dynamic_alone=dynamic_alone,
                        can_fail=can_fail,
                        monotonic=monotonic,
                        syntax=syntax,
                        overflows=overflows,
                    )
                )
            return evaluate

        return declare

    def sql_scalar(
        self,
        name: str,
        args: Sequence[ArgumentType],
        returns: ReturnType,
        template: str | Mapping[int, str],
        document: str,
        *,
        also: Sequence[Form] = (),
        aliases: Sequence[str] = (),
        variadic: bool = False,
        unify: bool = False,
        nulls: Nulls = Nulls.STRICT,
        can_fail: bool = False,
        syntax: str | None = None,
    ) -> None:
        """A function that DuckDB evaluates, once per stage for all of them."""
        signatures = tuple(Signature(tuple(a), r, variadic, unify) for a, r in ((args, returns), *also))
        for each in (name, *aliases):
            self.functions.append(
                ScalarFunction(
                    name=each,
                    signatures=signatures,
                    document=document,
                    duckdb=template,
                    nulls=nulls,
                    can_fail=can_fail,
                    syntax=syntax,
                )
            )

    def special(
        self,
        name: str,
        rule: CallRule,
        document: str,
        *,
        form: Sequence[str] = ("ANY", "ANY"),
        aliases: Sequence[str] = (),
        nulls: Nulls = Nulls.STRICT,
        deterministic: bool = True,
        dynamic: bool = False,
        can_fail: bool = False,
        monotonic: bool = False,
        syntax: str | None = None,
        overflows: Overflows | None = None,
        gives_rows: bool = False,
    ) -> Declare:
        """Decorator for a function whose types follow a rule of its own; `form` names the argument families in
        messages."""
        named = tuple(ArgumentType(f.removesuffix("?"), _anything, _itself, f.endswith("?")) for f in form)
        signatures = (Signature(named, NULL, rule=rule),)

        def declare(evaluate: Callable[..., Value]) -> Callable[..., Value]:
            for each in (name, *aliases):
                self.functions.append(
                    ScalarFunction(
                        name=each,
                        signatures=signatures,
                        document=document,
                        evaluate=evaluate,
                        nulls=nulls,
                        deterministic=deterministic,
                        dynamic=dynamic,
                        can_fail=can_fail,
                        monotonic=monotonic,
                        syntax=syntax,
                        overflows=overflows,
                        gives_rows=gives_rows,
                    )
                )
            return evaluate

        return declare

    def register_into(self, registry: FunctionRegistry) -> None:
        for function in self.functions:
            registry.register(function)
