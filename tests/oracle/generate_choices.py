"""Drawing from hypothesis in the words of a generator of queries: pick, chance, count. The first alternative is the
simplest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st

__all__ = ["Choices", "Draw"]

T = TypeVar("T")
Draw = Callable[[Any], Any]


@cache
def _integers(low: int, high: int) -> Any:
    return st.integers(low, high)


class Choices:
    """All drawing of a case goes through one of these. `name` gives names that are unique within the case."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._names = 0

    def count(self, low: int, high: int) -> int:
        """A number from `low` (the simplest) to `high`."""
        return low if low >= high else self._draw(_integers(low, high))

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; shrinks towards the first."""
        return options[self.count(0, len(options) - 1)]

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        """One of the options, by weight; shrinks towards the first."""
        at = self.count(0, sum(w for w, _ in options) - 1)
        for weight, option in options:
            if at < weight:
                return option
            at -= weight
        raise AssertionError("weights do not add up")

    def chance(self, percent: int) -> bool:
        """True in so many of a hundred cases; shrinks to False."""
        return self.count(0, 99) >= 100 - percent

    def some(self, options: Sequence[T], low: int, high: int) -> list[T]:
        """Different options, in order, at least `low` and at most `high` of them."""
        left = list(options)
        taken = []
        for _ in range(min(self.count(low, high), len(left))):
            taken.append(left.pop(self.count(0, len(left) - 1)))
        return taken

    def name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"
