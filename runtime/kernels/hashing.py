"""Hash functions over key words and over byte strings, computed with numpy over whole columns.

Both are defined by arithmetic modulo 2**64 on values (not on memory), so they are the same on every machine and in
every version: key groups and saved state depend on them. Do not change a constant here without a new state version.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.kernels.arrow_buffers import byte_lengths, string_buffers
from runtime.kernels.native import kernel

__all__ = ["hash_row", "hash_strings", "hash_words", "mix", "padded_words"]

_MULTIPLIER_1 = np.uint64(0xFF51AFD7ED558CCD)
_MULTIPLIER_2 = np.uint64(0xC4CEB9FE1A85EC53)
_GOLDEN = 0x9E3779B97F4A7C15
_MASK_64 = (1 << 64) - 1
_SHIFT_32 = np.uint64(32)
_SHIFT_29 = np.uint64(29)

_hash_words = kernel("hash_words", "wnW")
_hash_strings = kernel("hash_strings", "ixW")


def mix(values: np.ndarray) -> np.ndarray:
    """A bijective scrambling of uint64 values (multiply, xor-shift, twice: a short murmur finaliser). A new array."""
    return mix_into(values.copy())


def mix_into(values: np.ndarray) -> np.ndarray:
    """`mix` in place; returns the array itself."""
    shifted = values >> _SHIFT_32
    values ^= shifted
    values *= _MULTIPLIER_1
    np.right_shift(values, _SHIFT_29, out=shifted)
    values ^= shifted
    values *= _MULTIPLIER_2
    np.right_shift(values, _SHIFT_32, out=shifted)
    values ^= shifted
    return values


def hash_words(words: np.ndarray) -> np.ndarray:
    """The 64-bit hash of every row of a (n, width) uint64 array, uint64 (n,).

    Stable over versions and machines: `h = mix(w0 + G)`, then `h = mix((h ^ w_i) + G * (i + 1))` for each further word,
    with G the golden ratio in 64 bits. For a single BIGINT key the word is the value in two's complement, so this also
    defines the key groups of such keys; for keys with interned words (strings, nested types) use
    `KeyEncoder.stable_hash`, because interned codes depend on the order of arrival.
    """
    count, width = words.shape
    if _hash_words is not None:
        hashed = np.empty(count, np.uint64)
        _hash_words(words, width, hashed)
        return hashed
    if width == 0:
        return mix(np.full(count, _GOLDEN, dtype=np.uint64))
    hashed = mix_into(words[:, 0] + np.uint64(_GOLDEN))
    for column in range(1, width):
        hashed ^= words[:, column]
        hashed += np.uint64((_GOLDEN * (column + 1)) & _MASK_64)
        hashed = mix_into(hashed)
    return hashed


def hash_row(words: list[int]) -> int:
    """`hash_words` of one row: an array of one element costs twenty times as much."""
    hashed = _mix_one((words[0] + _GOLDEN) & _MASK_64 if words else _GOLDEN)
    for column in range(1, len(words)):
        hashed = _mix_one(((hashed ^ words[column]) + _GOLDEN * (column + 1)) & _MASK_64)
    return hashed


def _mix_one(value: int) -> int:
    value ^= value >> 32
    value = value * 0xFF51AFD7ED558CCD & _MASK_64
    value ^= value >> 29
    value = value * 0xC4CEB9FE1A85EC53 & _MASK_64
    return value ^ value >> 32


def hash_strings(strings: pa.Array) -> np.ndarray:
    """The 64-bit hash of each byte string of a large_binary array, uint64 (n,); NULL hashes like the empty string.

    A string is read as little-endian words of 8 bytes, the last one zero padded; its hash is `mix(length * G + sum
    over k of mix(word_k * G * (2k + 1)))`. As mix(0) is 0, padding with further zero words changes nothing: so
    strings of similar length are padded to one matrix and hashed by columns. Stable over versions and machines.
    """
    if _hash_strings is not None and len(strings) and not strings.null_count:
        hashed = np.empty(len(strings), np.uint64)
        _hash_strings(*string_buffers(strings), hashed)
        return hashed
    lengths = byte_lengths(strings)
    hashed = lengths.astype(np.uint64)
    hashed *= np.uint64(_GOLDEN)
    if len(lengths) and lengths.min() > 0 and lengths.max() <= 64:
        return mix_into(hashed + _hash_matrix(padded_words(strings, int(lengths.max()) + 7 & ~7)))
    pending = np.flatnonzero(lengths)
    while len(pending):
        sizes = lengths[pending]
        # Padding at most quadruples the bytes: what is far longer than the mean waits for the next round.
        width = int(min(sizes.max(), max(64, 4 * sizes.mean()))) + 7 & ~7
        now = sizes <= width
        rows = pending[now]
        chosen = strings if len(rows) == len(strings) else strings.take(pa.array(rows))
        hashed[rows] += _hash_matrix(padded_words(chosen, width))
        pending = pending[~now]
    return mix_into(hashed)


def padded_words(strings: pa.Array, width: int) -> np.ndarray:
    """The strings of a large_binary array without NULLs, zero padded to `width` bytes: uint64 (n, width / 8),
    little-endian.

    `width` is a multiple of 8 and no string is longer.
    """
    text = pa.Array.from_buffers(pa.large_string(), len(strings), [None, *strings.buffers()[1:]], offset=strings.offset)
    data = pc.ascii_rpad(text, width, padding="\0").buffers()[2]
    count = len(strings) * (width // 8)
    return np.frombuffer(data, "<u8", count=count).reshape(len(strings), width // 8)


def _hash_matrix(words: np.ndarray) -> np.ndarray:
    """The sum over k of mix(word_k * G * (2k + 1)), for each row."""
    factors = np.arange(1, 2 * words.shape[1], 2, dtype=np.uint64)
    factors *= np.uint64(_GOLDEN)
    if words.shape[1] > len(words):
        return mix(words * factors).sum(axis=1, dtype=np.uint64)
    total = np.zeros(len(words), dtype=np.uint64)
    for k, factor in enumerate(factors):
        total += mix_into(words[:, k] * factor)
    return total
