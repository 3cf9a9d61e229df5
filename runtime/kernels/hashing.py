"""Hash functions over key words and over byte strings, computed with numpy over whole columns.

Both are defined by arithmetic modulo 2**64 on values (not on memory), so they are the same on every machine and in
every version: key groups and saved state depend on them. Do not change a constant here without a new state version.
"""

from __future__ import annotations

import numpy as np

__all__ = ["hash_bytes", "hash_words", "mix"]

_MULTIPLIER_1 = np.uint64(0xFF51AFD7ED558CCD)
_MULTIPLIER_2 = np.uint64(0xC4CEB9FE1A85EC53)
_GOLDEN = 0x9E3779B97F4A7C15
_MASK_64 = (1 << 64) - 1
_SHIFT_32 = np.uint64(32)
_SHIFT_29 = np.uint64(29)
_EAGER_WORDS = 4
_TAIL_MASKS = np.array([_MASK_64] + [(1 << (8 * r)) - 1 for r in range(1, 8)], dtype=np.uint64)


def mix(values: np.ndarray) -> np.ndarray:
    """A bijective scrambling of uint64 values (multiply, xor-shift, twice: a short murmur finaliser). A new array."""
    mixed = values >> _SHIFT_32
    mixed ^= values
    mixed *= _MULTIPLIER_1
    shifted = mixed >> _SHIFT_29
    mixed ^= shifted
    mixed *= _MULTIPLIER_2
    np.right_shift(mixed, _SHIFT_32, out=shifted)
    mixed ^= shifted
    return mixed


def hash_words(words: np.ndarray) -> np.ndarray:
    """The 64-bit hash of every row of a (n, width) uint64 array, uint64 (n,).

    Stable over versions and machines: `h = mix(w0 + G)`, then `h = mix((h ^ w_i) + G * (i + 1))` for each further word,
    with G the golden ratio in 64 bits. For a single BIGINT key the word is the value in two's complement, so this also
    defines the key groups of such keys; for keys with interned words (strings, nested types) use
    `KeyEncoder.stable_hash`, because interned codes depend on the order of arrival.
    """
    count, width = words.shape
    if width == 0:
        return mix(np.full(count, _GOLDEN, dtype=np.uint64))
    hashed = mix(words[:, 0] + np.uint64(_GOLDEN))
    for column in range(1, width):
        hashed ^= words[:, column]
        hashed += np.uint64((_GOLDEN * (column + 1)) & _MASK_64)
        hashed = mix(hashed)
    return hashed


def hash_bytes(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The 64-bit hash of n byte strings `data[starts[i] : starts[i] + lengths[i]]`, uint64 (n,).

    The string is read as little-endian words of 8 bytes, the last one zero padded; the hash is `mix(length * G + sum
    over k of mix(word_k ^ (G * (k + 1))))`. A sum, so that the words of all strings can be hashed at once and added
    up by segments. Stable over versions and machines.
    """
    hashed = lengths.astype(np.uint64)
    hashed *= np.uint64(_GOLDEN)
    if len(lengths) == 0:
        return hashed
    longest = int(lengths.max())
    if longest == 0:
        return mix(hashed)
    reader = WordReader(data)
    for k in range(min(_EAGER_WORDS, (longest + 7) // 8)):
        rows = np.flatnonzero(lengths > 8 * k)
        whole = len(rows) == len(lengths)
        at = starts if whole else starts[rows]
        size = lengths if whole else lengths[rows]
        word = reader.words(at + 8 * k, size - 8 * k)
        word ^= np.uint64((_GOLDEN * (k + 1)) & _MASK_64)
        if whole:
            hashed += mix(word)
        else:
            hashed[rows] += mix(word)
    if longest > 8 * _EAGER_WORDS:
        _hash_tails(reader, starts, lengths, hashed)
    return mix(hashed)


def _hash_tails(reader: WordReader, starts: np.ndarray, lengths: np.ndarray, hashed: np.ndarray) -> None:
    """Adds the words after the first `_EAGER_WORDS` of every long string, all at once."""
    rows = np.flatnonzero(lengths > 8 * _EAGER_WORDS)
    counts = (lengths[rows] + 7) // 8 - _EAGER_WORDS
    ends = np.cumsum(counts)
    owner = np.repeat(rows, counts)
    k = np.arange(int(ends[-1]), dtype=np.int64)
    k -= np.repeat(ends - counts, counts)
    k += _EAGER_WORDS
    word = reader.words(starts[owner] + 8 * k, lengths[owner] - 8 * k)
    word ^= np.uint64(_GOLDEN) * (k + 1).astype(np.uint64)
    hashed[rows] += np.add.reduceat(mix(word), ends - counts)


class WordReader:
    """Reads little-endian 8-byte words at any byte offset of a byte array, many at once."""

    def __init__(self, data: np.ndarray) -> None:
        size = len(data)
        padded = np.zeros((size + 7) // 8 * 8 + 16, dtype=np.uint8)
        padded[:size] = data
        self._words = padded.view("<u8").astype(np.uint64, copy=False)

    def words(self, offsets: np.ndarray, available: np.ndarray) -> np.ndarray:
        """The word at each offset, bytes at and after `available` (1 or more) read as zero. uint64, a new array."""
        index = offsets >> 3
        shift = ((offsets & 7) << 3).astype(np.uint64)
        low = self._words[index]
        low >>= shift
        index += 1
        high = self._words[index]
        # Two shifts, because a shift by 64 (aligned offsets) is undefined.
        high <<= np.uint64(63) - shift
        high <<= np.uint64(1)
        low |= high
        short = available < 8
        if short.any():
            low &= _TAIL_MASKS[np.where(short, available, 0)]
        return low
