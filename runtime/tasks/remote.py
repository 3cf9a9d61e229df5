"""What stands in the driver for an operator that tasks run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MIN_WATERMARK
from runtime.operators.operator import EpochTime, Followed, Operator, StateSize
from runtime.state.snapshot import SavedState
from runtime.state.table import StateTable, TableChanges

__all__ = ["KeptByTasks", "RemoteOperator"]


class KeptByTasks(Protocol):
    """The state of all operators that tasks run (`runtime/tasks/kept.py`), by operator name."""

    def save(self, name: str, complete: bool) -> tuple[tuple[TableChanges, ...], ...]: ...

    def image(self, name: str) -> tuple[tuple[TableChanges, ...], ...]: ...

    def load(self, name: str, state: SavedState) -> None: ...

    def opened(self, name: str) -> Sequence[StateTable]: ...

    def follow(self, name: str) -> Followed: ...


class RemoteOperator(Operator):
    """Stands in the driver for an operator that tasks run: knows what they reported, and computes its watermark.

    Args:
        inner: the operator, which is never stepped unless it is stateless.
        kept: has its state.
    """

    def __init__(self, name: str, inner: Operator, kept: KeptByTasks) -> None:
        self.inner = inner
        self.sizes: dict[int, StateSize] = {}
        self._name = name
        self._kept = kept
        self._complete: dict[int, bool] = {}
        self._timers: dict[int, int | None] = {}
        self._watermarks: dict[int, int] = {}

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        return self.inner.step(inputs, time)

    def output_watermark(self, time: EpochTime) -> int:
        return self.inner.output_watermark(time)

    def next_timer(self) -> int | None:
        """At once while tasks that keep something have told nothing yet."""
        if not self._timers:
            return 0 if self.inner.tables else self.inner.next_timer()
        return min((timer for timer in self._timers.values() if timer is not None), default=None)

    @property
    def told_watermark(self) -> int:
        """The watermark behind all tasks, as they told it last."""
        return min(self._watermarks.values(), default=MIN_WATERMARK)

    @property
    def state_size(self) -> StateSize:
        return StateSize.total(self.sizes.values())

    @property
    def tasks(self) -> Sequence[Operator]:
        """One operator that holds what all tasks keep, opened when somebody looks into its tables."""
        return (_Opened(self),)

    def save(self, complete: bool, *, hold: bool = False) -> tuple[tuple[TableChanges, ...], ...]:
        return self._kept.save(self._name, complete)

    def image(self) -> tuple[tuple[TableChanges, ...], ...]:
        return self._kept.image(self._name)

    @property
    def declared_tables(self) -> Sequence[StateTable]:
        return self.inner.tables

    def follow(self, tables: Sequence[str]) -> Followed:
        return self._kept.follow(self._name)

    def load(self, state: SavedState) -> None:
        self._kept.load(self._name, state)

    def opened(self) -> Sequence[StateTable]:
        """The tables with what all tasks keep."""
        return self._kept.opened(self._name)

    @property
    def complete(self) -> bool:
        return bool(self._complete) and all(self._complete.values())

    def reported(self, partition: int, size: StateSize, complete: bool, timer: int | None, watermark: int) -> None:
        """What a task said of its part."""
        self.sizes[partition] = size
        self._complete[partition] = complete
        self._timers[partition] = timer
        self._watermarks[partition] = watermark

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
