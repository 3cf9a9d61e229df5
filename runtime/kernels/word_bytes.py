"""Rows of words as single byte strings that numpy compares, sorts and searches natively."""

from __future__ import annotations

import numpy as np

__all__ = ["bytes_words", "word_bytes"]


def word_bytes(words: np.ndarray) -> np.ndarray:
    """(n, k) uint64 words, k >= 1, as n big-endian byte strings (dtype S8k): their order is the order of the rows.

    numpy ignores trailing zero bytes when it compares such strings, which does not matter as all have the same size.
    """
    count, width = words.shape
    return words.astype(">u8", order="C").view(f"S{8 * width}").reshape(count)


def bytes_words(keys: np.ndarray) -> np.ndarray:
    """The (n, k) uint64 words of byte strings made by `word_bytes`."""
    width = keys.dtype.itemsize // 8
    return np.ascontiguousarray(keys).view(">u8").reshape(len(keys), width).astype(np.uint64)
