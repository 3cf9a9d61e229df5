"""Time to live: which slots have not been touched for longer than that, found without looking at the others."""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from runtime.kernels.grow import grown
from runtime.state.rows import by_time

__all__ = ["IdleSlots"]

_NEVER = -(2**63)


class IdleSlots:
    """Slots by the time of their last touch, in milliseconds of processing time. Cost follows the touches."""

    def __init__(self, ttl: int) -> None:
        self._ttl = ttl
        self._touched_at = np.zeros(0, np.int64)
        self._touches: deque[tuple[int, np.ndarray]] = deque()

    @property
    def nbytes(self) -> int:
        return self._touched_at.nbytes + sum(slots.nbytes for _, slots in self._touches)

    def touch(self, slots: np.ndarray, now: int) -> None:
        """The slots are in use at `now`."""
        if len(slots):
            self._touched_at = grown(self._touched_at, int(slots.max()) + 1, _NEVER)
            self._touched_at[slots] = now
            self._touches.append((now, slots))

    def forget(self, slots: np.ndarray) -> None:
        """The slots are free: they will not expire until they are touched again."""
        self._touched_at[slots[slots < len(self._touched_at)]] = _NEVER

    def times(self, slots: np.ndarray) -> pa.Array:
        """When slots were last touched, int64; NULL where that is not known."""
        known = slots < len(self._touched_at)
        times = np.full(len(slots), _NEVER)
        times[known] = self._touched_at[slots[known]]
        return pa.array(times, mask=times == _NEVER)

    def restore(self, slots: np.ndarray, times: pa.Array) -> None:
        """Notes when slots that were put back had last been touched. Where that is NULL (state that was saved while
        nothing expired) they do not expire until they are touched."""
        known = times.is_valid().to_numpy(zero_copy_only=False)
        for when, chosen in by_time(slots[known], times.drop_null().to_numpy()):
            self.touch(chosen, when)
        self._touches = deque(sorted(self._touches, key=lambda touch: touch[0]))

    def expired(self, now: int) -> np.ndarray:
        """The slots idle for longer than the time to live, each once; they count as forgotten."""
        found: list[np.ndarray] = []
        while self._touches and self._touches[0][0] + self._ttl < now:
            then, slots = self._touches.popleft()
            idle = np.unique(slots[self._touched_at[slots] == then])
            self._touched_at[idle] = _NEVER
            found.append(idle)
        return np.concatenate(found) if found else np.empty(0, np.int64)
