"""Types of SQL as DuckDB has them, where their values are the same, and in which DuckDB compares as Flink does."""

from __future__ import annotations

from typing import NamedTuple

from runtime.core.types import DataType, TypeRoot

__all__ = ["WRONG_OPTIMIZERS", "Digits", "Untranslatable", "compares_alike", "duckdb_type", "same_kind"]

WRONG_OPTIMIZERS = "common_subplan"
"""Optimizers of DuckDB that must be off. `common_subplan` (2.0.0) takes a part of a query for another one that differs in a
filter: a join of a view with itself and with a third table, below a UNION ALL with another join of that view, had too many
rows."""

_R = TypeRoot
_NAMES = {
    _R.BOOLEAN: "BOOLEAN",
    _R.TINYINT: "TINYINT",
    _R.SMALLINT: "SMALLINT",
    _R.INT: "INTEGER",
    _R.BIGINT: "BIGINT",
    _R.FLOAT: "FLOAT",
    _R.DOUBLE: "DOUBLE",
    _R.CHAR: "VARCHAR",
    _R.VARCHAR: "VARCHAR",
    _R.DATE: "DATE",
}
_ALIKE = frozenset(_NAMES) - {_R.FLOAT, _R.DOUBLE} | {_R.DECIMAL, _R.TIMESTAMP}
_MICROSECONDS = 6


class Untranslatable(Exception):
    """DuckDB has no such expression, or means something else with it."""


class Digits(NamedTuple):
    """Precision and scale of a DECIMAL, as DuckDB has it: not always those of our type, but the values are the same."""

    precision: int
    scale: int


def duckdb_type(type_: DataType) -> str:
    """The name of the type whose values are those of ours. Raises Untranslatable."""
    if type_.root is _R.DECIMAL:
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if type_.root is _R.TIMESTAMP and type_.precision <= _MICROSECONDS and not type_.is_proctime:
        return "TIMESTAMP"
    name = _NAMES.get(type_.root)
    if name is None:
        raise Untranslatable
    return name


def compares_alike(type_: DataType, other: DataType | None = None) -> bool:
    """Whether DuckDB orders values of a type (and another one) as Flink does, and takes the same for equal. It does not
    for NaN and -0.0."""
    if type_.root not in _ALIKE or (other is not None and other.root not in _ALIKE):
        return False
    return other is None or same_kind(type_, other) or (type_.is_exact_numeric and other.is_exact_numeric)


def same_kind(type_: DataType, other: DataType) -> bool:
    """Whether values of the one are values of the other, but for length and digits."""
    return type_.root is other.root or (type_.is_character and other.is_character)
