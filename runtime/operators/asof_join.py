"""ASOF join: each left row with the row of its key on the right whose time is nearest, on the side that the comparison
names.

    left.t >= right.t, left.t > right.t     the latest right row at or before, or before, the left row
    left.t <= right.t, left.t < right.t     the earliest at or after, or after it

Both inputs are kept in order of time by key, and of each left row which right row it has. A right row that comes or goes
concerns the left rows between its time and that of the next right row only. So the cost follows the changes and the left
rows whose match they may change.

Of right rows of one time the one that is greatest counts, compared column by column (NULL is least; columns of types that
have no order are passed over): so the answer depends neither on the order of arrival nor on how epochs are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import UnsupportedError
from runtime.core.schema import Schema
from runtime.kernels.grouping import group_ids
from runtime.kernels.grow import grown
from runtime.kernels.order_words import OrderEncoder, order_words
from runtime.operators.asof_passed import PassedRows
from runtime.operators.asof_side import AsofSide
from runtime.operators.join_output import PairOutput
from runtime.operators.join_side import PAIRS
from runtime.operators.lone_rows import padded
from runtime.operators.operator import PIECE_MAX_ROWS, EpochTime, OperatorContext, PiecewiseOperator, StateSize
from runtime.plan.nodes import AsofJoinExec, JoinKind
from runtime.state.keyed import KeyIndex
from runtime.state.table import StateTable

__all__ = ["AsofJoinOperator"]

_NONE = np.empty(0, np.int64)


class AsofJoinOperator(PiecewiseOperator):
    """`AsofJoinExec`, INNER or LEFT. Rows with NULL in a key or as time match nothing; they are not kept, unless an update
    by key alone may need them.

    `by_watermark`: rows only come, and late ones are rejected; then what has been passed by the watermark and can match
    nothing new is forgotten (`PassedRows`).
    """

    def __init__(self, node: AsofJoinExec, context: OperatorContext) -> None:
        self._context = context
        self._schema = node.schema
        self._outer = node.kind is JoinKind.LEFT
        self._back = node.comparison in (">=", ">")
        self._equal = node.comparison in (">=", "<=")
        self._at_end = node.emits_at_end
        self._keys = KeyIndex([node.left.schema[k].type.arrow for k in node.left_keys])
        left, right = node.left, node.right
        self._left = AsofSide(left.schema, left.mode, node.left_keys, node.left_time, node.left_unique)
        self._right = AsofSide(right.schema, right.mode, node.right_keys, node.right_time, node.right_unique)
        told_apart = {*node.right_keys, node.right_time}
        self._ties = node.right_unique is None or not set(node.right_unique) <= told_apart
        self._ordered = _sortable(right.schema)
        self._match = np.empty(0, np.int64)
        rows = context.options.get(PIECE_MAX_ROWS)
        self._output = PairOutput(node.schema, node.mode, self._left.rows, self._right.rows, False, rows)
        self._tables = [
            self._left.table(node.kept("left"), self._keys),
            self._right.table(node.kept("right"), self._keys),
        ]
        self._passed = PassedRows(self._left, self._right, self._back, self._equal) if node.by_watermark else None

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    def restored(self) -> None:
        slots = self._left.rows.live_slots()
        self._match = grown(self._match, self._left.rows.capacity)
        for at in range(0, len(slots), PAIRS):
            part = slots[at : at + PAIRS]
            self._match[part] = self._found(part)
        if self._passed is not None:
            self._passed.add(slots, self._right.rows.live_slots())

    @property
    def state_size(self) -> StateSize:
        left, right = self._left.rows, self._right.rows
        passed = 0 if self._passed is None else self._passed.nbytes
        nbytes = left.nbytes + right.nbytes + self._keys.nbytes + self._match.nbytes + passed
        return StateSize(left.rows + right.rows, nbytes)

    def takes_parts(self, position: int) -> bool:
        return (self._left, self._right)[position].takes_parts

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        lone: list[ChangelogBatch] = []
        changed = [_NONE, _NONE]
        fresh: list[np.ndarray] = []
        for number, (side, batch) in enumerate(zip((self._left, self._right), inputs, strict=True)):
            if batch is not None and self._passed is not None:
                batch = side.in_time(batch, time, self._context)
            if batch is None or not len(batch):
                continue
            batch, without = side.usable(batch)
            changed[number], new_keys = side.apply(batch, self._keys)
            fresh.append(new_keys)
            if number == 0 and self._outer and without is not None:
                lone.append(padded(without, self._schema))
        left, right = changed
        if self._passed is not None:
            self._passed.add(left, right)
        if not self._at_end:
            self._rematch(np.unique(np.concatenate([left, *self._concerned(right)])) if len(right) else left)
        if self._output.fits(lone):
            replaced = (self._left.rows.replaced, self._right.rows.replaced)
            yield from self._output.whole(lone, replaced, cancels=False)
        else:
            yield from self._output.sliced([batch.filter(batch.signs() < 0) for batch in lone])
            yield from self._output.pieces()
            yield from self._output.sliced([batch.filter(batch.signs() > 0) for batch in lone])
        lost = [self._left.rows.settle(left), self._right.rows.settle(right)]
        if self._at_end and time.ends:
            yield from self._all()
        if self._passed is not None:
            lost += self._passed.dropped(time)
        self._forget(lost + fresh)

    def _all(self) -> Iterator[ChangelogBatch]:
        """All rows with their matches, at the end of both inputs."""
        slots = self._left.rows.live_slots()
        for at in range(0, len(slots), PAIRS):
            part = slots[at : at + PAIRS]
            self._pair(part, self._found(part), self._left.rows.count[part])
            yield from self._output.pieces()

    def _concerned(self, changed: np.ndarray) -> Iterator[np.ndarray]:
        """The left rows that right rows which came or went may have, or had, as their match: those from the time of each to
        the next right row as it is now."""
        left, right = self._left.rows, self._right.rows
        words = np.column_stack((right.key[changed].view(np.uint64), right.words_of(changed)))
        changed = changed[group_ids(np.ascontiguousarray(words))[0]]
        keys, times = right.key[changed], self._right.times(changed)
        near = right.ceiling(keys, [times], False) if self._back else right.floor(keys, [times], False)
        bounded = near >= 0
        here = [times.filter(pa.array(bounded))]
        there = [self._right.times(near[bounded])]
        if self._back:
            yield left.range(keys[bounded], here, there, self._equal, not self._equal)[1]
            yield left.range(keys[~bounded], [times.filter(pa.array(~bounded))], None, self._equal)[1]
        else:
            yield left.range(keys[bounded], there, here, not self._equal, self._equal)[1]
            yield left.range(keys[~bounded], None, [times.filter(pa.array(~bounded))], True, self._equal)[1]

    def _rematch(self, slots: np.ndarray) -> None:
        """Looks up the matches of left rows, and gives what that changes."""
        rows = self._left.rows
        self._match = grown(self._match, rows.capacity)
        now = rows.count[slots]
        before = now - rows.delta[slots]
        old, new = self._match[slots], np.full(len(slots), -1, np.int64)
        there = now > 0
        new[there] = self._found(slots[there])
        self._match[slots] = new
        same = (old == new) & there & (before > 0)
        self._pair(slots[same], new[same], (now - before)[same])
        self._pair(slots[~same], old[~same], -before[~same])
        self._pair(slots[~same], new[~same], now[~same])

    def _pair(self, left: np.ndarray, right: np.ndarray, weights: np.ndarray) -> None:
        if not self._outer:
            found = right >= 0
            left, right, weights = left[found], right[found], weights[found]
        self._output.add(left, right, weights)

    def _found(self, slots: np.ndarray) -> np.ndarray:
        """The match of each left row as the right side is now, -1 where it has none."""
        found = np.full(len(slots), -1, np.int64)
        rows = np.flatnonzero(self._left.can_match(slots))
        if not len(rows):
            return found
        keys, times = self._left.rows.key[slots[rows]], [self._left.times(slots[rows])]
        near = self._right.rows.floor if self._back else self._right.rows.ceiling
        match = near(keys, times, self._equal)
        if not self._back:
            # Rows without a time stand behind all others.
            present = np.flatnonzero(match >= 0)
            match[present[self._right.without_time(match[present])]] = -1
        found[rows] = self._greatest(match) if self._ties else match
        return found

    def _greatest(self, found: np.ndarray) -> np.ndarray:
        """In the place of each right row the greatest of those of its key and time; of equal ones the first to come."""
        present = found >= 0
        distinct, back = np.unique(found[present], return_inverse=True)
        times = [self._right.times(distinct)]
        rows = self._right.rows
        index, peers = rows.range(rows.key[distinct], times, times, True, True)
        if len(peers) == len(distinct):
            return found
        flags = [False] * len(self._ordered)
        words = order_words([rows.take_column(p, peers) for p in self._ordered], flags, flags)
        order = np.lexsort((-np.arange(len(peers)), *words.T[::-1], index))
        best = np.append(index[order][1:] != index[order][:-1], True)
        found = found.copy()
        found[present] = peers[order[best]][back]
        return found

    def _forget(self, keys: list[np.ndarray]) -> None:
        """Gives back the slots of those keys that have no rows on either side."""
        seen = np.unique(np.concatenate(keys)) if keys else _NONE
        for side in (self._left, self._right):
            seen = seen[side.rows.totals(seen)[0] == 0]
        if len(seen):
            self._keys.remove(seen)


def _sortable(schema: Schema) -> list[int]:
    """The columns whose types have an order."""
    found: list[int] = []
    for position, field in enumerate(schema):
        try:
            OrderEncoder([field.type.arrow], [False], [False])
        except UnsupportedError:
            continue
        found.append(position)
    return found
