"""What a SQL function is: one declaration, from which binding, planning, evaluation and documentation follow.

A file of `runtime/expr/library` holds the functions of one family. Each is declared once:

    @scalar("UPPER", [CHARACTER], STRING, "The text in upper case.")
    def upper(_: EvalContext, text: Value) -> Value:
        return pc.utf8_upper(text)

    sql_scalar("REGEXP_EXTRACT", [CHARACTER, CHARACTER, optional(INTEGER)], STRING, "regexp_extract({0}, {1}, {2})",
    "...")

An evaluation takes Arrow arrays or scalars (a literal stays a `pa.Scalar`) and gives an Arrow array or scalar of the
declared result's Arrow type. A function whose evaluation is a DuckDB expression gives a template instead; the evaluator
sends all of them of a stage in one DuckDB call. Each function has one evaluation, so results do not depend on the path
taken.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from runtime.core.errors import BindError, ExpressionError, did_you_mean
from runtime.core.types import DataType, TypeRoot
from runtime.expr.nodes import Literal

__all__ = [
    "AggregateFunction",
    "AnyFunction",
    "ArgumentType",
    "CallRule",
    "CallTypes",
    "EvalContext",
    "FunctionRegistry",
    "Nulls",
    "Overflows",
    "ProcessFunction",
    "ProcessState",
    "ProcessTable",
    "ReturnType",
    "ScalarFunction",
    "Signature",
    "Value",
    "ValueFunction",
    "WindowFunction",
    "family",
    "adopt",
    "any_made_by_program",
    "made_by_program",
    "made_by_program_in",
    "null_scalar",
    "optional",
    "register_everywhere",
    "rejecting",
    "register_form",
    "shown_name",
]

Value = Any
"""A `pa.Array` of the batch's length, or a `pa.Scalar` that stands for a constant column."""


class EvalContext(Protocol):
    """What an evaluation may ask of its surroundings; all of it is fixed for the length of an epoch."""

    @property
    def num_rows(self) -> int: ...

    @property
    def time_zone(self) -> str:
        """The session's time zone (`table.local-time-zone`), an IANA name."""
        ...

    @property
    def processing_time(self) -> int:
        """Milliseconds since the epoch, read once per epoch."""
        ...

    @property
    def watermark(self) -> int | None:
        """The operator's watermark before this epoch, milliseconds; None when there is none."""
        ...

    @property
    def seed(self) -> int:
        """A number for random functions, another one whenever it is asked for."""
        ...

    @property
    def failed(self) -> list[tuple[int, ExpressionError]] | None:
        """Where a function notes the rows that it fails for, which it gives NULL; None: it raises."""
        ...

    @property
    def lenient(self) -> bool:
        """Whether a point in time that is out of range is NULL, not an error: the watermark of a row then says nothing."""
        ...

    @property
    def result_type(self) -> DataType:
        """The SQL type of the call being evaluated; its Arrow type is what the evaluation must return."""
        ...

    @property
    def arg_types(self) -> tuple[DataType, ...]:
        """The SQL types of the arguments, after coercion: an Arrow type alone cannot tell CHAR(4) from STRING."""
        ...


class CallTypes(tuple[DataType, ...]):
    """The types of a call's arguments, as a type rule sees them, with the values of those that are literals.

    `literal(i)` is the Python value of argument i when it is a literal (None for NULL and for anything else);
    `is_literal(i)` tells the two apart.
    """

    literals: tuple[Literal | None, ...]

    def __new__(cls, types: Iterable[DataType], literals: Iterable[Literal | None] = ()) -> CallTypes:
        made = super().__new__(cls, types)
        made.literals = tuple(literals)
        return made

    def is_literal(self, index: int) -> bool:
        return index < len(self.literals) and self.literals[index] is not None

    def literal(self, index: int) -> Any:
        found = self.literals[index] if index < len(self.literals) else None
        return None if found is None else found.value

    def replaced(self, types: Iterable[DataType]) -> CallTypes:
        """The same literals with other types."""
        return CallTypes(types, self.literals)


@dataclass(frozen=True, slots=True)
class ArgumentType:
    """A family of argument types.

    `accepts` says whether a type fits as it is; `coerce` gives the type to cast to implicitly, or None when it does
    not fit.
    `name` stands in signatures (`<CHARACTER>`); `is_optional` arguments may be left out at the end of the list.
    """

    name: str
    accepts: Callable[[DataType], bool]
    coerce: Callable[[DataType], DataType | None]
    is_optional: bool = False


