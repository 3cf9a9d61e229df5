"""The state of window aggregation: a pane per slice and key, slices in the order in which they end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from runtime.core.types import DataType
from runtime.eval.aggregates.aggregate_set import AggregateSet
from runtime.eval.aggregates.sums import RowCounts
from runtime.expr.function import FunctionRegistry
from runtime.kernels.arrow_buffers import fixed_array, fixed_values
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grow import expand_ranges, grown
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.interned import forget_unused
from runtime.kernels.key_encoding import KeyEncoder
from runtime.plan.nodes import AggregateSpec
from runtime.plan.state import StateSpec
from runtime.state.table import StateTable, shared_value

__all__ = ["WALL_TIME", "PaneState", "Slices", "wall_times"]

WALL_TIME = pa.timestamp("ms")
"""How bounds of windows are saved."""


def wall_times(milliseconds: np.ndarray) -> pa.Array:
    """Wall-clock times as a column to save."""
    return fixed_array(milliseconds, WALL_TIME, None)


class Slices:
    """The open slices: (end, start) in wall-clock milliseconds by slot, and sorted by end, then by start."""

    def __init__(self) -> None:
        self._index = HashIndex(2)
        self._end = np.zeros(0, np.int64)
        self._start = np.zeros(0, np.int64)
        self._sorted_ends = np.zeros(0, np.int64)
        self._sorted_slots = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._sorted_slots)

    @property
    def nbytes(self) -> int:
        return self._index.nbytes + self._end.nbytes + self._start.nbytes + 2 * self._sorted_ends.nbytes

    @property
    def ends(self) -> np.ndarray:
        """The ends of all open slices, ascending."""
        return self._sorted_ends

    @property
    def slots(self) -> np.ndarray:
        """The slots of all open slices, by end."""
        return self._sorted_slots

    def open(self, ends: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """The slots of slices, made where they are new."""
        words = np.stack((ends, starts), axis=1).view(np.uint64)
        slots, is_new = self._index.insert(words)
        if is_new.any():
            fresh, new_ends = slots[is_new], ends[is_new]
            self._end, self._start = grown(self._end, self._index.capacity), grown(self._start, self._index.capacity)
            self._end[fresh], self._start[fresh] = new_ends, starts[is_new]
            order = np.lexsort((starts[is_new], new_ends))
            fresh, new_ends = fresh[order], new_ends[order]
            place = self._places(new_ends, self._start[fresh])
            self._sorted_ends = np.insert(self._sorted_ends, place, new_ends)
            self._sorted_slots = np.insert(self._sorted_slots, place, fresh)
        return slots

    def _places(self, ends: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Where slices that are not there yet belong among those that are."""
        place = np.searchsorted(self._sorted_ends, ends, side="left")
        peers = np.searchsorted(self._sorted_ends, ends, side="right") - place
        if peers.any():
            index, at = expand_ranges(place, peers)
            earlier = self._start[self._sorted_slots[at]] < starts[index]
            place = place + np.bincount(index[earlier], minlength=len(ends))
        return place

    def close(self, slots: np.ndarray) -> None:
        """Forgets open slices."""
        if len(slots):
            self._index.remove(slots)
            kept = ~np.isin(self._sorted_slots, slots)
            self._sorted_ends, self._sorted_slots = self._sorted_ends[kept], self._sorted_slots[kept]

    def end(self, slots: np.ndarray) -> np.ndarray:
        return self._end[slots]

    def start(self, slots: np.ndarray) -> np.ndarray:
        return self._start[slots]


