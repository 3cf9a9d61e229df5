"""How the values of one key column become bit fields of key words, one codec per family of types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from runtime.core.errors import InternalError
from runtime.kernels.arrow_buffers import (
    binary_array,
    byte_spans,
    dictionary_codes,
    fixed_values,
    is_bytes_like,
    is_fixed,
    large_binary,
    list_lengths,
    map_as_list,
    null_mask,
)
from runtime.kernels.bytes_pool import BytesPool
from runtime.kernels.decoded import (
    bytes_as,
    fixed_from_words,
    list_from_elements,
    pooled_values,
    struct_from_fields,
)
from runtime.kernels.hashing import hash_strings, hash_words, mix
from runtime.kernels.native import kernel

__all__ = ["KeyCodec", "WordLayout", "codec_for", "decode_all"]

_NULL_HASH = np.uint64(0x6E756C6C6E756C6C)
_NAN_64 = np.uint64(0x7FF8000000000000)
_NULL_64 = np.uint64(0x7FF8000000000001)
_NAN_32 = np.uint64(0x7FC00000)
_NULL_32 = np.uint64(0x7FC00001)
_UNSEEN = np.uint64(0xFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)

_pack_field = kernel("pack_field", "Wnnnw")


class WordLayout:
    """Places bit fields of 1 to 64 bits in uint64 words, first fit: fields of 64 bits get a word of their own."""

    def __init__(self, bits: Sequence[int]) -> None:
        self._fields: list[tuple[int, int, int]] = []
        used: list[int] = []
        for size in bits:
            word = next((w for w, taken in enumerate(used) if taken + size <= 64), None)
            if word is None:
                word = len(used)
                used.append(0)
            self._fields.append((word, used[word], size))
            used[word] += size
        self.width = len(used)

    def pack(self, pieces: Sequence[np.ndarray], count: int) -> np.ndarray:
        """(count, width) words from one uint64 array per field, values below 2**bits."""
        if self.width == 1 and len(pieces) == 1:
            return pieces[0].reshape(count, 1)
        if _pack_field is not None:
            # The first field of each word comes first, and has no shift.
            words = np.empty((count, self.width), dtype=np.uint64)
            for (word, shift, _), piece in zip(self._fields, pieces, strict=True):
                _pack_field(words, self.width, word, shift, piece)
            return words
        words = np.zeros((count, self.width), dtype=np.uint64)
        for (word, shift, _), piece in zip(self._fields, pieces, strict=True):
            if shift:
                words[:, word] |= piece << np.uint64(shift)
            else:
                words[:, word] = piece
        return words

    def unpack(self, words: np.ndarray) -> list[np.ndarray]:
        """The fields again, one uint64 array each."""
        return [(words[:, word] >> np.uint64(shift)) & np.uint64((1 << size) - 1) for word, shift, size in self._fields]


class KeyCodec(Protocol):
    """Encodes one column. `bits` are the sizes of its fields; `pooled` and `nbytes` count what is interned."""

    @property
    def bits(self) -> tuple[int, ...]: ...

    @property
    def pooled(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    def encode(self, array: pa.Array, intern: bool) -> list[np.ndarray]:
        """One uint64 array per field."""
        ...

    def stable(self, array: pa.Array) -> list[np.ndarray]:
        """Words that depend on the values only, for hashing."""
        ...

    def decode(self, pieces: list[np.ndarray]) -> pa.Array:
        """The values of fields that `encode` gave, in their canonical form."""
        ...

    def retain(self, pieces: list[np.ndarray]) -> list[np.ndarray]:
        """Forgets interned values that are not in `pieces`; the pieces with new codes."""
        ...


def codec_for(type_: pa.DataType, nullable: bool, exact: bool = False) -> KeyCodec:
    """The codec of a column type. `exact`: -0.0 and 0.0 are two values, and so are maps with their entries in another
    order, as in rows that must come back as they were.

    Raises:
        InternalError: a type that no SQL type is carried by.
    """
    if pt.is_null(type_):
        return _NullCodec()
    if is_fixed(type_):
        return _FixedCodec(type_, nullable, exact)
    if is_bytes_like(type_):
        return _BytesCodec(type_, nullable)
    if pt.is_struct(type_):
        return _StructCodec(type_, nullable, exact)
    if pt.is_map(type_):
        return _ListCodec(type_, [type_.key_type, type_.item_type], nullable, exact)
    if pt.is_list(type_) or pt.is_large_list(type_) or pt.is_fixed_size_list(type_):
        return _ListCodec(type_, [type_.value_type], nullable, exact)
    if pt.is_dictionary(type_):
        return codec_for(type_.value_type, nullable, exact)
    raise InternalError(f"columns of type {type_} cannot be keys")


def _refuse_nulls(nulls: np.ndarray | None, nullable: bool) -> None:
    if nulls is not None and not nullable:
        raise InternalError("NULL in a key column that was declared NOT NULL")


class _NullCodec:
    """A column of the type NULL: one bit, always the same."""

    bits = (1,)
    pooled = 0
    nbytes = 0

    def encode(self, array: pa.Array, intern: bool) -> list[np.ndarray]:
        return [np.ones(len(array), dtype=np.uint64)]

    def stable(self, array: pa.Array) -> list[np.ndarray]:
        return [np.full(len(array), _NULL_HASH)]

    def decode(self, pieces: list[np.ndarray]) -> pa.Array:
        return pa.nulls(len(pieces[0]))

    def retain(self, pieces: list[np.ndarray]) -> list[np.ndarray]:
        return pieces


class _FixedCodec:
    """Values of a fixed number of bytes, by value.

    Floats are canonical (one NaN; no negative zero unless `exact`) and have an unused NaN pattern for NULL; decimals of up to 38
    digits have unused patterns as well. The others need a null bit if nullable.
    """

    pooled = 0
    nbytes = 0

    def __init__(self, type_: pa.DataType, nullable: bool, exact: bool) -> None:
        self._type = type_
        self._nullable = nullable
        self._exact = exact
        self._null_words: tuple[np.uint64, ...] | None = None
        if pt.is_decimal(type_):
            if type_.precision <= 9:
                sizes, self._null_words = (32,), (np.uint64(1 << 31),)
            elif type_.precision <= 18:
                sizes, self._null_words = (64,), (np.uint64(1 << 63),)
            elif type_.precision <= 38:
                sizes, self._null_words = (64, 64), (np.uint64(0), np.uint64(1 << 63))
            else:
                sizes = (64, 64, 64, 64)
        elif pt.is_float64(type_):
            sizes, self._null_words = (64,), (_NULL_64,)
        elif pt.is_float32(type_):
            sizes, self._null_words = (32,), (_NULL_32,)
        elif pt.is_boolean(type_):
            sizes = (1,)
        elif type_.bit_width > 64:
            sizes = (64,) * (type_.bit_width // 64)
        else:
            sizes = (type_.bit_width,)
        self._sizes = sizes
        self.bits = (*sizes, 1) if nullable and self._null_words is None else sizes

    def encode(self, array: pa.Array, intern: bool) -> list[np.ndarray]:
        nulls = null_mask(array)
        _refuse_nulls(nulls, self._nullable)
        words = self._words(array)
        pieces = [
            w if size == 64 else w & np.uint64((1 << size) - 1) for w, size in zip(words, self._sizes, strict=True)
        ]
        if nulls is not None:
            fill = self._null_words or (np.uint64(0),) * len(pieces)
            pieces = [np.where(nulls, f, p) for f, p in zip(fill, pieces, strict=True)]
        if len(self.bits) > len(pieces):
            pieces.append(np.zeros(len(array), np.uint64) if nulls is None else nulls.astype(np.uint64))
        return pieces

    def stable(self, array: pa.Array) -> list[np.ndarray]:
        nulls = null_mask(array)
        words = self._words(array)
        return words if nulls is None else [np.where(nulls, _NULL_HASH, w) for w in words]

    def decode(self, pieces: list[np.ndarray]) -> pa.Array:
        words = pieces[: len(self._sizes)]
        nulls: np.ndarray | None = None
        if len(pieces) > len(words):
            nulls = pieces[-1] != 0
        elif self._nullable and self._null_words is not None:
            nulls = np.logical_and.reduce([w == n for w, n in zip(words, self._null_words, strict=True)])
        return fixed_from_words(words, self._sizes[-1], self._type, nulls)

    def retain(self, pieces: list[np.ndarray]) -> list[np.ndarray]:
        return pieces

    def _words(self, array: pa.Array) -> list[np.ndarray]:
        """The values as uint64 words: integers in two's complement, sign-extended."""
        values = fixed_values(array)
        if values.ndim == 2:
            return [np.ascontiguousarray(values[:, i]) for i in range(len(self._sizes))]
        if values.dtype == np.bool_:
            return [values.astype(np.uint64)]
        if values.dtype.kind == "f":
            # Adding zero turns -0.0 into 0.0.
            values = values if self._exact else values + values.dtype.type(0)
            bits = values.view(f"u{values.dtype.itemsize}").astype(np.uint64)
            nan = np.isnan(values)
            if nan.any():
                bits[nan] = _NAN_64 if values.dtype.itemsize == 8 else _NAN_32
            return [bits]
        if values.dtype.kind == "u":
            return [values.astype(np.uint64)]
        return [values.astype(np.int64, copy=False).view(np.uint64)]


