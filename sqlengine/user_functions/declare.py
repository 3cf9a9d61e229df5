"""The decorators `udf`, `udtf`, `udaf` and `udtaf`, as in PyFlink.

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
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from runtime.core.errors import OptionError, did_you_mean
from runtime.core.options import parse_duration
from runtime.core.rooms import Room
from runtime.expr.function import AnyFunction, register_everywhere
from sqlengine.expression.expression import Expression, call_expression
from sqlengine.user_functions.bases import Methods, object_of

if TYPE_CHECKING:
    import sqlengine.user_functions.declarations as _declarations
else:
    _declarations = Room("sqlengine.user_functions.declarations")

__all__ = ["UserFunction", "udaf", "udf", "udtaf", "udtf"]


class UserFunction:
    """A Python function that SQL can call. Called with expressions it is one: `f(col("a"))`; `function` is what was
    decorated."""

    instead_of_a_value = 'call the function: f(col("a"))'
    aliases: tuple[str, ...] = ()
    """Names for the columns that it gives to `map`, `flat_map`, `aggregate` and `flat_aggregate`."""

    def __init__(
        self, name: str, kind: str, function: Any, declare: Callable[[str], AnyFunction], *, always_fails: bool = False
    ) -> None:
        self.name = name
        self.kind = kind
        """'scalar', 'table', 'aggregate' or 'table aggregate'."""
        self.function = function
        self.declaration = register_everywhere(name, declare, always_fails=always_fails)
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
    function: Callable[..., Any] | Methods | type[Methods],
    input_types: Any = ...,
    result_type: Any = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
    func_type: str = ...,
    *,
    on_error: str | None = ...,
    timeout: str | float | None = ...,
) -> UserFunction: ...
@overload
def udf(
    *,
    input_types: Any = ...,
    result_type: Any = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
    func_type: str = ...,
    on_error: str | None = ...,
    timeout: str | float | None = ...,
) -> Callable[[Callable[..., Any] | Methods | type[Methods]], UserFunction]: ...
def udf(
    function: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
    *,
    on_error: str | None = None,
    timeout: str | float | None = None,
) -> Any:
    """A scalar function: a function, a callable object, or a `ScalarFunction`.

    Args:
        input_types: `DataTypes.BIGINT()` or `"BIGINT"` for each argument: values are cast to them implicitly. Without them
            any type will do.
        result_type: likewise; not needed where the function says `-> int`.
        deterministic: whether the same values give the same result; one that does not is computed once per row.
        name: another name than the function's.
        func_type: 'general' is called once a row with Python values. 'arrow', 'numpy' and 'pandas' are called once a
            batch with whole columns, and give one.
        on_error: 'fail' ends the job when the function raises, 'reject' sends the row to `system.rejected`; else as the
            option `sqlengine.functions.on-error` says.
        timeout: how long a call may take, in seconds or as `"5 s"`; else as the option `sqlengine.functions.timeout` says.

    An `async def` is awaited for the rows of a batch side by side.
    """
    return _decorated(function, "scalar", result_type, input_types, func_type, deterministic, name, on_error, timeout)


@overload
def udtf(
    function: Callable[..., Any] | Methods | type[Methods],
    input_types: Any = ...,
    result_types: Any = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
    *,
    on_error: str | None = ...,
    timeout: str | float | None = ...,
) -> UserFunction: ...
@overload
def udtf(
    *,
    input_types: Any = ...,
    result_types: Any = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
    on_error: str | None = ...,
    timeout: str | float | None = ...,
) -> Callable[[Callable[..., Any] | Methods | type[Methods]], UserFunction]: ...
def udtf(
    function: Any = None,
    input_types: Any = None,
    result_types: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    *,
    on_error: str | None = None,
    timeout: str | float | None = None,
) -> Any:
    """A table function: it returns or yields rows for each row, for `join_lateral` and LATERAL TABLE(..).

    Args:
        result_types: the columns of its rows: a ROW, names and types (`{"word": "STRING"}`), several types (columns
            `f0`, `f1`, ..) or one type.

    The other arguments are those of `udf`.
    """
    return _decorated(function, "table", result_types, input_types, "general", deterministic, name, on_error, timeout)


@overload
def udaf(
    function: Callable[..., Any] | Methods | type[Methods],
    input_types: Any = ...,
    result_type: Any = ...,
    accumulator_type: Any = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
    func_type: str = ...,
    *,
    on_error: str | None = ...,
    timeout: str | float | None = ...,
) -> UserFunction: ...
@overload
def udaf(
    *,
    input_types: Any = ...,
    result_type: Any = ...,
    accumulator_type: Any = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
    func_type: str = ...,
    on_error: str | None = ...,
    timeout: str | float | None = ...,
) -> Callable[[Callable[..., Any] | Methods | type[Methods]], UserFunction]: ...
def udaf(
    function: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    accumulator_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
    *,
    on_error: str | None = None,
    timeout: str | float | None = None,
) -> Any:
    """An aggregate function: an `AggregateFunction`, or with `func_type` 'arrow', 'numpy' or 'pandas' a function (or an
    `AggregateFunction`) that gets the columns of all rows of a group and gives its value.

    `accumulator_type` is accepted and means nothing: accumulators are Python objects. An aggregate cannot reject rows.
    """
    del accumulator_type
    return _decorated(
        function, "aggregate", result_type, input_types, func_type, deterministic, name, on_error, timeout
    )


@overload
def udtaf(
    function: Callable[..., Any] | Methods | type[Methods],
    input_types: Any = ...,
    result_type: Any = ...,
    accumulator_type: Any = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
    func_type: str = ...,
    *,
    result_types: Any = ...,
    on_error: str | None = ...,
    timeout: str | float | None = ...,
) -> UserFunction: ...
@overload
def udtaf(
    *,
    input_types: Any = ...,
    result_type: Any = ...,
    accumulator_type: Any = ...,
    deterministic: bool | None = ...,
    name: str | None = ...,
    func_type: str = ...,
    result_types: Any = ...,
    on_error: str | None = ...,
    timeout: str | float | None = ...,
) -> Callable[[Callable[..., Any] | Methods | type[Methods]], UserFunction]: ...
def udtaf(
    function: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    accumulator_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
    *,
    result_types: Any = None,
    on_error: str | None = None,
    timeout: str | float | None = None,
) -> Any:
    """A table aggregate function, a `TableAggregateFunction`: rows for each group, for `flat_aggregate`.

    `result_type`, or `result_types` as of `udtf`, says what columns its rows have; without either `get_result_type`.
    """
    del accumulator_type
    _one_of("func_type of table aggregate functions", func_type, ("general",))
    result = result_types if result_type is None else result_type
    return _decorated(
        function, "table aggregate", result, input_types, func_type, deterministic, name, on_error, timeout
    )


def _decorated(
    function: Any,
    kind: str,
    result: Any,
    inputs: Any,
    func_type: str,
    deterministic: bool | None,
    name: str | None,
    on_error: str | None,
    timeout: str | float | None,
) -> Any:
    _one_of("func_type", func_type, ("general", "arrow", "numpy", "pandas"))
    if on_error is not None:
        _one_of("on_error", on_error, ("fail", "reject"))
        if kind == "aggregate" and func_type != "general":
            raise OptionError(
                "an aggregate function of columns has no on_error: it is called for a group, and not for a row",
                code="E1512",
                hint="check the values in a scalar function with on_error, and aggregate what it gives",
            )
    seconds = parse_duration(timeout) / 1000 if isinstance(timeout, str) else timeout

    def decorate(decorated: Any) -> UserFunction:
        decorated = object_of(decorated, name or "")
        own_name = name or getattr(decorated, "__name__", None) or type(decorated).__name__
        own_name = "function" if own_name == "<lambda>" else own_name
        known = deterministic
        if known is None:
            known = decorated.is_deterministic() if hasattr(decorated, "is_deterministic") else True
        rejects = None if on_error is None else on_error == "reject"
        given = _declarations.given(own_name, decorated, result, inputs, func_type, known, seconds, rejects)
        declare = _declarations.declaration(kind, given)
        return UserFunction(own_name, kind, given.function, declare, always_fails=rejects is False)

    return decorate if function is None else decorate(function)


def _one_of(what: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise OptionError(f"there is no {what} '{given}'", code="E1512", hint=did_you_mean(given, known))
