"""Aggregates of a query as SQL of another system, where they mean the same there.

    SELECT key, COUNT(x), wrapped SUM(x), MIN(x), whether x fits FROM (rows) GROUP BY key HAVING COUNT(*) > 0 ORDER BY key

What may differ in silence is not asked for: sums of floating numbers (their order), sums of DECIMAL that may overflow, the
least text (collations). Sums of whole numbers wrap in their type, as the engine's do. A value that would be an error if it
were read is one here too: the answer says for each column whether all of its values fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.errors import FormatError
from runtime.core.schema import Field, Schema
from runtime.core.types import DataType, TypeRoot
from runtime.spi.abilities import AskedAggregate

__all__ = ["Aggregation", "aggregated_columns", "as_aggregation", "check_fits", "question"]

_R = TypeRoot
_BITS: Mapping[TypeRoot, int] = {_R.TINYINT: 8, _R.SMALLINT: 16, _R.INT: 32, _R.BIGINT: 64}
_PLAIN = frozenset({*_BITS, _R.DECIMAL, _R.DATE, _R.TIMESTAMP})
_NUMBERS = frozenset({*_BITS, _R.DECIMAL})
_ENDS: Mapping[str, frozenset[TypeRoot]] = {
    "duckdb": _PLAIN,
    "mysql": _NUMBERS,
    "postgres": _PLAIN,
    "sqlite": frozenset(_BITS),
    "clickhouse": frozenset({*_BITS, _R.DATE}),
}
"""Types of which a system finds the least and the greatest value as the engine does."""
_KEYS: Mapping[str, frozenset[TypeRoot]] = {
    "duckdb": _PLAIN | {_R.BOOLEAN, _R.VARCHAR},
    # Of texts it may look at the first bytes alone (max_sort_length).
    "mysql": _NUMBERS,
    "postgres": _PLAIN | {_R.BOOLEAN, _R.VARCHAR},
    "sqlite": frozenset({*_BITS, _R.VARCHAR}),
    "clickhouse": frozenset({*_BITS, _R.BOOLEAN, _R.VARCHAR, _R.DATE}),
}
_SUMS: Mapping[str, frozenset[TypeRoot]] = {
    "duckdb": _NUMBERS,
    "mysql": _NUMBERS,
    "postgres": _NUMBERS,
    "sqlite": frozenset(_BITS),
    "clickhouse": frozenset(_BITS),
}
_MICROS = 6
_MOST_DIGITS, _DIGITS_OF_COUNT = 38, 19
_HALF = 4_294_967_295
"""The low half of the bits of a BIGINT."""


@dataclass(frozen=True)
class Aggregation:
    """What is asked for. `rows`: the columns of the table that it needs, keys first."""

    group: tuple[str, ...]
    calls: tuple[AskedAggregate, ...]
    rows: Schema

    @property
    def schema(self) -> Schema:
        """Keys, and a column for each function."""
        return aggregated_columns(self.rows, self.group, self.calls)

    def describe(self) -> dict[str, list[str]]:
        """For EXPLAIN."""
        return {"aggregates": [call.text for call in self.calls], "group by": list(self.group)}

    @property
    def counted(self) -> frozenset[str]:
        """Columns of which nothing is wanted but which of their values are NULL."""
        others = {*self.group, *(c.column for c in self.calls if c.function != "COUNT")}
        return frozenset(self.rows.names) - others

    @property
    def checked(self) -> tuple[Field, ...]:
        """Columns whose values may not fit, one by one, although an answer of them does."""
        return tuple(f for f in self.rows if f.name not in self.counted)


def aggregated_columns(rows: Schema, group: Sequence[str], calls: Sequence[AskedAggregate]) -> Schema:
    """Keys, and a column for each function, named by its text."""
    keys = tuple(rows[rows.index_of(name)] for name in group)
    taken = set(group)
    made: list[Field] = []
    for call in calls:
        name = call.text
        while name in taken:
            name = f"{name}_"
        taken.add(name)
        made.append(Field(name, call.type))
    return Schema((*keys, *made))


def as_aggregation(
    schema: Schema, dialect: str, group: Sequence[str], calls: Sequence[AskedAggregate]
) -> Aggregation | None:
    """What a system is asked for; None where that may mean something else there. `dialect`: `duckdb`, `mysql`, `postgres`,
    `sqlite` or `clickhouse`; another one is asked for nothing."""
    types = {f.name: f.type for f in schema}
    if not all(_has(_KEYS, dialect, types[name]) for name in group):
        return None
    for call in calls:
        type_ = None if call.column is None else types[call.column]
        match call.function:
            case "COUNT":
                known = dialect in _KEYS
            case "SUM":
                known = type_ is not None and _has(_SUMS, dialect, type_) and _never_overflows(type_)
            case _:
                known = type_ is not None and _has(_ENDS, dialect, type_)
        if not known:
            return None
    used = dict.fromkeys([*group, *(c.column for c in calls if c.column is not None)])
    return Aggregation(tuple(group), tuple(calls), Schema(tuple(schema[schema.index_of(name)] for name in used)))


def _has(table: Mapping[str, frozenset[TypeRoot]], dialect: str, type_: DataType) -> bool:
    if type_.root is _R.TIMESTAMP and (
        type_.precision > _MICROS or (dialect == "duckdb" and type_.precision < _MICROS)
    ):
        return False
    return type_.root in table.get(dialect, frozenset())


def _never_overflows(type_: DataType) -> bool:
    """Whether no count of values has a sum beyond the digits of a DECIMAL."""
    return type_.root is not _R.DECIMAL or type_.precision + _DIGITS_OF_COUNT <= _MOST_DIGITS


def question(aggregation: Aggregation, dialect: str, rows: str, checks: Mapping[str, str | None]) -> str:
    """The whole question.

    Args:
        rows: SELECT of the columns of `aggregation.rows`, by name, in forms that compare as the engine does.
        checks: by column whether a value fits, as a condition of the system over that name; None where all do.
    """
    spelled = _Spelling(dialect)
    types = {f.name: f.type for f in aggregation.rows}
    keys = [spelled.key(name, types[name]) for name in aggregation.group]
    items = [spelled.plain(key, types[name]) for key, name in zip(keys, aggregation.group, strict=True)]
    items += [spelled.call(call, types) for call in aggregation.calls]
    items += [spelled.check(checks[f.name]) for f in aggregation.checked if checks[f.name] is not None]
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    ordered = f" ORDER BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(items) or 'COUNT(*)'} FROM ({rows}) AS r{by} HAVING COUNT(*) > 0{ordered}"


def check_fits(
    columns: Sequence[pa.Array], aggregation: Aggregation, checks: Mapping[str, str | None], place: str
) -> None:
    """Raise FormatError E3164 when a value does not fit. `columns`: of the answer, those behind the schema's."""
    asked = [f for f in aggregation.checked if checks[f.name] is not None]
    for field, fits in zip(asked, columns, strict=True):
        if pc.any(pc.equal(fits.cast(pa.int8()), 0)).as_py():
            raise FormatError(
                f"column {field.name} of {place} has a value that is no {field.type}",
                code="E3164",
                hint="declare the column with a type that has it, or read a view that gives something else",
            )


