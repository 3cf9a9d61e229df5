"""UNNEST: a row per element of a collection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.cancellation import look
from runtime.core.changelog import ChangelogBatch
from runtime.core.types import TypeRoot
from runtime.eval.evaluator import BatchContext, Evaluator
from runtime.operators.operator import PIECE_MAX_ROWS, EpochTime, OperatorContext, PiecewiseOperator
from runtime.plan.nodes import UnnestExec

__all__ = ["UnnestOperator"]


class UnnestOperator(PiecewiseOperator):
    """Arrays give their elements (a ROW element its fields), maps key and value, multisets each element as often as it
    is there.

    NULL and empty collections give no row, or with `outer` one that is padded with NULL. No state: the collection of a
    `-U` or `-D` row is unnested again.
    """

    def __init__(self, node: UnnestExec, context: OperatorContext) -> None:
        self._node = node
        self._time_zone = context.time_zone
        self._evaluator = Evaluator((node.collection,), context.functions)
        self._max_rows = max(1, context.options.get(PIECE_MAX_ROWS))

    def takes_parts(self, position: int) -> bool:
        return True

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        (batch,) = inputs
        if batch is None or not len(batch):
            return
        (collection,) = self._evaluator.evaluate(batch.rows, BatchContext.at(time, len(batch), self._time_zone))
        starts, lengths = _extent(collection)
        counts = np.maximum(lengths, 1) if self._node.outer else lengths
        look()
        rows = np.repeat(np.arange(len(batch)), counts)
        firsts = np.cumsum(counts) - counts
        ordinal = np.arange(len(rows)) - np.repeat(firsts, counts)
        padded = np.repeat(lengths == 0, counts)
        positions = np.repeat(starts, counts) + ordinal
        for piece in self._divided(collection, positions, padded):
            yield self._output(batch, collection, rows[piece], positions[piece], ordinal[piece], padded[piece])

    def _output(
        self,
        batch: ChangelogBatch,
        collection: pa.Array,
        rows: np.ndarray,
        positions: np.ndarray,
        ordinal: np.ndarray,
        padded: np.ndarray,
    ) -> ChangelogBatch:
        """A row for each element: of which row of the batch, at which position of all elements, at which of the row's."""
        chosen = pa.array(positions, mask=padded) if padded.any() else pa.array(positions)
        columns = batch.rows.take(pa.array(rows)).columns + [c.take(chosen) for c in self._elements(collection)]
        if self._node.ordinality:
            columns.append(pa.array((ordinal + 1).astype(np.int32), mask=padded))
        columns = [
            c if c.type == f.type.arrow else c.cast(f.type.arrow)
            for c, f in zip(columns, self._node.schema, strict=True)
        ]
        return ChangelogBatch.of(columns, self._node.schema, None if batch.kinds is None else batch.kinds[rows])

    def _divided(self, collection: pa.Array, positions: np.ndarray, padded: np.ndarray) -> Iterator[np.ndarray | slice]:
        """Which elements go into each batch; those of a multiset as often as they are there."""
        count = len(positions)
        if self._node.collection.type.root is not TypeRoot.MULTISET or not count:
            yield from (slice(at, at + self._max_rows) for at in range(0, count, self._max_rows))
            return
        times = np.ones(count, dtype=np.int64)
        times[~padded] = collection.items.to_numpy(zero_copy_only=False)[positions[~padded]]
        ends = np.cumsum(times)
        for at in range(0, int(ends[-1]), self._max_rows):
            yield np.searchsorted(ends, np.arange(at, min(at + self._max_rows, int(ends[-1]))), side="right")

    def _elements(self, collection: pa.Array) -> list[pa.Array]:
        """The columns that one element gives, over all elements of all rows."""
        type_ = self._node.collection.type
        if type_.root is TypeRoot.MAP:
            return [collection.keys, collection.items]
        elements = collection.keys if type_.root is TypeRoot.MULTISET else collection.values
        if type_.children[0].root is TypeRoot.ROW:
            return list(elements.flatten())
        return [elements]


def _extent(collection: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where each row's elements begin in `values`, and how many there are; none for NULL."""
    offsets = collection.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = np.diff(offsets)
    if collection.null_count:
        lengths = np.where(collection.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    return offsets[:-1], lengths
