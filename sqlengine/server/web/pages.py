"""Rows as JSON: the text of each cell, exact whatever a browser's numbers can hold; the columns say what it is the text of."""

from __future__ import annotations

from typing import Any

from runtime.core.changelog import KIND_NAMES, ChangelogBatch
from runtime.core.schema import Schema
from sqlengine.server.http.operation import Page
from sqlengine.text.cells import cell_texts

__all__ = ["columns_of", "page_of", "rows_of"]


def columns_of(schema: Schema) -> list[dict[str, Any]]:
    """Names and types."""
    return [{"name": f.name, "type": str(f.type)} for f in schema]


def rows_of(batch: ChangelogBatch, schema: Schema, time_zone: str) -> dict[str, Any]:
    """Rows, each with the texts of its cells, null for NULL; and their kinds, null where all are insertions."""
    columns = [cell_texts(c, f.type, time_zone) for c, f in zip(batch.columns, schema, strict=False)]
    rows: list[Any] = [list(row) for row in zip(*columns, strict=True)] if columns else [[]] * len(batch)
    kinds = None if batch.kinds is None else [KIND_NAMES[kind] for kind in batch.kinds.tolist()]
    return {"rows": rows, "kinds": kinds}


def page_of(page: Page | None, number: int, time_zone: str) -> dict[str, Any]:
    """A page of a result; None: it is not there yet."""
    if page is None:
        return {"ready": False, "last": False, "next": number, "columns": [], "rows": [], "kinds": None}
    shape, batch = page.shape, page.batch
    return {
        "ready": True,
        "last": batch is None,
        "next": None if batch is None else number + 1,
        "columns": columns_of(shape.schema),
        **({"rows": [], "kinds": None} if batch is None else rows_of(batch, shape.schema, time_zone)),
        "is_query": shape.is_query,
        "job": shape.job_name,
        "summary": shape.summary,
        "warnings": list(shape.warnings),
    }