def optional(argument: ArgumentType) -> ArgumentType:
    return ArgumentType(argument.name, argument.accepts, argument.coerce, True)


ReturnType = DataType | Callable[[CallTypes], DataType]
"""A type, or a rule that computes it from the coerced argument types."""

CallRule = Callable[[CallTypes], tuple[tuple[DataType, ...], DataType] | None]
"""From the argument types as written to those to cast to and the result; None when the arguments do not fit."""

Overflows = Callable[[CallTypes, DataType], bool]
"""From the types of the arguments and of the result to whether a value may not fit."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to call a function. `variadic` repeats the last argument. `returns` is a type, or a rule over the coerced
    argument types; its nullability is set by the function's `nulls`. `unify` asks that all arguments of the family
    `ANY` (or, when there are none, all arguments) get one common type. A `rule`, where given, decides alone: `args`
    then only stand in messages."""

    args: tuple[ArgumentType, ...]
    returns: ReturnType
    variadic: bool = False
    unify: bool = False
    rule: CallRule | None = None


class Nulls(enum.Enum):
    """How NULL arguments and the nullability of the result go together. `runtime/expr/nullability.py` makes types of it."""

    STRICT = "strict"
    """NULL when an argument is NULL, else only where it `overflows` (the evaluator relies on the kernel for it). Of an
    aggregate: NULL when no row has a value for the first argument, else only where it `overflows`."""
    MAYBE = "maybe"
    """May be NULL for any arguments (for example a failed parse)."""
    NEVER = "never"
    """Never NULL."""
    RULE = "rule"
    """The nullability of the type that `returns` computes stands as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarFunction:
    """A function of one row. `evaluate` or `duckdb` is given; with both, `evaluate` returns NotImplemented for the
    arguments that it leaves to DuckDB (a pattern that is not constant).

    `evaluate(context, *args)`: arrays in, array out. `duckdb`: an expression template, `{0}` for the first argument,
    `{args}` for all.
    `deterministic`: the same arguments give the same value (needed for constant folding and on updating streams).
    `dynamic`: deterministic within an epoch only (CURRENT_TIMESTAMP); `dynamic_alone`: only without arguments.
    `can_fail`: may raise on some rows (a cast, a division): a predicate must not be moved below a filter that guards
    it.
    `monotonic`: never decreases with its first argument (keeps the order of time attributes).
    `document`: one line for SHOW FUNCTIONS and DESCRIBE FUNCTION; `syntax`: how it is written, when not `NAME(args)`.
    `overflows`: whether some value does not fit the type of the result, and is NULL then, by the types of the arguments
    and of the result.
    `gives_rows`: a table function: it gives an array of rows, and stands only in LATERAL TABLE(..).
    `rejects`: a row for which it fails goes to `system.rejected` where the evaluation can leave rows out
    (`EvalContext.failed`); so it stays where it is written, as a random function does.
    `for_job`: makes the evaluation of a job's own instance, from a `FunctionJob`.
    `parameters`: the names by which arguments may be given, in their order; none: by position only. `defaults`: the values
    of the last of them, in Python.
    """

    name: str
    signatures: tuple[Signature, ...]
    document: str
    evaluate: Callable[..., Value] | None = None
    duckdb: str | Mapping[int, str] | None = None
    nulls: Nulls = Nulls.STRICT
    deterministic: bool = True
    dynamic: bool = False
    dynamic_alone: bool = False
    can_fail: bool = False
    monotonic: bool = False
    syntax: str | None = None
    overflows: Overflows | None = None
    gives_rows: bool = False
    rejects: bool = False
    parameters: tuple[str, ...] = ()
    defaults: tuple[Any, ...] = ()
    for_job: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateFunction:
    """A function of the rows of a group.

    `accumulator(arg_types, result_type, retract)` makes the vectorised state for one call (see
    `runtime/eval/aggregates`); the class is
    attached by name there so that this package stays free of state.
    `retractable`: every input can be taken back with state that does not grow with the group (else the values are
    kept). `keeps_values`: they are kept in any case.
    `mergeable`: partial results can be merged (two-phase aggregation, panes of HOP and CUMULATE).
    `order_sensitive`: depends on the order of arrival. `ignores_duplicates`: DISTINCT changes nothing (MIN, MAX).
    `empty`: what it gives over no rows: 0 for counts, `()` for an empty multiset, None (NULL) otherwise.
    `overflows`: as of a ScalarFunction.
    """

    name: str
    signatures: tuple[Signature, ...]
    document: str
    nulls: Nulls = Nulls.MAYBE
    retractable: bool = True
    keeps_values: bool = False
    mergeable: bool = True
    order_sensitive: bool = False
    ignores_duplicates: bool = False
    empty: Any = None
    deterministic: bool = True
    overflows: Overflows | None = None
    trial: ScalarFunction | None = None
    """Fails for the arguments for which `accumulate` fails on an empty accumulator; else TRUE. It rejects rows."""
    rejects: bool = False
    """Whether rows for which the trial fails are rejected whatever the option says."""
    accumulator: Callable[[Any], Any] | None = None
    """Makes the state of a call (an `AggregateSpec`) of a function that the engine does not know by name."""
    for_job: Callable[[Any], Any] | None = None
    """Makes the `accumulator` of a job's own instance, from a `FunctionJob`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowFunction:
    """A function that only makes sense with OVER: ROW_NUMBER, RANK, LAG, ... `framed`: its value is of the rows of the
    frame."""

    name: str
    signatures: tuple[Signature, ...]
    document: str
    nulls: Nulls = Nulls.NEVER
    needs_order: bool = True
    framed: bool = False


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """A table that a process function takes. `traits`: SET_SEMANTIC_TABLE and its like, see `udptf`."""

    name: str
    traits: frozenset[str]

    @property
    def is_set(self) -> bool:
        """Whether rows of a key are seen together, with state; else each row is seen by itself."""
        return "SET_SEMANTIC_TABLE" in self.traits


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What a process function keeps for each key: a ROW, ARRAY or MAP. `ttl`: milliseconds without use after which it is
    forgotten, 0 never, None as the option says."""

    name: str
    type: DataType
    ttl: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFunction:
    """A process table function of a user: tables and constants in, rows out, with state and timers for each key.

    `parameters`: its arguments by position, which are tables and the `scalars`: name, type (None: any), and whether it may
    be left out. `result`: the columns of its rows. `updates`: whether its rows are changes of all kinds. `takes_order`:
    whether its tables may have ORDER BY. `clock`: whether it has timers of processing time. `operator` makes the operator
    of a node in an `OperatorContext`.
    """

    name: str
    document: str
    parameters: tuple[str, ...]
    tables: tuple[ProcessTable, ...]
    scalars: tuple[tuple[str, DataType | None, bool], ...]
    states: tuple[ProcessState, ...]
    result: tuple[tuple[str, DataType], ...]
    updates: bool
    takes_order: bool
    operator: Callable[[Any, Any], Any]
    clock: bool = False
    signatures: tuple[Signature, ...] = ()
    deterministic: bool = True


ValueFunction = ScalarFunction | AggregateFunction | WindowFunction
"""What gives a value, and is called in an expression."""
AnyFunction = ValueFunction | ProcessFunction


@dataclass(slots=True)
class FunctionRegistry:
    """Functions by name. Names are looked up without regard to case; a name may be scalar or aggregate or window, not
    two of them."""

    functions: MutableMapping[str, AnyFunction] = field(default_factory=dict)

    def register(self, function: AnyFunction) -> None:
        key = function.name.upper()
        if key in self.functions:
            raise ValueError(f"function {key} is declared twice")
        self.functions[key] = function

    def find(self, name: str) -> AnyFunction | None:
        key = name.upper()
        return self.functions.get(key) or _EVERYWHERE.get(key) or _FORMS.get(key)

    def get(self, name: str) -> AnyFunction:
        """The function of a name; raises BindError with near names."""
        found = self.find(name)
        if found is None:
            named = [n for n in self.functions if n[0].isalpha()]
            hint = did_you_mean(name.upper(), named, likeness=0.75) or "SHOW FUNCTIONS lists all"
            raise BindError(f"unknown function {name.upper()}", code="E1203", hint=hint)
        return found

    def scalar(self, name: str) -> ScalarFunction:
        found = self.get(name)
        if not isinstance(found, ScalarFunction):
            raise BindError(f"{name.upper()} is not a scalar function", code="E1204")
        return found

    def process(self, name: str) -> ProcessFunction:
        found = self.get(name)
        if not isinstance(found, ProcessFunction):
            raise BindError(f"{name.upper()} is not a process table function", code="E1204")
        return found

    def aggregate(self, name: str) -> AggregateFunction:
        found = self.get(name)
        if not isinstance(found, AggregateFunction):
            raise BindError(f"{name.upper()} is not an aggregate function", code="E1204")
        return found

    def child(self) -> FunctionRegistry:
        """A copy that takes further functions without changing this one."""
        return FunctionRegistry(dict(self.functions))

    def __iter__(self) -> Iterator[AnyFunction]:
        return iter(self.functions.values())


_FORMS: dict[str, AnyFunction] = {}
"""Forms of functions that every registry finds, under names that the reader of a dialect writes: in plans they are the
functions themselves."""


def register_form(name: str, function: AnyFunction) -> None:
    """Declare a form of a function, which takes its arguments as other types."""
    _FORMS[name.upper()] = function


REJECTING = "$REJECT"
"""What stands behind the name of a function in the form that rejects rows."""

_EVERYWHERE: dict[str, AnyFunction] = {}
"""Functions that every registry finds: those that a program has made, under names that SQL text does not use."""


def register_everywhere(name: str, declare: Callable[[str], AnyFunction], *, always_fails: bool = False) -> AnyFunction:
    """Declare a function that a program has made, under a name of its own: `$NAME`, with a number behind it when another
    one has that. A plan that runs, or was saved, knows it by that name. `always_fails`: it has no form that rejects rows."""
    key = f"${name.upper()}"
    number = 1
    while key in _EVERYWHERE:
        number += 1
        key = f"${name.upper()}${number}"
    function = _EVERYWHERE[key] = declare(key)
    if isinstance(function, ScalarFunction) and not function.rejects and not always_fails:
        _EVERYWHERE[key + REJECTING] = replace(function, name=key + REJECTING, rejects=True)
    if isinstance(function, AggregateFunction) and function.trial is not None and not always_fails:
        _EVERYWHERE[key + REJECTING] = replace(function.trial, name=key + REJECTING, rejects=True)
    return function


def rejecting(function: ScalarFunction) -> ScalarFunction:
    """The form of a program's function that rejects the rows for which it fails; any other one as it is."""
    found = _EVERYWHERE.get(function.name.upper() + REJECTING)
    return found if isinstance(found, ScalarFunction) else function


