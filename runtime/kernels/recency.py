"""Which slots were not used for the longest time."""

from __future__ import annotations

import numpy as np

from runtime.kernels.grow import grown

__all__ = ["Recency"]

_FEW = 4096
_FREE = -1


class Recency:
    """Slots in order of their last use. Cost follows the uses, memory the slots.

    Uses stand in a log in their order; one that is not the last of its slot is passed over.
    """

    def __init__(self) -> None:
        self._log = np.empty(0, np.int64)
        self._begin = 0
        self._end = 0
        self._last = np.empty(0, np.int64)
        """By slot, the place of its last use, counted from the beginning of time; `_FREE` for one that is not in use."""
        self._dropped = 0
        """How many places are no longer in the log."""
        self._slots = 0

    def __len__(self) -> int:
        return self._slots

    @property
    def nbytes(self) -> int:
        return self._log.nbytes + self._last.nbytes

    def use(self, slots: np.ndarray) -> None:
        """Slots, each once, are used now, the first one first."""
        if not len(slots):
            return
        self._last = grown(self._last, int(slots.max()) + 1, _FREE)
        self._slots += int((self._last[slots] == _FREE).sum())
        if self._end - self._begin + len(slots) > 2 * self._slots + _FEW:
            self._compact()
        self._log = grown(self._log, self._end + len(slots))
        places = np.arange(self._end, self._end + len(slots))
        self._log[places] = slots
        self._last[slots] = places + self._dropped
        self._end += len(slots)

    def forget(self, slots: np.ndarray) -> None:
        """Slots in use, each once, are not any more."""
        self._last[slots] = _FREE
        self._slots -= len(slots)

    def oldest(self, count: int) -> np.ndarray:
        """So many slots that were not used for the longest time, that one first; all when there are fewer."""
        window = max(count, 64)
        while True:
            places = np.arange(self._begin, min(self._begin + window, self._end))
            slots = self._log[places]
            current = np.flatnonzero(self._last[slots] == places + self._dropped)
            if len(current):
                # What is passed over at the beginning is never looked at again.
                self._begin = int(places[current[0]])
            if len(current) >= count or len(places) < window:
                return slots[current[:count]]
            window *= 2

    def _compact(self) -> None:
        """Leaves out uses that are not the last of their slot."""
        places = np.arange(self._begin, self._end)
        slots = self._log[places]
        slots = slots[self._last[slots] == places + self._dropped]
        self._dropped += self._end
        self._last[slots] = np.arange(len(slots)) + self._dropped
        self._log = slots.copy()
        self._begin, self._end = 0, len(slots)