class _BytesCodec:
    """Character and byte strings, interned: 32-bit codes, 0 is NULL, all ones an unseen string of a probe."""

    bits = (32,)

    def __init__(self, type_: pa.DataType, nullable: bool) -> None:
        self._type = type_
        self._nullable = nullable
        self._pool = BytesPool()

    @property
    def pooled(self) -> int:
        return len(self._pool)

    @property
    def nbytes(self) -> int:
        return self._pool.nbytes

    def encode(self, array: pa.Array, intern: bool) -> list[np.ndarray]:
        if pt.is_dictionary(array.type):
            codes, nulls = dictionary_codes(array)
            (words,) = self.encode(array.dictionary, intern)
            _refuse_nulls(nulls, self._nullable)
            words = words.take(codes)
            return [words if nulls is None else np.where(nulls, np.uint64(0), words)]
        nulls = null_mask(array)
        _refuse_nulls(nulls, self._nullable)
        return [intern_codes(self._pool, large_binary(array), nulls, intern)]

    def stable(self, array: pa.Array) -> list[np.ndarray]:
        if pt.is_dictionary(array.type):
            codes, nulls = dictionary_codes(array)
            hashes = hash_strings(large_binary(array.dictionary)).take(codes)
        else:
            nulls = null_mask(array)
            hashes = hash_strings(large_binary(array))
        return [hashes if nulls is None else np.where(nulls, _NULL_HASH, hashes)]

    def decode(self, pieces: list[np.ndarray]) -> pa.Array:
        return bytes_as(pooled_values(self._pool, pieces[0]), self._type)

    def retain(self, pieces: list[np.ndarray]) -> list[np.ndarray]:
        codes = np.unique(pieces[0]).astype(np.int64) - 1
        self._pool, remap = self._pool.retained(codes[codes >= 0])
        return [recode(pieces[0], remap)]


