"""Rows and changes as the lines of a test file: cells with ` | ` between them."""

from __future__ import annotations

import pyarrow as pa

from runtime.core.changelog import KIND_NAMES, ChangelogBatch
from runtime.core.schema import Schema
from sqlengine.text.cells import cell_texts

__all__ = ["batch_lines", "row_lines"]


def row_lines(rows: pa.RecordBatch, schema: Schema, time_zone: str = "UTC") -> list[str]:
    """A line per row; line ends inside a cell are written `\\n`, a text of blanks or nothing `(empty)`."""
    columns = [
        [_cell(text) for text in cell_texts(c, t, time_zone)] for c, t in zip(rows.columns, schema.types, strict=True)
    ]
    return [" | ".join(cells) for cells in zip(*columns, strict=True)]


def batch_lines(batch: ChangelogBatch, schema: Schema, time_zone: str = "UTC") -> list[str]:
    """A line per change, the row kind first."""
    kinds = batch.kinds_or_inserts().tolist()
    return [f"{KIND_NAMES[k]} {line}" for k, line in zip(kinds, row_lines(batch.rows, schema, time_zone), strict=True)]


def _cell(text: str | None) -> str:
    return "NULL" if text is None else text.replace("\n", "\\n").strip() or "(empty)"
