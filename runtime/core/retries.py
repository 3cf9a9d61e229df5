"""How often and when something that may work later is tried again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from runtime.core.cancellation import look

__all__ = ["Retries", "rest", "retried"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retries:
    """A number of further tries, each after a pause.

    Args:
        times: how often; 0 is never.
        first, most: seconds of the first pause and of the longest one; a pause is twice as long as the one before.
        jitter: by which part of itself a pause may be shorter, at random, so that many who failed together do not come
            back together.
    """

    times: int
    first: float = 0.1
    most: float = 5.0
    jitter: float = 0.0

    def pauses(self, chance: Callable[[], float] = random.random) -> Iterator[float]:
        """The pauses in seconds, one for each try. `chance`: gives numbers from 0 to 1."""
        seconds = self.first
        for _ in range(self.times):
            yield seconds * (1 - self.jitter * chance())
            seconds = min(2 * seconds, self.most)


def rest(seconds: float) -> None:
    """What passes between two calls."""
    time.sleep(seconds)


def retried(
    call: Callable[[], T],
    retries: Retries,
    passing: type[Exception] | tuple[type[Exception], ...],
    pause: Callable[[float], object] | None = None,
    told: Callable[[Exception, float], object] | None = None,
) -> T:
    """What a call gives. When it raises an error that may pass it is called again; the last error is raised. Between the
    calls somebody may stop the work (`look`). `told`: hears of each error that a pause of so many seconds follows."""
    for seconds in retries.pauses():
        try:
            return call()
        except passing as error:
            look()
            if told is not None:
                told(error, seconds)
            (pause or rest)(seconds)
            look()
    return call()
