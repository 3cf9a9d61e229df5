"""Sort columns to words whose unsigned order is the ORDER BY order, exact for every value of every sortable type.

Strings are their bytes in as many 8-byte words as the longest string seen needs (zero padded), then a word with the
length + 1, which orders strings that differ only in trailing zero bytes. Arrays have as many places as the longest array
seen. When a longer one arrives the layout widens, and words made earlier are brought to it with `OrderEncoder.adapt`. So
every row costs as many bytes as the longest one seen; values above 64 KiB are refused. Descending columns are bitwise
negated. NULL is all zeros or all ones, patterns that no value has; only 64-bit integers need a word of their own to tell
NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from runtime.core.cancellation import look
from runtime.core.errors import InternalError, UnsupportedError
from runtime.kernels.arrow_buffers import (
    byte_lengths,
    fixed_values,
    is_bytes_like,
    is_fixed,
    large_binary,
    null_mask,
    single_array,
)
from runtime.kernels.hashing import padded_words

__all__ = ["OrderEncoder", "order_words"]

_LONGEST = 1 << 16
_SIGN = np.uint64(1 << 63)
_ONES = np.uint64((1 << 64) - 1)
_ZERO = np.uint64(0)


def order_words(
    columns: Sequence[pa.Array | pa.ChunkedArray], descending: Sequence[bool], nulls_last: Sequence[bool]
) -> np.ndarray:
    """The order words of one batch, uint64 (n, k): comparable among themselves only, see `OrderEncoder` for state."""
    return OrderEncoder([column.type for column in columns], descending, nulls_last).encode(columns)


class OrderEncoder:
    """Encodes sort columns as (n, width) uint64 order words that stay comparable over the life of the encoder.

    `encode` may widen the layout (`width` grows and so does `generation`): then all words kept from before must be
    passed through `adapt`, for example `runs.widen(encoder.adapt)`.

    Args:
        types: the Arrow types of the sort columns; Arrow dictionaries are ordered by their values.
        descending: per column.
        nulls_last: per column, meant after `descending` (that is, where NULLs finally stand).
        nullable: whether each column may hold NULL, all when not given.

    Raises:
        UnsupportedError: a column of a type without an order (map); `encode` raises it for strings and arrays above 64 KiB.
    """

    def __init__(
        self,
        types: Sequence[pa.DataType],
        descending: Sequence[bool],
        nulls_last: Sequence[bool],
        nullable: Sequence[bool] | None = None,
    ) -> None:
        flags = [True] * len(types) if nullable is None else list(nullable)
        self._types = [t.value_type if pt.is_dictionary(t) else t for t in types]
        self._codecs = [
            codec
            for type_, down, last, may in zip(self._types, descending, nulls_last, flags, strict=True)
            for codec in _codecs(type_, down, last, may)
        ]
        self._layouts = {self.width: self._layout()}

    @property
    def width(self) -> int:
        """Words per row at present."""
        return sum(self._layout())

    @property
    def generation(self) -> int:
        """How often the layout has been widened."""
        return len(self._layouts) - 1

    def encode(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> np.ndarray:
        """The order words of the rows, widening the layout for strings longer than any before."""
        leaves: list[pa.Array] = []
        for column, type_ in zip(columns, self._types, strict=True):
            leaves.extend(_leaves(single_array(column, type_)))
        if not leaves:
            raise InternalError("order words need at least one column")
        parts: list[np.ndarray] = []
        for codec, leaf in zip(self._codecs, leaves, strict=True):
            look()
            parts.append(codec.encode(leaf))
        self._layouts.setdefault(self.width, self._layout())
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def adapt(self, words: np.ndarray) -> np.ndarray:
        """Words encoded before a widening, in the present layout. Their width tells which layout they have."""
        if words.shape[1] == self.width:
            return words
        layout = self._layouts.get(words.shape[1])
        if layout is None:
            raise InternalError(f"order words of width {words.shape[1]} were not made by this encoder")
        parts: list[np.ndarray] = []
        start = 0
        for codec, width in zip(self._codecs, layout, strict=True):
            parts.append(codec.adapt(words[:, start : start + width]))
            start += width
        return np.concatenate(parts, axis=1)

    def _layout(self) -> tuple[int, ...]:
        return tuple(codec.width for codec in self._codecs)


class _OrderCodec:
    """One column without structure; `width` is its number of words."""

    def __init__(self, descending: bool, nulls_last: bool) -> None:
        self._flip = _ONES if descending else _ZERO
        self._null = _ONES if nulls_last else _ZERO
        self.width = 1

    def encode(self, array: pa.Array) -> np.ndarray:
        raise NotImplementedError

    def adapt(self, words: np.ndarray) -> np.ndarray:
        return words


class _FixedOrder(_OrderCodec):
    """Numbers, booleans, dates, times, timestamps: one word, decimals above 18 digits two (four above 38).

    A NULL is all zeros or all ones. Timestamps and intervals never reach the ends of 64 bits, so they need no null
    word.
    """

    def __init__(self, type_: pa.DataType, descending: bool, nulls_last: bool, nullable: bool) -> None:
        super().__init__(descending, nulls_last)
        whole = pt.is_int64(type_) or pt.is_uint64(type_)
        self._ranked = nullable and whole
        self._limbs = 1
        if pt.is_decimal(type_) and type_.precision > 18:
            self._limbs = type_.bit_width // 64
        elif type_.bit_width > 64 and not pt.is_decimal(type_):
            raise UnsupportedError(f"values of type {type_} have no order", hint="sort by another column")
        self.width = self._limbs + int(self._ranked)

    def encode(self, array: pa.Array) -> np.ndarray:
        nulls = null_mask(array)
        words = np.empty((len(array), self.width), dtype=np.uint64)
        first = int(self._ranked)
        self._values(fixed_values(array), words[:, first:])
        if self._flip:
            np.invert(words[:, first:], out=words[:, first:])
        if self._ranked:
            # The rank of values lies between those of NULLs first (0) and last (all ones).
            words[:, 0] = 1
        if nulls is not None:
            words[nulls] = self._null
        return words

    def _values(self, values: np.ndarray, words: np.ndarray) -> None:
        if values.ndim == 2:
            top = self._limbs - 1
            for limb in range(self._limbs):
                words[:, top - limb] = values[:, limb]
            words[:, 0] ^= _SIGN
        elif values.dtype.kind == "f":
            bits = (values.astype(np.float64) + 0.0).view(np.uint64)
            nan = np.isnan(values)
            if nan.any():
                bits[nan] = np.uint64(0x7FF8000000000000)
            # IEEE order: negative numbers all bits inverted, others the sign bit set.
            negative = (bits >> np.uint64(63)).astype(np.bool_)
            words[:, 0] = np.where(negative, ~bits, bits | _SIGN)
        elif values.dtype == np.uint64:
            words[:, 0] = values
        else:
            words[:, 0] = values.astype(np.int64).view(np.uint64) ^ _SIGN


class _BytesOrder(_OrderCodec):
    """Strings: prefix words, then length + 1."""

    def __init__(self, descending: bool, nulls_last: bool) -> None:
        super().__init__(descending, nulls_last)
        self.width = 2

    def encode(self, array: pa.Array) -> np.ndarray:
        nulls = null_mask(array)
        strings = large_binary(array)
        if nulls is not None:
            strings = strings.fill_null(b"")
        lengths = byte_lengths(strings)
        longest = int(lengths.max()) if len(lengths) else 0
        if longest > _LONGEST:
            raise UnsupportedError(
                f"a value of {longest:,} bytes is too long to sort by",
                hint="sort by a prefix of it, for example SUBSTRING(x, 1, 1000)",
            )
        self.width = max(self.width, (longest + 7) // 8 + 1)
        words = np.empty((len(array), self.width), dtype=np.uint64)
        # Big-endian words compare like the bytes they are made of.
        words[:, :-1] = padded_words(strings, 8 * (self.width - 1)).byteswap()
        words[:, -1] = (lengths + 1).astype(np.uint64)
        if self._flip:
            np.invert(words, out=words)
        if nulls is not None:
            words[nulls] = self._null
        return words

    def adapt(self, words: np.ndarray) -> np.ndarray:
        missing = self.width - words.shape[1]
        if missing <= 0:
            return words
        wider = np.empty((len(words), self.width), dtype=np.uint64)
        wider[:, : words.shape[1] - 1] = words[:, :-1]
        # Padding is zero bytes (negated when descending); a NULL stays all zeros or all ones.
        wider[:, words.shape[1] - 1 : -1] = np.where(words[:, -1] == self._null, self._null, self._flip)[:, None]
        wider[:, -1] = words[:, -1]
        return wider


class _NullOrder(_OrderCodec):
    """A column of the type NULL: all rows are equal."""

    def encode(self, array: pa.Array) -> np.ndarray:
        return np.zeros((len(array), 1), dtype=np.uint64)


class _PresenceOrder(_OrderCodec):
    """Whether a struct or a list is NULL, before what is in it."""

    def encode(self, array: pa.Array) -> np.ndarray:
        nulls = null_mask(array)
        words = np.ones((len(array), 1), dtype=np.uint64)
        if nulls is not None:
            words[nulls] = self._null
        return words


class _ListOrder(_OrderCodec):
    """The elements of a list one after the other, as many places as the longest list seen has: in each a word that says
    whether the list has such an element, then the words of the element. So a list comes before those that it begins."""

    def __init__(self, element: pa.DataType, descending: bool, nulls_last: bool) -> None:
        super().__init__(descending, nulls_last)
        self._elements = _codecs(element, descending, nulls_last, True)
        self._places = 0
        self._layouts: dict[int, tuple[int, list[int]]] = {}
        self._resize(0)

    def encode(self, array: pa.Array) -> np.ndarray:
        lengths = pc.list_value_length(array).fill_null(0).to_numpy().astype(np.int64)
        elements = array.flatten()
        parts = [codec.encode(leaf) for codec, leaf in zip(self._elements, _leaves(elements), strict=True)]
        self._resize(max(self._places, int(lengths.max()) if len(lengths) else 0))
        words = self._empty(len(array))
        owners = np.repeat(np.arange(len(array)), lengths)
        places = np.arange(len(elements)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        words[owners, places, 0] = np.uint64(1) ^ self._flip
        words[owners, places, 1:] = np.concatenate(parts, axis=1)
        return words.reshape(len(array), self.width)

    def adapt(self, words: np.ndarray) -> np.ndarray:
        if words.shape[1] == self.width:
            return words
        places, widths = self._layouts[words.shape[1]]
        before = words.reshape(len(words), places, 1 + sum(widths))
        wider = self._empty(len(words))
        owners, found = np.nonzero(before[:, :, 0] != self._flip)
        ends = np.cumsum([1, *widths])
        parts = [
            codec.adapt(before[owners, found, start:end])
            for codec, start, end in zip(self._elements, ends, ends[1:], strict=False)
        ]
        wider[owners, found, 0] = np.uint64(1) ^ self._flip
        wider[owners, found, 1:] = np.concatenate(parts, axis=1)
        return wider.reshape(len(words), self.width)

    def _resize(self, places: int) -> None:
        widths = [codec.width for codec in self._elements]
        self._places, self.width = places, places * (1 + sum(widths))
        if 8 * self.width > _LONGEST:
            raise UnsupportedError(
                f"an array of {places:,} elements is too long to sort by",
                hint="sort by a part of it, for example ARRAY_SLICE(a, 1, 100)",
            )
        self._layouts[self.width] = places, widths

    def _empty(self, rows: int) -> np.ndarray:
        """The words of so many empty lists."""
        _, widths = self._layouts[self.width]
        words = np.zeros((rows, self._places, 1 + sum(widths)), dtype=np.uint64)
        words[:, :, :1] = self._flip
        return words


def _codecs(type_: pa.DataType, descending: bool, nulls_last: bool, nullable: bool) -> list[_OrderCodec]:
    if pt.is_null(type_):
        return [_NullOrder(descending, nulls_last)]
    if is_fixed(type_):
        return [_FixedOrder(type_, descending, nulls_last, nullable)]
    if is_bytes_like(type_):
        return [_BytesOrder(descending, nulls_last)]
    if pt.is_struct(type_):
        fields = [type_.field(i).type for i in range(type_.num_fields)]
        inner = [codec for field in fields for codec in _codecs(field, descending, nulls_last, True)]
        return [_PresenceOrder(descending, nulls_last), *inner]
    if pt.is_list(type_) or pt.is_large_list(type_):
        return [_PresenceOrder(descending, nulls_last), _ListOrder(type_.value_type, descending, nulls_last)]
    raise UnsupportedError(f"values of type {type_} have no order", hint="sort by an element or by another column")


def _leaves(array: pa.Array) -> list[pa.Array]:
    """The arrays that the codecs of the type read, in the same order as `_codecs`."""
    if pt.is_struct(array.type):
        return [array, *(leaf for child in array.flatten() for leaf in _leaves(child))]
    if pt.is_list(array.type) or pt.is_large_list(array.type):
        return [array, array]
    return [array]
