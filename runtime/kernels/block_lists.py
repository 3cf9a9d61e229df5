"""Lists of values by key, in contiguous blocks of one arena: the rows of each join key."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from runtime.core.cancellation import look
from runtime.core.errors import InternalError
from runtime.kernels.grouping import group_ids
from runtime.kernels.grow import expand_ranges, grow, grown, kept_bytes
from runtime.kernels.indexed import put_at
from runtime.kernels.native import kernel
from runtime.kernels.radix import radix_argsort

__all__ = ["BlockLists"]

_DEAD = -1
_CLASSES = 48
"""More sizes of blocks than there can be."""

_NO_PLACES = np.empty(0, np.int64)

_append_to_lists = kernel("append_to_lists", "iiIIIIiTIIiiII")


class BlockLists:
    """A list of int64 values for each key, in order of arrival.

    Keys are dense slots (of a `HashIndex`), values dense row slots: each value is in at most one list at a time. A
    list is a block of 2**c entries of the arena; a full block moves to one of twice the size, freed blocks are reused
    by size. A removed value leaves a hole; a block that is more than half holes is compacted. So appending and
    removing cost amortised O(changes), and reading a list O(its length). A key of -1, or one never seen, has an empty
    list. Where each value stands is noted from the first removal on: lists that only grow never need it.
    """

    def __init__(self) -> None:
        self._arena = np.empty(16, np.int64)
        self._used_arena = 0
        self._start = np.empty(0, np.int64)
        self._used = np.empty(0, np.int64)
        self._dead = np.empty(0, np.int64)
        self._class = np.empty(0, np.int8)
        self._place: np.ndarray | None = None
        # The starts of freed blocks, by size: a stretch of one array, where it begins, for how many there is room, and
        # how many there are.
        self._freed = np.empty(0, np.int64)
        self._freed_end = 0
        self._freed_at = np.zeros(_CLASSES, np.int64)
        self._capacities = np.zeros(_CLASSES, np.int64)
        self._heights = np.zeros(_CLASSES, np.int64)
        self._live = 0

    def __len__(self) -> int:
        """The number of live values."""
        return self._live

    @property
    def nbytes(self) -> int:
        arrays = (self._start, self._used, self._dead, self._class, *(() if self._place is None else (self._place,)))
        free = 8 * int(self._heights.sum())
        return kept_bytes(self._arena, self._used_arena) + sum(a.nbytes for a in arrays) + free

    def append(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Adds `values[i]` (not in any list now) to the list of `keys[i]`; keys may repeat, their order of arrival is
        kept.
        """
        if len(keys) == 0:
            return
        self._grow_keys(int(keys.max()) + 1)
        if self._place is not None:
            self._place = grown(self._place, int(values.max()) + 1)
        self._live += len(keys)
        if _append_to_lists is not None:
            # A list that is full may pass through every size on its way.
            self._reserve(len(keys) >> np.arange(_CLASSES))
            grow(self, "_arena", self._used_arena + 2 * len(keys))
            left, arena_used = np.empty(len(keys), np.int64), np.array([self._used_arena])
            lists = self._start, self._used, self._dead, self._class
            place = _NO_PLACES if self._place is None else self._place
            freed = self._freed, self._freed_at, self._capacities, self._heights
            count = _append_to_lists(keys, values, self._arena, arena_used, *lists, place, *freed, left)
            self._used_arena = int(arena_used[0])
            if not count:
                return
            keys, values = keys[left[:count]], values[left[:count]]
        self._append_sorted(keys, values)

    def _append_sorted(self, keys: np.ndarray, values: np.ndarray) -> None:
        """`append` by runs of equal keys; blocks that are full are moved."""
        count = len(keys)
        if count > 1 and not (keys[1:] >= keys[:-1]).all():
            order = radix_argsort([keys])
            keys, values = keys[order], values[order]
        first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        touched = keys[first]
        added = np.diff(np.append(first, count))
        needed = self._used[touched] + added
        full = needed > self._room(touched)
        if full.any():
            self._relocate(touched[full], added[full])
        used = self._used[touched]
        place = np.arange(count, dtype=np.int64)
        place += np.repeat(self._start[touched] + used - first, added)
        put_at(self._arena, place, values)
        put_at(self._used, touched, used + added)
        if self._place is not None:
            put_at(self._place, values, place)

    def remove(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Takes each value (live, each once) out of the list of its key.

        Raises:
            InternalError: a value is in no list.
        """
        if len(keys) == 0:
            return
        if self._place is None:
            self._place = self._places()
        place = self._place[values] if int(values.max()) < len(self._place) else np.zeros(len(values), np.int64)
        if not (self._arena[place] == values).all():
            raise InternalError("block lists were asked to remove a value that they do not hold")
        self._arena[place] = _DEAD
        self._live -= len(values)
        first, group = group_ids(np.ascontiguousarray(keys).view(np.uint64).reshape(-1, 1))
        touched = keys[first]
        dead = self._dead[touched] + np.bincount(group, minlength=len(first))
        self._dead[touched] = dead
        sparse = 2 * dead > self._used[touched]
        if sparse.any():
            self._relocate(touched[sparse], np.zeros(int(np.count_nonzero(sparse)), np.int64))

    def counts(self, keys: np.ndarray) -> np.ndarray:
        """The number of live values of each key, int64 (n,)."""
        known, _ = self._known(keys)
        counts = self._used[known] - self._dead[known] if len(self._used) else np.zeros(len(keys), np.int64)
        return self._zero_unknown(keys, counts)

    def probe(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All values of all keys: `(probe_index, values)`, int64, in order of `keys`, then of arrival."""
        known, used = self._known(keys)
        if not len(self._used):
            empty = np.empty(0, np.int64)
            return empty, empty
        index, place = expand_ranges(self._start[known], used)
        values = self._arena[place]
        if self._live < self._used_arena:
            alive = values != _DEAD
            if not alive.all():
                index, values = index[alive], values[alive]
        return index, values

    def probe_chunks(self, keys: np.ndarray, max_pairs: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """`probe` in pieces of at most `max_pairs` pairs, in the same order. The lists must not change meanwhile."""
        if len(keys) == 0:
            return
        ends = np.cumsum(self._known(keys)[1])
        start = 0
        while start < len(keys):
            look()
            done = int(ends[start - 1]) if start else 0
            end = int(np.searchsorted(ends, done + max_pairs, side="right"))
            if end > start:
                index, values = self.probe(keys[start:end])
                if len(index):
                    yield index + start, values
                start = end
                continue
            block = self._arena[self._start[keys[start]] :][: int(ends[start]) - done]
            for at in range(0, len(block), max_pairs):
                look()
                values = block[at : at + max_pairs]
                values = values[values != _DEAD]
                if len(values):
                    yield np.full(len(values), start, np.int64), values
            start += 1

    def drop_keys(self, keys: np.ndarray) -> None:
        """Empties the lists of the keys at the cost of O(keys), however long the lists are."""
        keys = np.unique(keys)
        keys = keys[(keys >= 0) & (keys < len(self._used))]
        self._live -= int((self._used[keys] - self._dead[keys]).sum())
        self._release(keys)

    def renumber(self, numbers: np.ndarray) -> None:
        """Each value becomes the number at its place in `numbers`. Costs as much as the lists are long."""
        _, place = expand_ranges(self._start, self._used)
        place = place[self._arena[place] != _DEAD]
        self._arena[place] = numbers[self._arena[place]]
        if self._place is not None:
            self._place = self._places()

    def clear(self) -> None:
        """Empties all lists and gives the memory back."""
        self.__init__()

    def _known(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The keys made safe to index with, and the used length (holes included) of each list."""
        if not len(self._used):
            return keys, np.zeros(len(keys), np.int64)
        known = np.clip(keys, 0, len(self._used) - 1)
        return known, self._zero_unknown(keys, self._used[known])

    def _zero_unknown(self, keys: np.ndarray, counts: np.ndarray) -> np.ndarray:
        unknown = (keys < 0) | (keys >= len(self._used))
        if unknown.any():
            counts[unknown] = 0
        return counts

    def _grow_keys(self, size: int) -> None:
        self._start = grown(self._start, size)
        # Kernels take arrays of one length; how far one grows depends on what fills it.
        size = len(self._start)
        self._used = grown(self._used, size)
        self._dead = grown(self._dead, size)
        self._class = grown(self._class, size, -1)

    def _room(self, keys: np.ndarray) -> np.ndarray:
        """The capacity of each key's block; 0 without a block."""
        classes = self._class[keys].astype(np.int64)
        return np.where(classes < 0, 0, np.left_shift(1, np.maximum(classes, 0)))

    def _relocate(self, keys: np.ndarray, added: np.ndarray) -> None:
        """Moves the live values of the lists to the start of new blocks with room for `added` more; drops the holes."""
        index, place = expand_ranges(self._start[keys], self._used[keys])
        values = self._arena[place]
        alive = values != _DEAD
        if not alive.all():
            index, values = index[alive], values[alive]
        lengths = np.bincount(index, minlength=len(keys)).astype(np.int64)
        self._release(keys)
        room = lengths + added
        classes = _size_class(room)
        for size_class in np.flatnonzero(np.bincount(classes[room > 0])):
            chosen = np.flatnonzero((classes == size_class) & (room > 0))
            self._start[keys[chosen]] = self._allocate(int(size_class), len(chosen))
        self._class[keys] = np.where(room > 0, classes, -1)
        self._used[keys] = lengths
        _, place = expand_ranges(self._start[keys], lengths)
        self._arena[place] = values
        if self._place is not None:
            self._place[values] = place

    def _places(self) -> np.ndarray:
        """Where each value of all lists stands. Cost follows the size of the lists: once, what noting it while they
        grew would have."""
        _, place = expand_ranges(self._start, self._used)
        values = self._arena[place]
        place, values = place[values != _DEAD], values[values != _DEAD]
        places = np.zeros(int(values.max(initial=-1)) + 1, np.int64)
        places[values] = place
        return places

    def _allocate(self, size_class: int, count: int) -> np.ndarray:
        """The starts of `count` blocks of 2**size_class entries."""
        height = int(self._heights[size_class])
        reused = min(count, height)
        starts = np.empty(count, np.int64)
        end = int(self._freed_at[size_class]) + height
        starts[:reused] = self._freed[end - reused : end]
        self._heights[size_class] -= reused
        size = 1 << size_class
        fresh = count - reused
        starts[reused:] = np.arange(fresh, dtype=np.int64) * size + self._used_arena
        self._used_arena += fresh * size
        grow(self, "_arena", self._used_arena)
        return starts

    def _reserve(self, counts: np.ndarray) -> None:
        """Makes room for so many more freed blocks of each size.

        A stretch that is full moves to the end of the array, twice as long: what it leaves there is never more than
        the stretches themselves.
        """
        full = np.flatnonzero(self._heights + counts > self._capacities)
        if not len(full):
            return
        rooms = np.maximum(self._heights[full] + counts[full], 2 * self._capacities[full])
        ends = self._freed_end + np.cumsum(rooms)
        grow(self, "_freed", int(ends[-1]))
        for size_class, at in zip(full.tolist(), (ends - rooms).tolist(), strict=True):
            old, height = int(self._freed_at[size_class]), int(self._heights[size_class])
            self._freed[at : at + height] = self._freed[old : old + height]
        self._freed_at[full], self._capacities[full] = ends - rooms, rooms
        self._freed_end = int(ends[-1])

    def _release(self, keys: np.ndarray) -> None:
        """Gives back the blocks of distinct keys; their lists are empty then."""
        classes = self._class[keys]
        freed = np.bincount(classes[classes >= 0], minlength=_CLASSES)
        self._reserve(freed)
        for size_class in np.flatnonzero(freed):
            end = int(self._freed_at[size_class] + self._heights[size_class])
            starts = self._start[keys[classes == size_class]]
            self._freed[end : end + len(starts)] = starts
        self._heights += freed
        self._class[keys] = -1
        self._used[keys] = 0
        self._dead[keys] = 0


def _size_class(lengths: np.ndarray) -> np.ndarray:
    """The smallest c with 2**c >= length (0 for lengths 0 and 1), int8."""
    _, exponent = np.frexp(np.maximum(lengths, 1).astype(np.float64) - 0.5)
    return np.maximum(exponent, 0).astype(np.int8)
