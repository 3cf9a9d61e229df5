"""Projections and filters of many rows, computed in slices on threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from runtime.core.cancellation import governed
from runtime.core.changelog import ChangelogBatch
from runtime.expr.analysis import is_deterministic
from runtime.expr.function import FunctionRegistry, made_by_program
from runtime.expr.nodes import Call, Expr, walk
from runtime.operators.operator import EpochTime, Operator
from runtime.plan.nodes import CalcExec

__all__ = ["SlicedOperator", "may_be_sliced"]

_FEW_ROWS = 16_384
"""Fewer rows than this are computed in one piece: handing them to threads would cost more."""


def may_be_sliced(node: CalcExec, functions: FunctionRegistry) -> bool:
    """Whether the rows of a projection may be computed side by side: not when a value depends on the rows before it
    (RAND with a seed), and not in functions that a program has made, which may not expect threads."""
    expressions = (*node.projections, *(() if node.condition is None else (node.condition,)))
    return all(is_deterministic(e, functions) and not _calls_program(e) for e in expressions)


def _calls_program(expr: Expr) -> bool:
    return any(isinstance(part, Call) and made_by_program(part.function) is not None for part in walk(expr))


class SlicedOperator(Operator):
    """Computes a projection or filter, which has no state, in as many slices of the rows as there are tasks. The answer
    and the order of the rows are those of one task.

    Args:
        inner: the operator.
        slices: how many.
        workers: threads, shared with other operators; the last slice is computed by the caller.
    """

    def __init__(self, inner: Operator, slices: int, workers: ThreadPoolExecutor) -> None:
        self._inner = inner
        self._slices = slices
        self._workers = workers

    def takes_parts(self, position: int) -> bool:
        return self._inner.takes_parts(position)

    @property
    def takes_codes(self) -> bool:
        return self._inner.takes_codes

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        """The changes of the epoch; of several slices that fail the first one's error."""
        (batch,) = inputs
        if batch is None or len(batch) < _FEW_ROWS:
            return self._inner.step(inputs, time)
        size = -(-len(batch) // self._slices)
        *others, last = [batch.slice(start, size) for start in range(0, len(batch), size)]
        waiting = [self._workers.submit(governed(self._inner.step), [part], time) for part in others]
        try:
            found = self._inner.step([last], time)
        finally:
            earlier = [w.result() for w in waiting]
        outputs = [output for output in (*earlier, found) if output is not None]
        return ChangelogBatch.concat(outputs) if outputs else None

    def close(self) -> None:
        self._inner.close()
