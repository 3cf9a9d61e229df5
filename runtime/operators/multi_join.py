"""Regular joins on one common key in one operator: each input is kept once, and nothing of what lies between them.

A chain of joins keeps the rows of A, B, A-B, C, A-B-C, D, ...; this keeps A, B, C, D. What comes out for a key is the
product of the bags of all inputs, where an empty bag of an input that is joined by LEFT counts as one row of NULLs.

The changes of an epoch are first taken into all inputs. Then each tuple of rows of which at least one has changed is made
once: changed rows of input i with the rows of inputs before i that have not changed, and all rows, gone ones too, of
inputs behind it. Its weight is the difference of the products of the counts after and before. So the output is the
difference of two batch answers, whatever came and went in the epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from runtime.core.changelog import ChangelogBatch
from runtime.operators.join_output import TupleOutput
from runtime.operators.join_side import PAIRS, JoinSide
from runtime.operators.lone_rows import padded
from runtime.operators.operator import PIECE_MAX_ROWS, EpochTime, OperatorContext, PiecewiseOperator, StateSize
from runtime.plan.nodes import JoinKind, MultiJoinExec
from runtime.state.keyed import KeyIndex
from runtime.state.keyed_state import KeyedState
from runtime.state.rows import Identity
from runtime.state.table import StateTable

__all__ = ["MultiJoinOperator"]

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Tuples:
    """Tuples of rows of one key, of some inputs: a slot for each input (-1 for NULLs; what stands for an input that is not
    joined yet means nothing), key slots, and how often each is there now and was before the epoch."""

    slots: tuple[np.ndarray, ...]
    keys: np.ndarray
    now: np.ndarray
    old: np.ndarray

    def joined(self, rows: np.ndarray, number: int, slots: np.ndarray, now: np.ndarray, old: np.ndarray) -> _Tuples:
        """The tuples at `rows` with a row of one more input, so often there; without those that are there neither now nor
        before."""
        now, old = self.now[rows] * now, self.old[rows] * old
        live = (now != 0) | (old != 0)
        if not live.all():
            rows, slots, now, old = rows[live], slots[live], now[live], old[live]
        mine = tuple(slots if i == number else side[rows] for i, side in enumerate(self.slots))
        return _Tuples(mine, self.keys[rows], now, old)


class MultiJoinOperator(PiecewiseOperator):
    """`MultiJoinExec`. Cost follows the changes and the tuples that they are part of; a key for which an INNER input has
    no row costs nothing more. Rows with NULL in a key match nothing; they are not kept, unless an update by key alone
    may need them.
    """

    def __init__(self, node: MultiJoinExec, context: OperatorContext) -> None:
        first = node.parts[0].schema
        self._key_types = [first[k].type.arrow for k in node.keys[0]]
        flags = [False] * len(self._key_types)
        self._keys = KeyIndex(self._key_types, flags)
        self._outer = tuple(kind is JoinKind.LEFT for kind in node.kinds)
        self._all_outer = all(self._outer[1:])
        self._inserts = node.mode.is_append_only
        self._sides = tuple(
            JoinSide(part.schema, part.mode, keys, unique, flags, False, outer, 0, self._inserts)
            for part, keys, unique, outer in zip(node.parts, node.keys, node.unique, self._outer, strict=True)
        )
        self._schema = node.schema
        rows = context.options.get(PIECE_MAX_ROWS)
        self._output = TupleOutput(node.schema, node.mode, [s.rows for s in self._sides], rows, self._inserts)
        self._tables = [side.table(spec, self._keys) for side, spec in zip(self._sides, node.state(), strict=True)]
        identities = {side.rows.identity for side in self._sides}
        # A bag without identity holds equal rows in several slots: their tuples with one changed row may cancel.
        self._cancels = identities >= {Identity.APPEND, Identity.FULL}

    @property
    def tables(self) -> Sequence[StateTable]:
        return self._tables

    @property
    def keyed(self) -> KeyedState:
        keys = self._keys
        return KeyedState(
            self._key_types,
            [False] * len(self._key_types),
            keys.find,
            keys.columns,
            keys.live_slots,
            lambda: len(keys),
            self._drop,
            False,
        )

    def _drop(self, keys: np.ndarray) -> None:
        for side in self._sides:
            side.rows.drop(keys)
        self._keys.remove(keys)

    @property
    def takes_codes(self) -> bool:
        return self._inserts

    def takes_parts(self, position: int) -> bool:
        return self._sides[position].takes_parts

    @property
    def state_size(self) -> StateSize:
        rows = sum(side.rows.rows for side in self._sides)
        return StateSize(rows, self._keys.nbytes + sum(side.nbytes for side in self._sides))

    def pieces(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        if self._inserts:
            yield from self._inserted(inputs, time)
            return
        lone: list[ChangelogBatch] = []
        changed = [_NONE] * len(self._sides)
        fresh_keys: list[np.ndarray] = []
        for number, (side, batch) in enumerate(zip(self._sides, inputs, strict=True)):
            if batch is None or not len(batch):
                continue
            batch, keys, new_keys, without = side.keyed(batch, self._keys)
            changed[number] = side.apply(batch, keys, time)
            if side.rows.identity is not Identity.APPEND:
                fresh_keys.append(new_keys)
            if without is not None and number == 0 and self._all_outer:
                lone.append(padded(without, self._schema))
        yield from self._join(changed, lone)
        lost = [side.rows.settle(slots) for side, slots in zip(self._sides, changed, strict=True)]
        self._forget(lost + fresh_keys)

    def _inserted(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> Iterator[ChangelogBatch]:
        """Inner joins of inserts: each input's new rows with what the others hold, one input after another."""
        for number, batch in enumerate(inputs):
            if batch is None or not len(batch):
                continue
            side = self._sides[number]
            batch, keys, _, _ = side.keyed(batch, self._keys)
            slots = side.apply(batch, keys, time)
            side.rows.settle(slots)
            for places in self._matched_by_all(keys, number):
                start = tuple(slots[places] for _ in self._sides)
                others = [i for i in range(len(self._sides)) if i != number]
                for made in self._with_all(start, keys[places], others):
                    self._output.add_tuples(made, np.ones(len(made[0]), np.int64))
                    if self._output.full:
                        yield from self._output.pieces()
        yield from self._output.whole([], self._replaced(), self._cancels)

    def _with_all(
        self, slots: tuple[np.ndarray, ...], keys: np.ndarray, others: list[int]
    ) -> Iterator[tuple[np.ndarray, ...]]:
        """Tuples of rows that only come, with those of the other inputs, in pieces."""
        if not others:
            yield slots
            return
        number, rest = others[0], others[1:]
        for index, found in self._sides[number].rows.probe(keys, PAIRS):
            made = tuple(found if i == number else side[index] for i, side in enumerate(slots))
            yield from self._with_all(made, keys[index], rest)

    def _join(self, changed: list[np.ndarray], lone: list[ChangelogBatch]) -> Iterator[ChangelogBatch]:
        """What the changed rows of all inputs change in the output, and `lone`, the changes of rows that match nothing."""
        output = self._output
        divided = False
        for made in self._changed_tuples(changed):
            weights = made.now - made.old
            output.add_tuples(made.slots, np.minimum(weights, 0) if divided else weights)
            if output.full:
                divided = True
                output.drop_inserts()
                if output.full:
                    yield from output.pieces()
        if not divided and output.fits(lone):
            yield from output.whole(lone, self._replaced(), self._cancels)
            return
        if divided:
            yield from output.pieces()
        yield from output.sliced([batch.filter(batch.signs() < 0) for batch in lone])
        if divided:
            for made in self._changed_tuples(changed):
                output.add_tuples(made.slots, np.maximum(made.now - made.old, 0))
                if output.full:
                    yield from output.pieces()
        yield from output.pieces()
        yield from output.sliced([batch.filter(batch.signs() > 0) for batch in lone])

    def _replaced(self) -> list[tuple[np.ndarray, np.ndarray] | None]:
        return [side.rows.replaced for side in self._sides]

    def _changed_tuples(self, changed: list[np.ndarray]) -> Iterator[_Tuples]:
        """Each tuple of which a row has changed, once, in pieces."""
        for number, slots in enumerate(changed):
            others = [i for i in range(len(self._sides)) if i != number]
            for start in self._starts(number, slots):
                yield from self._completed(start, others, number)

    def _starts(self, number: int, changed: np.ndarray) -> Iterator[_Tuples]:
        """What has changed of one input: its rows, and where it is joined by LEFT the row of NULLs, which comes when the
        bag of a key becomes empty."""
        if not len(changed):
            return
        rows = self._sides[number].rows
        keys = rows.key[changed]
        slots, now = changed, rows.count[changed]
        old = now - rows.delta[changed]
        if self._outer[number]:
            own = np.unique(keys)
            total, delta = rows.totals(own)
            flipped = (total == 0) != (total - delta == 0)
            own, total, delta = own[flipped], total[flipped], delta[flipped]
            slots = np.concatenate((slots, np.full(len(own), -1, np.int64)))
            keys = np.concatenate((keys, own))
            now = np.concatenate((now, (total == 0).astype(np.int64)))
            old = np.concatenate((old, (total - delta == 0).astype(np.int64)))
        for places in self._matched_by_all(keys, number):
            start = tuple(slots[places] for _ in self._sides)
            yield _Tuples(start, keys[places], now[places], old[places])

    def _matched_by_all(self, keys: np.ndarray, number: int) -> Iterator[np.ndarray]:
        """Where keys of one input have rows in all INNER ones, now or before, in pieces."""
        # A row without a key (-1) is kept only to be found again; alone it comes out where it is the first of LEFT joins.
        matched = keys >= (-1 if number == 0 and self._all_outer else 0)
        for i, side in enumerate(self._sides):
            if i != number and not self._outer[i]:
                matched &= side.rows.bag_sizes(keys) > 0
        places = np.flatnonzero(matched)
        for at in range(0, len(places), PAIRS):
            yield places[at : at + PAIRS]

    def _completed(self, part: _Tuples, others: list[int], changed: int) -> Iterator[_Tuples]:
        """The tuples with rows of all other inputs, in pieces; of inputs before the one that has changed only rows that
        have not."""
        if not others:
            yield part
            return
        number, rest = others[0], others[1:]
        for made in self._with_input(part, number, steady=number < changed):
            if len(made.keys):
                yield from self._completed(made, rest, changed)

    def _with_input(self, part: _Tuples, number: int, steady: bool) -> Iterator[_Tuples]:
        rows = self._sides[number].rows
        for index, found in rows.probe(part.keys, PAIRS):
            now, delta = rows.count[found], rows.delta[found]
            if steady and delta.any():
                same = delta == 0
                index, found, now, delta = index[same], found[same], now[same], delta[same]
            yield part.joined(index, number, found, now, now - delta)
        if self._outer[number]:
            now, delta = rows.totals(part.keys)
            empty, was_empty = now == 0, now == delta
            alone = np.flatnonzero(empty & was_empty if steady else empty | was_empty)
            nulls = np.full(len(alone), -1, np.int64)
            yield part.joined(alone, number, nulls, empty[alone].astype(np.int64), was_empty[alone].astype(np.int64))

    def _forget(self, keys: list[np.ndarray]) -> None:
        """Gives back the slots of those keys that have no rows on any side."""
        if not any(len(k) for k in keys):
            return
        seen = np.unique(np.concatenate(keys))
        for side in self._sides:
            seen = seen[side.rows.bag_sizes(seen) == 0]
        self._keys.remove(seen)
