"""Answers of a server as results that the shell shows like its own: numbers are numbers, everything else is a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, DOUBLE, FLOAT, INT, SMALLINT, STRING, DataType
from sqlengine.results.result import Result

__all__ = ["as_result", "type_of"]

_TYPES: dict[int, DataType] = {
    16: BOOLEAN,
    20: BIGINT,
    21: SMALLINT,
    23: INT,
    26: BIGINT,
    700: FLOAT,
    701: DOUBLE,
}
"""By the oid of `pg_type`: https://github.com/postgres/postgres/blob/master/src/include/catalog/pg_type.dat"""


def type_of(oid: int) -> DataType:
    """The type in which a column is shown."""
    return _TYPES.get(oid, STRING)


def as_result(names: Sequence[str], types: Sequence[int], rows: Sequence[Sequence[str | None]]) -> Result:
    """A finished result of columns of texts."""
    kinds = [type_of(oid) for oid in types]
    columns = [[_value(row[i], kind) for row in rows] for i, kind in enumerate(kinds)]
    return Result.table(Schema.of(*zip(_distinct(names), kinds, strict=True)), columns)


def _value(text: str | None, kind: DataType) -> Any:
    if text is None or kind is STRING:
        return text
    if kind is BOOLEAN:
        return text == "t"
    return float(text) if kind in (FLOAT, DOUBLE) else int(text)


def _distinct(names: Sequence[str]) -> list[str]:
    """A result of ours has no name twice; one of PostgreSQL may have."""
    taken: set[str] = set()
    found: list[str] = []
    for name in names:
        one, number = name, 0
        while one in taken:
            number += 1
            one = f"{name}{number}"
        taken.add(one)
        found.append(one)
    return found
