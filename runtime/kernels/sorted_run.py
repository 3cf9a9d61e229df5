"""One sorted run of entries, some of which may be dead: searching, and skipping over the dead."""

from __future__ import annotations

from typing import Literal

import numpy as np

from runtime.kernels.grow import expand_ranges

__all__ = ["SortedRun"]

_FIRST_WINDOW = 8


class SortedRun:
    """Entries in the order of their byte string keys, each with a value id, living or dead.

    `keys` are the strings of `word_bytes` over (partition, order words, seq); `values` the value ids; `alive` flags.
    """

    def __init__(self, keys: np.ndarray, values: np.ndarray) -> None:
        self.keys = keys
        self.values = values
        self.alive = np.ones(len(keys), dtype=np.bool_)
        self.live = len(keys)
        self._bounds: tuple[np.ndarray, np.ndarray] | None = None
        self._forward = _Skips(self.alive)
        self._backward = _Skips(self.alive[::-1])

    def __len__(self) -> int:
        """The number of entries, dead ones included."""
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        bounds = sum(array.nbytes for array in self._bounds or ())
        own = self.keys.nbytes + self.values.nbytes + self.alive.nbytes
        return own + bounds + self._forward.nbytes + self._backward.nbytes

    def kill(self, positions: np.ndarray) -> None:
        """Marks live entries as dead."""
        self.alive[positions] = False
        self.live -= len(positions)

    def living(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys and values of the live entries, in order."""
        if self.live == len(self):
            return self.keys, self.values
        return self.keys[self.alive], self.values[self.alive]

    def partition_bounds(self, partitions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the entries of each partition begin and end; begin = end where there are none."""
        if self._bounds is None:
            own = self.keys.view(">u8").reshape(len(self), -1)[:, 0].astype(np.int64)
            starts = np.flatnonzero(np.concatenate(([True], own[1:] != own[:-1])))
            self._bounds = own[starts], np.append(starts, len(self))
        known, starts = self._bounds
        at = np.searchsorted(known, partitions)
        present = known[np.minimum(at, len(known) - 1)] == partitions
        return starts[at], starts[np.minimum(at + present, len(known))]

    def search(self, keys: np.ndarray, side: Literal["left", "right"]) -> np.ndarray:
        """For each key the position before ("left") or after ("right") all entries equal to it."""
        return np.searchsorted(self.keys, keys, side=side)

    def collect(
        self, low: np.ndarray, high: np.ndarray, limit: np.ndarray | None, backward: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """The first `limit` live positions of each range [low, high), or the last ones, nearest first; all if no limit.

        Returns `(range_index, position)`, ordered by neither.
        """
        if self.live == len(self):
            count = np.maximum(high - low, 0)
            if limit is not None:
                count = np.minimum(count, limit)
            return expand_ranges(high - count if backward else low, count)
        if backward:
            size = len(self)
            index, position = self._backward.collect(size - high, size - low, limit)
            return index, size - 1 - position
        return self._forward.collect(low, high, limit)


class _Skips:
    """Jumps over the dead entries of one run in one direction.

    For entries seen to begin a dead stretch a jump to its end is remembered, so that a partition whose head is eaten
    away again and again (a top-n, a timer queue) does not walk over its dead at each look. A scan that has become
    longer than the run itself builds the jumps of the whole run at once.
    """

    def __init__(self, alive: np.ndarray) -> None:
        self._alive = alive
        self._jump: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        return 0 if self._jump is None else self._jump.nbytes

    def skip(self, positions: np.ndarray) -> np.ndarray:
        """The first live entry at or after each position (0 to n), n where there is none."""
        size = len(self._alive)
        result = positions.copy()
        inside = np.flatnonzero(positions < size)
        dead = inside[~self._alive[positions[inside]]]
        if len(dead) == 0:
            return result
        jump = np.arange(size + 1, dtype=np.int64) if self._jump is None else self._jump
        pending = dead
        window = _FIRST_WINDOW
        work = 0
        while len(pending):
            work += len(pending) * window
            if work > size + 64:
                jump = self._all_jumps()
                result[pending] = jump[result[pending]]
                break
            at = jump[result[pending]]
            grid = np.minimum(at[:, None] + np.arange(window), size - 1)
            live = self._alive[grid]
            offset = live.argmax(axis=1)
            hit = live[np.arange(len(at)), offset]
            at = np.where(hit, at + offset, at + window)
            result[pending] = np.minimum(at, size)
            pending = pending[~(hit | (at >= size))]
            window *= 4
        # A grid clipped at the end may repeat the last entry, so a hit is never beyond it.
        jump[positions[dead]] = result[dead]
        self._jump = jump
        return result

    def collect(self, low: np.ndarray, high: np.ndarray, limit: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The first `limit` live positions of each range [low, high) (all if None): `(range_index, position)`."""
        indexes: list[np.ndarray] = []
        places: list[np.ndarray] = []
        want = high - low if limit is None else np.minimum(limit, high - low)
        pending = np.flatnonzero(want > 0)
        want = want[pending]
        at, end = low[pending], high[pending]
        window = _FIRST_WINDOW
        while len(pending):
            at = self.skip(at)
            count = np.clip(np.minimum(end - at, np.maximum(want, window)), 0, None)
            owner, place = expand_ranges(at, count)
            keep = self._alive[place]
            owner, place = owner[keep], place[keep]
            found = np.bincount(owner, minlength=len(pending))
            if (found > want).any():
                rank = np.arange(len(owner)) - (np.cumsum(found) - found)[owner]
                keep = rank < want[owner]
                owner, place = owner[keep], place[keep]
            indexes.append(pending[owner])
            places.append(place)
            at = at + count
            want = want - found
            again = np.flatnonzero((want > 0) & (at < end))
            pending, want, at, end = pending[again], want[again], at[again], end[again]
            window *= 2
        if not indexes:
            empty = np.empty(0, dtype=np.int64)
            return empty, empty
        return np.concatenate(indexes), np.concatenate(places)

    def _all_jumps(self) -> np.ndarray:
        """The first live entry at or after every position of the run."""
        size = len(self._alive)
        target = np.full(size + 1, size, dtype=np.int64)
        target[:size] = np.where(self._alive, np.arange(size), size)
        return np.minimum.accumulate(target[::-1])[::-1].copy()