class _StructCodec:
    """Structs: the fields of their fields, and one bit for a NULL struct (whose fields then all count as NULL)."""

    def __init__(self, type_: pa.DataType, nullable: bool, exact: bool) -> None:
        self._type = type_
        self._nullable = nullable
        self._codecs = [codec_for(type_.field(i).type, True, exact) for i in range(type_.num_fields)]
        self.bits = (*(b for codec in self._codecs for b in codec.bits), 1)

    @property
    def pooled(self) -> int:
        return sum(codec.pooled for codec in self._codecs)

    @property
    def nbytes(self) -> int:
        return sum(codec.nbytes for codec in self._codecs)

    def encode(self, array: pa.Array, intern: bool) -> list[np.ndarray]:
        nulls = null_mask(array)
        _refuse_nulls(nulls, self._nullable)
        pieces = [p for codec, c in zip(self._codecs, array.flatten(), strict=True) for p in codec.encode(c, intern)]
        return [*pieces, np.zeros(len(array), np.uint64) if nulls is None else nulls.astype(np.uint64)]

    def stable(self, array: pa.Array) -> list[np.ndarray]:
        words = [w for codec, c in zip(self._codecs, array.flatten(), strict=True) for w in codec.stable(c)]
        nulls = null_mask(array)
        return [*words, np.zeros(len(array), np.uint64) if nulls is None else np.where(nulls, _NULL_HASH, np.uint64(0))]

    def decode(self, pieces: list[np.ndarray]) -> pa.Array:
        return struct_from_fields(decode_all(self._codecs, pieces), self._type, pieces[-1] != 0)

    def retain(self, pieces: list[np.ndarray]) -> list[np.ndarray]:
        kept: list[np.ndarray] = []
        for codec in self._codecs:
            kept.extend(codec.retain(pieces[len(kept) : len(kept) + len(codec.bits)]))
        return [*kept, pieces[-1]]


