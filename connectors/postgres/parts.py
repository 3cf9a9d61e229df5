"""The questions whose answers, one after another, are a table: by blocks, or by ranges of a column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from connectors.databases.options import Partition
from connectors.databases.parts import Part, selected
from connectors.kit.aggregates import Aggregation, question
from connectors.kit.predicates import where
from connectors.postgres.connection import quoted
from connectors.postgres.described import Relation
from runtime.core.errors import ConnectorError
from runtime.core.types import TypeRoot

if TYPE_CHECKING:
    from connectors.postgres.table import PostgresTable

__all__ = ["checks_of", "has_places", "parts_of", "without_places"]

_R = TypeRoot
_LEAST_BLOCKS, _MOST_PARTS = 2048, 64
_NUMBERS = frozenset({_R.SMALLINT, _R.INT, _R.BIGINT, _R.DECIMAL})


def _selected(table: PostgresTable, relation: Relation, source: str, *hidden: str) -> tuple[str, str]:
    columns = {c.name: c for c in relation.columns}
    return selected(table, columns, quoted, source, hidden, "NULL::bool")


def parts_of(table: PostgresTable, relation: Relation, done: list[Any] | None) -> Iterator[Part]:
    """All of them, or those from one on that is not done."""
    if done and not has_places(table, relation):
        raise without_places(table.place())
    if table.aggregation is not None:
        yield _groups(table, relation, table.aggregation)
        return
    parts = _blocks if table.partition is None else _ranges
    if not relation.lies_in_blocks:
        parts = _whole if table.partition is None else _ranges_of_view
    yield from parts(table, relation, done or [])


def has_places(table: PostgresTable, relation: Relation) -> bool:
    """Whether reading can go on in the middle."""
    return relation.lies_in_blocks and table.aggregation is None


def checks_of(aggregation: Aggregation, relation: Relation) -> dict[str, str | None]:
    """By column whether a value fits."""
    return {f.name: relation.column(f.name).check(quoted(f.name), f.type) for f in aggregation.checked}


def without_places(name: str) -> ConnectorError:
    """What is said of a view in the middle of which a job would go on."""
    return ConnectorError(
        f"{name} is a view, lies elsewhere or is read in groups: reading it cannot go on in the middle",
        code="E3105",
        hint="begin anew",
    )


def _tail(table: PostgresTable) -> str:
    return "" if table.limit is None else f" LIMIT {table.limit}"


def _filtered(table: PostgresTable) -> str:
    return where(table.conditions) or " WHERE true"


def _groups(table: PostgresTable, relation: Relation, aggregation: Aggregation) -> Part:
    forms: dict[str, str] = {}
    for condition in table.conditions:
        for name, type_ in condition.columns.items():
            forms[name] = relation.column(name).compared(quoted(name), type_)
    for field in aggregation.rows:
        column = relation.column(field.name)
        counted = field.name in aggregation.counted and field.name not in forms
        forms[field.name] = quoted(field.name) if counted else column.grouped(quoted(field.name), field.type)
    inner = ", ".join(f"{form} AS {quoted(name)}" for name, form in forms.items()) or "NULL::bool"
    rows = f"SELECT * FROM (SELECT {inner} FROM {relation.sql}) AS r{where(table.conditions)}"
    return Part(["all"], question(aggregation, "postgres", rows, checks_of(aggregation, relation)))


def _whole(table: PostgresTable, relation: Relation, done: list[Any]) -> Iterator[Part]:
    asked, source = _selected(table, relation, relation.sql)
    yield Part(["all"], f"SELECT {asked} FROM {source}{where(table.conditions)}{_tail(table)}")


def _blocks(table: PostgresTable, relation: Relation, done: list[Any]) -> Iterator[Part]:
    size = max(_LEAST_BLOCKS, sum(leaf.blocks for leaf in relation.leaves) // _MOST_PARTS)
    first = int(done[2]) if done else 0
    for leaf in relation.leaves:
        if [leaf.schema, leaf.name] < done[:2]:
            continue
        asked, source = _selected(table, relation, f"ONLY {leaf.sql}", "ctid")
        rows = f"SELECT {asked} FROM {source}{_filtered(table)}"
        for begin in range(first, max(leaf.blocks, first + 1), size):
            upper = "" if begin + size >= leaf.blocks else f" AND ctid < '({begin + size},0)'::tid"
            yield Part([leaf.schema, leaf.name, begin], f"{rows} AND ctid >= '({begin},0)'::tid{upper}{_tail(table)}")
        first = 0


def _ranges(table: PostgresTable, relation: Relation, done: list[Any]) -> Iterator[Part]:
    """A range of one leaf after the other, sorted."""
    name, ranges = _range_column(table, relation)
    for low, high, is_last in ranges:
        for leaf in relation.leaves:
            at = [low, leaf.schema, leaf.name]
            if at < done:
                continue
            asked, source = _selected(table, relation, f"ONLY {leaf.sql}", "ctid", f'{name} AS "#by"')
            by = '"#by"' if table.conditions else name
            rows = f"SELECT {asked} FROM {source}{_filtered(table)} AND {by} >= {low} AND {by} {_up_to(high, is_last)}"
            yield Part(at, f"{rows} ORDER BY {by}, ctid{_tail(table)}")


def _ranges_of_view(table: PostgresTable, relation: Relation, done: list[Any]) -> Iterator[Part]:
    name, ranges = _range_column(table, relation)
    asked, source = _selected(table, relation, relation.sql, f'{name} AS "#by"')
    by = '"#by"' if table.conditions else name
    for low, high, is_last in ranges:
        rows = f"SELECT {asked} FROM {source}{_filtered(table)} AND {by} >= {low}"
        yield Part([low], f"{rows} AND {by} {_up_to(high, is_last)}{_tail(table)}")


def _up_to(high: int, is_last: bool) -> str:
    """Numbers with a fraction between two ranges belong to the first of them."""
    return f"<= {high}" if is_last else f"< {high + 1}"


def _range_column(table: PostgresTable, relation: Relation) -> tuple[str, list[tuple[int, int, bool]]]:
    partition = table.partition
    assert isinstance(partition, Partition)
    column = relation.column(partition.column)
    if column.type.root not in _NUMBERS:
        raise ConnectorError(
            f"column {column.name} of {table.place()} is {column.declared}: only numbers have ranges here",
            code="E3163",
            hint="leave 'scan.partition.column' out: tables are read in parallel by where their rows lie",
        )
    ranges = partition.ranges()
    return quoted(column.name), [(low, high, (low, high) == ranges[-1]) for low, high in ranges]
