"""Functions with an `open` method, which is called once in each process before the function is used."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NoReturn

from runtime.core.errors import UnsupportedError

__all__ = ["FunctionContext", "Opened", "opened"]

_METHODS = ("eval", "create_accumulator", "accumulate", "retract", "merge", "get_value", "emit_value")


class FunctionContext:
    """The argument of `open`. There is nothing to ask of it yet: metrics and parameters of jobs do not reach Python
    functions (UnsupportedError)."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedError(
            f"the context of a Python function has no {name}",
            hint="functions run in this process: read settings and count in Python",
        )


class Opened:
    """A function that opens the one that it stands for at the first call of any of its methods."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._open = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_function", "_open"):
            raise AttributeError(name)
        found = getattr(self._function, name)
        return self._opening(found) if name in _METHODS else found

    def _opening(self, method: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(method):

            @functools.wraps(method)
            async def later(*values: Any) -> Any:
                self._once()
                return await method(*values)

            return later

        @functools.wraps(method)
        def now(*values: Any) -> Any:
            self._once()
            return method(*values)

        return now

    def _once(self) -> None:
        if not self._open:
            self._open = True
            self._function.open(FunctionContext())

    def __getstate__(self) -> dict[str, Any]:
        # Another process opens its own.
        return {"_function": self._function, "_open": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def opened(function: Any) -> Any:
    """A function as it is, or with `open` called in time where it has that method. The doc string stays."""
    if inspect.isroutine(function) or not hasattr(function, "open"):
        return function
    made = Opened(function)
    made.__doc__ = inspect.getdoc(function)
    return made
