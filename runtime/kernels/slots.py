"""Dense row ids with reuse."""

from __future__ import annotations

import numpy as np

from runtime.kernels.grow import grown

__all__ = ["SlotAllocator"]


class SlotAllocator:
    """Hands out dense int64 slot ids; freed ids are reused first, so side arrays stay as small as the peak of live
    slots.
    """

    def __init__(self) -> None:
        self._high = 0
        self._free = np.empty(16, np.int64)
        self._free_count = 0
        self._held: list[np.ndarray] | None = None
        self._held_count = 0

    @property
    def high(self) -> int:
        """The exclusive upper bound of all ids handed out so far: the size that side arrays need."""
        return self._high

    def __len__(self) -> int:
        """The number of live slots."""
        return self._high - self._free_count - self._held_count

    @property
    def nbytes(self) -> int:
        return self._free.nbytes

    def allocate(self, count: int) -> np.ndarray:
        """`count` slot ids that are not live, int64; fresh ones are consecutive and ascending."""
        reused = min(count, self._free_count)
        fresh = np.arange(self._high, self._high + count - reused, dtype=np.int64)
        self._high += count - reused
        if not reused:
            return fresh
        self._free_count -= reused
        taken = self._free[self._free_count : self._free_count + reused][::-1]
        return np.concatenate((taken, fresh))

    def free(self, slots: np.ndarray) -> None:
        """Gives back live slots (each once; freeing a slot that is not live corrupts the allocator)."""
        if self._held is not None:
            self._held.append(slots)
            self._held_count += len(slots)
            return
        needed = self._free_count + len(slots)
        self._free = grown(self._free, needed)
        self._free[self._free_count : needed] = slots
        self._free_count = needed

    def hold(self) -> None:
        """From now on what is freed is not live, and not handed out again either, until `release`."""
        self._held = []

    def release(self) -> None:
        """What was freed meanwhile may be handed out."""
        held, self._held, self._held_count = self._held or [], None, 0
        for slots in held:
            self.free(slots)

    def free_slots(self) -> np.ndarray:
        """The ids below `high` that are not live, in no particular order (do not keep: it may be a view)."""
        free = self._free[: self._free_count]
        return np.concatenate((free, *self._held)) if self._held else free

    def live_slots(self) -> np.ndarray:
        """All live ids, ascending, int64. Cost follows `high`: for snapshots and full scans."""
        live = np.ones(self._high, np.bool_)
        live[self.free_slots()] = False
        return np.flatnonzero(live)

    def clear(self) -> None:
        """Forgets everything: the next slot is 0."""
        self._high = 0
        self._free_count = 0
        self._held, self._held_count = None, 0
