"""Key groups: a stable share of the key space, so that state can be divided and moved between tasks.

Saved state is rows with their keys: whoever restores it takes the rows of its own key groups, however many there are. So their
number belongs to a job while it runs, follows from its number of tasks, and any saved state fits any number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["MOST_TASKS", "KeyGroups", "key_group", "key_group_range", "key_groups", "tasks_with_keys_of"]

_LEAST = 128
MOST_TASKS = 32_768
"""As many key groups as there can be; each task needs one."""


class KeyGroups(NamedTuple):
    """Those of one task: from `start` on, before `stop`, of so many."""

    start: int
    stop: int
    of: int


def key_groups(tasks: int) -> int:
    """How many there are for so many tasks: a power of two, at least 128 and three for two tasks, as Flink chooses its
    maximal parallelism.

    Args:
        tasks: at most `MOST_TASKS`.
    """
    wanted = max(_LEAST, tasks + tasks // 2)
    return min(MOST_TASKS, 1 << (wanted - 1).bit_length())


def key_group(hashes: npt.NDArray[np.uint64], of: int) -> npt.NDArray[np.int16]:
    """The key group of each 64-bit key hash, of so many (hashes must be stable over versions and machines): its lowest bits.

    Not the highest: by them a hash index finds its places, so that the keys of a task would crowd into a part of it.
    """
    return (hashes & np.uint64(of - 1)).astype(np.int16)


def key_group_range(task: int, tasks: int) -> KeyGroups:
    """The key groups of one of so many tasks: contiguous, disjoint, together all."""
    of = key_groups(tasks)
    return KeyGroups(task * of // tasks, (task + 1) * of // tasks, of)


def tasks_with_keys_of(groups: KeyGroups, tasks: int) -> list[int]:
    """Which of so many tasks may have keys that are in these key groups, in order."""
    of = key_groups(tasks)
    # The lowest bits of a hash: who has more groups tells all that have fewer.
    bits = np.arange(max(of, groups.of))
    shared = bits[(bits % groups.of >= groups.start) & (bits % groups.of < groups.stop)] % of
    starts = np.array([task * of // tasks for task in range(tasks)])
    return np.unique(np.searchsorted(starts, shared, side="right") - 1).tolist()
