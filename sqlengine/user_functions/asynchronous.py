"""Calls of async functions: those of a batch are awaited side by side, on an event loop of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.core.errors import ExpressionError
from runtime.core.logs import Log
from runtime.core.options import Options
from sqlengine.options.functions import (
    ASYNC_AT_ONCE,
    ASYNC_ATTEMPTS,
    ASYNC_DELAY,
    ASYNC_RETRY,
    ASYNC_TIMEOUT,
)
from sqlengine.user_functions.failures import failure_of
from sqlengine.user_functions.limits import TimedOut

__all__ = ["AsyncCalls", "side_by_side"]

_log = Log("jobs")


@dataclass(frozen=True, slots=True)
class AsyncCalls:
    """How async functions are called: how many calls `at_once`, `seconds` for each with its repetitions, at most so many
    `attempts`, and `delay` seconds between them."""

    at_once: int
    seconds: float
    attempts: int
    delay: float

    @staticmethod
    def of(options: Options, timeout: float | None) -> AsyncCalls:
        """As the options say; `timeout`: seconds that stand in the place of theirs."""
        again = options.get(ASYNC_RETRY).upper() == "FIXED_DELAY"
        return AsyncCalls(
            max(options.get(ASYNC_AT_ONCE), 1),
            options.get(ASYNC_TIMEOUT) / 1000 if timeout is None else timeout,
            max(options.get(ASYNC_ATTEMPTS), 1) if again else 1,
            options.get(ASYNC_DELAY) / 1000,
        )


def side_by_side(
    name: str,
    function: Callable[..., Any],
    rows: Sequence[tuple[Any, ...]],
    calls: AsyncCalls,
    failed: list[tuple[int, ExpressionError]] | None,
) -> list[Any]:
    """The results for all rows, in their order. Rows that fail are noted in `failed` and have None; without `failed` the
    first of them raises."""
    results: list[Any] = []

    async def all_rows() -> list[Any]:
        room = asyncio.Semaphore(calls.at_once)

        async def one(row: tuple[Any, ...]) -> Any:
            async with room:
                return await asyncio.wait_for(_repeated(function, row, calls), calls.seconds or None)

        return await asyncio.gather(*(one(row) for row in rows), return_exceptions=True)

    # A thread of its own: the thread at hand may have a running loop.
    worker = threading.Thread(target=lambda: results.extend(asyncio.run(all_rows())))
    worker.start()
    worker.join()
    for index, (row, result) in enumerate(zip(rows, results, strict=True)):
        if isinstance(result, BaseException):
            error = _error(name, result, row, calls)
            if failed is None:
                raise error from result
            failed.append((index, error))
            results[index] = None
    return results


async def _repeated(function: Callable[..., Any], row: tuple[Any, ...], calls: AsyncCalls) -> Any:
    """A call, and again after a failure; what the last one raises is raised."""
    for attempt in range(1, calls.attempts):
        try:
            return await function(*row)
        except Exception as error:
            _log.info("attempt %d of %d of an async function failed: %r", attempt, calls.attempts, error)
            await asyncio.sleep(calls.delay)
    return await function(*row)


def _error(name: str, error: BaseException, row: tuple[Any, ...], calls: AsyncCalls) -> ExpressionError:
    if not isinstance(error, TimeoutError) or not calls.seconds:
        return failure_of(name, error, row)
    made = TimedOut(
        f"the Python function {name} took longer than {calls.seconds:g} s for ({', '.join(map(repr, row))})",
        code="E2114",
        hint="give it more time (timeout=, or SET 'table.exec.async-scalar.timeout'), or have it give up by itself",
    )
    made.reason = f"the Python function {name} took too long"
    return made
