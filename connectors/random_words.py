"""Random numbers and texts by event number: the same for an event whatever batch it comes in and whichever columns are
read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["RandomWords", "text_pool"]

Numbers = npt.NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)


class RandomWords:
    """Draws by (seed, event, stream): the finalizer of SplitMix64 over a counter (Steele, Lea, Flood: Fast Splittable
    Pseudorandom Number Generators, 2014)."""

    def __init__(self, seed: int) -> None:
        self._seed = np.uint64(seed & 0xFFFFFFFFFFFFFFFF)

    def words(self, events: Numbers, stream: int) -> npt.NDArray[np.uint64]:
        """64 random bits for each event; another `stream` is another draw."""
        with np.errstate(over="ignore"):
            start = (self._seed + np.uint64(stream + 1) * np.uint64(0xD1B54A32D192ED03)) * _GOLDEN
            z = events.astype(np.uint64)
            z += np.uint64(1)
            z *= _GOLDEN
            z += start
            z ^= z >> np.uint64(30)
            z *= np.uint64(0xBF58476D1CE4E5B9)
            z ^= z >> np.uint64(27)
            z *= np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
        return z

    def below(self, events: Numbers, stream: int, bound: int | Numbers) -> Numbers:
        """Integers from 0 up to below `bound` (one bound, or one for each event; at most 2^31)."""
        high = self.words(events, stream) >> np.uint64(32)
        if isinstance(bound, int):
            return ((high * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)
        return ((high * bound.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)

    def unit(self, events: Numbers, stream: int) -> npt.NDArray[np.float64]:
        """Doubles from 0 up to below 1."""
        return (self.words(events, stream) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def text_pool(seed: int, count: int, shortest: int, longest: int) -> pa.Array:
    """Random texts of lower-case letters with lengths between the bounds, to draw from."""
    draw = np.random.Generator(np.random.PCG64(seed))
    lengths = draw.integers(shortest, longest + 1, count)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    letters = _LETTERS[draw.integers(0, 26, int(offsets[-1]))]
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(letters))
