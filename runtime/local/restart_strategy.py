"""Whether and when a job that has failed starts again: Flink's strategies and their options.

Source: Flink documentation, Task Failure Recovery. Unlike Flink, only failures that may pass (of connectors, of storage,
of the operating system) are worth another attempt: a row that cannot be cast cannot be cast the next time either.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Protocol

from runtime.core.errors import CheckpointError, ConnectorError, FencedError
from runtime.core.options import Option, Options, duration_option, float_option, int_option, text_option

__all__ = ["RESTART_OPTIONS", "RestartStrategy", "may_pass", "restart_strategy"]

TYPE = text_option(
    "restart-strategy.type",
    "",
    "what happens when a job fails: none, fixed-delay, exponential-delay (with checkpoints the default), failure-rate",
    ("", "none", "off", "disable", "fixed-delay", "fixeddelay", "exponential-delay", "exponentialdelay", "failure-rate", "failurerate"),
)  # fmt: skip
FIXED_ATTEMPTS = int_option("restart-strategy.fixed-delay.attempts", 1, "how often a job starts again")
FIXED_DELAY = duration_option("restart-strategy.fixed-delay.delay", 1000, "the pause before a job starts again")
INITIAL_BACKOFF = duration_option("restart-strategy.exponential-delay.initial-backoff", 1000, "the first pause")
MAX_BACKOFF = duration_option("restart-strategy.exponential-delay.max-backoff", 60_000, "the longest pause")
MULTIPLIER = float_option(
    "restart-strategy.exponential-delay.backoff-multiplier", 1.5, "by how much each pause is longer than the last"
)
RESET = duration_option(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    3_600_000,
    "a job that has run for so long without failing begins with the first pause again",
)
JITTER = float_option("restart-strategy.exponential-delay.jitter-factor", 0.1, "a random share added to each pause")
ATTEMPTS = int_option(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    2**31 - 1,
    "how often a job starts again before it has failed for good",
)
RATE_FAILURES = int_option(
    "restart-strategy.failure-rate.max-failures-per-interval", 1, "how many failures an interval may have"
)
RATE_INTERVAL = duration_option("restart-strategy.failure-rate.failure-rate-interval", 60_000, "the interval")
RATE_DELAY = duration_option("restart-strategy.failure-rate.delay", 1000, "the pause before a job starts again")

RESTART_OPTIONS: tuple[Option[object], ...] = (
    TYPE, FIXED_ATTEMPTS, FIXED_DELAY, INITIAL_BACKOFF, MAX_BACKOFF, MULTIPLIER, RESET, JITTER, ATTEMPTS,
    RATE_FAILURES, RATE_INTERVAL, RATE_DELAY,
)  # type: ignore[assignment]  # fmt: skip


class RestartStrategy(Protocol):
    """Decides about one failure after another of a job."""

    def pause(self, now: int) -> int | None:
        """The job has failed at `now`: milliseconds until it starts again, None when it does not."""
        ...


def may_pass(error: BaseException) -> bool:
    """Whether another attempt may succeed with the same input."""
    return isinstance(error, ConnectorError | CheckpointError | OSError) and not isinstance(error, FencedError)


def restart_strategy(options: Options, *, checkpointed: bool) -> RestartStrategy:
    """The strategy that the options name; without checkpoints the default is none."""
    kind = options.get(TYPE).lower().replace("-", "")
    if kind == "fixeddelay":
        return FixedDelay(options.get(FIXED_ATTEMPTS), options.get(FIXED_DELAY))
    if kind == "failurerate":
        return FailureRate(options.get(RATE_FAILURES), options.get(RATE_INTERVAL), options.get(RATE_DELAY))
    if kind == "exponentialdelay" or (not kind and checkpointed):
        return ExponentialDelay(options)
    return NoRestart()


class NoRestart:
    """A job that fails has failed."""

    def pause(self, now: int) -> int | None:
        return None


class FixedDelay:
    """So many attempts, a pause before each."""

    def __init__(self, attempts: int, delay: int) -> None:
        self._left = attempts
        self._delay = delay

    def pause(self, now: int) -> int | None:
        self._left -= 1
        return self._delay if self._left >= 0 else None


class ExponentialDelay:
    """Pauses that grow with every failure, until the job has run well for a while."""

    def __init__(self, options: Options) -> None:
        self._first = options.get(INITIAL_BACKOFF)
        self._longest = options.get(MAX_BACKOFF)
        self._multiplier = options.get(MULTIPLIER)
        self._reset = options.get(RESET)
        self._jitter = options.get(JITTER)
        self._most = options.get(ATTEMPTS)
        self._next = float(self._first)
        self._count = 0
        self._started: int | None = None

    def pause(self, now: int) -> int | None:
        if self._started is not None and now - self._started >= self._reset:
            self._next, self._count = float(self._first), 0
        self._count += 1
        if self._count > self._most:
            return None
        pause = min(self._next, self._longest)
        self._next = pause * self._multiplier
        self._started = now + int(pause)
        return int(pause * (1 + random.uniform(-self._jitter, self._jitter)))


class FailureRate:
    """As long as no interval has more than so many failures."""

    def __init__(self, most: int, interval: int, delay: int) -> None:
        self._most = most
        self._interval = interval
        self._delay = delay
        self._failures: deque[int] = deque()

    def pause(self, now: int) -> int | None:
        self._failures.append(now)
        while self._failures[0] <= now - self._interval:
            self._failures.popleft()
        return self._delay if len(self._failures) <= self._most else None
