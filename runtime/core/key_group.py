"""Key groups: a stable share of the key space, so that state can be cut and moved between tasks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["KEY_GROUPS", "key_group", "key_group_range"]

KEY_GROUPS = 128
"""How many key groups there are, forever: saved state is cut by them."""


def key_group(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int16]:
    """The key group of each 64-bit key hash (hashes must be stable over versions and machines): its lowest bits.

    Not the highest: by them a hash index finds its places, so that the keys of a task would crowd into a part of it.
    """
    return (hashes & np.uint64(KEY_GROUPS - 1)).astype(np.int16)


def key_group_range(task: int, parallelism: int) -> range:
    """The key groups of one of `parallelism` tasks: contiguous, disjoint, together all."""
    return range(task * KEY_GROUPS // parallelism, (task + 1) * KEY_GROUPS // parallelism)
