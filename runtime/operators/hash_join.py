"""Regular join: both inputs kept for as long as they live, every kind, changes on both sides.

The changes of an epoch are first taken into both sides; then each pair of rows of which one has changed is looked at
once, and gives the difference of its multiplicities after and before. So whatever comes and goes within an epoch, the
output is the difference of two batch answers, never the flip-flops of padded rows that Flink emits record by record.

In a batch plan both inputs only grow, so that a pair is final when it is found; what matches nothing is known, and sent,
at the end of the inputs.

Output that is more than one batch comes in pieces: first all that is taken back, then, looking at the pairs once more,
what is new. So of a key that matches a million rows no more than a piece is ever in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from runtime.core.changelog import ChangelogBatch
from runtime.operators.join_condition import JoinCondition
from runtime.operators.join_output import PairOutput
from runtime.operators.join_side import PAIRS, JoinSide
from runtime.operators.lone_rows import padded
from runtime.operators.operator import PIECE_MAX_ROWS, EpochTime, OperatorContext, PiecewiseOperator, StateSize
from runtime.plan.nodes import HashJoinExec, JoinKind
from runtime.state.keyed import KeyIndex
from runtime.state.keyed_state import KeyedState
from runtime.state.rows import Identity
from runtime.state.table import StateTable

__all__ = ["HashJoinOperator"]

_NONE = np.empty(0, np.int64)


class HashJoinOperator(PiecewiseOperator):
    """`HashJoinExec`. Cost follows the changes and the pairs that they are part of.

    Semi and anti joins without a condition look only at whether the bag of a key is empty: a change of a key with a
    million rows on the other side costs nothing as long as that does not change. Rows with a NULL in a key that is
    not null-safe match nothing; they are not kept, unless an update by key alone may need them.
    """

    def __init__(self, node: HashJoinExec, context: OperatorContext) -> None:
        kind = node.kind
        flags = list(node.null_safe) or [False] * len(node.left_keys)
        self._key_types = [node.left.schema[k].type.arrow for k in node.left_keys]
        self._keys = KeyIndex(self._key_types, flags)
        self._null_safe = flags
        counted = kind is not JoinKind.INNER
        self._condition = None
        if node.condition is not None:
            self._condition = JoinCondition(node.condition, len(node.left.schema), context)
        self._expires = bool(node.left_ttl or node.right_ttl)
        # Rows that expire stop matching new rows only, so that with them a row's matches are not those of its key.
        self._by_total = self._condition is None and not self._expires
        totals = counted and self._by_total
        left_kept = kind.keeps_left or kind.left_only
        inserts = node.left.mode.is_append_only and node.right.mode.is_append_only and kind is JoinKind.INNER
        plain = inserts and not self._expires
        self._left = JoinSide(
            node.left.schema,
            node.left.mode,
            node.left_keys,
            node.left_unique,
            flags,
            left_kept,
            totals,
            node.left_ttl,
            plain,
        )
        self._right = JoinSide(
            node.right.schema,
            node.right.mode,
            node.right_keys,
            node.right_unique,
            flags,
            kind.keeps_right,
            totals,
            node.right_ttl,
            plain,
        )
        self._kind = kind
        self._at_end = node.emits_at_end
        self._schema = node.schema
        rows = context.options.get(PIECE_MAX_ROWS)
        sides = self._left.rows, self._right.rows
        self._output = PairOutput(node.schema, node.mode, *sides, kind.left_only, rows, coded=inserts)
        self._tables = [
            self._left.table(node.kept("left"), self._keys),
            self._right.table(node.kept("right"), self._keys),
        ]
        identities = {self._left.rows.identity, self._right.rows.identity}
        self._inserts = inserts
        # A bag without identity holds equal rows in several slots: their pairs with one changed row may cancel.
        self._cancels = identities == {Identity.APPEND, Identity.FULL} and not kind.left_only

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    def restored(self) -> None:
        self._left.count_unknown(self._right)
        self._right.count_unknown(self._left)

    @property
    def keyed(self) -> KeyedState:
        keys = self._keys
        return KeyedState(
            self._key_types,
            self._null_safe,
            keys.find,
            keys.columns,
            keys.live_slots,
            lambda: len(keys),
            self._drop,
            self._expires,
        )

    def _drop(self, keys: np.ndarray) -> None:
        self._left.rows.drop(keys)
        self._right.rows.drop(keys)
        self._keys.remove(keys)

    @property
    def takes_codes(self) -> bool:
        return self._inserts

    def takes_parts(self, position: int) -> bool:
        return (self._left, self._right)[position].takes_parts

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        if self._expires:
            self._expire(time)
        if self._inserts:
            yield from self._inserted(inputs, time)
            return
        lone: list[ChangelogBatch] = []
        changed = [_NONE, _NONE]
        fresh_keys: list[np.ndarray] = []
        for number, (side, batch) in enumerate(zip((self._left, self._right), inputs, strict=True)):
            if batch is None or not len(batch):
                continue
            batch, keys, new_keys, without = side.keyed(batch, self._keys)
            changed[number] = side.apply(batch, keys, time)
            if side.rows.identity is not Identity.APPEND:
                fresh_keys.append(new_keys)
            if without is not None and side.kept and self._kind is not JoinKind.SEMI:
                lone.append(padded(without, self._schema, before=number == 1))
        if not len(changed[0]) and not len(changed[1]):
            self._forget(fresh_keys)
            yield from self._finish(lone) if self._output.fits(lone) else self._output.sliced(lone)
        else:
            yield from self._join(changed[0], changed[1], lone, time)
            lost = [self._left.rows.settle(changed[0]), self._right.rows.settle(changed[1])]
            self._forget(lost + fresh_keys)
        if self._at_end and time.ends:
            yield from self._without_match()

    def _without_match(self) -> Iterator[ChangelogBatch]:
        """The rows of kept sides that match nothing, once both inputs have ended."""
        left, right = self._left, self._right
        for side, other, add in ((left, right, self._output.add_left), (right, left, self._output.add_right)):
            if side.kept:
                slots = side.rows.live_slots()
                slots = slots[side.matches(slots, other) == 0]
                for start in range(0, len(slots), PAIRS):
                    part = slots[start : start + PAIRS]
                    add(part, side.rows.count[part])
                    yield from self._output.pieces()

    @property
    def state_size(self) -> StateSize:
        left, right = self._left, self._right
        return StateSize(left.rows.rows + right.rows.rows, left.nbytes + right.nbytes + self._keys.nbytes)

    def _inserted(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        """Inner join of inserts: each side's new rows with what the other holds, the right side's after the left's
        have come."""
        for number, batch in enumerate(inputs):
            if batch is None or not len(batch):
                continue
            mine, other = (self._left, self._right) if number == 0 else (self._right, self._left)
            batch, keys, _, _ = mine.keyed(batch, self._keys)
            slots = mine.apply(batch, keys, time)
            mine.rows.settle(slots)
            for index, found in other.rows.probe(keys, PAIRS):
                pair = (slots[index], found) if number == 0 else (found, slots[index])
                left, right = self._filtered(*pair, time)
                self._output.add(left, right, np.ones(len(left), np.int64))
                if self._output.full:
                    yield from self._output.pieces()
        yield from self._finish([])

    def _join(
        self, left_changed: np.ndarray, right_changed: np.ndarray, lone: list[ChangelogBatch], time: EpochTime
    ) -> Iterator[ChangelogBatch]:
        """What the changed rows of both sides change in the output, and `lone`, the changes of rows that match nothing;
        match counts are brought up to date."""
        left, right = self._left, self._right
        by_total = self._by_total
        # Where nothing is taken back there are no deletes to be given first, for which all pairs would be gone through.
        grows = not (left.kept or right.kept) and bool(
            (left.rows.delta[left_changed] >= 0).all() and (right.rows.delta[right_changed] >= 0).all()
        )
        divided = False
        if not (by_total and self._kind.left_only):
            for l, r in self._changed_pairs(left_changed, right_changed, time):
                left_now, right_now = left.rows.count[l], right.rows.count[r]
                left_old, right_old = left_now - left.rows.delta[l], right_now - right.rows.delta[r]
                if not self._kind.left_only:
                    weights = left_now * right_now - left_old * right_old
                    self._output.add(l, r, np.minimum(weights, 0) if divided else weights)
                if not by_total:
                    left.count_matches(l, np.where(left_old == 0, right_now, right_now - right_old))
                    right.count_matches(r, np.where(right_old == 0, left_now, left_now - left_old))
                if self._output.full and not grows:
                    divided = True
                    self._output.drop_inserts()
                if self._output.full:
                    yield from self._output.pieces()
        flipped = self._flipped(left_changed, right_changed)
        if not divided:
            for add, slots, weights in flipped:
                add(slots, weights)
            if self._output.fits(lone):
                yield from self._finish(lone)
                return
            flipped = []
        yield from self._output.sliced([batch.filter(batch.signs() < 0) for batch in lone])
        for add, slots, weights in flipped:
            add(slots, np.minimum(weights, 0))
        yield from self._output.pieces()
        if divided and not self._kind.left_only:
            for l, r in self._changed_pairs(left_changed, right_changed, time):
                left_now, right_now = left.rows.count[l], right.rows.count[r]
                left_old, right_old = left_now - left.rows.delta[l], right_now - right.rows.delta[r]
                self._output.add(l, r, np.maximum(left_now * right_now - left_old * right_old, 0))
                if self._output.full:
                    yield from self._output.pieces()
        for add, slots, weights in flipped:
            add(slots, np.maximum(weights, 0))
        yield from self._output.pieces()
        yield from self._output.sliced([batch.filter(batch.signs() > 0) for batch in lone])

    def _flipped(
        self, left_changed: np.ndarray, right_changed: np.ndarray
    ) -> list[tuple[Callable[[np.ndarray, np.ndarray], None], np.ndarray, np.ndarray]]:
        """The rows of kept sides that come or go alone: how they are added to the output, their slots and weights."""
        left, right = self._left, self._right
        found: list[tuple[Callable[[np.ndarray, np.ndarray], None], np.ndarray, np.ndarray]] = []
        for side, other, mine, theirs, add in (
            (left, right, left_changed, right_changed, self._output.add_left),
            (right, left, right_changed, left_changed, self._output.add_right),
        ):
            if not side.kept:
                continue
            if self._by_total:
                slots, old, now = side.flipped_by_total(other, mine, theirs)
            else:
                slots, old, now = side.flipped_by_count(mine)
            count = side.rows.count[slots]
            before = count - side.rows.delta[slots]
            if self._at_end:
                continue
            shows_old, shows_now = (old > 0, now > 0) if self._kind is JoinKind.SEMI else (old == 0, now == 0)
            found.append((add, slots, count * shows_now - before * shows_old))
        return found

    def _changed_pairs(
        self, left_changed: np.ndarray, right_changed: np.ndarray, time: EpochTime
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Each pair of rows that match, now or before, of which one has changed, once: in pieces of `(left slots,
        right slots)`."""
        left, right = self._left.rows, self._right.rows
        for index, found in right.probe(left.key[left_changed], PAIRS):
            yield self._filtered(left_changed[index], found, time)
        for index, found in left.probe(right.key[right_changed], PAIRS):
            still = left.delta[found] == 0
            if not still.all():
                index, found = index[still], found[still]
            yield self._filtered(found, right_changed[index], time)

    def _filtered(self, left: np.ndarray, right: np.ndarray, time: EpochTime) -> tuple[np.ndarray, np.ndarray]:
        if self._condition is None or not len(left):
            return left, right
        holds = self._condition.holds(self._left.rows.take_column, left, self._right.rows.take_column, right, time)
        return (left, right) if holds.all() else (left[holds], right[holds])

    def _finish(self, lone: list[ChangelogBatch]) -> Iterator[ChangelogBatch]:
        """All that was collected and `lone` in one batch."""
        replaced = (self._left.rows.replaced, self._right.rows.replaced)
        yield from self._output.whole(lone, replaced, self._cancels)

    def _forget(self, keys: list[np.ndarray]) -> None:
        """Gives back the slots of those keys that have no rows on either side."""
        if not any(len(k) for k in keys):
            return
        seen = np.concatenate(keys)
        seen = seen[self._left.rows.bag_sizes(seen) == 0]
        self._keys.remove(np.unique(seen[self._right.rows.bag_sizes(seen) == 0]))

    def _expire(self, time: EpochTime) -> None:
        """Rows idle for longer than their side's time to live stop matching. Nothing is taken back for them,
        as in Flink: a row of the other side that had matched them goes on to count as matched, as what it
        gave is still out there."""
        lost = [side.rows.settle(side.take_expired(time)) for side in (self._left, self._right)]
        self._forget(lost)