class _ListCodec:
    """Lists, and maps with their entries sorted by key unless `exact`: the words of the elements, as bytes, are
    interned."""

    bits = (32,)

    def __init__(self, type_: pa.DataType, element_types: list[pa.DataType], nullable: bool, exact: bool) -> None:
        self._type = type_
        self._nullable = nullable
        self._is_map = pt.is_map(type_)
        self._sorted = self._is_map and not exact
        self._codecs = [codec_for(t.value_type if pt.is_dictionary(t) else t, True, exact) for t in element_types]
        self._layout = WordLayout([b for codec in self._codecs for b in codec.bits])
        self._key_layout = WordLayout(self._codecs[0].bits)
        self._pool = BytesPool()

    @property
    def pooled(self) -> int:
        return len(self._pool) + sum(codec.pooled for codec in self._codecs)

    @property
    def nbytes(self) -> int:
        return self._pool.nbytes + sum(codec.nbytes for codec in self._codecs)

    def encode(self, array: pa.Array, intern: bool) -> list[np.ndarray]:
        nulls = null_mask(array)
        _refuse_nulls(nulls, self._nullable)
        children, lengths = self._elements(array, nulls)
        pieces = [c.encode(child, intern) for c, child in zip(self._codecs, children, strict=True)]
        total = int(lengths.sum())
        words = self._layout.pack([p for group in pieces for p in group], total)
        if self._sorted:
            keys = self._key_layout.pack(pieces[0], total)
            owner = np.repeat(np.arange(len(array)), lengths)
            words = words[np.lexsort((*(keys[:, i] for i in range(keys.shape[1])), owner))]
        offsets = np.zeros(len(array) + 1, dtype=np.int64)
        np.cumsum(lengths * (8 * self._layout.width), out=offsets[1:])
        strings = binary_array(offsets, _little_endian(words), pa.large_binary())
        return [intern_codes(self._pool, strings, nulls, intern)]

    def stable(self, array: pa.Array) -> list[np.ndarray]:
        nulls = null_mask(array)
        children, lengths = self._elements(array, nulls)
        words = [w for codec, child in zip(self._codecs, children, strict=True) for w in codec.stable(child)]
        hashes = hash_words(np.stack(words, axis=1))
        owner = np.repeat(np.arange(len(array)), lengths)
        if not self._is_map:
            place = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            hashes ^= _GOLDEN * (place + 1).astype(np.uint64)
        total = lengths.astype(np.uint64)
        np.add.at(total, owner, mix(hashes))
        return [mix(total) if nulls is None else np.where(nulls, _NULL_HASH, mix(total))]

    def decode(self, pieces: list[np.ndarray]) -> pa.Array:
        strings = pooled_values(self._pool, pieces[0])
        data, _, lengths = byte_spans(strings)
        children = decode_all(self._codecs, self._layout.unpack(self._words(data)))
        return list_from_elements(children, lengths // (8 * self._layout.width), null_mask(strings), self._type)

    def retain(self, pieces: list[np.ndarray]) -> list[np.ndarray]:
        codes = np.unique(pieces[0]).astype(np.int64) - 1
        codes = codes[codes >= 0]
        data, starts, lengths = byte_spans(self._pool.take(codes))
        words = self._words(data)
        inner = self._layout.unpack(words)
        kept: list[np.ndarray] = []
        for codec in self._codecs:
            kept.extend(codec.retain(inner[len(kept) : len(kept) + len(codec.bits)]))
        recoded = self._layout.pack(kept, len(words))
        if self._sorted:
            # New codes sort differently: put the entries of each map back in the order of their key words.
            keys = self._key_layout.pack(kept[: len(self._codecs[0].bits)], len(words))
            owner = np.repeat(np.arange(len(codes)), lengths // (8 * self._layout.width))
            recoded = recoded[np.lexsort((*(keys[:, i] for i in range(keys.shape[1])), owner))]
        offsets = np.append(starts, len(data)).astype(np.int64) if len(codes) else np.zeros(1, dtype=np.int64)
        rewritten = binary_array(offsets, _little_endian(recoded), pa.large_binary())
        remap = np.full(len(self._pool), -1, dtype=np.int64)
        self._pool = BytesPool()
        remap[codes] = self._pool.intern(rewritten)
        return [recode(pieces[0], remap)]

    def _words(self, data: np.ndarray) -> np.ndarray:
        """The words of elements again from their bytes."""
        return np.frombuffer(data.tobytes(), "<u8").astype(np.uint64).reshape(-1, self._layout.width)

    def _elements(self, array: pa.Array, nulls: np.ndarray | None) -> tuple[list[pa.Array], np.ndarray]:
        """The element columns (keys and values of maps) in row order, and the number of elements of each row."""
        lengths = list_lengths(array, nulls)
        flat = (map_as_list(array) if self._is_map else array).flatten()
        if len(flat) != int(lengths.sum()):
            raise InternalError(f"{array.type}: {len(flat)} elements where the offsets say {int(lengths.sum())}")
        return (flat.flatten() if self._is_map else [flat]), lengths


def decode_all(codecs: Sequence[KeyCodec], pieces: list[np.ndarray]) -> list[pa.Array]:
    """The columns of several codecs, from the fields of all of them in turn (fields that follow are passed over)."""
    columns: list[pa.Array] = []
    place = 0
    for codec in codecs:
        columns.append(codec.decode(pieces[place : place + len(codec.bits)]))
        place += len(codec.bits)
    return columns


def _little_endian(words: np.ndarray) -> np.ndarray:
    """The words as bytes, uint8: the same on every machine."""
    return np.ascontiguousarray(words.astype("<u8", copy=False)).reshape(-1).view(np.uint8)


def intern_codes(pool: BytesPool, strings: pa.Array, nulls: np.ndarray | None, intern: bool) -> np.ndarray:
    """Codes as the words hold them: 0 for NULL, code + 1, all ones (32 bits) for what the pool does not hold."""
    present = strings if nulls is None else strings.filter(pa.array(~nulls))
    if not intern:
        codes = pool.find(present)
        shifted = np.where(codes < 0, _UNSEEN, (codes + 1).astype(np.uint64))
    else:
        shifted = (pool.intern(present) + 1).astype(np.uint64)
        if len(pool) >= int(_UNSEEN) - 1:
            raise InternalError("a key column holds more than four thousand million distinct strings")
    if nulls is None:
        return shifted
    words = np.zeros(len(strings), dtype=np.uint64)
    words[~nulls] = shifted
    return words


def recode(words: np.ndarray, remap: np.ndarray) -> np.ndarray:
    """Words with NULL (0) kept and every code replaced by `remap`."""
    codes = words.astype(np.int64) - 1
    if len(remap) == 0:
        return np.zeros(len(words), dtype=np.uint64)
    return np.where(codes < 0, 0, remap[codes] + 1).astype(np.uint64)
