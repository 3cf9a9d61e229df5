"""Tables and rows as HTML, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["rows_html", "schema_html"]

_STYLE = "border-collapse: collapse; font-family: monospace; font-size: 12px"
_CELL = "padding: 2px 8px; border-bottom: 1px solid #ddd; text-align: left"


def rows_html(names: Sequence[str], types: Sequence[str], rows: Iterable[Sequence[Any]], note: str = "") -> str:
    """A table of rows, with the types below the names and a note under it."""
    head = "".join(
        f'<th style="{_CELL}">{html.escape(n)}<br><small style="font-weight: normal">{html.escape(t)}</small></th>'
        for n, t in zip(names, types, strict=True)
    )
    body = "".join("<tr>" + "".join(f'<td style="{_CELL}">{_cell(v)}</td>' for v in row) + "</tr>" for row in rows)
    below = f"<small>{html.escape(note)}</small>" if note else ""
    return f'<table style="{_STYLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}'


def schema_html(columns: Sequence[tuple[str, str]], sql: str) -> str:
    """Columns and types of a query that was not run, and its SQL."""
    table = rows_html(["column", "type"], ["", ""], columns)
    return f"{table}<details><summary>SQL</summary><pre>{html.escape(sql)}</pre></details>"


def _cell(value: Any) -> str:
    if value is None:
        return '<span style="color: #999">NULL</span>'
    return html.escape(str(value))
