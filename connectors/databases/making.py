"""CREATE TABLE in a database: what all of them have."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runtime.core.errors import UnsupportedError
from runtime.core.types import DataType
from runtime.spi.catalog import ForeignTable

__all__ = ["cannot_change", "column_definitions"]


def column_definitions(
    system: str,
    table: ForeignTable,
    quoted: Callable[[str], str],
    spelled: Callable[[DataType], str | None],
    tails: Mapping[str, str] | None = None,
) -> str:
    """Columns and key as a database reads them.

    Args:
        spelled: a type there; None when there is none.
        tails: what stands behind the definition of a column, by its name.

    Raises:
        UnsupportedError: E1627 for a type of which the system has none, for partitions and options.
    """
    if table.partitioned_by:
        raise _cannot(system, "partitions from here", "make it there")
    if table.options:
        raise _cannot(system, f"the option '{next(iter(table.options))}'", "leave WITH out")
    found: list[str] = []
    for field in table.schema:
        there = spelled(field.type)
        if there is None:
            raise _cannot(system, f'the type {field.type} of the column "{field.name}"', "CAST it to STRING or BYTES")
        null = "" if field.type.nullable else " NOT NULL"
        found.append(f"{quoted(field.name)} {there}{null}{(tails or {}).get(field.name, '')}")
    if table.primary_key:
        found.append(f"PRIMARY KEY ({', '.join(map(quoted, table.primary_key))})")
    return ", ".join(found)


def cannot_change(system: str, what: str) -> UnsupportedError:
    """What is said of a change that is not made from here."""
    return UnsupportedError(
        f"{what} of {system} cannot be made or changed from here", code="E1627", hint="change it there"
    )


def _cannot(system: str, what: str, hint: str) -> UnsupportedError:
    return UnsupportedError(f"a table of {system} cannot have {what}", code="E1627", hint=hint)
