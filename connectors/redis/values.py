"""Columns as texts in Redis, and texts as columns: as the formats `csv` and `json` write and read cells, but bytes are bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.text_values import TextRules, parse_text
from connectors.formats.value_text import value_text
from runtime.core.errors import UnsupportedError
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot

__all__ = ["check_types", "keys_of", "read_column", "text_of"]

_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)


def check_types(schema: Schema) -> None:
    """Raises UnsupportedError for a column whose values have no text here."""
    for field in schema:
        if field.type.is_nested or field.type.root in (TypeRoot.BITMAP, TypeRoot.RAW):
            raise UnsupportedError(
                f"connector 'redis' does not hold {field.type}, the type of column {field.name}",
                code="E1643",
                hint="write a STRING: JSON_STRING(..) gives one",
            )


def text_of(values: pa.Array, type_: DataType) -> pa.Array:
    """The texts of a column as bytes; NULL stays NULL."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return (values if type_.root in _BYTES else value_text(values, type_, separator=" ")).cast(pa.binary())


def keys_of(prefix: str, columns: Sequence[pa.Array], types: Sequence[DataType]) -> pa.Array:
    """The keys of hashes: the prefix and the texts of the key columns. Of several, `:` stands between them and is written
    `%3A` within one, and `%` as `%25`."""
    texts = [text_of(column, type_) for column, type_ in zip(columns, types, strict=True)]
    if len(texts) > 1:
        texts = [pc.replace_substring(pc.replace_substring(t, b"%", b"%25"), b":", b"%3A") for t in texts]
    start = pa.scalar(prefix.encode(), pa.binary())
    joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, pa.scalar(b":", pa.binary()))
    return pc.binary_join_element_wise(start, joined, pa.scalar(b"", pa.binary()))


def read_column(values: Sequence[bytes | None], type_: DataType, time_zone: str) -> tuple[pa.Array, np.ndarray | None]:
    """Texts as a column, and the mask of those that are no values of its type (NULL in the column)."""
    raw = pa.array(values, pa.binary())
    if type_.root in _BYTES:
        return raw.cast(type_.arrow), None
    try:
        texts, bad = raw.cast(pa.string()), None
    except pa.ArrowInvalid:
        bad = np.array([value is not None and not _is_text(value) for value in values])
        texts = pc.if_else(pa.array(bad), pa.scalar(None, pa.binary()), raw).cast(pa.string())
    column, wrong = parse_text(texts, type_, TextRules(time_zone))
    if wrong is None:
        return column, bad
    return column, np.asarray(wrong) if bad is None else np.asarray(wrong) | bad


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
