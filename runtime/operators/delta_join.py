"""Join of two tables of the database that keeps nothing: it reads both from the indices that all share who join them so.

An epoch takes the join from a version of each table to a later one. Each pair of rows of which one has changed between
them is looked at once, and gives the difference of its multiplicities after and before, as of the regular join
(`hash_join.py`): changed rows of the left side with all of the right one, and then changed rows of the right side with
rows of the left one that have not changed. How often a row was there at a version its index knows. So what the inputs
bring is not looked at: only how far they have come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import InternalError
from runtime.kernels.grouping import group_ids
from runtime.kernels.indexed import add_at
from runtime.kernels.key_encoding import KeyEncoder
from runtime.operators.join_condition import JoinCondition
from runtime.operators.join_output import PairOutput
from runtime.operators.operator import PIECE_MAX_ROWS, EpochTime, OperatorContext, PiecewiseOperator
from runtime.plan.nodes import PhysicalNode
from runtime.plan.snapshot_nodes import DeltaJoinExec, table_side
from runtime.state.arrangement import Found, Span, SupportsArrangements

__all__ = ["DeltaJoinOperator"]

PAIRS = 1 << 18
"""How many candidate pairs are looked at together."""


class DeltaJoinOperator(PiecewiseOperator):
    """`DeltaJoinExec`. Cost follows the changes and the pairs that they are part of."""

    def __init__(self, node: DeltaJoinExec, context: OperatorContext) -> None:
        self._left = _Side(node.left, node.left_keys, node.null_safe, context)
        self._right = _Side(node.right, node.right_keys, node.null_safe, context)
        self._condition = None
        if node.condition is not None:
            self._condition = JoinCondition(node.condition, len(node.left.schema), context)
        rows = context.options.get(PIECE_MAX_ROWS)
        self._output = PairOutput(node.schema, node.mode, self._left, self._right, False, rows)
        self._inserts = node.mode.is_append_only

    def close(self) -> None:
        self._left.arrangement.release()
        self._right.arrangement.release()

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        spans = time.spans
        if all(start == end for start, end in spans):
            return
        with ExitStack() as reading:
            for side in (self._left, self._right):
                reading.enter_context(side.arrangement.reading())
            yield from self._join(spans, time)

    def _join(self, spans: Sequence[Span], time: EpochTime) -> Iterator[ChangelogBatch]:
        left = self._left.changed(spans[0], time)
        right = self._right.changed(spans[1], time)
        # Before its first version a side had no rows, so that nothing is taken back.
        if self._inserts or min(start for start, _ in spans) < 0:
            for l, r, weights in self._pairs(left, right, spans, time):
                self._output.add(l, r, weights)
                if self._output.full:
                    yield from self._output.pieces()
            yield from self._output.pieces()
            return
        divided = False
        for l, r, weights in self._pairs(left, right, spans, time):
            self._output.add(l, r, np.minimum(weights, 0) if divided else weights)
            if self._output.full:
                divided = True
                self._output.drop_inserts()
                if self._output.full:
                    yield from self._output.pieces()
        if not divided:
            replaced = self._left.replaced(left), self._right.replaced(right)
            yield from self._output.whole([], replaced, not (self._left.keyed and self._right.keyed))
            return
        yield from self._output.pieces()
        for l, r, weights in self._pairs(left, right, spans, time):
            self._output.add(l, r, np.maximum(weights, 0))
            if self._output.full:
                yield from self._output.pieces()
        yield from self._output.pieces()

    def _pairs(
        self, left: Found, right: Found, spans: Sequence[Span], time: EpochTime
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Each pair of rows that match of which one has changed, once: rows of both sides, and by how much they are there
        more often."""
        for mine, theirs in self._right.met(self._left, left, spans[1], time):
            yield from self._weighted(mine, theirs, time)
        if spans[0][0] < 0:
            return  # All rows of the left side have changed.
        seen = np.sort(left.rows)
        for mine, theirs in self._left.met(self._right, right, spans[0], time):
            if len(seen):
                place = np.minimum(np.searchsorted(seen, theirs.rows), len(seen) - 1)
                still = seen[place] != theirs.rows
                mine, theirs = mine.at(still), theirs.at(still)
            yield from self._weighted(theirs, mine, time)

    def _weighted(
        self, left: Found, right: Found, time: EpochTime
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        if self._condition is not None and len(left.rows):
            takes = self._left.take_column, self._right.take_column
            holds = self._condition.holds(takes[0], left.rows, takes[1], right.rows, time)
            if not holds.all():
                left, right = left.at(holds), right.at(holds)
        yield left.rows, right.rows, left.now * right.now - left.old * right.old


class _Side:
    """One table as a side: its index by the key, which columns it shows, and which of its rows count."""

    def __init__(
        self, node: PhysicalNode, keys: tuple[int, ...], null_safe: tuple[bool, ...], context: OperatorContext
    ) -> None:
        side = table_side(node)
        table = None if side is None else side.source.table
        if side is None or not isinstance(table, SupportsArrangements):
            raise InternalError("a join that keeps nothing reads tables of the database")
        places = [table.schema.index_of(name) for name in side.source.schema.names]
        self._columns = [places[c] for c in side.columns]
        self._key_columns = [self._columns[k] for k in keys]
        self._null_safe = list(null_safe) or [False] * len(keys)
        self.arrangement = table.arrangement(self._key_columns, context.job or context.name)
        self._condition, self._source_places = None, places
        if side.condition is not None:
            self._condition = JoinCondition(side.condition, len(places), context)
        self._unique = [table.schema.index_of(name) for name in table.row_key]
        self.keyed = bool(self._unique)

    def take(self, slots: np.ndarray) -> list[pa.Array]:
        return self.arrangement.take(self._columns, slots)

    def take_column(self, position: int, slots: np.ndarray) -> pa.Array:
        return self.arrangement.take([self._columns[position]], slots)[0]

    def _source_column(self, position: int, slots: np.ndarray) -> pa.Array:
        return self.arrangement.take([self._source_places[position]], slots)[0]

    def changed(self, span: Span, time: EpochTime) -> Found:
        """The rows that have changed, as this side has them."""
        found = self.arrangement.changed(span)
        counting = self._counting(found.rows, time)
        found = found if counting is None else found.at(counting)
        if not len(found.rows) or not (found.now < found.old).any() or not (found.now > found.old).any():
            return found
        # Rows that come for equal ones that go are as if nothing had happened.
        columns = self.take(found.rows)
        words = KeyEncoder([c.type for c in columns], exact=True).encode(columns, len(found.rows))
        first, group = group_ids(words)
        net = np.zeros(len(first), np.int64)
        add_at(net, group, found.now - found.old)
        return found.at(net[group] != 0)

    def met(self, other: _Side, changed: Found, span: Span, time: EpochTime) -> Iterator[tuple[Found, Found]]:
        """Changed rows of another side with the rows of this one that have their key."""
        for start in range(0, len(changed.rows), PAIRS):
            part = changed.at(np.arange(start, min(start + PAIRS, len(changed.rows))))
            values = other.arrangement.take(other._key_columns, part.rows)
            keys = self.arrangement.find(values, self._null_safe)
            for index, found in self.arrangement.probe(keys, span, PAIRS):
                counting = self._counting(found.rows, time)
                if counting is not None:
                    index, found = index[counting], found.at(counting)
                yield part.at(index), found

    def _counting(self, rows: np.ndarray, time: EpochTime) -> np.ndarray | None:
        """Where the condition of this side is true; None where all count."""
        if self._condition is None or not len(rows):
            return None
        none = np.empty(len(rows), np.int64)
        holds = self._condition.holds(self._source_column, rows, self._source_column, none, time)
        return None if holds.all() else np.flatnonzero(holds)

    def replaced(self, changed: Found) -> tuple[np.ndarray, np.ndarray] | None:
        """The rows that went, and those that came for the same primary key."""
        if not self.keyed:
            return None
        went, came = changed.rows[changed.old > 0], changed.rows[changed.now > 0]
        if not len(went) or not len(came):
            return None
        columns = self.arrangement.take(self._unique, np.concatenate([went, came]))
        words = KeyEncoder([c.type for c in columns]).encode(columns, len(went) + len(came))
        first, group = group_ids(words)
        successor = np.full(len(first), -1, np.int64)
        successor[group[len(went) :]] = came
        after = successor[group[: len(went)]]
        found = after >= 0
        return (went[found], after[found]) if found.any() else None
