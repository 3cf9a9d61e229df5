"""When the keys in a store expire: in the store itself, in order of time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.kernels.arrow_buffers import binary_array, byte_spans
from runtime.state.rocksdb import RocksStore

__all__ = ["NO_DEADLINE", "Deadlines", "earliest"]

NO_DEADLINE = (1 << 63) - 1
_FAMILY = "deadlines"
_TIME_BYTES = 8


class Deadlines:
    """Keys by the time after which something of them has expired, milliseconds of processing time. An entry is that
    time and the key; whoever takes a key out of the store removes its entry, so that each key there has one at most.

    Args:
        store: its family `deadlines` is used for this.
    """

    def __init__(self, store: RocksStore) -> None:
        self._store = store
        self._next = NO_DEADLINE
        """No entry is earlier: where looking for them begins, so that removed ones are not passed again."""

    def add(self, keys: pa.Array, times: np.ndarray) -> None:
        """Notes keys (large_binary) with their times (int64), `NO_DEADLINE` for keys that never expire."""
        entries = _entries(keys, times)
        if len(entries):
            self._store.put(_FAMILY, entries, _empty(len(entries)))
            self._next = min(self._next, int(times.min()))

    def remove(self, keys: pa.Array, times: np.ndarray) -> None:
        """Keys that were noted with these times are no longer in the store."""
        self._store.delete(_FAMILY, _entries(keys, times))

    def take(self, now: int, most: int) -> pa.Array:
        """Of the keys so many at most whose time is before now, the earliest first; none when there are none. They are no longer
        noted."""
        if self._next >= now:
            return pa.array([], pa.large_binary())
        found = self._store.first(_FAMILY, _time_bytes(np.array([self._next])).tobytes(), most)
        if not len(found):
            self._next = NO_DEADLINE
            return found
        times, keys = _taken_apart(found)
        self._next = int(times[0])
        due = int(np.searchsorted(times, now))
        self._store.delete(_FAMILY, found.slice(0, due))
        return keys.slice(0, due)


def earliest(times: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The least of the first `counts[0]` times, of the next `counts[1]`, ...: `NO_DEADLINE` for none."""
    found = np.full(len(counts), NO_DEADLINE)
    filled = counts > 0
    if filled.any():
        found[filled] = np.minimum.reduceat(times, (np.cumsum(counts) - counts)[filled])
    return found


def _entries(keys: pa.Array, times: np.ndarray) -> pa.Array:
    """The entries of keys that expire, ascending."""
    expire = times != NO_DEADLINE
    if not expire.all():
        keys, times = keys.filter(pa.array(expire)), times[expire]
    if len(times) > 1 and (times[1:] < times[:-1]).any():
        order = np.argsort(times, kind="stable")
        keys, times = keys.take(pa.array(order)), times[order]
    offsets = np.arange(0, _TIME_BYTES * (len(times) + 1), _TIME_BYTES)
    prefixes = binary_array(offsets, _time_bytes(times), pa.large_binary())
    return pc.binary_join_element_wise(prefixes, keys, pa.scalar(b"", pa.large_binary()))


def _time_bytes(times: np.ndarray) -> np.ndarray:
    """Times in eight bytes each that compare as they do."""
    return (times.view(np.uint64) ^ np.uint64(1 << 63)).astype(">u8").view(np.uint8)


def _taken_apart(entries: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """The times and the keys of entries."""
    data, starts, lengths = byte_spans(entries)
    of_times = starts[:, None] + np.arange(_TIME_BYTES)
    times = (data[of_times].reshape(-1).view(">u8").astype(np.uint64) ^ np.uint64(1 << 63)).view(np.int64)
    of_keys = np.ones(len(data), np.bool_)
    of_keys[of_times] = False
    offsets = np.concatenate(([0], np.cumsum(lengths - _TIME_BYTES)))
    return times, binary_array(offsets, data[of_keys], pa.large_binary())


def _empty(count: int) -> pa.Array:
    return binary_array(np.zeros(count + 1, np.int64), np.empty(0, np.uint8), pa.large_binary())
