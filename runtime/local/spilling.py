"""An operator whose state may be larger than memory: keys that are not in use are in a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import InternalError
from runtime.operators.operator import EpochTime, Operator, PiecewiseOperator, StateSize
from runtime.plan.distribution import distribution, leaves_memory
from runtime.plan.nodes import PhysicalNode
from runtime.state.backend import StateBackend
from runtime.state.keyed_state import KeyedState
from runtime.state.spilled_state import SpilledState
from runtime.state.table import StateTable

__all__ = ["SpillingOperator", "spilling"]


def spilling(operator: Operator, node: PhysicalNode, backend: StateBackend) -> Operator:
    """The operator, with keys leaving memory if the backend wants that and the plan allows it (`leaves_memory`)."""
    if not backend.spills or not leaves_memory(node):
        return operator
    keys, keyed = distribution(node), operator.keyed
    if keys is None or keyed is None:
        raise InternalError(f"the keys of {type(operator).__name__} may leave memory, but it does not tell them")
    return SpillingOperator(operator, keys, keyed, backend)


class SpillingOperator(PiecewiseOperator):
    """Admits the keys of the epoch, has the operator compute, and sends away keys that are too many.

    Args:
        inner: the operator.
        keys: per input the positions of the columns that are its key (`distribution`).
        keyed: the operator's keys.
        backend: where keys go, and when.
    """

    def __init__(
        self, inner: Operator, keys: Sequence[Sequence[int]], keyed: KeyedState, backend: StateBackend
    ) -> None:
        self.inner = inner
        self._keys = keys
        self._backend = backend
        self._share = backend.share()
        tables = [table for table in inner.tables if not table.shared]
        self._state = SpilledState(keyed, tables, backend.store(), self._allowed)

    @property
    def tables(self) -> Sequence[StateTable]:
        return self.inner.tables

    def look(self, table: str, keys: Sequence[pa.Array]) -> tuple[np.ndarray, list[pa.Array]]:
        """See `SpilledState.look`."""
        return self._state.look(table, keys)

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        for _ in self._state.due(time.processing_time):
            yield from self.inner.pieces([None] * len(inputs), time)
        given = [
            [batch.column(k) for k in keys]
            for batch, keys in zip(inputs, self._keys, strict=True)
            if batch is not None and len(batch)
        ]
        touched = self._state.admit(given)
        yield from self.inner.pieces(inputs, time)
        self._state.settle(touched)

    def takes_parts(self, position: int) -> bool:
        return self.inner.takes_parts(position)

    def output_watermark(self, time: EpochTime) -> int:
        return self.inner.output_watermark(time)

    def restored(self) -> None:
        self.inner.restored()
        self._state.shrink()

    def next_timer(self) -> int | None:
        return self.inner.next_timer()

    @property
    def state_size(self) -> StateSize:
        """Of memory and store together."""
        hot = self.inner.state_size
        stored = self._state.bytes
        return StateSize(hot.rows + self._state.rows, hot.bytes + self._state.nbytes + stored, stored)

    @property
    def complete(self) -> bool:
        return self.inner.complete

    def close(self) -> None:
        self._backend.give_back(self._share)
        self._state.close()
        self.inner.close()

    def _allowed(self, keys: int) -> int:
        return self._share.allowed(keys, self.inner.state_size.bytes + self._state.nbytes)
