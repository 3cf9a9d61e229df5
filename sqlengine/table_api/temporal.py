"""The right side of a temporal join: a versioned table, or one that is asked by key, as of a time of the left side.

rates.for_system_time_as_of(col("ordered_at")).alias("code", "rate", "since")
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime.core.errors import BindError, did_you_mean
from sqlengine.expression.expression import Expression, column
from sqlengine.expression.given import NextStep
from sqlengine.values.code import Code, compose, name_sql

if TYPE_CHECKING:
    from sqlengine.table_api.table import Table

__all__ = ["TemporalTable", "as_of"]


@dataclass(frozen=True)
class TemporalTable(NextStep):
    """A table as it was at the time of each row of the left side of `join` or `left_outer_join`."""

    next_step = (
        "the versions of a table are only joined (left.join(versions, on), left_outer_join) and renamed (alias, "
        "rename_columns); filter, select or group what the join gives, or before that in a view: "
        'create_temporary_view("v", table), from_path("v")'
    )

    table: Table
    time: Code
    names: tuple[str, ...]
    """The names of its columns in the join."""

    def alias(self, name: str, *more: str) -> TemporalTable:
        """All columns under new names, in order. Raises BindError E1208 for another number of names."""
        names = (name, *more)
        if len(names) != len(self.names):
            raise BindError(
                f"the table has {len(self.names)} columns, and {len(names)} names are given for them",
                code="E1208",
                hint="name them all, or rename some with rename_columns",
            )
        return replace(self, names=names)

    def rename_columns(self, *columns: Expression) -> TemporalTable:
        """Some columns under new names: `rename_columns(col("a").alias("b"))`. Raises BindError E1201 for a column that
        is none."""
        new = {c.code.sql: c.aliases[0] for c in columns if c.aliases}
        known = {name_sql(n) for n in self.names}
        for c in columns:
            if c.code.sql not in known:
                raise BindError(
                    f"unknown column {c.code.sql}", code="E1201", hint=did_you_mean(c.code.sql, list(self.names))
                )
        return replace(self, names=tuple(new.get(name_sql(n), n) for n in self.names))

    @property
    def relation(self) -> Code:
        """`t FOR SYSTEM_TIME AS OF time AS versions (names)`."""
        names = ", ".join(map(name_sql, self.names))
        source = self.table.query.relation
        return compose([source, " FOR SYSTEM_TIME AS OF ", self.time, f" AS `versions` ({names})"])


def as_of(table: Table, time: Expression | str) -> TemporalTable:
    """Raises BindError E1202 for a table that is a query: a version belongs to a table or view of the catalog."""
    if not table.query.is_plain:
        raise BindError(
            "only a table or view of the catalog has versions, and this one is a query",
            code="E1202",
            hint='create_temporary_view("versions", table), then from_path("versions"); columns are renamed after '
            "for_system_time_as_of",
        )
    return TemporalTable(table, (column(time) if isinstance(time, str) else time).code, tuple(table.schema.names))
