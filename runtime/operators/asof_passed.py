"""What an ASOF join of rows that only come may forget, as the watermark passes their times.

Rows that come later are later than the watermark. So, where the latest right row before counts, a left row that has been
passed has its match for good, and of the right rows of a key that have been passed only the last can still be one. Where
the earliest right row after counts, a right row that has been passed is a match for nothing new, and the left rows that
have it, or an earlier one, have it for good.
"""

from __future__ import annotations

import numpy as np

from runtime.core.schema import Schema
from runtime.operators.asof_side import AsofSide
from runtime.operators.operator import EpochTime
from runtime.state.timed import TimedRows, bound, microseconds

__all__ = ["PassedRows"]


class PassedRows:
    """The rows of both sides by time, until the watermark passes them. `back`: the latest right row at or before the left
    one counts; `equal`: one at the same time, too."""

    def __init__(self, left: AsofSide, right: AsofSide, back: bool, equal: bool) -> None:
        self._left = left
        self._right = right
        self._back = back
        self._equal = equal
        # Their keys are the slots of the rows.
        self._waiting_left = TimedRows(Schema(()), keyed=False)
        self._waiting_right = TimedRows(Schema(()), keyed=False)

    @property
    def nbytes(self) -> int:
        return self._waiting_left.nbytes + self._waiting_right.nbytes

    def add(self, left: np.ndarray, right: np.ndarray) -> None:
        """New rows of both sides, which have times."""
        if self._back:
            self._waiting_left.add([], left, microseconds(self._left.times(left)))
        self._waiting_right.add([], right, microseconds(self._right.times(right)))

    def dropped(self, time: EpochTime) -> list[np.ndarray]:
        """Forgets what the watermark has passed; the keys that lost rows."""
        until = bound(time.watermark, 1)
        lost: list[np.ndarray] = []
        if self._back:
            lost.append(self._left.drop(_taken(self._waiting_left, until)))
        passed = _taken(self._waiting_right, until)
        if not len(passed):
            return lost
        rows = self._right.rows
        # By key, the last of each behind the others.
        passed = passed[np.lexsort((microseconds(self._right.times(passed)), rows.key[passed]))]
        keys = rows.key[passed]
        last = np.append(keys[1:] != keys[:-1], True)
        keys, times = keys[last], [self._right.times(passed[last])]
        if self._back:
            lost.append(self._right.drop(rows.range(keys, None, times, True, False)[1]))
        else:
            lost.append(self._left.drop(self._left.rows.range(keys, None, times, True, self._equal)[1]))
            lost.append(self._right.drop(passed))
        return lost


def _taken(waiting: TimedRows, until: int) -> np.ndarray:
    """The slots of the rows of which the time has come, which wait no longer."""
    due = waiting.due(until)
    slots = waiting.key[due]
    waiting.free(due)
    return slots
