"""What a job saves of itself: its plan, its operators and sinks, and where its sources stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runtime.checkpoint.epoch_state import EpochState
from runtime.local.dataflow import Dataflow
from runtime.local.job_settings import JobSettings
from runtime.local.rejected import JobRejections
from runtime.local.source_inputs import SourceInputs
from runtime.plan.json import plan_json
from runtime.plan.nodes import PhysicalNode

if TYPE_CHECKING:
    from runtime.checkpoint.away import AwayState

__all__ = ["JobImage"]


class JobImage:
    """One image of a job after another."""

    def __init__(self, settings: JobSettings, rejections: JobRejections) -> None:
        self._settings = settings
        self._rejections = rejections
        self._plan = ""
        self._positions: list[Any] = []

    def fix(self, sources: Sequence[SourceInputs]) -> None:
        """A checkpoint holds where the sources stand now. Once that is complete (`is_safe`) they are told."""
        self._positions = [source.position() for source in sources]

    def is_safe(self, sources: Sequence[SourceInputs]) -> None:
        """The checkpoint is complete that was fixed last: the sources need not give again what came before it."""
        for source, position in zip(sources, self._positions, strict=False):
            source.saved(position)

    def state(
        self,
        roots: Sequence[PhysicalNode],
        dataflow: Dataflow,
        sources: Sequence[SourceInputs],
        operators: Sequence[Any],
        sinks: Mapping[str, Any],
        away: AwayState | None = None,
        *,
        finished: bool = False,
    ) -> EpochState:
        """The job after the epoch at hand."""
        names = {v.node: v.name for v in dataflow.vertices}
        self._plan = self._plan or plan_json(roots, self._settings.time_zone)
        return EpochState(
            dataflow.epoch,
            self._settings.clock.now(),
            self._plan,
            operators,
            {names[s.node]: s.position() for s in sources},
            sinks,
            finished,
            {
                "rows": dataflow.row_counts(),
                "rejected": self._rejections.saved(dataflow.epoch),
                "written": dataflow.histories(),
            },
            away,
        )
