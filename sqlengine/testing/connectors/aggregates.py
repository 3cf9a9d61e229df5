"""What a source must give that counts, adds and compares by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from runtime.core.schema import Field
from runtime.core.types import BIGINT, DataType, TypeRoot, decimal
from runtime.spi.abilities import AskedAggregate, SupportsAggregates, SupportsFilters, SupportsLimit
from runtime.spi.source import SourceTable
from sqlengine.testing.connectors.reading import read_all
from sqlengine.testing.connectors.values import conditions_over, passes

__all__ = ["check_aggregates"]

_BITS = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}
_CONDITIONS = 6
"""How many conditions are tried together with aggregates."""


def check_aggregates(table: SourceTable) -> None:
    """Groups that a source gives add up to what its rows are."""
    if not isinstance(table, SupportsAggregates):
        return
    names = table.schema.names
    whole = [row for _, row in read_all(table)]
    groups = [(), *((name,) for name in names), tuple(names[:2])]
    for group in groups:
        for call in _calls(table.schema.fields):
            _check(table, table, whole, group, (call,))
    _check(table, table, whole, (), tuple(c for c in _calls(table.schema.fields) if _takes(table, (), (c,))))
    _check_filtered(table, table, whole)
    if isinstance(table, SupportsLimit):
        assert not _takes(table.with_limit(1), (), (AskedAggregate("COUNT", None, BIGINT.not_null()),))


def _check_filtered(table: SourceTable, asked: SupportsAggregates, whole: list[Any]) -> None:
    """With conditions that it takes; of others the engine asks for no aggregates."""
    if not isinstance(table, SupportsFilters):
        return
    count = (AskedAggregate("COUNT", None, BIGINT.not_null()),)
    for condition in list(conditions_over(table.schema, whole))[:: max(1, len(whole) // _CONDITIONS)]:
        filtered, left = table.with_filters([condition])
        if not left and isinstance(filtered, SupportsAggregates):
            _check(filtered, filtered, [row for row in whole if passes(condition, row)], (), count)


def _takes(table: Any, group: Sequence[str], calls: Sequence[AskedAggregate]) -> bool:
    return table.with_aggregates(group, calls) is not None


def _calls(fields: Sequence[Field]) -> Iterator[AskedAggregate]:
    yield AskedAggregate("COUNT", None, BIGINT.not_null())
    for field in fields:
        yield AskedAggregate("COUNT", field.name, BIGINT.not_null())
        type_ = field.type.with_nullable(True)
        if type_.is_numeric:
            yield AskedAggregate("SUM", field.name, _sum_type(type_))
        if not type_.is_unordered:
            yield AskedAggregate("MIN", field.name, type_)
            yield AskedAggregate("MAX", field.name, type_)


def _sum_type(type_: DataType) -> DataType:
    return decimal(38, type_.scale) if type_.root is TypeRoot.DECIMAL else type_


def _check(
    table: SourceTable,
    asked: SupportsAggregates,
    rows: list[Any],
    group: tuple[str, ...],
    calls: tuple[AskedAggregate, ...],
) -> None:
    given: Any = asked.with_aggregates(group, calls)
    if given is None or not calls:
        return
    assert given == asked.with_aggregates(group, calls)
    schema = table.schema
    assert given.schema.names[: len(group)] == group
    assert given.schema.types[len(group) :] == tuple(c.type for c in calls)
    parts: dict[Any, list[Any]] = {}
    for _, part in read_all(given, 3):
        parts.setdefault(part[: len(group)], []).append(part[len(group) :])
    expected: dict[Any, list[Any]] = {}
    for row in rows:
        expected.setdefault(tuple(row[schema.index_of(name)] for name in group), []).append(row)
    assert parts.keys() == expected.keys(), (group, calls)
    for key, found in parts.items():
        for place, call in enumerate(calls):
            index = -1 if call.column is None else schema.index_of(call.column)
            together = _TOGETHER["SUM" if call.function == "COUNT" else call.function]
            got = together([part[place] for part in found if part[place] is not None], call.type)
            values = [row[index] for row in expected[key] if index < 0 or row[index] is not None]
            if call.function == "COUNT":
                assert got == len(values), (group, call, key)
            else:
                assert got == _TOGETHER[call.function](values, call.type), (group, call, key)


def _wrapped(values: list[Any], type_: DataType) -> Any:
    bits = _BITS.get(type_.root)
    if not values or bits is None:
        return sum(values) if values else None
    half = 1 << (bits - 1)
    return (sum(values) + half) % (2 * half) - half


_TOGETHER: dict[str, Callable[[list[Any], DataType], Any]] = {
    "SUM": _wrapped,
    "MIN": lambda values, _: min(values, default=None),
    "MAX": lambda values, _: max(values, default=None),
}
