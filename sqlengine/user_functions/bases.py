"""The base classes of functions that are written as classes, as in PyFlink.

All of them may have `open(self, context)`, called by each job in each process before the first row, and `close(self)`,
called when the job ends.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any

from runtime.core.errors import OptionError

__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "Methods",
    "ScalarFunction",
    "TableAggregateFunction",
    "TableFunction",
    "object_of",
]


class ScalarFunction(ABC):
    """Base of scalar functions written as classes: `eval(self, *values)`; `is_deterministic` may say no. Several forms of
    `eval` for other types are declared with `typing.overload`.

    (`**named` has type checkers accept a method with any parameters in its place; nothing is given by name.)
    """

    @abstractmethod
    def eval(self, *values: Any, **named: Any) -> Any:
        """The value for a row."""

    def is_deterministic(self) -> bool:
        """Whether the same values always give the same result."""
        return True


class AsyncScalarFunction(ScalarFunction):
    """Base of scalar functions whose `async def eval(self, *values)` is awaited for all rows of a batch side by side."""


class TableFunction(ScalarFunction):
    """Base of table functions written as classes: `eval(self, *values)` returns or yields rows."""


class AggregateFunction(ABC):
    """Base of aggregate functions.

    An accumulator is a Python object that pickle can save: of values of the standard library, arrays of numpy, classes of the
    function's own module, and of those that `state_classes` lists; a method that gives back something other than None puts
    it in the accumulator's place, so that numbers and tuples will do.
    """

    @abstractmethod
    def create_accumulator(self) -> Any:
        """The accumulator of a group without rows."""

    @abstractmethod
    def accumulate(self, accumulator: Any, *values: Any, **named: Any) -> Any:
        """Take in a row."""

    @abstractmethod
    def get_value(self, accumulator: Any) -> Any:
        """The value of the group."""

    # `retract(accumulator, *values)` takes a row back; without it the values of each group are kept where rows may be
    # taken back. `merge(accumulator, accumulators)` is needed by HOP, CUMULATE and SESSION windows.


class TableAggregateFunction(ABC):
    """Base of aggregate functions that return rows, for `flat_aggregate`: `create_accumulator` and `accumulate` as of
    `AggregateFunction`, and `emit_value(accumulator)`, which returns or yields rows. In its place may stand
    `emit_update_with_retract(accumulator, out)`, which tells what has changed since its last call: `out.collect(row)` and
    `out.retract(row)`.
    """

    @abstractmethod
    def create_accumulator(self) -> Any:
        """The accumulator of a group without rows."""

    @abstractmethod
    def accumulate(self, accumulator: Any, *values: Any, **named: Any) -> Any:
        """Take in a row."""


Methods = ScalarFunction | AggregateFunction | TableAggregateFunction
"""Functions with methods."""


def object_of(function: Any, name: str = "") -> Any:
    """An object of a class; what is none is given back. Raises OptionError E1512 for a class that lacks a method, or whose
    objects need arguments."""
    if not inspect.isclass(function):
        return function
    try:
        return function()
    except TypeError as error:
        raise OptionError(
            f"no object of the Python class {name or function.__name__} can be made: {error}",
            code="E1512",
            hint="define the methods that are named, and give an object where the class needs arguments",
        ) from error
