"""The arithmetic of a sequence: which numbers come next, many at once.

numbers = Numbers(NumberRange(start=1, step=2, low=1, high=9, cycle=True))
numbers.give(6)            # [1, 3, 5, 7, 9, 1]
numbers.last               # 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["NumberRange", "Numbers"]


@dataclass(frozen=True, slots=True)
class NumberRange:
    """Which numbers a sequence has: from `low` to `high`, beginning with `start`. `cycle`: behind the last one it begins
    again, with `low`, or `high` if it goes down."""

    start: int
    step: int
    low: int
    high: int
    cycle: bool = False


class Numbers:
    """Where a sequence is.

    Args:
        range: its numbers.
        next: the number that is given next, beyond the range when there is none.
        called: whether a number was given.
    """

    def __init__(self, range: NumberRange, next: int | None = None, called: bool = False) -> None:
        self.range = range
        self.next = range.start if next is None else next
        self.called = called
        self.reserved = self.next
        """The number with which it would begin behind a crash."""
        self.left = 0
        """How many are given before the log has to know of more."""
        self.epoch: int | None = None
        """The epoch of the log that knows of them."""

    @property
    def last(self) -> int:
        """The number that was given last; the first one where none was."""
        return self.next - self.range.step if self.called else self.next

    def has(self, count: int) -> bool:
        """Whether there are so many more."""
        return self.range.cycle or count <= self._before_end(self.next)

    def give(self, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The next numbers; there are so many (`has`)."""
        first, straight = self.next, min(count, self._before_end(self.next))
        found = _run(first, self.range.step, straight)
        if straight < count:
            rest = count - straight
            again = _run(self._begin, self.range.step, min(rest, self._cycle_length))
            found = np.concatenate((found, np.resize(again, rest)))
        self.next = self.after(count)
        self.left -= count
        self.called = self.called or count > 0
        return found

    def after(self, count: int) -> int:
        """What would be next behind so many more."""
        straight = self._before_end(self.next)
        if count <= straight or not self.range.cycle:
            return self.next + self.range.step * count
        return self._begin + self.range.step * ((count - straight - 1) % self._cycle_length + 1)

    def reserve(self, count: int) -> int:
        """How many are to be reserved, of those that there are."""
        return count if self.range.cycle else min(count, self._before_end(self.next))

    def behind(self, number: int) -> None:
        """Numbers begin behind one that somebody has written."""
        if (number - self.next) * self.range.step >= 0:
            passed = (number - self.next) // self.range.step + 1
            self.next += passed * self.range.step
            self.left -= passed
            self.called = True

    def set(self, number: int, called: bool) -> None:
        """`number` is the last one that was given, or the next one."""
        self.next, self.called = number + self.range.step * called, called
        self.reserved, self.left = self.next, 0

    def _before_end(self, first: int) -> int:
        """How many numbers there are from one on, without beginning again."""
        step, end = self.range.step, self.range.high if self.range.step > 0 else self.range.low
        return max(0, (end - first) // step + 1)

    @property
    def _begin(self) -> int:
        return self.range.low if self.range.step > 0 else self.range.high

    @property
    def _cycle_length(self) -> int:
        return (self.range.high - self.range.low) // abs(self.range.step) + 1


def _run(first: int, step: int, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Numbers in a row, all of which fit. A step that fits no BIGINT has one number at most."""
    if count <= 1:
        return np.array([first] * count, np.int64)
    return np.int64(first) + np.arange(count, dtype=np.int64) * np.int64(step)
