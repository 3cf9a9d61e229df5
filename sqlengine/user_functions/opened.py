"""Functions with an `open` method, which is called once before the function is used: by each job in each process, and once
for what is computed outside of jobs."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any

from runtime.expr.job_functions import FunctionJob
from sqlengine.user_functions.context import FunctionContext

__all__ = ["Opened", "opened", "opened_for", "plain"]

_METHODS = (
    "eval", "create_accumulator", "accumulate", "retract", "merge", "get_value", "emit_value",
    "emit_update_with_retract",
)  # fmt: skip


class Opened:
    """A function that opens the one that it stands for at the first call of any of its methods.

    Args:
        name: the function's, for its figures.
        job: the job that it is made for; None outside of jobs.
    """

    def __init__(self, function: Any, name: str = "", job: FunctionJob | None = None) -> None:
        self._function = function
        self._name = name
        self._job = job
        self._open = False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_function", "_open", "_name", "_job"):
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
        if self._open:
            return
        self._open = True
        if hasattr(self._function, "open"):
            self._function.open(FunctionContext(self._name, self._job))
        if self._job is not None and hasattr(self._function, "close"):
            self._job.closing.append(self._function.close)

    def __getstate__(self) -> dict[str, Any]:
        # Another process opens its own.
        return {"_function": self._function, "_name": self._name, "_job": None, "_open": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _has_life(function: Any) -> bool:
    return not inspect.isroutine(function) and (hasattr(function, "open") or hasattr(function, "close"))


def opened(function: Any, name: str = "") -> Any:
    """A function as it is, or with `open` called in time where it has that method. The doc string stays."""
    if not _has_life(function):
        return function
    made = Opened(function, name)
    made.__doc__ = inspect.getdoc(function)
    return made


def opened_for(function: Any, name: str, job: FunctionJob) -> Any:
    """The instance of a job: a copy that is opened for it and closed when the job ends; a function without `open` and
    `close` is the same for all."""
    return Opened(copy.copy(function._function), name, job) if isinstance(function, Opened) else function


def plain(function: Any) -> Any:
    """The user's own object."""
    return function._function if isinstance(function, Opened) else function
