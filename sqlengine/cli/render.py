"""Results as text: aligned tables, CSV, JSON lines, changelogs."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import io
import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from runtime.core.changelog import KIND_NAMES, ChangelogBatch
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from sqlengine.result import Result, Row, python_values

__all__ = ["FORMATS", "cell_text", "render_changes", "render_result", "table_lines"]

FORMATS = ("table", "csv", "json", "changelog")
MAX_CELL = 120
_NUMBERS = (TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL)


def render_result(result: Result, form: str) -> Iterator[str]:
    """The lines of a result. `table` and `csv` show the final rows; `json` and `changelog` the changes as they come."""
    match form:
        case "table":
            yield from table_lines(result.schema, list(_folded_rows(result)))
        case "csv":
            yield from _csv_lines(result.schema, _folded_rows(result))
        case "json":
            yield from _json_lines(result)
        case _:
            for batch in result.changes():
                yield from render_changes(batch, result.schema)


def _folded_rows(result: Result) -> Iterator[Row]:
    schema = result.schema
    rows = result.folded()
    columns = [python_values(c, t) for c, t in zip(rows.columns, schema.types, strict=True)]
    for values in zip(*columns, strict=True):
        yield Row(values, "+I", schema.names)


def cell_text(value: Any, type_: DataType) -> str:
    """A value as SQL users read it: NULL, TRUE, timestamps with the column's precision."""
    if value is None:
        return "NULL"
    match type_.root:
        case TypeRoot.BOOLEAN:
            return "TRUE" if value else "FALSE"
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _timestamp(value, type_.precision)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return "x'" + bytes(value).hex() + "'"
        case TypeRoot.ARRAY:
            return "[" + ", ".join(cell_text(v, type_.children[0]) for v in value) + "]"
        case TypeRoot.MAP | TypeRoot.MULTISET:
            key, item = type_.children[0], type_.children[-1]
            pairs = (f"{cell_text(k, key)}={v if type_.root is TypeRoot.MULTISET else cell_text(v, item)}" for k, v in value.items())
            return "{" + ", ".join(pairs) + "}"
        case TypeRoot.ROW:
            return "(" + ", ".join(cell_text(v, f.type) for v, f in zip(value, type_.fields, strict=True)) + ")"
        case _:
            return str(value)


def _timestamp(value: dt.datetime, precision: int) -> str:
    text = value.strftime("%H:%M:%S")
    digits = f"{value.microsecond:06d}{getattr(value, 'nanosecond', 0):03d}"[:precision]
    return f"{value.year:04d}-{value.month:02d}-{value.day:02d} {text}" + (f".{digits}" if digits else "")


def table_lines(schema: Schema, rows: Sequence[Sequence[Any]], kinds: Sequence[str] | None = None) -> Iterator[str]:
    """An aligned table with a header and the number of rows below; numbers to the right."""
    header = list(schema.names)
    cells = [[_one_line(cell_text(v, t)) for v, t in zip(row, schema.types, strict=True)] for row in rows]
    right = [t.root in _NUMBERS for t in schema.types]
    if kinds is not None:
        header = ["op", *header]
        cells = [[k, *line] for k, line in zip(kinds, cells, strict=True)]
        right = [False, *right]
    widths = [max([_width(h), *(_width(line[i]) for line in cells)]) for i, h in enumerate(header)]
    rule = "+" + "+".join("-" * (w + 2) for w in widths) + "+"
    yield rule
    yield "|" + "|".join(" " + _pad(h, w, False) + " " for h, w in zip(header, widths, strict=True)) + "|"
    yield rule
    for line in cells:
        yield "|" + "|".join(" " + _pad(c, w, r) + " " for c, w, r in zip(line, widths, right, strict=True)) + "|"
    if cells:
        yield rule
    yield f"{len(cells)} row{'' if len(cells) == 1 else 's'}"


def _one_line(text: str) -> str:
    text = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"


def _width(text: str) -> int:
    """Columns that a text takes on a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space


def _csv_lines(schema: Schema, rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="")

    def line(cells: Sequence[Any]) -> str:
        buffer.seek(0)
        buffer.truncate()
        writer.writerow(cells)
        return buffer.getvalue()

    yield line(schema.names)
    for row in rows:
        yield line(["" if v is None else cell_text(v, t) for v, t in zip(row, schema.types, strict=True)])


def _json_lines(result: Result) -> Iterator[str]:
    """A JSON object per row; with the row kind as `op` when the result is a changelog (a result of inserts only has none)."""
    schema = result.schema
    plain = result.is_append_only
    for row in result.collect():
        values = {n: json_value(v, t) for n, v, t in zip(schema.names, row, schema.types, strict=True)}
        yield json.dumps(values if plain else {"op": row.kind, **values}, ensure_ascii=False)


def json_value(value: Any, type_: DataType) -> Any:
    """A value as JSON: numbers, strings, booleans, lists, objects; decimals and times as strings."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, decimal.Decimal):
        return str(value)
    match type_.root:
        case TypeRoot.ARRAY:
            return [json_value(v, type_.children[0]) for v in value]
        case TypeRoot.MAP:
            return {str(k): json_value(v, type_.children[1]) for k, v in value.items()}
        case TypeRoot.MULTISET:
            return {str(k): n for k, n in value.items()}
        case TypeRoot.ROW:
            return {f.name: json_value(v, f.type) for f, v in zip(type_.fields, value, strict=True)}
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return bytes(value).hex()
        case _:
            return cell_text(value, type_)


def render_changes(batch: ChangelogBatch, schema: Schema) -> Iterator[str]:
    """One line per change: the row kind, then the cells."""
    columns = [python_values(c, t) for c, t in zip(batch.columns, schema.types, strict=True)]
    for kind, *values in zip(batch.kinds_or_inserts().tolist(), *columns, strict=True):
        yield f"{KIND_NAMES[kind]} " + " | ".join(_one_line(cell_text(v, t)) for v, t in zip(values, schema.types, strict=True))
