"""The memory that an epoch frees serves the next one, instead of going back to the system and being zeroed anew.

By itself glibc gives every array above some hundred kilobytes pages of its own, and trims the end of the heap whenever
128 KB of it are free: an engine that makes and drops the same arrays each epoch spends up to a quarter of its time in
the kernel (Nexmark, 10,000,000 events: q18 2.46 -> 2.01 s, q20 2.86 -> 2.47 s, q14 0.80 -> 0.64 s).

A process of many threads is told something else, too: allocators give each thread, or each of a few, memory of its own,
where what one has freed is of no use to the others. With a thread for each of a thousand clients, Arrow's own (mimalloc)
came to 350 MiB for 45 MiB of columns, and glibc's to 280 MiB for 80, and both rose for as long as clients asked.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from functools import cache

__all__ = ["keep_freed_memory", "share_freed_memory"]

# <malloc.h>
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8
_POOL = "ARROW_DEFAULT_MEMORY_POOL"

KEPT_BYTES = 128 << 20
"""What may be free at the end of the heap."""
GROWTH_BYTES = 16 << 20
"""What the heap grows by, at the least."""
OWN_PAGES_BYTES = 32 << 20
"""Arrays of this size have pages of their own, which go back when they are freed: those of state, not of an epoch."""


@cache
def keep_freed_memory() -> bool:
    """Tell the process's allocator, once. False, and nothing is changed, where it is not glibc's, or where whoever
    started the process has set it by MALLOC_ variables (mallopt(3))."""
    return _told({_TRIM_THRESHOLD: KEPT_BYTES, _TOP_PAD: GROWTH_BYTES, _MMAP_THRESHOLD: OWN_PAGES_BYTES})


def share_freed_memory() -> bool:
    """What one thread frees serves all others, also Arrow's columns. For a process of many threads, before it has loaded
    Arrow. False, and nothing is changed, where `keep_freed_memory` changes nothing."""
    shared = _told({_ARENA_MAX: max(2, os.cpu_count() or 1)})
    if shared:
        # Arrow looks at the environment when it is loaded, and so do processes that this one starts.
        os.environ.setdefault(_POOL, "system")
    return shared


def _told(settings: Mapping[int, int]) -> bool:
    if any(name.startswith("MALLOC_") for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        # Another C library; on Windows there is no CDLL of the process.
        return False
    taken = [mallopt(what, size) == 1 for what, size in settings.items()]
    return all(taken)
