"""What stands in the driver for an operator that tasks run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runtime.core.changelog import ChangelogBatch
from runtime.operators.operator import EpochTime, Operator, StateSize
from runtime.state.table import StateTable

__all__ = ["RemoteOperator"]


class RemoteOperator(Operator):
    """Stands in the driver for an operator that tasks run: knows what they reported, and computes its watermark.

    Args:
        inner: the operator, which is never stepped unless it is stateless.
    """

    def __init__(self, inner: Operator) -> None:
        self.inner = inner
        self.sizes: dict[int, StateSize] = {}
        self._complete: dict[int, bool] = {}
        self.opened: Callable[[], Sequence[StateTable]] = tuple
        """Gives the tables with what all tasks keep."""

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        return self.inner.step(inputs, time)

    def output_watermark(self, time: EpochTime) -> int:
        return self.inner.output_watermark(time)

    @property
    def state_size(self) -> StateSize:
        return StateSize(sum(s.rows for s in self.sizes.values()), sum(s.bytes for s in self.sizes.values()))

    @property
    def tasks(self) -> Sequence[Operator]:
        """One operator that holds what all tasks keep, opened when somebody looks into its tables."""
        return (_Opened(self),)

    @property
    def complete(self) -> bool:
        return bool(self._complete) and all(self._complete.values())

    def reported(self, partition: int, size: StateSize, complete: bool) -> None:
        """What a task said of its part."""
        self.sizes[partition] = size
        self._complete[partition] = complete

    def close(self) -> None:
        self.inner.close()


class _Opened(Operator):
    """All of an operator's state, for whoever reads it with SQL."""

    def __init__(self, remote: RemoteOperator) -> None:
        self._remote = remote

    @property
    def state_size(self) -> StateSize:
        return self._remote.state_size

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._remote.opened()
