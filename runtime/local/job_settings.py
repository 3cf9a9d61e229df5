"""What a job is given by its environment, and what it makes of that: cuts of epochs, parts that DuckDB answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import Clock
from runtime.core.errors import NotInDuckDB, PlanningError
from runtime.core.memory import MemoryAccount, MemoryUse, is_scarce
from runtime.core.options import Options, bool_option, int_option
from runtime.core.rooms import Room
from runtime.expr.function import FunctionRegistry
from runtime.local.dataflow import Dataflow, SourceInput
from runtime.local.rejected import REJECTED_TABLE, JobRejections, RejectedRows
from runtime.plan.base import PhysicalNode
from runtime.plan.nodes import DuckDBExec, SinkExec, SourceExec
from runtime.plan.walk import walk_all

if TYPE_CHECKING:
    import runtime.local.at_once as _at_once
    import runtime.local.dead_letters as _dead_letters
    from runtime.local.dead_letters import LetterTable
else:
    _at_once = Room("runtime.local.at_once")
    _dead_letters = Room("runtime.local.dead_letters")

__all__ = [
    "BY_DUCKDB",
    "EPOCH_MAX_ROWS",
    "MAX_ROWS_PER_SECOND",
    "AllAvailable",
    "AtOnce",
    "EpochCut",
    "JobSettings",
    "KnownMemory",
]

EPOCH_MAX_ROWS = int_option("sqlengine.epoch.max-rows", 524_288, "the most rows that one source gives to one epoch")
MAX_ROWS_PER_SECOND = int_option(
    "sqlengine.source.max-rows-per-second", 0, "the most rows that each source gives in a second; 0 is without limit"
)

BY_DUCKDB = bool_option(
    "sqlengine.batch.duckdb",
    True,
    "whether DuckDB answers those parts of a batch query in which it means the same as Flink",
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
    cluster: it takes the arguments of `Dataflow`; `memory` is told of the job; `letters` is where rejected rows go, too."""

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
    letters: LetterTable | None = None

    @property
    def wants_letters(self) -> bool:
        """Whether a table for rejected rows is named."""
        return bool(self.options.get(REJECTED_TABLE))

    def flow(self, roots: Sequence[PhysicalNode], rejections: JobRejections, job: str) -> Dataflow:
        """What runs plans. `job` names it for its sinks."""
        given = self.options, self.functions, self.time_zone, rejections
        flow = self.dataflow(roots, *given, checked=self.checked, job=job)
        if self.letters is not None:
            try:
                flow.letters = _dead_letters.DeadLetters(self.letters, self.options, self.functions, rejections, job)
            except BaseException:
                flow.abort()
                raise
        return flow

    @property
    def divided(self) -> bool:
        """Whether operators run elsewhere."""
        return self.dataflow is not Dataflow

    def memory_use(self, job: object) -> MemoryUse:
        """What watches the limit for a job, which is in the account from now on."""
        if self.memory is None:
            return MemoryUse(self.options)
        self.memory.began(job)
        return MemoryUse(self.options, accounts=self.memory.accounts)


class AtOnce:
    """What a job hands to DuckDB: nothing any more, once DuckDB has failed; nothing in a job that saves its state, and may
    go on without DuckDB from there, or that others carry out. Args: `whole`: the job goes from beginning to end."""

    def __init__(self, settings: JobSettings, *, whole: bool) -> None:
        self._settings = settings
        self._asks = whole and not settings.divided
        self._used = False

    def roots(self, roots: Sequence[PhysicalNode]) -> tuple[PhysicalNode, ...]:
        """The plans as they run."""
        options = self._settings.options
        if not self._asks or options.text("execution.runtime-mode") != "batch" or not options.get(BY_DUCKDB):
            return tuple(roots)
        found = _at_once.with_parts_at_once(roots, self._settings.functions)
        self._used = any(isinstance(n, DuckDBExec) for n in walk_all(found))
        return found

    def step(
        self, dataflow: Dataflow, given: Mapping[SourceExec, SourceInput], now: int
    ) -> list[ChangelogBatch | None] | None:
        """The epoch; None when DuckDB has failed, nobody has seen a row, and the job is to begin anew without it."""
        try:
            return dataflow.step(given, now)
        except NotInDuckDB:
            roots = [dataflow.vertices[n] for n in dataflow.roots]
            if any(v.rows_in if isinstance(v.node, SinkExec) else v.rows_out for v in roots) or dataflow.has_half_epoch:
                raise
            dataflow.abort()
            self._asks = self._used = False
            return None

    def check_savepoint(self, job: str) -> None:
        """Raises PlanningError E1419 when a job has no state to go on from."""
        if self._used:
            raise PlanningError(
                f"{job} runs in batch mode, and no savepoint can be made of it",
                code="E1419",
                hint="start it again, or SET 'sqlengine.batch.duckdb' = 'false' before it starts",
            )
