"""Cells of a binary log as values of the declared types."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors.databases.cells import cut_out
from connectors.databases.fitting import fitted
from connectors.mysql.cdc.rows import Cells, real_type
from connectors.mysql.columns import TEXTS, Column, members_of, typed
from connectors.mysql.wire import Places
from runtime.core.errors import ConnectorError, FormatError
from runtime.core.schema import Field
from runtime.core.types import TypeRoot

__all__ = ["CODES", "followed", "values_of"]

Numbers = npt.NDArray[np.int64]
_R = TypeRoot
CODES: Mapping[str, frozenset[int]] = {
    "tinyint": frozenset({1}), "smallint": frozenset({2}), "mediumint": frozenset({9}), "int": frozenset({3}),
    "bigint": frozenset({8}), "float": frozenset({4}), "double": frozenset({5}), "decimal": frozenset({246}),
    "date": frozenset({10, 14}), "year": frozenset({13}), "timestamp": frozenset({17}), "datetime": frozenset({18}),
    "time": frozenset({19}), "bit": frozenset({16}), "varchar": frozenset({15, 253}), "varbinary": frozenset({15, 253}),
    "char": frozenset({254}), "binary": frozenset({254}), "enum": frozenset({247}), "set": frozenset({248}),
    "json": frozenset({252}),
}  # fmt: skip
"""The types of the log by those of columns; all others are blobs and texts. JSON of MySQL has a form of its own there."""
_BLOBS = frozenset({249, 250, 251, 252})
_BITS = {1: 8, 2: 16, 9: 24, 3: 32, 8: 64}
_CODECS = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "ascii": "ascii", "latin1": "cp1252", "latin2": "iso8859-2",
    "cp1250": "cp1250", "cp1251": "cp1251", "cp1256": "cp1256", "cp1257": "cp1257", "greek": "iso8859-7",
    "hebrew": "iso8859-8", "latin5": "iso8859-9", "latin7": "iso8859-13", "koi8r": "koi8-r", "koi8u": "koi8-u",
    "gbk": "gbk", "gb2312": "gb2312", "gb18030": "gb18030", "big5": "big5", "sjis": "shift_jis", "cp932": "cp932",
    "ujis": "euc_jp", "euckr": "euc_kr", "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le",
    "utf32": "utf-32-be", "cp850": "cp850", "cp852": "cp852", "cp866": "cp866", "tis620": "tis-620",
}  # fmt: skip
_UNICODE = frozenset({"", "utf8mb4", "utf8mb3", "utf8", "ascii", "binary"})
_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_TIME_ZERO = 1 << 23
_DATETIME_ZERO = 1 << 39
_MOST_EXACT = 18
"""So many digits fit into 64 bits."""


def followed(column: Column, code: int, more: int) -> bool:
    """Whether a column has a type of the log."""
    real, _ = real_type(code, more)
    word = column.word.partition(" ")[0]
    return real in CODES.get(word, _BLOBS) or (word in ("uuid", "inet4", "inet6") and real in (15, 254))


def values_of(data: bytes, cells: Cells, shape: tuple[int, int], column: Column, field: Field, place: str) -> pa.Array:
    """The values of a column.

    Args:
        shape: what the log says of its type.
        place: the table, for messages.
    Raises:
        FormatError: E3164 for a value that the declared type does not have.
    """
    code, more = shape
    real, size = real_type(code, more)
    octets = np.frombuffer(data, dtype=np.uint8)
    # A value that is missing is nowhere: what stands at the beginning is taken for it.
    start = np.where(cells.missing, 0, cells.start)
    mask = cells.missing
    if real in _BITS or real == 13:
        return _whole_numbers(_little(octets, start, _BITS.get(real, 8) // 8), real, mask, column, field, place)
    if real in (4, 5):
        width = 4 if real == 4 else 8
        raw = np.ascontiguousarray(octets[start[:, None] + np.arange(width)]).view("<f4" if real == 4 else "<f8")
        return fitted(
            pa.array(raw[:, 0].astype(np.float64), mask=mask).cast(field.type.arrow, safe=False), field, place
        )
    if real == 246:
        return _decimals(octets, start, mask, more & 0xFF, more >> 8, column, field, place)
    if real in (10, 14):
        value = _little(octets, start, 3)
        parts = (value >> 9, value >> 5 & 15, value & 31)
        return _moments(parts, np.zeros(len(start), np.int64), mask, field, place, "date", 0)
    if real == 18:
        packed = _big(octets, start, 5) - _DATETIME_ZERO
        months, clock = packed >> 22, packed & 0x1FFFF
        micros = (((clock >> 12) * 60 + (clock >> 6 & 63)) * 60 + (clock & 63)) * 1_000_000
        micros += _fraction(octets, start + 5, more)
        return _moments((months // 13, months % 13, packed >> 17 & 31), micros, mask, field, place, "datetime", more)
    if real == 17:
        return _timestamps(octets, start, mask, more, field, place)
    if real == 19:
        return _times(octets, start, mask, more, field, place)
    if real == 16:
        return _bits(data, octets, cells, start, mask, field, place)
    if real == 247:
        members = members_of(column.declared)
        return _members(_little(octets, start, size), mask, members, field, place, column)
    if real == 248:
        return _sets(_little(octets, start, size), mask, members_of(column.declared), field, place)
    return _texts(data, cells, column, field, place)


def _little(octets: npt.NDArray[np.uint8], start: Places, size: int) -> Numbers:
    found = np.zeros(len(start), dtype=np.int64)
    for byte in range(size):
        found |= octets[start + byte].astype(np.int64) << 8 * byte
    return found


def _big(octets: npt.NDArray[np.uint8], start: Places, size: int) -> Numbers:
    found = np.zeros(len(start), dtype=np.int64)
    for byte in range(size):
        found = found << 8 | octets[start + byte].astype(np.int64)
    return found


def _fraction(octets: npt.NDArray[np.uint8], start: Places, digits: int) -> Numbers:
    """Microseconds of so many digits."""
    size = (digits + 1) // 2
    return _big(octets, start, size) * 100 ** (3 - size)


def _whole_numbers(
    value: Numbers, real: int, mask: npt.NDArray[np.bool_], column: Column, field: Field, place: str
) -> pa.Array:
    if real == 13:
        value = np.where(value == 0, 0, value + 1900)
    elif column.word.endswith(" unsigned"):
        if real == 8:
            found = pa.array(value.view(np.uint64), mask=mask)
            return fitted(found.cast(pa.string()), field, place)
    else:
        bits = _BITS[real]
        value = value << (64 - bits) >> (64 - bits)
    found = pa.array(value, mask=mask)
    if field.type.root in (_R.BOOLEAN, *TEXTS):
        texts = found.cast(pa.string())
        if real == 13:
            texts = pc.utf8_lpad(texts, 4, "0")
        return typed(texts.cast(pa.large_binary()), field, place)
    return fitted(found, field, place)


def _decimals(
    octets: npt.NDArray[np.uint8],
    start: Places,
    mask: npt.NDArray[np.bool_],
    precision: int,
    scale: int,
    column: Column,
    field: Field,
    place: str,
) -> pa.Array:
    """Groups of nine digits in four bytes each, with the sign in the first bit; all bits of a negative number are turned."""
    whole = precision - scale
    sizes = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    negative = octets[start] & 0x80 == 0
    exact = precision <= _MOST_EXACT
    total = np.zeros(len(start), dtype=np.int64 if exact else object)
    at, is_first = start, True
    for digits in sizes:
        if not digits:
            continue
        size = _DIGITS[digits]
        group = _big(octets, at, size)
        if is_first:
            group, is_first = group ^ (1 << 8 * size - 1), False
        group = np.where(negative, group ^ ((1 << 8 * size) - 1), group)
        total = total * 10**digits + (group if exact else group.astype(object))
        at = at + size
    total = np.where(negative, -total, total)
    if exact and field.type.root not in TEXTS:
        halves = np.empty((len(total), 2), dtype=np.int64)
        halves[:, 0], halves[:, 1] = total, total >> 63
        bits = pa.array(~mask).buffers()[1]
        found = pa.Array.from_buffers(
            pa.decimal128(precision, scale), len(total), [bits, pa.py_buffer(halves)], int(mask.sum())
        )
        return fitted(found, field, place)
    # Values of more digits than 64 bits have are numbers of Python, one by one.
    texts = pa.array([None if m else _pointed(int(v), scale) for v, m in zip(total, mask, strict=True)], pa.string())
    return typed(texts.cast(pa.large_binary()), field, place, column.word)


def _pointed(value: int, scale: int) -> str:
    digits = str(abs(value)).rjust(scale + 1, "0")
    return ("-" if value < 0 else "") + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def _moments(
    parts: tuple[Numbers, Numbers, Numbers],
    micros: Numbers,
    mask: npt.NDArray[np.bool_],
    field: Field,
    place: str,
    word: str,
    digits: int,
) -> pa.Array:
    """Dates, and times of them."""
    year, month, day = parts
    if field.type.root in TEXTS:
        texts = [
            None if m else f"{y:04}-{mo:02}-{d:02}" + ("" if word == "date" else " " + _clock(u, digits))
            for y, mo, d, u, m in zip(*map(np.ndarray.tolist, (year, month, day, micros, mask)), strict=True)
        ]
        return typed(pa.array(texts, pa.string()).cast(pa.large_binary()), field, place)
    if (((month == 0) | (day == 0) | (year == 0)) & ~mask).any():
        raise FormatError(
            f"column {field.name} of {place} has a date with zeros, which is no date here",
            code="E3164",
            hint="declare the column as STRING, which has every value as MySQL writes it",
        )
    months = (np.where(mask, 1970, year) - 1970) * 12 + np.where(mask, 1, month) - 1
    days = months.astype("M8[M]").astype("M8[D]").astype(np.int64) + np.where(mask, 1, day) - 1
    if word == "date":
        return fitted(pa.array(days.astype(np.int32), pa.int32(), mask=mask).cast(pa.date32()), field, place)
    return fitted(pa.array(days * 86_400_000_000 + micros, mask=mask).cast(pa.timestamp("us")), field, place)


def _clock(micros: int, digits: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{rest:06}"[: len(text) + 1 + digits] if digits else text


def _timestamps(
    octets: npt.NDArray[np.uint8], start: Places, mask: npt.NDArray[np.bool_], digits: int, field: Field, place: str
) -> pa.Array:
    seconds = _big(octets, start, 4)
    micros = seconds * 1_000_000 + _fraction(octets, start + 4, digits)
    zero = (seconds == 0) & ~mask
    if field.type.root not in TEXTS:
        if zero.any():
            # The zero of TIMESTAMP is no moment, but the date with zeros.
            none = np.zeros(len(seconds), np.int64)
            _moments((none, none, none), none, ~zero, field, place, "datetime", 0)
        found = pa.array(micros, mask=mask).cast(pa.timestamp("us", "UTC"))
        return fitted(found, field, place)
    days, clock = np.divmod(micros, 86_400_000_000)
    dates = days.astype("M8[D]").astype(str)
    texts = [
        None if m else "0000-00-00 " + _clock(0, digits) if z else f"{d} {_clock(c, digits)}"
        for d, c, m, z in zip(dates.tolist(), clock.tolist(), mask.tolist(), zero.tolist(), strict=True)
    ]
    return typed(pa.array(texts, pa.string()).cast(pa.large_binary()), field, place)


def _times(
    octets: npt.NDArray[np.uint8], start: Places, mask: npt.NDArray[np.bool_], digits: int, field: Field, place: str
) -> pa.Array:
    size = (digits + 1) // 2
    packed = _big(octets, start, 3 + size) - (_TIME_ZERO << 8 * size)
    negative = packed < 0
    packed = np.abs(packed)
    whole, fraction = packed >> 8 * size, (packed & ((1 << 8 * size) - 1)) * 100 ** (3 - size)
    hours, minutes, seconds = whole >> 12 & 0x3FF, whole >> 6 & 63, whole & 63
    micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction
    if field.type.root in TEXTS or ((negative | (hours > 23)) & ~mask).any():
        texts = [
            None if m else ("-" if n else "") + _clock(u, digits)
            for u, n, m in zip(micros.tolist(), negative.tolist(), mask.tolist(), strict=True)
        ]
        return typed(pa.array(texts, pa.string()).cast(pa.large_binary()), field, place)
    return fitted(pa.array(micros, mask=mask).cast(pa.time64("us")), field, place)


def _bits(
    data: bytes,
    octets: npt.NDArray[np.uint8],
    cells: Cells,
    start: Places,
    mask: npt.NDArray[np.bool_],
    field: Field,
    place: str,
) -> pa.Array:
    if field.type.root is _R.BOOLEAN:
        return fitted(pa.array(octets[start] != 0, mask=mask), field, place)
    return fitted(cut_out(data, cells.start, cells.length, cells.missing).cast(pa.binary()), field, place)


def _members(
    number: Numbers, mask: npt.NDArray[np.bool_], members: list[str], field: Field, place: str, column: Column
) -> pa.Array:
    """ENUM: the number of a member from one on; zero is the empty text, which stands for what was no member."""
    if (number[~mask] > len(members)).any():
        raise ConnectorError(
            f"the log has a member of {column.name} of {place} that {column.declared} has not",
            code="E3172",
            hint="declare the table as it is now, and begin anew with --fresh",
        )
    known = pa.array(["", *members], pa.string())
    found = known.take(pa.array(np.where(mask, 0, number), mask=mask))
    return typed(found.cast(pa.large_binary()), field, place)


def _sets(number: Numbers, mask: npt.NDArray[np.bool_], members: list[str], field: Field, place: str) -> pa.Array:
    """SET: a bit for each member. Each combination is spelled once."""
    distinct, which = np.unique(number, return_inverse=True)
    texts = [",".join(m for i, m in enumerate(members) if int(value) >> i & 1) for value in distinct]
    found = pa.array(texts, pa.string()).take(pa.array(which, mask=mask))
    return typed(found.cast(pa.large_binary()), field, place)


def _texts(data: bytes, cells: Cells, column: Column, field: Field, place: str) -> pa.Array:
    found = cut_out(data, cells.start, cells.length, cells.missing)
    word = column.word
    if field.type.root not in TEXTS:
        if word == "binary":
            # Its zeros at the end are left out in the log.
            width = int(column.declared.partition("(")[2].rstrip(")") or 1)
            found = pa.array(
                [None if v is None else v.ljust(width, b"\0") for v in found.to_pylist()], pa.large_binary()
            )
        return typed(found, field, place)
    if word in ("uuid", "inet4", "inet6"):
        raise ConnectorError(
            f"column {field.name} of {place} is {column.declared}, which is not followed in the log",
            code="E3171",
            hint="leave the column out, or make it a CHAR there",
        )
    if column.charset not in _UNICODE:
        codec = _CODECS.get(column.charset)
        if codec is None:
            raise ConnectorError(
                f"column {field.name} of {place} has the character set {column.charset}, which is not known",
                code="E3171",
                hint="leave the column out, or convert it to utf8mb4",
            )
        texts = [None if v is None else v.decode(codec, "replace") for v in found.to_pylist()]
        found = pa.array(texts, pa.string()).cast(pa.large_binary())
    return typed(found, field, place)
