"""The questions whose answers, one after another, are a table: how columns and conditions become them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from connectors.databases.table import DatabaseTable
from runtime.core.errors import ConnectorError, did_you_mean
from runtime.core.types import DataType

__all__ = ["ColumnThere", "Part", "check_columns", "named", "selected"]


@dataclass(frozen=True)
class Part:
    """A question. `at`: what names it in a position, a JSON value."""

    at: list[Any]
    sql: str


class _Named(Protocol):
    @property
    def name(self) -> str: ...


class ColumnThere(_Named, Protocol):
    """A column of a table there."""

    @property
    def declared(self) -> str:
        """Its type, as the database spells it."""
        ...

    @property
    def type(self) -> DataType:
        """Its type here."""
        ...

    def may_be(self, declared: DataType) -> bool:
        """Whether its values can be values of a type here: all of them, or those that fit."""
        ...

    def asked(self, source: str) -> str:
        """How it is asked for; `source` is its quoted name there."""
        ...

    def compared(self, source: str, declared: DataType) -> str:
        """The column in a form that compares as a column of the declared type does here."""
        ...


C = TypeVar("C", bound=_Named)


def named(columns: Iterable[C], name: str, place: str) -> C:
    """A column by its name. Raises ConnectorError E3163 when there is none. `place`: the table, for messages."""
    names: list[str] = []
    for column in columns:
        if column.name == name:
            return column
        names.append(column.name)
    raise ConnectorError(
        f"{place} has no column {name}",
        code="E3163",
        hint=did_you_mean(name, names) or "it has: " + ", ".join(names),
    )


def check_columns(table: DatabaseTable, there: Callable[[str], ColumnThere]) -> None:
    """Raises ConnectorError E3163 when the database has other columns than the table declares, or other types. `there`: a
    column by its name."""
    for field in table.read_columns:
        column = there(field.name)
        if not column.may_be(field.type):
            raise ConnectorError(
                f"column {field.name} of {table.place()} is {column.declared} there, which cannot be read as {field.type}",
                code="E3163",
                hint=f"declare it as {column.type.with_nullable(True)}, or CREATE TABLE without columns",
            )


def selected(
    table: DatabaseTable,
    columns: Mapping[str, ColumnThere],
    quoted: Callable[[str], str],
    source: str,
    hidden: Sequence[str] = (),
    nothing: str = "NULL",
) -> tuple[str, str]:
    """Columns as they are asked for, and where from; the conditions see columns as they are here.

    Args:
        columns: those of the schema, and of the conditions.
        quoted: a name as the database reads it.
        source: the table there.
        hidden: what else is needed, with its name.
        nothing: what is asked for when no column is wanted.
    """
    names = table.schema.names
    if not table.conditions:
        return ", ".join(columns[n].asked(quoted(n)) for n in names) or nothing, source
    compared: dict[str, DataType] = {}
    for condition in table.conditions:
        compared |= condition.columns
    raw = {name: quoted(f"#{place}") for place, name in enumerate(names)}
    inner = [
        *hidden,
        *(f"{quoted(n)} AS {alias}" for n, alias in raw.items()),
        *(f"{columns[n].compared(quoted(n), t)} AS {quoted(n)}" for n, t in compared.items()),
    ]
    asked = ", ".join(columns[n].asked(raw[n]) for n in names)
    return asked or nothing, f"(SELECT {', '.join(inner)} FROM {source}) AS r"
