"""Results as text: aligned tables, CSV, JSON lines, changelogs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from runtime.core.changelog import KIND_NAMES, ChangelogBatch
from runtime.core.errors import display_width
from runtime.core.rooms import Room
from runtime.core.schema import Field, Schema
from runtime.core.types import STRING, TypeRoot
from sqlengine.terminal.colours import Paint
from sqlengine.text.cells import cell_texts

if TYPE_CHECKING:
    import connectors.formats.json_encoder as _json_encoder
    from sqlengine.results.result import Result
else:
    _json_encoder = Room("connectors.formats.json_encoder")

__all__ = ["ends_of", "render_result", "table_text"]


MAX_CELL = 120
LINES_AT_ONCE = 10_000
Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)
_NUMBERS = (
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INT,
    TypeRoot.BIGINT,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
    TypeRoot.DECIMAL,
)
_COLOUR_OF_KIND = {"+I": "green", "-U": "yellow", "+U": "green", "-D": "red"}


def render_result(result: Result, form: str, paint: Paint) -> Iterator[str]:
    """The result in pieces of whole lines, each piece as soon as it is known.

    `table` and `csv` show the final rows of bounded input; `json` and `changelog` the changes as they come, which is
    also what `table` does for input without an end. JSON, and CSV of such input, name the row kind `op` unless all are
    inserts.
    """
    endless = result.is_query and not result.bounded
    match form:
        case "table" if not endless:
            yield from _table(result)
        case "csv" if not endless:
            yield from _csv(result.schema, [result.folded()], result.time_zone)
        case "csv":
            schema = result.schema if result.is_append_only else _with_op(result.schema)
            yield from _csv(schema, (_with_kinds(batch, result) for batch in result.changes()), result.time_zone)
        case "json":
            for batch in result.changes():
                yield from _in_pieces(_json_lines(batch, result))
        case _:
            yield from _changelog(result, paint, ruled=form == "table")


def _texts(columns: Sequence[pa.Array], schema: Schema, time_zone: str) -> list[list[str | None]]:
    """The texts of each column."""
    return [cell_texts(column, f.type, time_zone) for column, f in zip(columns, schema, strict=True)]


def _in_pieces(lines: Iterator[str]) -> Iterator[str]:
    while piece := list(islice(lines, LINES_AT_ONCE)):
        yield "\n".join(piece) + "\n"


# --- tables
# ---------------------------------------------------------------------------------------------------------------------


def _table(result: Result) -> Iterator[str]:
    return table_text(result.folded(), result.schema, result.time_zone)


def table_text(rows: pa.RecordBatch, schema: Schema, time_zone: str, most: int | None = None) -> Iterator[str]:
    """An aligned table with a header and the number of rows below; numbers to the right. Of more than `most` rows the
    first and the last, and between them how many there are more."""
    first, last, left_out = ends_of(rows, most)
    shown = first if left_out == 0 else pa.concat_batches([first, last])
    columns = [[_one_line(cell) for cell in column] for column in _texts(shown.columns, schema, time_zone)]
    widths = [
        max(display_width(name), *(map(display_width, cells)), 0)
        for name, cells in zip(schema.names, columns, strict=True)
    ]
    right = [f.type.root in _NUMBERS for f in schema]
    rule = _rule(widths)

    def lines() -> Iterator[str]:
        yield from (rule, _line(schema.names, widths), rule)
        for number, cells in enumerate(zip(*columns, strict=True)):
            if left_out and number == first.num_rows:
                yield f"… {left_out:,} more row{'' if left_out == 1 else 's'}"
            yield _line(cells, widths, right)
        if rows.num_rows:
            yield rule
        yield f"{rows.num_rows:,} row{'' if rows.num_rows == 1 else 's'}"

    yield from _in_pieces(lines())


def ends_of(rows: Rows, most: int | None) -> tuple[Rows, Rows, int]:
    """The first and the last of more than `most` rows, together as many as those, and how many are between; or all rows,
    none, and 0."""
    if most is None or rows.num_rows <= most:
        return rows, rows.slice(rows.num_rows), 0
    tail = most // 2
    return rows.slice(0, most - tail), rows.slice(rows.num_rows - tail), rows.num_rows - most


def _rule(widths: Sequence[int]) -> str:
    return "+" + "+".join("-" * (w + 2) for w in widths) + "+"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool] | None = None) -> str:
    to_right = right or [False] * len(cells)
    return "|" + "|".join(" " + _pad(c, w, r) + " " for c, w, r in zip(cells, widths, to_right, strict=True)) + "|"


def _one_line(text: str | None) -> str:
    if text is None:
        return "NULL"
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - display_width(text))
    return space + text if right else text + space


# --- changelogs
# -----------------------------------------------------------------------------------------------------------------


def _changelog(result: Result, paint: Paint, *, ruled: bool) -> Iterator[str]:
    """One line per change: the row kind, then the cells. Columns are as wide as their widest cell so far.

    `ruled` draws them as a table with a header, which a reader at a terminal wants.
    """
    schema = result.schema
    right = [f.type.root in _NUMBERS for f in schema]
    widths = [max(display_width(f.name), _usual_width(f)) for f in schema]
    if ruled:
        rule = _rule([2, *widths])
        yield "\n".join((rule, _line(["op", *schema.names], [2, *widths]), rule)) + "\n"
    for batch in result.changes():
        columns = [[_one_line(c) for c in column] for column in _texts(batch.columns, schema, result.time_zone)]
        kinds = [KIND_NAMES[k] for k in batch.kinds_or_inserts().tolist()]
        if ruled:
            widths = [max(w, *map(display_width, cells)) for w, cells in zip(widths, columns, strict=True)]
            lines = (
                f"| {paint(kind, _COLOUR_OF_KIND[kind])} " + _line(cells, widths, right)
                for kind, *cells in zip(kinds, *columns, strict=True)
            )
        else:
            lines = (
                f"{paint(kind, _COLOUR_OF_KIND[kind])} " + " | ".join(cells)
                for kind, *cells in zip(kinds, *columns, strict=True)
            )
        yield from _in_pieces(lines)
    if ruled:
        yield _rule([2, *widths]) + "\n"


_USUAL_WIDTHS = {
    TypeRoot.TINYINT: 4,
    TypeRoot.SMALLINT: 6,
    TypeRoot.INT: 11,
    TypeRoot.BIGINT: 20,
    TypeRoot.FLOAT: 12,
    TypeRoot.DOUBLE: 18,
    TypeRoot.BOOLEAN: 5,
    TypeRoot.DATE: 10,
    TypeRoot.TIME: 8,
    TypeRoot.TIMESTAMP: 19,
    TypeRoot.TIMESTAMP_LTZ: 19,
    TypeRoot.DECIMAL: 12,
}


def _usual_width(column: Field) -> int:
    """How wide a column is drawn before its cells are known."""
    extra = column.type.precision + 1 if column.type.is_timestamp and column.type.precision else 0
    return _USUAL_WIDTHS.get(column.type.root, 16) + extra


# --- for programs
# ---------------------------------------------------------------------------------------------------------------


def _csv(schema: Schema, batches: Iterable[pa.RecordBatch], time_zone: str) -> Iterator[str]:
    """A header and the rows. NULL is nothing, an empty text is `""`."""
    yield ",".join(_csv_cell(n) for n in schema.names) + "\n"
    for rows in batches:
        columns = [[_csv_cell(c) for c in column] for column in _texts(rows.columns, schema, time_zone)]
        yield from _in_pieces(map(",".join, zip(*columns, strict=True)))


def _csv_cell(text: str | None) -> str:
    if text is None:
        return ""
    if text and text == text.strip() and not any(c in text for c in ',"\n\r'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _json_lines(batch: ChangelogBatch, result: Result) -> Iterator[str]:
    """A JSON object per row, as the format `json` writes it; with the row kind as `op` when the result is a
    changelog."""
    schema = result.schema if result.is_append_only else _with_op(result.schema)
    rows = _with_kinds(batch, result)
    return iter(
        _json_encoder.object_text(
            rows.columns, schema.names, schema.types, _json_encoder.JsonSpelling(null_keys="LITERAL")
        ).to_pylist()
    )


def _with_op(schema: Schema) -> Schema:
    return Schema((Field("op", STRING), *schema.fields))


def _with_kinds(batch: ChangelogBatch, result: Result) -> pa.RecordBatch:
    """The rows, their kinds in front when the result is a changelog."""
    if result.is_append_only:
        return batch.rows
    kinds = pa.array(np.array(KIND_NAMES)[batch.kinds_or_inserts()], pa.string())
    return pa.RecordBatch.from_arrays([kinds, *batch.columns], names=["op", *batch.rows.schema.names])
