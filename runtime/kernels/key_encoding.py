"""Key columns to fixed-width words: rows are SQL "not distinct" exactly when their words are equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.cancellation import look
from runtime.core.errors import InternalError
from runtime.kernels.arrow_buffers import coded_array
from runtime.kernels.hashing import hash_words
from runtime.kernels.key_codecs import KeyCodec, WordLayout, codec_for, decode_all

__all__ = ["KeyEncoder", "hash_words"]

_SMALLEST_POOL = 8192
_SMALLEST_POOL_BYTES = 1 << 18


class KeyEncoder:
    """Encodes key columns of given types as (n, width) uint64 key words.

    NULL equals NULL, -0.0 equals 0.0, NaN equals NaN, maps are equal whatever the order of their entries. Fixed-width
    values stand in the words themselves (64-bit types in a word of their own: a BIGINT NOT NULL key is one word, the
    value); narrower ones share words, null bits too. Strings, lists and maps are interned: the word holds a code.
    Structs are their fields. The layout depends only on `types` and `nullable`.

    Args:
        types: the Arrow types of the key columns.
        nullable: whether each column may hold NULL (all of them when not given). NOT NULL columns need no null bit.
        exact: -0.0 and 0.0 are two values, and so are maps with their entries in another order: what rows are told
            apart by that must come back as they were.
    """

    def __init__(
        self, types: Sequence[pa.DataType], nullable: Sequence[bool] | None = None, *, exact: bool = False
    ) -> None:
        flags = [True] * len(types) if nullable is None else list(nullable)
        if len(flags) != len(types):
            raise InternalError(f"{len(types)} key types but {len(flags)} nullability flags")
        self._types = list(types)
        self._codecs: list[KeyCodec] = [codec_for(t, n, exact) for t, n in zip(self._types, flags, strict=True)]
        self._layout = WordLayout([bits for codec in self._codecs for bits in codec.bits])
        self._pool_limit = _SMALLEST_POOL
        self._bytes_limit = _SMALLEST_POOL_BYTES

    @property
    def width(self) -> int:
        """Words per key; 0 when there are no key columns."""
        return self._layout.width

    @property
    def nbytes(self) -> int:
        """Bytes of the interned values."""
        return sum(codec.nbytes for codec in self._codecs)

    @property
    def pooled(self) -> int:
        """The number of distinct strings, lists and maps interned: when far above the live keys, `retain` gives memory
        back.
        """
        return sum(codec.pooled for codec in self._codecs)

    def overfull(self, live: int) -> bool:
        """Whether so much is interned, for an index of `live` keys, that `retain` pays: twice of what was needed the
        last time, in number and not little beside the keys, or in bytes (long texts, lists)."""
        pooled = self.pooled
        return pooled > max(self._pool_limit, live // 4) or (pooled > 0 and self.nbytes > self._bytes_limit)

    def encode(self, columns: Sequence[pa.Array | pa.ChunkedArray], count: int | None = None) -> np.ndarray:
        """The key words of each row, interning values not seen before. Do not change them: they may share Arrow memory.
        Strings may come as Arrow dictionaries: then each value is looked up once.

        Args:
            columns: one per type, n rows each.
            count: n, needed only when there are no key columns.

        Raises:
            InternalError: a NULL in a column declared NOT NULL.
        """
        return self._encode(columns, count, intern=True)

    def probe(self, columns: Sequence[pa.Array | pa.ChunkedArray], count: int | None = None) -> np.ndarray:
        """Like `encode` but interns nothing: an unseen string, list or map gets a code that no encoded key ever has."""
        return self._encode(columns, count, intern=False)

    def stable_hash(self, columns: Sequence[pa.Array | pa.ChunkedArray], count: int | None = None) -> np.ndarray:
        """A 64-bit hash of each key by value, uint64 (n,): the same in every process, version and machine.

        Defines key groups. Equals `hash_words(encode(columns))` for BIGINT NOT NULL keys; integers of all widths
        agree, and nullability makes no difference.
        """
        arrays = self._arrays(columns)
        words = [word for codec, array in zip(self._codecs, arrays, strict=True) for word in codec.stable(array)]
        if not words:
            return hash_words(np.empty((_row_count(arrays, count), 0), dtype=np.uint64))
        return hash_words(np.stack(words, axis=1))

    def decode(self, words: np.ndarray) -> list[pa.Array]:
        """The key columns of words that `encode` gave: values that are not distinct from those encoded.

        -0.0 comes back as 0.0, every NaN as the same one, maps with their entries in any order.
        """
        return decode_all(self._codecs, self._layout.unpack(words))

    def retain(self, words: np.ndarray) -> np.ndarray:
        """Forgets all interned values that no row of `words` (all live keys) refers to; returns the rows re-encoded.

        The owner passes the keys of its index and puts the result back: `index.rekey(encoder.retain(index.keys(
        index.live_slots())))`. Cost follows the number of live keys: call it when `overfull`.
        """
        pieces = self._layout.unpack(words)
        kept: list[np.ndarray] = []
        for codec in self._codecs:
            kept.extend(codec.retain(pieces[len(kept) : len(kept) + len(codec.bits)]))
        self._pool_limit = max(_SMALLEST_POOL, 2 * self.pooled)
        self._bytes_limit = max(_SMALLEST_POOL_BYTES, 2 * self.nbytes)
        return self._layout.pack(kept, len(words))

    def _arrays(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> list[pa.Array]:
        return [coded_array(column, type_) for column, type_ in zip(columns, self._types, strict=True)]

    def _encode(self, columns: Sequence[pa.Array | pa.ChunkedArray], count: int | None, *, intern: bool) -> np.ndarray:
        arrays = self._arrays(columns)
        pieces: list[np.ndarray] = []
        for codec, array in zip(self._codecs, arrays, strict=True):
            look()
            pieces += codec.encode(array, intern)
        return self._layout.pack(pieces, _row_count(arrays, count))


def _row_count(arrays: list[pa.Array], count: int | None) -> int:
    if arrays:
        return len(arrays[0])
    if count is None:
        raise InternalError("keys without columns need an explicit row count")
    return count
