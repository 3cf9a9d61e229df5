"""What is saved of a job at the end of an epoch, and what comes back."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runtime.state.snapshot import SavedOperator, SavedState

if TYPE_CHECKING:
    from runtime.checkpoint.away import AwayState

__all__ = ["CheckpointInfo", "EpochState", "Restored", "released"]


@dataclass(frozen=True, slots=True)
class EpochState:
    """All that a job needs to go on after an epoch.

    Args:
        epoch: its number.
        processing_time: milliseconds since 1970.
        plan: the JSON text of the plan (`runtime/plan/json.py`).
        operators: how their state changed since the save before, or all of it; see `TableChanges.complete`.
        sources: the position of each source, a JSON value by uid.
        sinks: what each sink has prepared, a JSON value by uid.
        finished: the input had ended.
        counts: figures that go on counting, a JSON value: rows in and out by operator (`rows`), and rejected ones
            (`rejected`), and what sinks have written (`written`).
        away: the state of operators that tasks keep elsewhere; in `operators` these have none.
    """

    epoch: int
    processing_time: int
    plan: str
    operators: Sequence[SavedOperator]
    sources: Mapping[str, Any]
    sinks: Mapping[str, Any]
    finished: bool
    counts: Mapping[str, Any] = field(default_factory=dict)
    away: AwayState | None = None

    def release(self) -> None:
        """It is written, or never will be: the job may let go of rows that it holds for it. In the job's thread."""
        for operator in self.operators:
            for task in operator.tasks:
                for changes in task:
                    changes.release()
        if self.away is not None:
            self.away.release()


@contextmanager
def released(state: EpochState) -> Generator[None]:
    """Releases it at the end."""
    try:
        yield
    finally:
        state.release()


@dataclass(frozen=True, slots=True)
class Restored:
    """What a checkpoint or savepoint held. Fields as in `EpochState`, but operators by name, and their state whole;
    a table without rows is left out.

    `id`: the number of the checkpoint, 0 of a savepoint; `path`: its folder; `problems`: newer checkpoints that could
    not be used, a sentence each; `fitted`: it was made for the very plan that goes on from it.
    """

    id: int
    epoch: int
    processing_time: int
    plan: str
    operators: Mapping[str, SavedState]
    sources: Mapping[str, Any]
    sinks: Mapping[str, Any]
    finished: bool
    path: str
    problems: list[str] = field(default_factory=list)
    counts: Mapping[str, Any] = field(default_factory=dict)
    fitted: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """A row of `system.checkpoints`.

    `id`: the number of the checkpoint, 0 of a savepoint; `kind`: `checkpoint` or `savepoint`; `time`: when it was
    written, milliseconds since 1970 by the clock on the wall; `bytes`: written for it; `total_bytes`: of all files that
    it needs; `duration`: milliseconds; `status`: `completed` or `damaged`; `path`: its folder. Of a damaged one only
    id, kind, status and path are known, the rest is 0.
    """

    id: int
    kind: str
    epoch: int
    time: int
    bytes: int
    total_bytes: int
    duration: int
    status: str
    path: str