def trial_of(function: AggregateFunction) -> ScalarFunction | None:
    """The function that rejects the rows which a program's aggregate cannot take in; None for one that has none."""
    found = _EVERYWHERE.get(function.name.upper() + REJECTING)
    return found if isinstance(found, ScalarFunction) else None


def any_made_by_program() -> bool:
    """Whether a program has made a function in this process."""
    return bool(_EVERYWHERE)


def made_by_program(name: str) -> AnyFunction | None:
    """A function that a program has made, by the name that plans know it by."""
    return _EVERYWHERE.get(name.upper())


def made_by_program_in(plan: str) -> dict[str, AnyFunction]:
    """Those of them that a text of a plan names, for a process that runs it elsewhere and will `adopt` them."""
    return {key: function for key, function in _EVERYWHERE.items() if key in plan}


def adopt(functions: Iterable[AnyFunction]) -> None:
    """Know functions that another process has made, under their names there."""
    for function in functions:
        if function.name.startswith("$"):
            _EVERYWHERE.setdefault(function.name.upper(), function)


def shown_name(name: str) -> str:
    """A function's name as its user knows it: without what tells functions of programs from others."""
    return name.removeprefix("$").partition("$")[0].upper() if name.upper() in _EVERYWHERE else name.upper()


def null_scalar(type_: DataType) -> pa.Scalar:
    return pa.scalar(None, type_.arrow)


def family(name: str, roots: frozenset[TypeRoot], target: DataType | None = None) -> ArgumentType:
    """Arguments whose type is one of `roots`; an untyped NULL becomes `target`."""

    def accepts(t: DataType) -> bool:
        return t.root in roots

    def coerce(t: DataType) -> DataType | None:
        if t.root in roots:
            return t
        return target if t.root is TypeRoot.NULL else None

    return ArgumentType(name, accepts, coerce)