class _Spelling:
    def __init__(self, dialect: str) -> None:
        self._dialect = dialect

    def key(self, name: str, type_: DataType) -> str:
        """Texts are one group only when all their characters are the same."""
        if type_.root is not _R.VARCHAR or self._dialect in ("duckdb", "clickhouse"):
            return self._quoted(name)
        return f"{self._quoted(name)} COLLATE {'BINARY' if self._dialect == 'sqlite' else self._quoted('C')}"

    def plain(self, value: str, type_: DataType) -> str:
        """A value of a column's type as it is given out."""
        return f"({value})::text" if type_.root is _R.DECIMAL and self._dialect == "postgres" else value

    def call(self, call: AskedAggregate, types: Mapping[str, DataType]) -> str:
        if call.column is None:
            return "COUNT(*)"
        column, type_ = self._quoted(call.column), types[call.column]
        match call.function:
            case "COUNT":
                return f"COUNT({column})"
            case "SUM" if type_.root is _R.DECIMAL:
                return self.plain(f"SUM({column})", type_)
            case "SUM":
                return self._wrapped(column, _BITS[type_.root])
            case function:
                return self.plain(f"{function}({column})", type_)

    def _wrapped(self, column: str, bits: int) -> str:
        """A sum of whole numbers, of which only the last bits count."""
        if self._dialect == "sqlite":
            # SUM of SQLite fails beyond 64 bits, so that the halves are added each by itself.
            low, high = f"SUM({column} & {_HALF})", f"SUM({column} >> 32)"
            whole = f"((({high} + ({low} >> 32)) << 32) | ({low} & {_HALF}))"
            return whole if bits == 64 else f"(({whole} << {64 - bits}) >> {64 - bits})"
        if self._dialect == "clickhouse":
            # Its sums wrap at 64 bits by themselves, and a cast takes the last bits.
            return f"CAST(SUM({column}) AS Nullable(Int{bits}))"
        if self._dialect == "mysql":
            # Its sums of whole numbers are DECIMAL of 65 digits.
            half, all_ = 1 << (bits - 1), 1 << bits
            return f"CAST(MOD(MOD(SUM({column}) + {half}, {all_}) + {all_}, {all_}) - {half} AS SIGNED)"
        wide, narrow = ("numeric", "int8") if self._dialect == "postgres" else ("HUGEINT", "BIGINT")
        half, all_ = 1 << (bits - 1), 1 << bits
        total = f"SUM(CAST({column} AS {wide}))"
        return f"CAST((({total} + {half}) % {all_} + {all_}) % {all_} - {half} AS {narrow})"

    def check(self, fits: str | None) -> str:
        return (
            f"MIN({fits})" if self._dialect in ("mysql", "sqlite", "clickhouse") else f"CAST(bool_and({fits}) AS INT)"
        )

    def _quoted(self, name: str) -> str:
        sign = "`" if self._dialect == "mysql" else '"'
        return sign + name.replace(sign, 2 * sign) + sign
