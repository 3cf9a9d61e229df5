"""Arrays that grow: the side arrays of slots, positions and arenas."""

from __future__ import annotations

import numpy as np

from runtime.core.cancellation import look
from runtime.kernels.native import kernel

__all__ = ["expand_ranges", "grow", "grown", "kept_bytes"]

_LARGE_BYTES = 1 << 24
_HUGE_BYTES = 1 << 25

_expand_ranges = kernel("expand_ranges", "iiII")


def grown(array: np.ndarray, size: int, fill: object = 0) -> np.ndarray:
    """The array itself if its first axis already has `size` entries, else a longer copy (at least doubled), rest =
    `fill`.

    Doubling makes a long sequence of calls cost amortised O(1) per entry. A large array becomes four times as long
    where the rest is zero: the system gives memory when it is first written, so that what is not used costs nothing,
    and less is copied.
    The other axes
    keep their extent.
    """
    have = len(array)
    if have >= size:
        return array
    untouched = fill is False or (isinstance(fill, int) and fill == 0)
    target = max(size, (4 if untouched and array.nbytes >= _LARGE_BYTES else 2) * have, 16)
    if untouched:
        larger = np.zeros((target, *array.shape[1:]), dtype=array.dtype)
    else:
        larger = np.empty((target, *array.shape[1:]), dtype=array.dtype)
        larger[have:] = fill
    larger[:have] = array
    return larger


def grow(owner: object, name: str, size: int) -> None:
    """Makes the array in an attribute as long as `grown` would, the rest zero.

    A huge array that nothing else refers to is lengthened where it stands, by a quarter: the system moves its pages
    without copying them.
    """
    array: np.ndarray = getattr(owner, name)
    if len(array) >= size:
        return
    if array.nbytes >= _HUGE_BYTES:
        setattr(owner, name, None)
        try:
            # numpy refuses if there are views; the attribute must not count as one.
            array.resize((max(size, len(array) + len(array) // 4), *array.shape[1:]))
        except ValueError:
            array = grown(array, size)
        finally:
            setattr(owner, name, array)
    else:
        setattr(owner, name, grown(array, size))


def kept_bytes(array: np.ndarray, used: int) -> int:
    """The bytes of the first `used` entries of an array that may be longer: what of it takes memory."""
    return array.nbytes if used >= len(array) else used * array[:1].nbytes


def expand_ranges(starts: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The concatenated integer ranges `[start, start + count)` and, beside each element, the index of its range.

    Returns `(range_index int64, element int64)`, in range order.
    """
    look()
    total = int(counts.sum())
    if total == 0:
        empty = np.empty(0, np.int64)
        return empty, empty
    if _expand_ranges is not None:
        owner, element = np.empty(total, np.int64), np.empty(total, np.int64)
        _expand_ranges(starts, counts.astype(np.int64, copy=False), owner, element)
        return owner, element
    owner = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    before = np.cumsum(counts) - counts
    element = np.arange(total, dtype=np.int64)
    element += (starts - before)[owner]
    return owner, element
