"""Rows of constants as columns, typed at once: what VALUES and IN have by the thousand.

A column has the type that its values would have as literals, brought together as VALUES and IN do. What is rare
(values of different kinds, numbers that are out of range, moments that are none) gives None: then each value is bound
as an expression, which knows every rule and points at what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from connectors.values.constants import ConstantTable
from planner.logical.nodes import Scan
from runtime.core.errors import BindError, SqlSyntaxError
from runtime.core.schema import Field, Schema
from runtime.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NULL, DataType, TypeRoot, char, decimal, timestamp
from runtime.expr.cast.dispatch import convert
from runtime.expr.nodes import Constants, fresh_column
from runtime.expr.typing import common_type
from sqlengine.bind.literals import moment, text_length
from sqlengine.bind.session import BoundQuery
from sqlengine.parse.constant_rows import Cell, ConstantRows, text_content

__all__ = ["ConstantColumn", "constant_column", "constant_columns", "constant_list", "constant_query", "other_width"]


@dataclass(frozen=True, slots=True)
class ConstantColumn:
    """Constants of one type; `values` has exactly its Arrow type. NOT NULL when no value is NULL."""

    type: DataType
    values: pa.Array

    def as_expression(self, type_: DataType, time_zone: str) -> Constants | None:
        """The values, each once, in another type; None when one has no such value, or no form as a literal."""
        converted = convert(pc.unique(self.values), self.type, type_, time_zone)
        if converted.failed is not None or (type_.is_timestamp and type_.precision > 6):
            return None
        values = converted.values
        if type_.root is TypeRoot.TIMESTAMP_LTZ:
            values = values.cast(pa.timestamp("us"))
        return Constants(tuple(values.to_pylist()), type_)


def constant_list(rows: ConstantRows, time_zone: str) -> ConstantColumn | None:
    """The constants of one row as one column."""
    return constant_column(rows.cells(), time_zone)


def constant_query(columns: Sequence[ConstantColumn]) -> BoundQuery:
    """The columns as a query over a table that holds them; they are named EXPR$0, EXPR$1 and so on."""
    names = tuple(f"EXPR${i}" for i in range(len(columns)))
    schema = Schema(tuple(Field(n, c.type) for n, c in zip(names, columns, strict=True)))
    table = ConstantTable(schema, pa.RecordBatch.from_arrays([c.values for c in columns], names=list(names)))
    produced = tuple(fresh_column(n, c.type) for n, c in zip(names, columns, strict=True))
    return BoundQuery(Scan(table, "VALUES", produced), names)


def constant_columns(rows: ConstantRows, time_zone: str) -> list[ConstantColumn] | None:
    """The columns of rows of one width; None where each value has to be bound by itself.

    Raises BindError E1223 at the first row of another width than the first.
    """
    cells = rows.cells()
    ends = [cell[-1] for cell in cells]
    width = ends.index(")") + 1
    if ends != ([","] * (width - 1) + [")"]) * (len(cells) // width):
        _refuse_widths(rows, ends)
    columns: list[ConstantColumn] = []
    for i in range(width):
        column = constant_column(cells[i::width], time_zone)
        if column is None:
            return None
        columns.append(column)
    return columns


def other_width(row: int, width: int) -> BindError:
    """The error E1223 for a row of VALUES that has another number of values than the first."""
    return BindError(
        f"a row of VALUES has {row} values, and the first has {width}",
        code="E1223",
        hint="give every row the same number of values",
    )


def _refuse_widths(rows: ConstantRows, ends: Sequence[str]) -> None:
    first = width = 0
    spans = rows.row_spans()
    for end in ends:
        width += 1
        if end == ")":
            span = next(spans)
            first = first or width
            if width != first:
                error = other_width(width, first)
                error.span = span
                raise error
            width = 0


def constant_column(cells: Sequence[Cell], time_zone: str) -> ConstantColumn | None:
    """The constants as one column; None where each has to be bound by itself."""
    numbers, texts, words, temporals, moments, _ends = zip(*cells, strict=True)
    kinds = {w.upper() for w in set(words)}
    missing = "NULL" in kinds
    kinds -= {"NULL", ""}
    known = [k for k, there in (("number", any(numbers)), ("text", any(texts)), ("truth", bool(kinds))) if there]
    known += [k.strip().upper() for k in set(temporals) if k]
    if len(set(known)) != 1:
        return None if known else ConstantColumn(NULL, pa.nulls(len(cells)))
    try:
        match known[0]:
            case "number":
                made = _numbers(numbers)
            case "text":
                made = _texts(texts)
            case "truth":
                made = BOOLEAN, pa.array([None if w in ("", "NULL") else w == "TRUE" for w in map(str.upper, words)])
            case kind:
                made = _moments(kind, moments, time_zone)
    except (pa.ArrowException, ValueError, OverflowError, SqlSyntaxError):
        return None
    return None if made is None else ConstantColumn(made[0].with_nullable(missing), made[1])


_Made = tuple[DataType, pa.Array]


def _numbers(written: Sequence[str]) -> _Made | None:
    joined = "".join(written)
    if " " in joined or "\n" in joined or "\t" in joined:
        written = ["".join(w.split()) for w in written]
    if "e" in joined or "E" in joined:
        if not all("e" in w or "E" in w for w in written if w):
            return None
        return DOUBLE, pa.array([float(w) if w else None for w in written], pa.float64())
    if "0" in joined and any(map(_LEADING_ZERO.match, written)):
        return None
    if "." not in joined:
        whole = [int(w) if w else None for w in written]
        there = [w for w in whole if w is not None]
        type_ = INT if min(there) >= -_INT_MAX - 1 and max(there) <= _INT_MAX else BIGINT
        return type_, pa.array(whole, type_.arrow)
    types = [_exact(*digits) for digits in set(map(_digits, written)) if any(digits)]
    common = common_type([t for t in types if t is not None])
    if None in types or common is None or common.precision >= 38:
        return None
    return common, pa.array([w or None for w in written], pa.string()).cast(common.arrow)


_INT_MAX = (1 << 31) - 1


def _digits(written: str) -> tuple[int, int]:
    """The number of digits before and behind the point."""
    sign = written[:1] == "-"
    point = written.find(".")
    return (len(written) - sign, 0) if point < 0 else (point - sign, len(written) - point - 1)


def _exact(whole: int, fraction: int) -> DataType | None:
    """The type of a number of so many digits; None where it depends on the digits."""
    if whole + fraction > _SAFE_DIGITS or (not fraction and whole > _SAFE_INT_DIGITS):
        return None
    return decimal(max(whole, 1) + fraction, fraction) if fraction else INT


_SAFE_DIGITS, _SAFE_INT_DIGITS = 18, 9
_LEADING_ZERO = re.compile(r"-?0\d")


def _texts(written: Sequence[str]) -> _Made | None:
    if any("''" in w for w in written if len(w) > 3):
        contents = [text_content(w) if w else None for w in written]
    else:
        contents = [w[1:-1] if w else None for w in written]
    if all(map(str.isascii, written)):
        lengths = set(map(len, (c for c in contents if c is not None)))
    else:
        lengths = set(map(text_length, (c for c in contents if c is not None)))
    common = common_type([char(n) for n in sorted(lengths)])
    return None if common is None else (common, pa.array(contents, pa.string()))


_DAYS = re.compile(r"(?:'(?!0000)\d{4}-\d\d-\d\d'|)")
_MOMENT = re.compile(r"(?:'(?!0000)\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?'|)")


def _moments(kind: str, written: Sequence[str], time_zone: str) -> _Made | None:
    if kind == "DATE" and all(map(_DAYS.fullmatch, written)):
        return DATE, pa.array([w[1:-1] or None for w in written], pa.string()).cast(pa.date32())
    if kind == "TIMESTAMP" and all(map(_MOMENT.fullmatch, written)):
        digits = max(max(len(w) - _WITHOUT_FRACTION, 0) for w in written)
        texts = pa.array([w[1:-1] or None for w in written], pa.string())
        return timestamp(digits), texts.cast(pa.timestamp("us"))
    known = {w: moment(kind, text_content(w), time_zone) for w in set(written) if w}
    common = common_type([literal.type for literal in known.values()])
    if common is None or any(isinstance(literal.value, int) for literal in known.values()):
        return None
    return common, pa.array([known[w].value if w else None for w in written], common.arrow)


_WITHOUT_FRACTION = len("'2024-01-01 00:00:00.'")
