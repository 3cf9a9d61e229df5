"""Interning of byte strings: equal strings get equal dense codes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from runtime.kernels.byte_arena import ByteArena
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.hashing import hash_strings, mix

__all__ = ["BytesPool"]

_RETRY = 0xA0761D6478BD642F
_MASK_64 = (1 << 64) - 1


class BytesPool:
    """Gives each distinct byte string a code 0, 1, 2, ... in order of first sight; never forgets, see `retained`.

    The strings' 64-bit hashes are the keys of a `HashIndex` whose slots are the codes. Every match is verified by
    comparing bytes; strings whose hash belongs to another string try again under the next hash of a fixed sequence.
    """

    def __init__(self, hasher: Callable[[pa.Array], np.ndarray] = hash_strings) -> None:
        self._hasher = hasher
        self._index = HashIndex(1)
        self._arena = ByteArena()

    def __len__(self) -> int:
        return len(self._arena)

    @property
    def nbytes(self) -> int:
        return self._index.nbytes + self._arena.nbytes

    def intern(self, strings: pa.Array) -> np.ndarray:
        """The code of each string of a large_binary array without NULLs, int64; unseen strings are added."""
        return self._resolve(strings, add=True)

    def find(self, strings: pa.Array) -> np.ndarray:
        """The code of each string of a large_binary array without NULLs, int64; -1 for strings not in the pool."""
        return self._resolve(strings, add=False)

    def take(self, codes: np.ndarray) -> pa.Array:
        """The strings of the codes, large_binary."""
        return self._arena.take(codes)

    def retained(self, codes: np.ndarray) -> tuple[BytesPool, np.ndarray]:
        """A new pool with only the given (distinct) codes, which become 0, 1, 2, ... in the order given, and the remap.

        The remap is int64, indexed by old code, -1 where forgotten.
        """
        smaller = BytesPool(self._hasher)
        remap = np.full(len(self), -1, dtype=np.int64)
        remap[codes] = smaller.intern(self.take(codes))
        return smaller, remap

    def _resolve(self, strings: pa.Array, *, add: bool) -> np.ndarray:
        hashes = self._hasher(strings)
        codes = np.full(len(strings), -1, dtype=np.int64)
        rows: np.ndarray | None = None
        attempt = 0
        while len(strings):
            attempt_hashes = hashes if attempt == 0 else mix(hashes + np.uint64(_RETRY * attempt & _MASK_64))
            if add:
                found, is_new = self._index.insert(attempt_hashes[:, None])
                if is_new.all():
                    self._arena.append(strings)
                elif is_new.any():
                    self._arena.append(strings.filter(pa.array(is_new)))
            else:
                found = self._index.find(attempt_hashes[:, None])
                present = found >= 0
                if not present.all():
                    kept = np.flatnonzero(present)
                    rows = kept if rows is None else rows[kept]
                    strings, hashes, found = strings.take(pa.array(kept)), hashes[kept], found[kept]
            same = self._arena.same(found, strings)
            if same.all():
                codes[slice(None) if rows is None else rows] = found
                return codes
            codes[np.flatnonzero(same) if rows is None else rows[same]] = found[same]
            clashing = np.flatnonzero(~same)
            rows = clashing if rows is None else rows[clashing]
            strings, hashes = strings.take(pa.array(clashing)), hashes[clashing]
            attempt += 1
        return codes
