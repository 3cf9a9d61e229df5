"""Cells of PostgreSQL, which are texts, as columns of SQL types.

A text is what the output function of the type gives in sessions of `connected`: times are UTC, dates ISO, bytes hexadecimal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.databases.cells import cut_out
from connectors.formats.records import BadMask, either, rows_of_elements
from connectors.formats.text_values import SQL, TextRules, parse_text
from connectors.postgres.cdc.pgoutput import TEXT, Cells
from runtime.core.errors import ConnectorError
from runtime.core.types import DataType, TypeRoot

__all__ = ["fits", "texts_of", "typed"]

_RULES = TextRules("UTC", SQL)
_SHOWN = 100
_INTEGERS = frozenset({20, 21, 23, 26})
_OWN = 16_384
"""Numbers from here on are of types that somebody has made: what they hold is not known before."""
_ARRAYS = frozenset(
    {
        1000,
        1001,
        1002,
        1005,
        1007,
        1009,
        1014,
        1015,
        1016,
        1021,
        1022,
        1028,
        1115,
        1182,
        1183,
        1185,
        1231,
        2951,
        3807,
        199,
    }
)
_TYPES: Mapping[TypeRoot, frozenset[int]] = {
    TypeRoot.BOOLEAN: frozenset({16}),
    TypeRoot.TINYINT: _INTEGERS,
    TypeRoot.SMALLINT: _INTEGERS,
    TypeRoot.INT: _INTEGERS,
    TypeRoot.BIGINT: _INTEGERS,
    TypeRoot.DECIMAL: _INTEGERS | {1700},
    TypeRoot.FLOAT: frozenset({700}),
    TypeRoot.DOUBLE: frozenset({700, 701}),
    TypeRoot.DATE: frozenset({1082}),
    TypeRoot.TIME: frozenset({1083}),
    TypeRoot.TIMESTAMP: frozenset({1114}),
    TypeRoot.TIMESTAMP_LTZ: frozenset({1184}),
    TypeRoot.BINARY: frozenset({17}),
    TypeRoot.VARBINARY: frozenset({17}),
    TypeRoot.ARRAY: _ARRAYS,
}
"""Types of PostgreSQL, by their numbers in `pg_type`, that a type holds; texts hold all."""


def fits(type_: DataType, number: int) -> bool:
    """Whether a column of this type may hold values of a type of PostgreSQL."""
    if type_.root in (TypeRoot.CHAR, TypeRoot.VARCHAR):
        return True
    return type_.root in _TYPES and (number >= _OWN or number in _TYPES[type_.root])


def texts_of(data: bytes, cells: Cells) -> pa.Array:
    """The texts of cells, which stand in `data` one behind the other; NULL where there is none. Raises ConnectorError
    E3164 for what is no text in UTF-8."""
    try:
        found = cut_out(data, cells.start, cells.length, cells.kind != TEXT)
        return found.cast(pa.large_string()).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise ConnectorError(f"PostgreSQL has sent what is no text: {error}", code="E3164") from error


def typed(texts: pa.Array, type_: DataType, column: str) -> pa.Array:
    """Texts as values of a type. Raises ConnectorError E3164 for a value that the type does not have."""
    values, bad = _converted(texts, type_)
    if bad is not None and bad.any():
        text = texts[int(np.flatnonzero(bad)[0])].as_py()
        shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
        raise ConnectorError(
            f"column {column} is {type_.not_null()}, which has no value {shown!r}".replace(" NOT NULL", ""),
            code="E3164",
            hint="declare the column with a wider type, or as STRING, which holds every value as PostgreSQL writes it",
        )
    return values


def _converted(texts: pa.Array, type_: DataType) -> tuple[pa.Array, BadMask | None]:
    match type_.root:
        case TypeRoot.BOOLEAN:
            known = pc.fill_null(pc.is_in(texts, pa.array(["t", "f"])), False)
            return pc.if_else(known, pc.equal(texts, "t"), pa.scalar(None, pa.bool_())), _but(texts, known)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return _bytes(texts)
        case TypeRoot.ARRAY:
            return _arrays(texts, type_)
        case _:
            return parse_text(texts, type_, _RULES)


def _but(texts: pa.Array, known: pa.Array) -> BadMask:
    return pc.and_(pc.is_valid(texts), pc.invert(known)).to_numpy(zero_copy_only=False)


def _bytes(texts: pa.Array) -> tuple[pa.Array, BadMask | None]:
    known = pc.fill_null(pc.match_substring_regex(texts, r"^\\x([0-9a-f]{2})*$"), False)
    bad = _but(texts, known)
    if bad.any():
        return texts, bad
    return pa.array([None if t is None else bytes.fromhex(t[2:]) for t in texts.to_pylist()], pa.binary()), None


def _arrays(texts: pa.Array, type_: DataType) -> tuple[pa.Array, BadMask | None]:
    """Arrays of one dimension: their texts are taken apart one by one."""
    lists = [None if text is None else array_of(text) for text in texts.to_pylist()]
    bad = np.array([one is None for one in lists], dtype=bool) & pc.is_valid(texts).to_numpy(zero_copy_only=False)
    parts = pa.array(lists, pa.list_(pa.string()))
    elements, wrong = _converted(parts.flatten(), type_.children[0])
    lengths = np.array([0 if one is None else len(one) for one in lists], dtype=np.int64)
    offsets = pa.array(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]).astype(np.int32))
    missing = pc.is_null(parts)
    whole = either(bad if bad.any() else None, rows_of_elements(parts, wrong))
    return pa.ListArray.from_arrays(offsets, elements, type=type_.arrow, mask=missing), whole


def array_of(text: str) -> list[str | None] | None:
    """The elements of `{a,"b c",NULL}`; None for what is no array of one dimension."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    found: list[Any] = []
    part: list[str] = []
    quoted = inside = False
    at, end = 1, len(text) - 1
    while at < end:
        letter = text[at]
        if letter == "\\":
            at += 1
            part.append(text[at : at + 1])
        elif letter == '"':
            inside, quoted = not inside, True
        elif inside:
            part.append(letter)
        elif letter == ",":
            found.append(_element(part, quoted))
            part, quoted = [], False
        elif letter in "{}":
            return None
        else:
            part.append(letter)
        at += 1
    if inside:
        return None
    return [*found, _element(part, quoted)] if end > 1 else []


def _element(part: list[str], quoted: bool) -> str | None:
    text = "".join(part)
    return None if not quoted and text == "NULL" else text
