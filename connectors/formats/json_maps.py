"""MAP columns of JSON lines. Arrow's JSON reader has no maps, so DuckDB takes the objects apart: one call per block."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from connectors.formats.json_convert import convert
from connectors.formats.text_values import TextRules
from runtime.core.schema import Field
from runtime.core.types import DataType, TypeRoot

__all__ = ["read_map_columns"]

_EXACT_DIGITS = 15
"""DuckDB reads numbers as doubles, which hold this many decimal digits exactly."""


def read_map_columns(lines: pa.Array, fields: Sequence[Field], rules: TextRules) -> dict[str, pa.Array] | None:
    """The named top-level columns, which hold maps at any depth; None when a line needs the full rules (or doubles
    would not be exact)."""
    if not all(_exact(f.type) for f in fields):
        return None
    paths = ", ".join(
        f"CAST(json_extract(line, {_path(f.name)}) AS {_duck(f.type)}) AS c{i}" for i, f in enumerate(fields)
    )
    import duckdb  # it takes a tenth of a second to load, and few tables have maps

    table = pa.table({"line": lines})
    with duckdb.connect() as connection:
        connection.register("lines", table)
        try:
            read = connection.sql(f"SELECT {paths} FROM lines").to_arrow_table()
        except duckdb.Error:
            return None
    columns: dict[str, pa.Array] = {}
    for column, field in zip(read.columns, fields, strict=True):
        cells, bad = convert(
            pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0), field.type, rules
        )
        if bad is not None:
            return None
        columns[field.name] = cells
    return columns


def _exact(type_: DataType) -> bool:
    if type_.root is TypeRoot.DECIMAL and type_.precision > _EXACT_DIGITS:
        return False
    return all(_exact(c) for c in type_.children) and all(_exact(f.type) for f in type_.fields)


def _path(name: str) -> str:
    inside = name.replace("\\", "\\\\").replace('"', '\\"').replace("'", "''")
    return f"""'$."{inside}"'"""


def _duck(type_: DataType) -> str:
    """DuckDB's type with text at the leaves."""
    match type_.root:
        case TypeRoot.MAP:
            return f"MAP(VARCHAR, {_duck(type_.children[1])})"
        case TypeRoot.MULTISET:
            return "MAP(VARCHAR, VARCHAR)"
        case TypeRoot.ARRAY:
            return f"{_duck(type_.children[0])}[]"
        case TypeRoot.ROW:
            quoted = ((f.name.replace('"', '""'), f.type) for f in type_.fields)
            return "STRUCT(" + ", ".join(f'"{name}" {_duck(t)}' for name, t in quoted) + ")"
        case _:
            return "VARCHAR"
