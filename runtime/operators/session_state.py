"""Session windows: per key, rows no further apart than the gap stand in one session, which grows and joins others.

A row opens [time, time + gap); windows that touch (start <= other end) are one, as in Flink: rows exactly a gap apart
share a session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.core.clock import MIN_WATERMARK
from runtime.core.types import DataType
from runtime.kernels.arrow_buffers import fixed_values
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.columns import ColumnStore, SlotAllocator
from runtime.kernels.grouping import group_ids
from runtime.kernels.grow import grown
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.interned import forget_unused
from runtime.kernels.key_encoding import KeyEncoder
from runtime.kernels.sorted_runs import SortedRuns
from runtime.operators.pane_state import WALL_TIME, wall_times
from runtime.operators.window_assign import closed, firing_times
from runtime.plan.state import StateSpec
from runtime.state.table import StateTable
from runtime.state.timed import time_words

__all__ = ["Assigned", "SessionState"]


@dataclass(frozen=True, slots=True)
class Assigned:
    """What a batch did: the session of each row (-1: late), and the sessions `joined` that became part of `into`
    (pairwise).

    The owner moves what it keeps for `joined` and then calls `SessionState.drop(joined)`.
    """

    sessions: np.ndarray
    joined: np.ndarray
    into: np.ndarray


class SessionState:
    """The open sessions of all keys. Times are wall-clock milliseconds; `zone` maps ends back to instants for
    firing."""

    def __init__(self, keys: Sequence[DataType], gap: int, zone: str | None) -> None:
        arrow = [t.arrow for t in keys]
        self._gap = gap
        self._zone = zone
        self._encoder = KeyEncoder(arrow, [t.nullable for t in keys])
        self._index = HashIndex(self._encoder.width)
        self._keys = ColumnStore(arrow)
        self._open = BlockLists()
        self._slots = SlotAllocator()
        self._start, self._end = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._key_of, self._seq = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._queue = SortedRuns(1)
        self._next_seq = 0
        self._table: StateTable | None = None

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def nbytes(self) -> int:
        parts = (self._encoder, self._index, self._keys, self._open, self._slots, self._queue)
        return sum(p.nbytes for p in parts) + 4 * self._start.nbytes

    def keep_in(
        self,
        spec: StateSpec,
        columns: Sequence[tuple[str, pa.DataType]] = (),
        save: Callable[[np.ndarray], list[pa.Array]] | None = None,
        restore: Callable[[np.ndarray, list[pa.Array]], None] | None = None,
    ) -> StateTable:
        """The table of the open sessions, in which changes are noted from now on: bounds, key columns,
        `columns` that the owner keeps beside a session, and `$arrival`, their order."""
        width = len(self._keys.types)

        def read(sessions: np.ndarray) -> list[pa.Array]:
            return [
                wall_times(self._start[sessions]),
                wall_times(self._end[sessions]),
                *self.key_columns(sessions),
                *([] if save is None else save(sessions)),
                pa.array(self._seq[sessions]),
            ]

        def load(given: list[pa.Array]) -> np.ndarray:
            order = np.argsort(given[-1].to_numpy(), kind="stable")
            starts, ends, *rest, seqs = (c.take(pa.array(order)) for c in given)
            sessions = self._load(rest[:width], fixed_values(starts), fixed_values(ends), seqs.to_numpy())
            if restore is not None:
                restore(sessions, rest[width:])
            found = np.empty(len(sessions), np.int64)
            found[order] = sessions
            return found

        self._table = StateTable(
            spec.name,
            [
                ("$start", WALL_TIME),
                ("$end", WALL_TIME),
                *zip(spec.key_names, self._keys.types, strict=True),
                *columns,
                ("$arrival", pa.int64()),
            ],
            live=self._slots.live_slots,
            read=read,
            load=load,
            key=spec.key_names,
        )
        return self._table

    def assign(self, keys: Sequence[pa.Array], times: np.ndarray, watermark: int) -> Assigned:
        """Puts rows into sessions, opening, widening and joining them. `watermark` is that of the epoch before: rows
        whose session it has closed are late."""
        key_slots, is_new = self._index.insert(self._encoder.encode(keys, len(times)))
        fresh = np.flatnonzero(is_new)
        self._keys.put(key_slots[fresh], [k.take(pa.array(fresh)) for k in keys])
        first, group = group_ids(key_slots.view(np.uint64).reshape(-1, 1))
        owner, known = self._open.probe(key_slots[first])
        count = len(known)
        group = np.concatenate((owner, group))
        starts = np.concatenate((self._start[known], times))
        ends = np.concatenate((self._end[known], times + self._gap))
        order = np.lexsort((starts, group))
        reach = _running_max(group[order], ends[order])
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (group[order][1:] != group[order][:-1]) | (starts[order][1:] > reach[:-1])
        heads = np.flatnonzero(begins)
        cluster = np.empty(len(order), np.int64)
        cluster[order] = np.cumsum(begins) - 1
        cluster_start = starts[order][heads]
        cluster_end = reach[np.append(heads[1:], len(order)) - 1]
        late = closed(firing_times(cluster_end, self._zone), watermark)
        target, joined, into = self._targets(cluster, known, late, first, key_slots, group)
        live = np.flatnonzero(~late)
        self._reshape(target[live], cluster_start[live], cluster_end[live], target[live] >= 0)
        self._forget_keys(key_slots[first])
        sessions = target[cluster[count:]]
        if self._table is not None:
            # Only sessions that rows fell in have other bounds, or others joined to them.
            self._table.wrote(sessions[sessions >= 0])
        return Assigned(sessions, joined, into)

    def pop(self, watermark: int) -> np.ndarray:
        """The sessions that the watermark closes, by end, then by first arrival; they stay readable until `drop`."""
        if watermark == MIN_WATERMARK:
            return np.empty(0, np.int64)
        sessions = self._queue.pop_below(0, time_words(np.array([watermark]))[0], inclusive=True)
        return sessions

    def drop(self, sessions: np.ndarray) -> None:
        """Forgets sessions that were popped or joined to others."""
        if len(sessions) == 0:
            return
        if self._table is not None:
            self._table.freed(sessions)
        keys = self._key_of[sessions]
        self._open.remove(keys, sessions)
        self._slots.free(sessions)
        self._forget_keys(np.unique(keys))

    def bounds(self, sessions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The wall-clock starts and ends of sessions."""
        return self._start[sessions], self._end[sessions]

    def key_columns(self, sessions: np.ndarray) -> list[pa.Array]:
        return self._keys.take(self._key_of[sessions])

    def _targets(
        self,
        cluster: np.ndarray,
        known: np.ndarray,
        late: np.ndarray,
        first: np.ndarray,
        key_slots: np.ndarray,
        group: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The session of each cluster (-1 if late), made where there is none, and the known sessions that join
        another."""
        count = len(known)
        target = np.full(len(late), -1, np.int64)
        # Backwards: the first known session of a cluster stays.
        target[cluster[:count][::-1]] = known[::-1]
        into = target[cluster[:count]]
        joins = into != known
        rows = cluster[count:]
        first_row = np.full(len(late), -1, np.int64)
        first_row[rows[::-1]] = np.arange(len(rows) - 1, -1, -1)
        without = np.flatnonzero((target < 0) & ~late)
        without = without[np.argsort(first_row[without])]
        keys = key_slots[first][group[count:][first_row[without]]]
        made = self._make(keys, self._next_seq + np.arange(len(keys)))
        target[without] = made
        self._end[made] = MIN_WATERMARK
        joined = known[joins]
        self._queue.remove(joined)
        return target, joined, into[joins]

    def _make(self, keys: np.ndarray, seqs: np.ndarray) -> np.ndarray:
        """New sessions of keys, in order of arrival; their bounds are still to be set."""
        made = self._slots.allocate(len(keys))
        high = self._slots.high
        for name in ("_start", "_end", "_key_of", "_seq"):
            setattr(self, name, grown(getattr(self, name), high))
        self._key_of[made], self._seq[made] = keys, seqs
        self._next_seq = max(self._next_seq, int(seqs[-1]) + 1) if len(seqs) else self._next_seq
        self._open.append(keys, made)
        return made

    def _load(self, keys: Sequence[pa.Array], starts: np.ndarray, ends: np.ndarray, seqs: np.ndarray) -> np.ndarray:
        """Sessions that are put back, in order of arrival."""
        key_slots, is_new = self._index.insert(self._encoder.encode(keys, len(seqs)))
        fresh = np.flatnonzero(is_new)
        self._keys.put(key_slots[fresh], [k.take(pa.array(fresh)) for k in keys])
        sessions = self._make(key_slots, seqs)
        self._end[sessions] = MIN_WATERMARK
        self._reshape(sessions, starts, ends, np.ones(len(sessions), np.bool_))
        return sessions

    def _reshape(self, sessions: np.ndarray, starts: np.ndarray, ends: np.ndarray, present: np.ndarray) -> None:
        """Sets bounds and queues sessions by the instant at which they close."""
        sessions, starts, ends = sessions[present], starts[present], ends[present]
        moved = self._end[sessions] != ends
        queued = moved & (self._end[sessions] != MIN_WATERMARK)
        self._queue.remove(sessions[queued])
        self._start[sessions], self._end[sessions] = starts, ends
        changed = sessions[moved]
        if len(changed):
            zeros = np.zeros(len(changed), np.int64)
            self._queue.insert(zeros, time_words(firing_times(ends[moved], self._zone)), self._seq[changed], changed)

    def _forget_keys(self, keys: np.ndarray) -> None:
        """Forgets keys without an open session."""
        idle = keys[self._open.counts(keys) == 0]
        if len(idle):
            self._index.remove(idle)
            self._keys.free(idle)
            forget_unused(self._index, self._encoder)


def _running_max(group: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The greatest value so far within each group; groups are ascending."""
    if len(values) == 0:
        return values
    low, high = int(values.min()), int(values.max())
    span = high - low + 1
    if span * (int(group[-1]) + 1) < 1 << 62:
        apart = group * span
        return np.maximum.accumulate(values - low + apart) - apart + low
    # Ranks instead of values, where the offsets between groups would not fit.
    distinct, rank = np.unique(values, return_inverse=True)
    apart = group * len(distinct)
    return distinct[np.maximum.accumulate(rank + apart) - apart]
