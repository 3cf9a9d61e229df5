"""Bloom filter: which keys may have been seen, in ten bits a key and one look at memory for each."""

from __future__ import annotations

import numpy as np

__all__ = ["BloomFilter"]

_SMALLEST = 1 << 10
_KEYS_PER_WORD = 5
_ONE = np.uint64(1)
_SIX_BITS = np.uint64(63)


class BloomFilter:
    """A set of 64-bit hashes that may say yes in error (about 3 in 100 times), never no.

    All four bits of a key stand in one word, which the upper bits of its hash name. When a part is full a larger one
    is begun, so that all together are a small multiple of the last.
    """

    def __init__(self) -> None:
        self._parts = [np.zeros(_SMALLEST, np.uint64)]
        self._room = _SMALLEST * _KEYS_PER_WORD
        self.count = 0
        """How many hashes were new to it when they were added."""

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self._parts)

    def add(self, hashes: np.ndarray) -> None:
        """Hashes (uint64) are in the set from now on."""
        fresh = hashes[~self.may_contain(hashes)]
        self.count += len(fresh)
        while len(fresh):
            some, fresh = fresh[: self._room], fresh[self._room :]
            words, bits = _places(some, self._parts[-1])
            np.bitwise_or.at(self._parts[-1], words, bits)
            self._room -= len(some)
            if not self._room:
                self._parts.append(np.zeros(4 * len(self._parts[-1]), np.uint64))
                self._room = len(self._parts[-1]) * _KEYS_PER_WORD

    def may_contain(self, hashes: np.ndarray) -> np.ndarray:
        """Whether each hash may be in the set, bool (n,)."""
        words, bits = _places(hashes, self._parts[-1])
        found = self._parts[-1][words] & bits == bits
        for part in self._parts[-2::-1]:
            left = np.flatnonzero(~found)
            if not len(left):
                break
            words, bits = _places(hashes[left], part)
            found[left] = part[words] & bits == bits
        return found


def _places(hashes: np.ndarray, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The word of each hash and its bits in it."""
    shift = np.uint64(64 - (len(part).bit_length() - 1))
    bits = _ONE << (hashes & _SIX_BITS)
    for place in (6, 12, 18):
        bits |= _ONE << (hashes >> np.uint64(place) & _SIX_BITS)
    return (hashes >> shift).view(np.int64), bits
