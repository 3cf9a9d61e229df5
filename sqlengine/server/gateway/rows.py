"""Rows as they stand in a page of a result: JSON values, or the texts that the SQL client shows.

Source: Flink 2.3, `ResultInfoSerializer` and `RowFormat`. A column is made at once; a row is the texts of its cells joined.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from runtime.expr.json_text import json_text, quoted, serializable
from sqlengine.text.cells import cell_texts

__all__ = ["FORMATS", "columns_text", "row_texts"]

FORMATS = ("JSON", "PLAIN_TEXT")
_KINDS = ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE")


def row_texts(batch: ChangelogBatch, schema: Schema, form: str, time_zone: str) -> list[str]:
    """`{"kind": .., "fields": [..]}` for each row."""
    if form == "JSON":
        cells = [_json(column, f.type, time_zone) for column, f in zip(batch.columns, schema, strict=True)]
    else:
        cells = [
            quoted(pa.array(cell_texts(column, f.type, time_zone), pa.string()))
            for column, f in zip(batch.columns, schema, strict=True)
        ]
    columns = [pc.fill_null(column, "null").to_pylist() for column in cells]
    rows = zip(*columns, strict=True) if columns else [()] * len(batch)
    heads = [f'{{"kind":"{kind}","fields":[' for kind in _KINDS]
    kinds = batch.kinds_or_inserts().tolist()
    return [f"{heads[kind]}{','.join(row)}]}}" for kind, row in zip(kinds, rows, strict=True)]


def _json(column: pa.Array, type_: DataType, time_zone: str) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if type_.root is TypeRoot.VARIANT or not serializable(type_):
        return quoted(pa.array(cell_texts(column, type_, time_zone), pa.string()))
    texts = json_text(column, type_)
    if type_.root is TypeRoot.DECIMAL and type_.scale:
        short = pc.replace_substring_regex(texts, r"\.0+$", "")
        return pc.replace_substring_regex(short, r"(\.\d*[1-9])0+$", r"\1")
    return texts


def columns_text(columns: list[dict[str, object]]) -> str:
    """The description of columns, made once for a result."""
    return json.dumps(columns, ensure_ascii=False, separators=(",", ":"))