class PaneState:
    """Accumulators by (slice, key): panes of a slice are listed in order of arrival.

    Args:
        slices: the open slices, each of which has panes.
        keys: the types of the key columns.
        calls: the aggregate calls.
        types: the types of the input's columns.
        mergeable: panes are merged with each other (several slices make a window).
        counted: rows may be taken back, so panes count their live rows.
    """

    def __init__(
        self,
        slices: Slices,
        keys: Sequence[DataType],
        calls: Sequence[AggregateSpec],
        types: Sequence[DataType],
        mergeable: bool,
        counted: bool,
        functions: FunctionRegistry,
    ) -> None:
        arrow = [t.arrow for t in keys]
        self._slices = slices
        self._encoder = KeyEncoder(arrow, [t.nullable for t in keys])
        self._index = HashIndex(1 + self._encoder.width)
        self._keys = ColumnStore(arrow)
        self._lists = BlockLists()
        self.aggregates = AggregateSet(calls, types, mergeable, functions)
        self._live = RowCounts() if counted else None
        self._arrival = np.zeros(0, np.int64)
        self._next_seq = 0
        self._table: StateTable | None = None
        self._save_beside: Callable[[np.ndarray], list[pa.Array]] = lambda _: []
        self._restore_beside: Callable[[np.ndarray, list[pa.Array]], None] = lambda _, __: None

    def __len__(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        parts = (self._encoder, self._index, self._keys, self._lists, self.aggregates)
        live = 0 if self._live is None else self._live.values.nbytes
        return sum(p.nbytes for p in parts) + live + self._arrival.nbytes

    def tables(
        self,
        spec: StateSpec,
        columns: Sequence[tuple[str, pa.DataType]] = (),
        save: Callable[[np.ndarray], list[pa.Array]] | None = None,
        restore: Callable[[np.ndarray, list[pa.Array]], None] | None = None,
    ) -> list[StateTable]:
        """The tables of the panes (`spec`), with `columns` that the owner keeps beside a pane, and of what belongs to
        them. Called once: changes are noted in them from then on."""
        if save is not None and restore is not None:
            self._save_beside, self._restore_beside = save, restore
        self._table = StateTable(
            spec.name,
            [
                ("$start", WALL_TIME),
                ("$end", WALL_TIME),
                *zip(spec.key_names, self._keys.types, strict=True),
                *self.aggregates.columns(),
                *([] if self._live is None else [("$rows", pa.int64())]),
                ("$arrival", pa.int64()),
                *columns,
            ],
            live=self._index.live_slots,
            read=self._saved,
            load=self._load,
            key=spec.key_names,
        )
        arrivals = shared_value("arrivals", pa.int64(), lambda: self._next_seq, self._go_on_from)
        return [self._table, *self.aggregates.tables(self._table), arrivals]

    def add(
        self, slices: np.ndarray, keys: Sequence[pa.Array], signs: np.ndarray | None, columns: Sequence[pa.Array]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Takes in rows: `slices` are slice slots, `keys` the key columns, `columns` all columns of the input. Returns
        the pane of each row, and whether it is new."""
        words = np.empty((len(slices), self._index.width), np.uint64)
        words[:, 0] = slices
        words[:, 1:] = self._encoder.encode(keys, len(slices))
        panes, is_new = self._index.insert(words)
        fresh = np.flatnonzero(is_new)
        seqs = self._arrivals(len(slices))
        if len(fresh):
            take = pa.array(fresh)
            self._list(panes[fresh], slices[fresh], [k.take(take) for k in keys], seqs[fresh])
        self.aggregates.update(panes, signs, columns, seqs)
        if self._live is not None:
            self._live.add(panes, signs)
        self.wrote(panes)
        return panes, is_new

    def wrote(self, panes: np.ndarray) -> None:
        """Something of the panes, or beside them, is other than it was."""
        if self._table is not None:
            self._table.wrote(panes)

    def slices_of(self, panes: np.ndarray) -> np.ndarray:
        return self._index.keys(panes)[:, 0].view(np.int64)

    def arrival(self, panes: np.ndarray) -> np.ndarray:
        """Numbers that ascend in the order in which panes were made."""
        return self._arrival[panes]

    def panes(self, slices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The panes of slices: `(index into slices, pane)`."""
        return self._lists.probe(slices)

    def key_words(self, panes: np.ndarray) -> np.ndarray:
        """Words that are equal exactly for panes of equal keys."""
        return self._index.keys(panes)[:, 1:]

    def key_columns(self, panes: np.ndarray) -> list[pa.Array]:
        return self._keys.take(panes)

    def live(self, panes: np.ndarray) -> np.ndarray:
        """The number of live rows; at least one where rows are never taken back."""
        return np.ones(len(panes), np.int64) if self._live is None else self._live.at(panes)

    def drop(self, slices: np.ndarray) -> None:
        """Forgets all panes of slices."""
        _, panes = self._lists.probe(slices)
        self._lists.drop_keys(slices)
        self._release(panes)

    def fold_into(self, slices: np.ndarray, bases: np.ndarray) -> None:
        """Merges all panes of each slice into the pane of the same key of its base slice (another one), which then
        stands for both."""
        index, sources = self._lists.probe(slices)
        if len(sources):
            words = self._index.keys(sources).copy()
            words[:, 0] = bases[index]
            targets, is_new = self._index.insert(words)
            fresh = np.flatnonzero(is_new)
            arrivals = self._arrivals(len(fresh))
            self._list(targets[fresh], bases[index[fresh]], self._keys.take(sources[fresh]), arrivals)
            self.aggregates.merge(targets, self.aggregates, sources)
            if self._live is not None:
                self._live.merge(targets, self._live, sources)
            self.wrote(targets)
            self._lists.drop_keys(slices)
            self._release(sources)

    def _arrivals(self, count: int) -> np.ndarray:
        """The next numbers of arrival."""
        self._next_seq += count
        return np.arange(self._next_seq - count, self._next_seq, dtype=np.int64)

    def _list(self, panes: np.ndarray, slices: np.ndarray, keys: Sequence[pa.Array], arrivals: np.ndarray) -> None:
        """Notes new panes, in order of arrival."""
        self._keys.put(panes, keys)
        self._lists.append(slices, panes)
        self._arrival = grown(self._arrival, self._index.capacity)
        self._arrival[panes] = arrivals

    def _saved(self, panes: np.ndarray) -> list[pa.Array]:
        slices = self.slices_of(panes)
        return [
            wall_times(self._slices.start(slices)),
            wall_times(self._slices.end(slices)),
            *self._keys.take(panes),
            *self.aggregates.save(panes),
            *([] if self._live is None else [pa.array(self._live.at(panes))]),
            pa.array(self._arrival[panes]),
            *self._save_beside(panes),
        ]

    def _load(self, columns: list[pa.Array]) -> np.ndarray:
        width = len(self._keys.types)
        own = 2 + width + len(self.aggregates.columns()) + (self._live is not None) + 1
        order = np.argsort(columns[own - 1].to_numpy(), kind="stable")
        starts, ends, *rest = (c.take(pa.array(order)) for c in columns)
        slices = self._slices.open(fixed_values(ends), fixed_values(starts))
        keys, rest, beside = rest[:width], rest[width : own - 2], rest[own - 2 :]
        words = np.empty((len(slices), self._index.width), np.uint64)
        words[:, 0] = slices
        words[:, 1:] = self._encoder.encode(keys, len(slices))
        panes, _ = self._index.insert(words)
        self._list(panes, slices, keys, rest.pop().to_numpy())
        if self._live is not None:
            self._live.restore(panes, rest.pop())
        self.aggregates.restore(panes, rest)
        self._restore_beside(panes, beside)
        found = np.empty(len(panes), np.int64)
        found[order] = panes
        return found

    def _go_on_from(self, arrivals: list[object]) -> None:
        self._next_seq = max(cast("list[int]", arrivals))

    def _release(self, panes: np.ndarray) -> None:
        if len(panes) == 0:
            return
        if self._table is not None:
            self._table.freed(panes)
        self.aggregates.release(panes)
        self._keys.free(panes)
        self._index.remove(panes)
        if self._live is not None:
            self._live.release(panes)
        forget_unused(self._index, self._encoder, leading=1)
