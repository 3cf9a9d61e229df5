"""What a dataflow asks of those who run a part of its operators in other places than its own thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from runtime.expr.job_functions import FunctionFigure
from runtime.operators.operator import Operator
from runtime.plan.nodes import PhysicalNode, SourceExec

if TYPE_CHECKING:
    from runtime.checkpoint.away import AwayState
    from runtime.local.dataflow import Dataflow, SourceInput
    from runtime.local.source_inputs import SourceInputs

__all__ = ["Elsewhere"]


class Elsewhere(Protocol):
    """Runs operators of one dataflow in other processes or on other machines (`runtime/tasks/divided.py`)."""

    partitions: int
    """Into how many tasks a stage is divided."""
    cold_starts: int
    """How many tasks had to open their state from files."""

    @property
    def state_bytes(self) -> Mapping[int, int]:
        """How much memory the state takes in the tasks of each partition, as they have last told."""
        ...

    def function_figures(self) -> Sequence[FunctionFigure]:
        """What the functions of programs tell of themselves in the tasks, as they have last told."""
        ...

    def operator(self, node: PhysicalNode, name: str) -> Operator | None:
        """What stands in the dataflow for an operator that runs elsewhere, without state; None: it runs here."""
        ...

    def begin(self, flow: Dataflow) -> None:
        """All operators of the dataflow are there. Before the first epoch, once."""
        ...

    def inputs(self, node: SourceExec, *given: Any, **named: Any) -> SourceInputs:
        """The reading of a source; arguments as those of `SourceInputs`."""
        ...

    def open_restored(self) -> None:
        """Tasks open the state that operators were given to go on from. Raises CheckpointError E3402 when it is not what was
        saved. Where nobody asks for it they do so with the first epoch."""
        ...

    def away(self, complete: bool, *, image: bool = False) -> AwayState | None:
        """What the state of operators that run elsewhere has become since it was last asked for, or all of it, to be
        written by those who have it. Between epochs. `image`: as if nobody had asked."""
        ...

    def epoch(self, given: Mapping[SourceExec, SourceInput], processing_time: int) -> None:
        """One epoch through all operators, those that run here included (`Dataflow.run_here`)."""
        ...

    def close(self) -> None:
        """Give back what the other places hold."""
        ...
