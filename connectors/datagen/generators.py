"""Columns of random values and sequences for every type. A value depends only on the seed, the column and the row
number."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.random_words import Numbers, RandomWords
from runtime.core.errors import OptionError
from runtime.core.options import parse_duration
from runtime.core.types import DataType, TypeRoot

__all__ = ["GeneratedColumn", "Moments", "column_generator", "field_option_keys"]

Generate = Callable[[Numbers], pa.Array]
Moments = Callable[[Numbers], Numbers]
"""The time of each row, in milliseconds since the epoch."""

_BITS = {
    TypeRoot.TINYINT: 8,
    TypeRoot.SMALLINT: 16,
    TypeRoot.INT: 32,
    TypeRoot.BIGINT: 64,
    TypeRoot.INTERVAL_MONTH: 32,
    TypeRoot.INTERVAL_SECOND: 64,
}
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_TEXT_LENGTH, _COLLECTION_LENGTH = 100, 3
_DAY = 86_400_000


@dataclass(frozen=True)
class GeneratedColumn:
    """`generate(rows)` gives the values of row numbers; `rows`: how many there are, None without end."""

    generate: Generate
    rows: int | None = None


class _FieldOptions:
    """The options `fields.<path>.*` of one field; remembers which were read."""

    def __init__(self, options: Mapping[str, str], path: str, read: set[str]) -> None:
        self._options = options
        self.path = path
        self._read = read

    def text(self, name: str, default: str | None = None) -> str | None:
        key = f"fields.{self.path}.{name}"
        self._read.add(key)
        return self._options.get(key, default)

    def number(self, name: str, default: Decimal) -> Decimal:
        text = self.text(name)
        try:
            return default if text is None else Decimal(text.strip())
        except InvalidOperation as error:
            raise OptionError(
                f"option 'fields.{self.path}.{name}' cannot be '{text}'", hint="it is a number"
            ) from error

    def below(self, name: str) -> _FieldOptions:
        return _FieldOptions(self._options, f"{self.path}.{name}", self._read)


def field_option_keys(type_: DataType, path: str) -> set[str]:
    """All option keys that a field of this type may have."""
    names = ("kind", "min", "max", "max-past", "length", "var-len", "start", "end", "null-rate")
    keys = {f"fields.{path}.{n}" for n in names}
    if type_.root in (TypeRoot.ARRAY, TypeRoot.MULTISET):
        keys |= field_option_keys(type_.children[0], path + ".element")
    elif type_.root is TypeRoot.MAP:
        keys |= field_option_keys(type_.children[0], path + ".key") | field_option_keys(
            type_.children[1], path + ".value"
        )
    for field in type_.fields:
        keys |= field_option_keys(field.type, f"{path}.{field.name}")
    return keys


def column_generator(
    name: str, type_: DataType, options: Mapping[str, str], seed: int, moments: Moments
) -> GeneratedColumn:
    """The generator of a column; raises OptionError for values that make no sense."""
    field = _FieldOptions(options, name, set())
    kind = (field.text("kind", "random") or "").lower()
    if kind == "sequence":
        return _sequence(field, type_)
    if kind != "random":
        raise OptionError(f"option 'fields.{name}.kind' cannot be '{kind}'", hint="it is 'random' or 'sequence'")
    return GeneratedColumn(_random(field, type_, seed, moments))


def _sequence(field: _FieldOptions, type_: DataType) -> GeneratedColumn:
    start, end = field.text("start"), field.text("end")
    if start is None or end is None:
        raise OptionError(
            f"field '{field.path}' is a sequence without '{'start' if start is None else 'end'}'",
            code="E1504",
            hint=f"set 'fields.{field.path}.start' and 'fields.{field.path}.end'",
        )
    first, last = int(field.number("start", Decimal(0))), int(field.number("end", Decimal(0)))
    if last < first:
        raise OptionError(f"field '{field.path}' ends before it starts", hint="set 'start' to at most 'end'")
    bits = _BITS.get(type_.root)
    if bits is not None and not (-(1 << bits - 1) <= first and last < 1 << bits - 1):
        raise OptionError(f"field '{field.path}' of type {type_} cannot hold {first} to {last}")
    if bits is None and not (type_.is_numeric or type_.is_character):
        raise OptionError(
            f"field '{field.path}' of type {type_} cannot be a sequence", hint="sequences are numbers or text"
        )

    def generate(rows: Numbers) -> pa.Array:
        numbers = pa.array(rows + first)
        return numbers.cast(pa.string()) if type_.is_character else numbers.cast(type_.arrow)

    return GeneratedColumn(generate, last - first + 1)


def _stream(path: str) -> int:
    """A number for a column, stable over versions and machines."""
    return int.from_bytes(hashlib.blake2b(path.encode(), digest_size=6).digest(), "big")


def _random(field: _FieldOptions, type_: DataType, seed: int, moments: Moments) -> Generate:
    words = RandomWords(seed ^ _stream(field.path))
    plain = _values(field, type_, words, seed, moments)
    rate = float(field.number("null-rate", Decimal(0)))
    if not 0 <= rate <= 1:
        raise OptionError(f"option 'fields.{field.path}.null-rate' cannot be {rate}", hint="it is between 0 and 1")
    if rate == 0:
        return plain

    def generate(rows: Numbers) -> pa.Array:
        present = pa.array(np.where(words.unit(rows, 99) < rate, -1, np.arange(len(rows))))
        return plain(rows).take(pa.array(present.to_numpy(), mask=present.to_numpy() < 0))

    return generate


def _values(field: _FieldOptions, type_: DataType, words: RandomWords, seed: int, moments: Moments) -> Generate:
    root = type_.root
    if root in _BITS:
        bits = _BITS[root]
        low, high = _range(field, Decimal(-(1 << bits - 1)), Decimal((1 << bits - 1) - 1))
        return lambda rows: _cast_integers(_between(words, rows, 0, int(low), int(high)), type_)
    match root:
        case TypeRoot.BOOLEAN:
            return lambda rows: pa.array(words.below(rows, 0, 2) > 0)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            most = Decimal(float(np.finfo(np.float32).max) if root is TypeRoot.FLOAT else sys.float_info.max)
            low, high = _range(field, Decimal(0), most)
            return lambda rows: pa.array(float(low) + words.unit(rows, 0) * (float(high) - float(low))).cast(
                type_.arrow, safe=False
            )
        case TypeRoot.DECIMAL:
            return _decimals(field, type_, words)
        case TypeRoot.CHAR | TypeRoot.VARCHAR | TypeRoot.BINARY | TypeRoot.VARBINARY:
            return _texts(field, type_, words)
        case TypeRoot.DATE | TypeRoot.TIME | TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _times(field, type_, words, moments)
        case TypeRoot.ARRAY | TypeRoot.MAP | TypeRoot.MULTISET:
            return _collections(field, type_, seed, moments)
        case TypeRoot.ROW:
            children = [_random(field.below(f.name), f.type, seed, moments) for f in type_.fields]
            fields = [pa.field(f.name, f.type.arrow) for f in type_.fields]
            return lambda rows: pa.StructArray.from_arrays([c(rows) for c in children], fields=fields)
        case _:
            raise OptionError(f"connector 'datagen' cannot generate field '{field.path}' of type {type_}")


def _range(field: _FieldOptions, low: Decimal, high: Decimal) -> tuple[Decimal, Decimal]:
    least, most = field.number("min", low), field.number("max", high)
    if least > most:
        raise OptionError(f"field '{field.path}' has a minimum above its maximum: {least} > {most}")
    if (least < low and low < 0) or most > high:
        raise OptionError(f"the range of field '{field.path}' does not fit its type")
    return least, most


def _between(words: RandomWords, rows: Numbers, stream: int, low: int, high: int) -> Numbers:
    """Integers of 64 bits from `low` to `high`, both included."""
    span = high - low + 1
    if span <= 1 << 31:
        return words.below(rows, stream, span) + low
    bits = words.words(rows, stream)
    if span < 1 << 64:
        bits = bits % np.uint64(span)
    with np.errstate(over="ignore"):
        return (bits + np.uint64(low & 0xFFFFFFFFFFFFFFFF)).view(np.int64)


def _cast_integers(values: Numbers, type_: DataType) -> pa.Array:
    return pa.array(values).cast(type_.arrow)


def _decimals(field: _FieldOptions, type_: DataType, words: RandomWords) -> Generate:
    """Units of the last digit that fit 64 bits: up to 18 digits are random, what is above them is 0."""
    most = Decimal(10 ** min(type_.precision, 18) - 1).scaleb(-type_.scale)
    least, greatest = _range(field, -most, most)
    low, high = (int(v.scaleb(type_.scale).to_integral_value()) for v in (least, greatest))

    def generate(rows: Numbers) -> pa.Array:
        units = _between(words, rows, 0, low, high)
        halves = np.stack([units, units >> 63], axis=1)
        return pa.Array.from_buffers(type_.arrow, len(rows), [None, pa.py_buffer(halves)])

    return generate


def _texts(field: _FieldOptions, type_: DataType, words: RandomWords) -> Generate:
    """Hexadecimal digits, or bytes. The length is the type's, `length` where the type has none; `var-len`: from 1 to
    that."""
    declared = type_.precision if type_.precision < 2**31 - 1 else _TEXT_LENGTH
    length = int(field.number("length", Decimal(declared)))
    if length < 1 or length > type_.precision:
        raise OptionError(f"option 'fields.{field.path}.length' cannot be {length}", hint=f"the type is {type_}")
    varying = (field.text("var-len", "false") or "").lower() == "true"
    binary = type_.is_binary

    def generate(rows: Numbers) -> pa.Array:
        lengths = words.below(rows, 1000, length) + 1 if varying else np.full(len(rows), length, dtype=np.int64)
        per_word = 8 if binary else 16
        draws = [words.words(rows, 2 + i) for i in range(math.ceil(length / per_word))]
        octets = np.stack(draws, axis=1).view(np.uint8).reshape(len(rows), -1)
        if not binary:
            octets = _HEX[np.stack([octets >> 4, octets & 15], axis=2).reshape(len(rows), -1)]
        kept = octets[:, :length]
        flat = kept[np.arange(length) < lengths[:, None]] if varying else np.ascontiguousarray(kept).ravel()
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        large = pa.large_binary() if binary else pa.large_string()
        return pa.Array.from_buffers(large, len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(flat)]).cast(
            type_.arrow
        )

    return generate


def _times(field: _FieldOptions, type_: DataType, words: RandomWords, moments: Moments) -> Generate:
    """The time of the row, less a random part of `max-past`."""
    text = field.text("max-past")
    past = 0 if text is None else parse_duration(text)

    def generate(rows: Numbers) -> pa.Array:
        times = moments(rows)
        if past:
            times = times - _between(words, rows, 0, 0, past)
        match type_.root:
            case TypeRoot.DATE:
                return pa.array((times // _DAY).astype(np.int32)).cast(type_.arrow)
            case TypeRoot.TIME:
                return pa.array((times % _DAY).astype(np.int32)).cast(type_.arrow)
            case _:
                return pa.array(times * 1000).cast(pa.timestamp("us", tz=type_.arrow.tz)).cast(type_.arrow)

    return generate


def _collections(field: _FieldOptions, type_: DataType, seed: int, moments: Moments) -> Generate:
    """Arrays, maps and multisets of `length` elements. Equal keys of a map become one."""
    length = int(field.number("length", Decimal(_COLLECTION_LENGTH)))
    if length < 0:
        raise OptionError(f"option 'fields.{field.path}.length' cannot be {length}")
    is_map = type_.root is TypeRoot.MAP
    first = _random(field.below("key" if is_map else "element"), type_.children[0], seed, moments)
    second = _random(field.below("value"), type_.children[1], seed, moments) if is_map else None

    def generate(rows: Numbers) -> pa.Array:
        elements = np.repeat(rows * max(length, 1), length) + np.tile(np.arange(length), len(rows))
        offsets = np.arange(len(rows) + 1) * length
        keys = first(elements)
        if type_.root is TypeRoot.ARRAY:
            return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), keys, type=type_.arrow)
        values = pa.repeat(pa.scalar(1, pa.int32()), len(elements)) if second is None else second(elements)
        owner = np.repeat(np.arange(len(rows)), length)
        kept = _first_of_each(owner, keys)
        counts = np.bincount(owner[kept], minlength=len(rows))
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int32)
        chosen = pa.array(kept)
        return pa.MapArray.from_arrays(pa.array(ends), keys.take(chosen), values.take(chosen), type=type_.arrow)

    return generate


def _first_of_each(owner: npt.NDArray[np.int64], keys: pa.Array) -> npt.NDArray[np.int64]:
    """Positions of the first of equal keys of an owner, NULL keys left out, ascending."""
    if pa.types.is_nested(keys.type):
        return np.arange(len(owner), dtype=np.int64)
    encoded: Any = keys.dictionary_encode().indices
    codes = encoded.fill_null(-1).to_numpy(zero_copy_only=False)
    whole = np.flatnonzero(codes >= 0)
    _, first = np.unique(owner[whole] * (int(codes.max(initial=0)) + 1) + codes[whole], return_index=True)
    return np.sort(whole[first])
