"""Columns as the texts that people read: in tables, changelogs, CSV and test files."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.types import STRING, DataType, RowField, TypeRoot
from runtime.expr.cast.text import to_text

__all__ = ["cell_texts", "watermark_text"]


def cell_texts(column: pa.Array, type_: DataType, time_zone: str = "UTC") -> list[str | None]:
    """The text of each cell as CAST(.. AS STRING) gives it (TIMESTAMP_LTZ in `time_zone`), bytes as `x'0a'`; None for
    NULL.

    A NULL inside a nested value is the text NULL.
    """
    column, type_ = _bytes_as_hex(column, type_)
    return to_text(column, type_, time_zone).to_pylist()


def _bytes_as_hex(column: pa.Array, type_: DataType) -> tuple[pa.Array, DataType]:
    """A column without bytes: those inside it become their hexadecimal text."""
    if not _holds_bytes(type_):
        return column, type_
    match type_.root:
        case TypeRoot.ARRAY:
            items, item_type = _bytes_as_hex(column.values, type_.children[0])
            return pa.ListArray.from_arrays(column.offsets, items, mask=_nulls(column)), type_.with_(
                children=(item_type,)
            )
        case TypeRoot.MAP | TypeRoot.MULTISET:
            keys, key_type = _bytes_as_hex(column.keys, type_.children[0])
            items, *item_type = column.items, *type_.children[1:]
            if item_type:
                items, item_type[0] = _bytes_as_hex(items, item_type[0])
            return pa.MapArray.from_arrays(column.offsets, keys, items, mask=_nulls(column)), type_.with_(
                children=(key_type, *item_type)
            )
        case TypeRoot.ROW:
            parts = [_bytes_as_hex(column.field(i), f.type) for i, f in enumerate(type_.fields)]
            fields = tuple(RowField(f.name, part_type) for f, (_, part_type) in zip(type_.fields, parts, strict=True))
            arrow = [pa.field(f.name, f.type.arrow) for f in fields]
            return pa.StructArray.from_arrays(
                [part for part, _ in parts], fields=arrow, mask=_nulls(column)
            ), type_.with_(fields=fields)
        case _:
            texts = [None if value is None else f"x'{value.hex()}'" for value in column.to_pylist()]
            return pa.array(texts, pa.string()), STRING


def _holds_bytes(type_: DataType) -> bool:
    return (
        type_.is_binary
        or any(_holds_bytes(c) for c in type_.children)
        or any(_holds_bytes(f.type) for f in type_.fields)
    )


def _nulls(column: pa.Array) -> pa.Array | None:
    return pc.is_null(column) if column.null_count else None


def watermark_text(watermark: int) -> str:
    """A watermark as UTC; `-` before the first one, `end` when the input has ended."""
    if watermark == MIN_WATERMARK:
        return "-"
    if watermark == MAX_WATERMARK:
        return "end"
    try:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=watermark)
    except OverflowError:
        return str(watermark)
    return moment.isoformat(" ", "milliseconds" if moment.microsecond else "seconds")
