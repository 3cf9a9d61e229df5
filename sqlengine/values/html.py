"""Tables and rows as HTML, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["rows_html", "schema_html"]

_STYLE = "border-collapse: collapse; font-family: monospace; font-size: 12px"
_MOST_CHARACTERS = 1000
_CELL = "padding: 2px 8px; border-bottom: 1px solid #ddd; text-align: left"


def rows_html(
    names: Sequence[str],
    types: Sequence[str],
    rows: Iterable[Sequence[Any]],
    note: str = "",
    last: Iterable[Sequence[Any]] = (),
    left_out: int = 0,
) -> str:
    """A table of rows, with the types below the names and a note under it. Before the `last` rows it says how many are
    left out."""
    head = "".join(
        f'<th style="{_CELL}">{html.escape(n)}<br><small style="font-weight: normal">{html.escape(t)}</small></th>'
        for n, t in zip(names, types, strict=True)
    )
    gap = f'<td style="{_CELL}" colspan="{len(names)}">… {left_out:,} more row{"" if left_out == 1 else "s"}</td>'
    body = _body(rows) + (f"<tr>{gap}</tr>" if left_out else "") + _body(last)
    below = f"<small>{html.escape(note)}</small>" if note else ""
    return f'<table style="{_STYLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}'


def _body(rows: Iterable[Sequence[Any]]) -> str:
    return "".join("<tr>" + "".join(f'<td style="{_CELL}">{_cell(v)}</td>' for v in row) + "</tr>" for row in rows)


def schema_html(columns: Sequence[tuple[str, str]], sql: str) -> str:
    """Columns and types of a query that was not run, and its SQL."""
    table = rows_html(["column", "type"], ["", ""], columns)
    return f"{table}<details><summary>SQL</summary><pre>{html.escape(sql)}</pre></details>"


def _cell(value: Any) -> str:
    if value is None:
        return '<span style="color: #999">NULL</span>'
    text = str(value)
    return html.escape(text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…")
