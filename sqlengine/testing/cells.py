"""Rows and changes as the lines of a test file: cells with ` | ` between them."""

from __future__ import annotations

import pyarrow as pa

from runtime.core.changelog import KIND_NAMES, ChangelogBatch
from runtime.core.schema import Schema
from sqlengine.cli.render import cell_text
from sqlengine.result import python_values

__all__ = ["batch_lines", "row_lines"]


def row_lines(rows: pa.RecordBatch, schema: Schema) -> list[str]:
    """A line per row; line ends inside a cell are written `\\n`, an empty text `(empty)`."""
    columns = [python_values(c, t) for c, t in zip(rows.columns, schema.types, strict=True)]
    return [
        " | ".join(_cell(cell_text(v, t)) for v, t in zip(values, schema.types, strict=True)) for values in zip(*columns, strict=True)
    ]


def batch_lines(batch: ChangelogBatch, schema: Schema) -> list[str]:
    """A line per change, the row kind first."""
    kinds = batch.kinds_or_inserts().tolist()
    return [f"{KIND_NAMES[k]} {line}" for k, line in zip(kinds, row_lines(batch.rows, schema), strict=True)]


def _cell(text: str) -> str:
    return text.replace("\n", "\\n").strip() or "(empty)"
