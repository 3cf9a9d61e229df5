"""Time to live: which slots have not been touched for longer than that, found without looking at the others."""

from __future__ import annotations

import heapq

import numpy as np
import pyarrow as pa

from runtime.kernels.grow import grown

__all__ = ["IdleSlots"]

_NEVER = -(2**63)
_FEW = 65_536


class IdleSlots:
    """Slots by the time of their last touch, in milliseconds of processing time. Cost follows the touches, memory the
    slots.

    Args:
        ttl: for how many milliseconds a slot may be idle.
    """

    def __init__(self, ttl: int) -> None:
        self.ttl = ttl
        self._touched_at = np.zeros(0, np.int64)
        # What was touched at a time, and these times as a heap.
        self._touches: dict[int, list[np.ndarray]] = {}
        self._times: list[int] = []
        self._noted = 0
        self._most = _FEW

    @property
    def nbytes(self) -> int:
        return self._touched_at.nbytes + 8 * self._noted

    @property
    def first(self) -> int | None:
        """No slot was last touched before this time; None when none is known."""
        return self._times[0] if self._times else None

    def touch(self, slots: np.ndarray, now: int) -> None:
        """The slots are in use at `now`."""
        if not len(slots):
            return
        self._touched_at = grown(self._touched_at, int(slots.max()) + 1, _NEVER)
        self._touched_at[slots] = now
        if now not in self._touches:
            heapq.heappush(self._times, now)
            self._touches[now] = []
        self._touches[now].append(slots)
        self._noted += len(slots)
        if self._noted > self._most:
            self._compact()

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
        self.forget(slots)
        known = times.is_valid().to_numpy(zero_copy_only=False)
        slots, then = slots[known], times.drop_null().to_numpy()
        order = np.argsort(then, kind="stable")
        distinct, starts = np.unique(then[order], return_index=True)
        for when, chosen in zip(distinct.tolist(), np.split(slots[order], starts[1:])):
            self.touch(chosen, when)

    def expired(self, now: int) -> np.ndarray:
        """The slots idle for longer than the time to live, each once; they count as forgotten."""
        found: list[np.ndarray] = []
        while self._times and self._times[0] + self.ttl < now:
            then = heapq.heappop(self._times)
            for slots in self._touches.pop(then):
                idle = np.unique(slots[self._touched_at[slots] == then])
                self._touched_at[idle] = _NEVER
                self._noted -= len(slots)
                found.append(idle)
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _compact(self) -> None:
        """Forgets touches before the last of a slot, so that what is noted stays a small multiple of the slots."""
        self._noted = 0
        for then, touches in self._touches.items():
            slots = np.unique(np.concatenate(touches))
            slots = slots[self._touched_at[slots] == then]
            self._touches[then] = [slots]
            self._noted += len(slots)
        kept = {then: touches for then, touches in self._touches.items() if len(touches[0])}
        self._touches, self._times = kept, list(kept)
        heapq.heapify(self._times)
        self._most = max(_FEW, 2 * self._noted)
