"""Functions that get whole rows: `table.map(f)`, where `f` is not called with columns, as PyFlink's row-based operations
have it."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from runtime.core.schema import Schema
from sqlengine.expression.expression import Expression
from sqlengine.expression.given import refuse
from sqlengine.values.code import Code, name_sql, type_sql

__all__ = ["RowFunction", "TableCall", "called_with_rows"]


class RowFunction(Protocol):
    """A Python function that is not called yet; `alias` names the columns that it gives."""

    aliases: tuple[str, ...]

    def __call__(self, *arguments: object) -> Expression:
        """A call with expressions."""
        ...


TableCall: TypeAlias = Expression | RowFunction
"""A call of a function, or a function that gets whole rows."""


def called_with_rows(function: TableCall, schema: Schema) -> Expression:
    """A call as it is; a function alone is called with the row of all columns, under their names."""
    if isinstance(function, Expression):
        return function
    if not hasattr(function, "aliases"):
        refuse(
            "an operation by rows",
            "a function of sqlengine",
            function,
            'decorate it with @udf, @udtf, @udaf or @udtaf, and call it: f(col("a"))',
        )
    values = ", ".join(name_sql(f.name) for f in schema)
    fields = ", ".join(f"{name_sql(f.name)} {type_sql(f.type)}" for f in schema)
    call = function(Expression(Code.atom(f"CAST(ROW({values}) AS ROW<{fields}>)", "row")))
    aliases = function.aliases
    return call.alias(*aliases) if aliases else call
