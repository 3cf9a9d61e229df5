"""Values that would be others if they were computed again, and are taken back as they were given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.eval.evaluator import BatchContext, Stage
from runtime.kernels.grouping import group_ids
from runtime.kernels.key_encoding import KeyEncoder
from runtime.operators.operator import EpochTime, Operator, OperatorContext, StateSize
from runtime.plan.nodes import RememberExec
from runtime.plan.state import column_names
from runtime.state.keyed import KeyIndex
from runtime.state.keyed_state import KeyedState
from runtime.state.multiset import RowMultiset
from runtime.state.rows import Identity
from runtime.state.table import WRITTEN, StateTable

__all__ = ["RememberOperator"]

_NONE = np.empty(0, np.int64)


class RememberOperator(Operator):
    """`RememberExec`. The changes pass as they are, all of them and in their order, with the values behind their columns:
    new ones with a row that comes, with a row that goes those of a row that came.

    Which one, where equal rows came several times: what an epoch takes back of the rows that it brought goes with the
    values of those, in order, the rest with the values of the oldest in the state. A row that is taken back and comes again
    in one epoch is the row that it was, with its values. One of which nothing is known (its values were forgotten by
    `ttl`) is not taken back.

    State: for each row its values by key, a list where rows are equal; none for an input that only inserts.
    """

    def __init__(self, node: RememberExec, context: OperatorContext) -> None:
        self._schema = node.schema
        self._keys = node.kept_by
        self._ttl = node.ttl
        self._time_zone = context.time_zone
        self._stage = Stage(None, node.values, context.functions)
        self._types = [f.type.arrow for f in node.input.schema]
        self._key_types = [self._types[k] for k in self._keys]
        # A row is found again as it is: 0.0 is not -0.0.
        self._exact = node.keys is None
        self._index = KeyIndex(self._key_types, exact=self._exact)
        values = Schema(node.schema.fields[len(node.input.schema) :])
        self._given = RowMultiset(values, Identity.APPEND)
        self._appends = node.input.mode.is_append_only
        if not self._appends:
            self._given.table = self._state_table(node, values)

    def _state_table(self, node: RememberExec, values: Schema) -> StateTable:
        kept = node.kept("given")
        names, types = column_names(kept.schema), [f.type.arrow for f in kept.schema]
        width = len(self._keys)

        def read(slots: np.ndarray) -> list[pa.Array]:
            keys = self._index.columns(self._given.key[slots]) if width else []
            written = [self._given.times_written(slots)] if self._ttl else []
            return [*keys, *self._given.take(slots, wide=True), *written]

        def load(columns: list[pa.Array]) -> np.ndarray:
            keys, _ = self._index.insert(columns[:width], len(columns[-1]))
            slots = self._given.restore(columns[width : width + len(values)], keys, None)
            if self._ttl:
                self._given.restore_times(slots, columns[-1])
            return slots

        return StateTable(
            kept.name,
            [*zip(names, types, strict=True), *([(WRITTEN, pa.int64())] if self._ttl else [])],
            live=self._given.live_slots,
            read=read,
            load=load,
            key=kept.key_names,
            of=self._given.all,
            ttl=self._ttl,
        )

    @property
    def tables(self) -> Sequence[StateTable]:
        return () if self._given.table is None else (self._given.table,)

    @property
    def keyed(self) -> KeyedState | None:
        if self._exact or self._appends:
            return None
        return KeyedState.of(self._index, self._key_types, self._drop, expires=bool(self._ttl))

    def _drop(self, keys: np.ndarray) -> None:
        self._given.drop(keys)
        self._index.remove(keys)

    @property
    def state_size(self) -> StateSize:
        return StateSize(self._given.rows, self._given.nbytes + self._index.nbytes)

    def step(self, inputs: Sequence[ChangelogBatch | None], time: EpochTime) -> ChangelogBatch | None:
        if self._ttl:
            self._forget(self._given.expired(time.processing_time - self._ttl))
        (batch,) = inputs
        if batch is None or not len(batch):
            return None
        pairs = _pairs(batch)
        if pairs is None:
            fresh = self._fresh(batch, time)
            self._keep(batch, fresh, time)
            return ChangelogBatch.of(batch.columns + fresh, self._schema, batch.kinds)
        slots = self._taken(batch, pairs.earlier)
        known = slots >= 0
        again, by = pairs.again[known[pairs.by]], pairs.by[known[pairs.by]]
        new = np.ones(len(pairs.added), np.bool_)
        new[again] = False
        fresh = self._fresh(batch.take(pairs.added[new]), time)
        old = self._given.take(slots[known])
        # Where each change of the batch finds its values: among the fresh ones, then among those that were known.
        source = np.full(len(batch), -1, np.int64)
        source[pairs.added[new]] = np.arange(len(fresh[0]))
        source[pairs.earlier[known]] = len(fresh[0]) + np.arange(len(old[0]))
        source[pairs.added[again]] = source[pairs.earlier[by]]
        source[pairs.within] = source[pairs.added[pairs.of]]
        gone = known.copy()
        gone[by] = False
        self._forget(slots[gone])
        if self._ttl:
            self._given.write_times(slots[by], time.processing_time)
        new[pairs.of] = False
        lasting = pairs.added[new]
        self._keep(batch.take(lasting), [c.take(pa.array(source[lasting])) for c in fresh], time)
        if (source < 0).any():
            batch, source = batch.take(np.flatnonzero(source >= 0)), source[source >= 0]
            if not len(batch):
                return None
        chosen = pa.array(source)
        values = [pa.concat_arrays(both).take(chosen) for both in zip(fresh, old, strict=True)]
        return ChangelogBatch.of(batch.columns + values, self._schema, batch.kinds)

    def _fresh(self, rows: ChangelogBatch, time: EpochTime) -> list[pa.Array]:
        """New values for rows that come."""
        if not len(rows):
            return [pa.nulls(0, f.type.arrow) for f in self._schema.fields[len(self._types) :]]
        return self._stage.run(rows.rows, BatchContext.at(time, len(rows), self._time_zone))[1]

    def _keep(self, rows: ChangelogBatch, values: list[pa.Array], time: EpochTime) -> None:
        """Notes the values of rows that stay."""
        if self._appends or not len(rows):
            return
        keys, _ = self._index.insert([rows.column(k) for k in self._keys], len(rows))
        names = [str(i) for i in range(len(values))]
        changed = self._given.apply(ChangelogBatch(pa.RecordBatch.from_arrays(values, names=names)), keys)
        if self._ttl:
            self._given.write_times(changed, time.processing_time)
        self._given.settle(changed)

    def _taken(self, batch: ChangelogBatch, rows: np.ndarray) -> np.ndarray:
        """The slot of the values of each row that is taken back, -1 where none are known."""
        found = np.full(len(rows), -1, np.int64)
        if not len(rows):
            return found
        keys = self._index.find([batch.column(k).take(pa.array(rows)) for k in self._keys], len(rows))
        first, group = group_ids(keys.view(np.uint64).reshape(-1, 1))
        index, slots = self._given.all(keys[first])
        begin = np.searchsorted(index, np.arange(len(first)))
        rank = _ranks(group)
        there = rank < np.bincount(index, minlength=len(first))[group]
        found[there] = slots[(begin[group] + rank)[there]]
        return found

    def _forget(self, slots: np.ndarray) -> None:
        """Drops values, and the keys that have none any more."""
        if not len(slots):
            return
        keys = np.unique(self._given.key[slots])
        self._given.settle(self._given.take_away(slots))
        self._index.remove(keys[self._given.bag_sizes(keys) == 0])


class _Pairs(NamedTuple):
    """What the changes of an epoch have to do with one another.

    Attributes:
        added: the rows of the batch that come, ascending.
        within, of: rows that are taken back and came in the same epoch, and as which of `added`.
        earlier: rows that are taken back and came before the epoch.
        again, by: which of `added` are there when the epoch ends, as a row was before it: as which of `earlier`.
    """

    added: np.ndarray
    within: np.ndarray
    of: np.ndarray
    earlier: np.ndarray
    again: np.ndarray
    by: np.ndarray


def _pairs(batch: ChangelogBatch) -> _Pairs | None:
    """None when all rows come.

    Equal rows stand in the order of their changes, of which no prefix takes back more than came before: as many as the
    deepest of their sums says came before the epoch, and those go first.
    """
    if batch.kinds is None:
        return None
    signs = batch.signs()
    added, gone = np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)
    if not len(gone):
        return None
    if not len(added):
        return _Pairs(added, _NONE, _NONE, gone, _NONE, _NONE)
    first, group = group_ids(KeyEncoder([c.type for c in batch.columns], exact=True).encode(batch.columns, len(batch)))
    count = len(first)
    order = np.argsort(group, kind="stable")
    sums = np.cumsum(signs[order], dtype=np.int64)
    sizes = np.bincount(group, minlength=count)
    starts = np.cumsum(sizes) - sizes
    before = np.concatenate(([0], sums[starts[1:] - 1]))
    needed = np.maximum(before - np.minimum.reduceat(sums, starts), 0)
    gone_group, added_group = group[gone], group[added]
    gone_rank, added_rank = _ranks(gone_group), _ranks(added_group)
    within = gone_rank >= needed[gone_group]
    earlier = gone[~within]
    # What comes and does not go within the epoch stands behind what does.
    passing = np.bincount(gone_group, minlength=count) - needed
    place = added_rank - passing[added_group]
    again = np.flatnonzero((place >= 0) & (place < needed[added_group]))
    return _Pairs(
        added,
        gone[within],
        _nth(added_group, count, gone_group[within], (gone_rank - needed[gone_group])[within]),
        earlier,
        again,
        _nth(group[earlier], count, added_group[again], place[again]),
    )


def _nth(groups: np.ndarray, count: int, wanted: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """Where the row number `rank` of each wanted group stands; there are so many groups."""
    sizes = np.bincount(groups, minlength=count)
    return np.argsort(groups, kind="stable")[(np.cumsum(sizes) - sizes)[wanted] + rank]


def _ranks(groups: np.ndarray) -> np.ndarray:
    """How many rows of the same group stand before each row."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - (np.cumsum(sizes) - sizes)[groups[order]]
    return ranks
