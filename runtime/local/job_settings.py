"""What a job is given by its environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from runtime.core.clock import Clock
from runtime.core.memory import MemoryAccount, MemoryUse, is_scarce
from runtime.core.options import Options, int_option
from runtime.expr.function import FunctionRegistry
from runtime.local.dataflow import Dataflow
from runtime.local.rejected import RejectedRows
from runtime.plan.nodes import SourceExec

__all__ = ["EPOCH_MAX_ROWS", "MAX_ROWS_PER_SECOND", "AllAvailable", "EpochCut", "JobSettings", "KnownMemory"]

EPOCH_MAX_ROWS = int_option("sqlengine.epoch.max-rows", 524_288, "the most rows that one source gives to one epoch")
MAX_ROWS_PER_SECOND = int_option(
    "sqlengine.source.max-rows-per-second", 0, "the most rows that each source gives in a second; 0 is without limit"
)


class EpochCut(Protocol):
    """Decides how many rows each source may give to the next epoch. Tests replace it to cut input where they want."""

    def rows(self, sources: Sequence[SourceExec], epoch: int) -> Sequence[int]:
        """The most rows per source, in the order of `sources`; 0 leaves a source alone in this epoch."""
        ...


class KnownMemory(Protocol):
    """Knows who owns the memory of the process."""

    def began(self, job: object) -> None:
        """A job has begun; what it holds is in the account as long as it is there."""
        ...

    def accounts(self) -> Iterable[MemoryAccount]:
        """The account as it is now. From any thread."""
        ...


@dataclass(frozen=True, slots=True)
class AllAvailable:
    """Whatever has arrived, up to so many rows of each source."""

    max_rows: int

    @classmethod
    def of(cls, options: Options) -> AllAvailable:
        """As the options say; less where memory is scarce."""
        rows = options.get(EPOCH_MAX_ROWS)
        return cls(max(1, rows // 16) if is_scarce(options) else rows)

    def rows(self, sources: Sequence[SourceExec], epoch: int) -> Sequence[int]:
        return [self.max_rows] * len(sources)


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What a job needs from its environment. `checked` puts the guards around all operators; `restarts`, a seed, has
    operators made anew from their saved state between epochs; `dataflow` makes what runs the operators, here or on a
    cluster: it takes the arguments of `Dataflow`; `memory` is told of the job."""

    options: Options
    functions: FunctionRegistry
    time_zone: str
    clock: Clock
    rejected: RejectedRows
    checked: bool = False
    restarts: int | None = None
    cut: EpochCut | None = None
    dataflow: Callable[..., Dataflow] = Dataflow
    memory: KnownMemory | None = None

    def memory_use(self, job: object) -> MemoryUse:
        """What watches the limit for a job, which is in the account from now on."""
        if self.memory is None:
            return MemoryUse(self.options)
        self.memory.began(job)
        return MemoryUse(self.options, accounts=self.memory.accounts)
