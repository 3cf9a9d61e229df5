"""What is left of an operator when its job has ended: its figures, and its state only where that is small."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.operators.operator import Operator, StateSize

__all__ = ["EndedOperator", "ended"]

KEPT_BYTES = 64 << 10
"""State of this size can still be read (`system.state`): jobs that have ended are listed for long."""


class EndedOperator(Operator):
    """The figures of an operator that runs no more."""

    def __init__(self, operator: Operator) -> None:
        self._size = operator.state_size
        self._tasks = tuple(Operator() for _ in operator.tasks)

    @property
    def state_size(self) -> StateSize:
        return self._size

    @property
    def tasks(self) -> Sequence[Operator]:
        return self._tasks


def ended(operator: Operator) -> Operator:
    """An operator that was closed, without its state where that is large."""
    return EndedOperator(operator) if operator.state_size.bytes > KEPT_BYTES else operator
