"""The decorators `udf`, `udtf`, `udaf` and `udtaf`, and the base classes of functions with methods, as in PyFlink.

@udf(result_type="BIGINT")
def plus_one(n):
    return n + 1

@udf(result_type="DOUBLE", func_type="arrow")
def scaled(values):
    return pc.multiply(values, 1.5)

table.select(plus_one(col("a")))
t_env.create_temporary_system_function("plus_one", plus_one)       # for SQL text
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable
from typing import Any, overload

from runtime.core.errors import OptionError, did_you_mean
from runtime.core.types import DataType, array
from runtime.expr.function import AggregateFunction as AggregateDeclaration
from runtime.expr.function import AnyFunction, Nulls, register_everywhere
from runtime.expr.function import ScalarFunction as ScalarDeclaration
from runtime.plan.nodes import AggregateSpec
from sqlengine.table_api.expression import Expression, call_expression
from sqlengine.user_functions.aggregate import ObjectAccumulator, ReplayedAccumulator, fold_rows, fold_vectors
from sqlengine.user_functions.opened import Opened, opened
from sqlengine.user_functions.scalar import VECTORS, row_calls, vector_calls
from sqlengine.user_functions.table import rows_as_structs, table_calls
from sqlengine.user_functions.types import result_of, row_of, signature

__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "ScalarFunction",
    "TableAggregateFunction",
    "TableFunction",
    "UserFunction",
    "udaf",
    "udf",
    "udtaf",
    "udtf",
]


class ScalarFunction:
    """Base of scalar functions written as classes: `eval(self, *values)`; `is_deterministic` may say no. An `open(self,
    context)` is called once in each process before the first row.

    (`**named` has type checkers accept a method with any parameters in its place; nothing is given by name.)
    """

    def eval(self, *values: Any, **named: Any) -> Any:
        """The value for a row."""
        raise NotImplementedError

    def is_deterministic(self) -> bool:
        """Whether the same values always give the same result."""
        return True


class AsyncScalarFunction(ScalarFunction):
    """Base of scalar functions whose `async def eval(self, *values)` is awaited for all rows of a batch side by side."""


class TableFunction(ScalarFunction):
    """Base of table functions written as classes: `eval(self, *values)` returns or yields rows."""


class AggregateFunction:
    """Base of aggregate functions.

    An accumulator is a Python object that pickle can save: of values of the standard library, arrays of numpy, classes of the
    function's own module, and of those that `state_classes` lists; a method that gives back something other than None puts
    it in the accumulator's place, so that numbers and tuples will do.
    """

    def create_accumulator(self) -> Any:
        """The accumulator of a group without rows."""
        raise NotImplementedError

    def accumulate(self, accumulator: Any, *values: Any, **named: Any) -> Any:
        """Take in a row."""
        raise NotImplementedError

    def get_value(self, accumulator: Any) -> Any:
        """The value of the group."""
        raise NotImplementedError

    # `retract(accumulator, *values)` takes a row back; without it the values of each group are kept where rows may be
    # taken back. `merge(accumulator, accumulators)` is needed by HOP, CUMULATE and SESSION windows.


class TableAggregateFunction:
    """Base of aggregate functions that return rows, for `flat_aggregate`: `create_accumulator` and `accumulate` as of
    `AggregateFunction`, and `emit_value(accumulator)`, which returns or yields rows."""

    def create_accumulator(self) -> Any:
        """The accumulator of a group without rows."""
        raise NotImplementedError

    def accumulate(self, accumulator: Any, *values: Any, **named: Any) -> Any:
        """Take in a row."""
        raise NotImplementedError

    def emit_value(self, accumulator: Any) -> Iterable[Any]:
        """The rows of the group."""
        raise NotImplementedError


_Methods = ScalarFunction | AggregateFunction | TableAggregateFunction


class UserFunction:
    """A Python function that SQL can call. Called with expressions it is one: `f(col("a"))`; `function` is what was
    decorated."""

    instead_of_a_value = 'call the function: f(col("a"))'
    aliases: tuple[str, ...] = ()
    """Names for the columns that it gives to `map`, `flat_map`, `aggregate` and `flat_aggregate`."""

    def __init__(self, name: str, kind: str, function: Any, declare: Callable[[str], AnyFunction]) -> None:
        self.name = name
        self.kind = kind
        """'scalar', 'table', 'aggregate' or 'table aggregate'."""
        self.function = function
        self.declaration = register_everywhere(name, declare)
        self.__doc__ = inspect.getdoc(function)
        self.__name__ = name

    def __call__(self, *arguments: Any) -> Expression:
        """A call, for tables and expressions."""
        return call_expression(self.declaration.name, arguments, self.name)

    def alias(self, *names: str) -> UserFunction:
        """The function with names for the columns that it gives, where it gets whole rows: `t.aggregate(f.alias("a"))`."""
        named = copy.copy(self)
        named.aliases = names
        return named

    def __repr__(self) -> str:
        return f"<{self.kind} function {self.name}>"


@overload
def udf(
    function: Callable[..., Any] | _Methods | type[_Methods],
    *,
    result_type: Any = ...,
    input_types: Any = ...,
    func_type: str = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
) -> UserFunction: ...
@overload
def udf(
    *,
    result_type: Any = ...,
    input_types: Any = ...,
    func_type: str = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
) -> Callable[[Callable[..., Any] | _Methods | type[_Methods]], UserFunction]: ...
def udf(
    function: Any = None,
    *,
    result_type: Any = None,
    input_types: Any = None,
    func_type: str = "general",
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """A scalar function: a function, a callable object, or a `ScalarFunction`.

    Args:
        result_type: `DataTypes.BIGINT()` or `"BIGINT"`; not needed where the function says `-> int`.
        input_types: likewise, of the arguments: values are cast to them implicitly. Without them any type will do.
        func_type: 'general' is called once a row with Python values. 'arrow', 'numpy' and 'pandas' are called once a
            batch with whole columns, and give one.
        deterministic: whether the same values give the same result; one that does not is computed once per row.
        name: another name than the function's.

    An `async def` is awaited for all rows of a batch side by side.
    """
    return _decorated(function, _scalar, result_type, input_types, func_type, deterministic, name)


@overload
def udtf(
    function: Callable[..., Any] | _Methods | type[_Methods],
    *,
    result_types: Any = ...,
    input_types: Any = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
) -> UserFunction: ...
@overload
def udtf(
    *, result_types: Any = ..., input_types: Any = ..., deterministic: bool | None = ..., name: str | None = ...
) -> Callable[[Callable[..., Any] | _Methods | type[_Methods]], UserFunction]: ...
def udtf(
    function: Any = None,
    *,
    result_types: Any = None,
    input_types: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """A table function: it returns or yields rows for each row, for `join_lateral` and LATERAL TABLE(..).

    Args:
        result_types: the columns of its rows: a ROW, names and types (`{"word": "STRING"}`), several types (columns
            `f0`, `f1`, ..) or one type.
    """
    return _decorated(function, _table, result_types, input_types, "general", deterministic, name)


@overload
def udaf(
    function: Callable[..., Any] | _Methods | type[_Methods],
    *,
    result_type: Any = ...,
    input_types: Any = ...,
    accumulator_type: Any = ...,
    func_type: str = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
) -> UserFunction: ...
@overload
def udaf(
    *,
    result_type: Any = ...,
    input_types: Any = ...,
    accumulator_type: Any = ...,
    func_type: str = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
) -> Callable[[Callable[..., Any] | _Methods | type[_Methods]], UserFunction]: ...
def udaf(
    function: Any = None,
    *,
    result_type: Any = None,
    input_types: Any = None,
    accumulator_type: Any = None,
    func_type: str = "general",
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """An aggregate function: an `AggregateFunction`, or with `func_type` 'arrow', 'numpy' or 'pandas' a function that
    gets the columns of all rows of a group and gives its value.

    `accumulator_type` is accepted and means nothing: accumulators are Python objects.
    """
    del accumulator_type
    return _decorated(function, _aggregate, result_type, input_types, func_type, deterministic, name)


@overload
def udtaf(
    function: Callable[..., Any] | _Methods | type[_Methods],
    *,
    result_type: Any = ...,
    result_types: Any = ...,
    input_types: Any = ...,
    accumulator_type: Any = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
) -> UserFunction: ...
@overload
def udtaf(
    *,
    result_type: Any = ...,
    result_types: Any = ...,
    input_types: Any = ...,
    accumulator_type: Any = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
) -> Callable[[Callable[..., Any] | _Methods | type[_Methods]], UserFunction]: ...
def udtaf(
    function: Any = None,
    *,
    result_type: Any = None,
    result_types: Any = None,
    input_types: Any = None,
    accumulator_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """A table aggregate function, a `TableAggregateFunction`: rows for each group, for `flat_aggregate`.

    `result_type`, or `result_types` as of `udtf`, says what columns its rows have; without either `get_result_type`.
    """
    del accumulator_type
    result = result_types if result_type is None else result_type
    return _decorated(function, _table_aggregate, result, input_types, "general", deterministic, name)


Make = Callable[[str, Any, Any, Any, str, bool], UserFunction]


def _decorated(
    function: Any, make: Make, result: Any, inputs: Any, func_type: str, deterministic: bool | None, name: str | None
) -> Any:
    if func_type not in ("general", *VECTORS):
        raise OptionError(
            f"there is no func_type '{func_type}'",
            code="E1512",
            hint=did_you_mean(func_type, ["general", *VECTORS]),
        )

    def decorate(decorated: Any) -> UserFunction:
        if inspect.isclass(decorated):
            decorated = decorated()
        decorated = opened(decorated)
        called = name or getattr(decorated, "__name__", None) or _class_name(decorated)
        called = "function" if called == "<lambda>" else called
        known = deterministic
        if known is None:
            known = decorated.is_deterministic() if hasattr(decorated, "is_deterministic") else True
        return make(called, decorated, result, inputs, func_type, known)

    return decorate if function is None else decorate(function)


def _class_name(function: Any) -> str:
    return type(function._function if isinstance(function, Opened) else function).__name__


def _callable_of(function: Any) -> Callable[..., Any]:
    if hasattr(function, "eval"):
        return function.eval
    return function if inspect.isroutine(function) else function.__call__


def _first_line(function: Any, kind: str) -> str:
    text = inspect.getdoc(function) or ""
    return text.splitlines()[0] if text else f"A {kind} function in Python."


def _scalar(name: str, function: Any, result: Any, inputs: Any, kind: str, deterministic: bool) -> UserFunction:
    called = _callable_of(function)
    vector = kind != "general"
    type_ = result_of(name, called, result)
    evaluate = (
        vector_calls(name, called, kind)
        if vector
        else row_calls(name, called, is_async=inspect.iscoroutinefunction(called))
    )
    shape = signature(called, inputs, type_, untyped=vector)

    def declare(key: str) -> AnyFunction:
        return ScalarDeclaration(
            name=key,
            signatures=(shape,),
            document=_first_line(function, "scalar"),
            evaluate=evaluate,
            nulls=Nulls.MAYBE,
            deterministic=deterministic,
            can_fail=True,
        )

    return UserFunction(name, "scalar", function, declare)


def _table(name: str, function: Any, result: Any, inputs: Any, kind: str, deterministic: bool) -> UserFunction:
    del kind
    called = _callable_of(function)
    row = row_of(result if result is not None else result_of(name, called, None))
    shape = signature(called, inputs, array(row))

    def declare(key: str) -> AnyFunction:
        return ScalarDeclaration(
            name=key,
            signatures=(shape,),
            document=_first_line(function, "table"),
            evaluate=table_calls(name, called, row),
            nulls=Nulls.MAYBE,
            deterministic=deterministic,
            can_fail=True,
            gives_rows=True,
        )

    return UserFunction(name, "table", function, declare)


def _aggregate(name: str, function: Any, result: Any, inputs: Any, kind: str, deterministic: bool) -> UserFunction:
    if kind != "general":
        called = _callable_of(function)
        type_ = result_of(name, called, result)
        shape = signature(called, inputs, type_, untyped=True)

        def vectors(spec: AggregateSpec) -> Any:
            return ReplayedAccumulator(name, spec, fold_vectors(name, called, kind))

        return _declared_aggregate(name, "aggregate", function, shape, vectors, deterministic, keeps_values=True)
    type_ = result_of(name, function.get_value, _told(function, result))
    return _with_methods(name, "aggregate", function, type_, inputs, function.get_value, deterministic)


def _table_aggregate(
    name: str, function: Any, result: Any, inputs: Any, kind: str, deterministic: bool
) -> UserFunction:
    del kind
    told = _told(function, result)
    row = row_of(told if told is not None else result_of(name, function.emit_value, None))

    def rows_of(accumulator: Any) -> list[Any]:
        return rows_as_structs(function.emit_value(accumulator), row)

    return _with_methods(name, "table aggregate", function, array(row), inputs, rows_of, deterministic)


def _told(function: Any, result: Any) -> Any:
    """The result type that was given, or that the function tells."""
    return function.get_result_type() if result is None and hasattr(function, "get_result_type") else result


def _with_methods(
    name: str,
    kind: str,
    function: Any,
    type_: DataType,
    inputs: Any,
    value_of: Callable[[Any], Any],
    deterministic: bool,
) -> UserFunction:
    shape = signature(function.accumulate, inputs, type_, skip=1)
    retractable = hasattr(function, "retract")

    def objects(spec: AggregateSpec) -> Any:
        if spec.retract and not retractable:
            return ReplayedAccumulator(name, spec, fold_rows(name, function, spec.arg_types, value_of))
        return ObjectAccumulator(name, function, spec, value_of)

    return _declared_aggregate(name, kind, function, shape, objects, deterministic, retractable=retractable)


def _declared_aggregate(
    name: str,
    kind: str,
    function: Any,
    shape: Any,
    accumulator: Callable[[AggregateSpec], Any],
    deterministic: bool,
    *,
    retractable: bool = True,
    keeps_values: bool = False,
) -> UserFunction:
    def declare(key: str) -> AnyFunction:
        return AggregateDeclaration(
            name=key,
            signatures=(shape,),
            document=_first_line(function, kind),
            retractable=retractable,
            keeps_values=keeps_values,
            order_sensitive=True,
            deterministic=deterministic,
            accumulator=accumulator,
        )

    return UserFunction(name, kind, function, declare)
