"""Answers of a table that are remembered by key."""

from __future__ import annotations

import time as wall_clock

import numpy as np
import pyarrow as pa

from runtime.core.errors import SqlEngineError
from runtime.core.schema import Schema
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grow import grown
from runtime.kernels.recency import Recency
from runtime.kernels.slots import SlotAllocator
from runtime.operators.lookup_answers import Answers, Found
from runtime.operators.operator import CacheFigures
from runtime.plan.parts import PartialCaching
from runtime.state.idle_slots import IdleSlots
from runtime.state.keyed import KeyIndex

__all__ = ["PartialCache"]


class PartialCache:
    """Asks for keys that it does not remember. It is no state: after a restart it is empty.

    Args:
        asked: answers what is not remembered.
        key_types: of the columns of keys.
        schema: of the rows.
    """

    def __init__(self, settings: PartialCaching, asked: Answers, key_types: list[pa.DataType], schema: Schema) -> None:
        self._settings = settings
        self._asked = asked
        self._figures = CacheFigures()
        self._keys = KeyIndex(key_types)
        self._held = np.empty(0, np.int64)
        """By key slot: its rows, or 1 when it has none."""
        self._rows = ColumnStore([f.type.arrow for f in schema])
        self._slots = SlotAllocator()
        self._lists = BlockLists()
        self._recency = Recency()
        # One that is as old as it may be has expired, and idle slots are those that are older.
        self._written = None if settings.after_write is None else IdleSlots(settings.after_write - 1)
        self._used = None if settings.after_access is None else IdleSlots(settings.after_access - 1)

    @property
    def figures(self) -> CacheFigures:
        figures = self._figures
        figures.nbytes = self._rows.nbytes + self._slots.nbytes + self._lists.nbytes + self._keys.nbytes
        return figures

    def answer(self, keys: pa.RecordBatch, rows: int, now: int) -> Found:
        self._expire(now)
        known = self._keys.find(keys.columns, keys.num_rows)
        missed = np.flatnonzero(known < 0)
        hits = np.flatnonzero(known >= 0)
        self._figures.hits += rows - len(missed)
        self._figures.misses += len(missed)
        found = self._remembered(hits, known[hits])
        if not len(missed):
            self._use(known, now)
            return found
        asked = self._load(keys if len(missed) == keys.num_rows else keys.take(pa.array(missed)), now)
        known[missed] = self._add(keys, missed, asked, now)
        self._use(known[known >= 0], now)
        self._make_room()
        asked = asked._replace(positions=missed[asked.positions])
        return _merged(found, asked) if len(hits) else asked

    def _remembered(self, positions: np.ndarray, slots: np.ndarray) -> Found:
        index, rows = self._lists.probe(slots)
        return Found(positions[index], self._rows.take(rows))

    def _load(self, keys: pa.RecordBatch, now: int) -> Found:
        begin = wall_clock.perf_counter()
        try:
            found = self._asked.answer(keys, keys.num_rows, now)
        except SqlEngineError:
            self._figures.failures += keys.num_rows
            raise
        self._figures.loads += keys.num_rows
        self._figures.latest_load = wall_clock.perf_counter() - begin
        return found

    def _add(self, keys: pa.RecordBatch, missed: np.ndarray, asked: Found, now: int) -> np.ndarray:
        """Remembers answers; the slots of the keys that were missed, -1 for one that is not remembered."""
        counts = np.bincount(asked.positions, minlength=len(missed))
        slots = np.full(len(missed), -1, np.int64)
        kept = np.arange(len(missed)) if self._settings.missing else np.flatnonzero(counts)
        if not len(kept):
            return slots
        added, _ = self._keys.insert(keys.take(pa.array(missed[kept])).columns, len(kept))
        slots[kept] = added
        held = np.maximum(counts[kept], 1)
        self._held = grown(self._held, self._keys.capacity)
        self._held[added] = held
        self._figures.rows += int(held.sum())
        rows = self._slots.allocate(len(asked.positions))
        self._rows.put(rows, asked.columns)
        self._lists.append(slots[asked.positions], rows)
        if self._written is not None:
            self._written.touch(added, now)
        return slots

    def _use(self, slots: np.ndarray, now: int) -> None:
        if self._settings.max_rows is not None:
            self._recency.use(slots)
        if self._used is not None:
            self._used.touch(slots, now)

    def _make_room(self) -> None:
        most = self._settings.max_rows
        if most is None or self._figures.rows <= most:
            return
        over = self._figures.rows - most
        oldest = self._recency.oldest(over)
        gone = int(np.searchsorted(np.cumsum(self._held[oldest]), over)) + 1
        self._forget(oldest[:gone])

    def _expire(self, now: int) -> None:
        for idle in (self._written, self._used):
            if idle is not None:
                slots = idle.expired(now)
                if len(slots):
                    self._forget(slots)

    def _forget(self, slots: np.ndarray) -> None:
        """Keys, each once."""
        _, rows = self._lists.probe(slots)
        self._lists.drop_keys(slots)
        self._rows.free(rows)
        self._slots.free(rows)
        self._keys.remove(slots)
        self._figures.rows -= int(self._held[slots].sum())
        if self._settings.max_rows is not None:
            self._recency.forget(slots)
        for idle in (self._written, self._used):
            if idle is not None:
                idle.forget(slots)


def _merged(one: Found, other: Found) -> Found:
    """Both by position; no position is in both."""
    positions = np.concatenate((one.positions, other.positions))
    order = np.argsort(positions, kind="stable")
    picked = pa.array(order)
    columns = [pa.concat_arrays([a, b]).take(picked) for a, b in zip(one.columns, other.columns, strict=True)]
    return Found(positions[order], columns)
