"""Select lists: columns by name or expression, and their aliases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.core.errors import BindError
from sqlengine.expression.expression import Expression, as_expression
from sqlengine.table_api.query import listed
from sqlengine.values.code import Code, compose, name_sql

__all__ = ["items", "shown"]


def shown(given: Any) -> Code:
    """What was given for a column: a name, `*`, an expression, or a Python value other than a text."""
    if isinstance(given, str):
        return Code.atom("*" if given == "*" else name_sql(given), f'"{given}"')
    return as_expression(given).code


def items(columns: Sequence[Any], codes: Sequence[Code]) -> Code:
    """Columns of a select list with their names."""
    parts: list[Code] = []
    for given, code in zip(columns, codes, strict=True):
        names = given.aliases if isinstance(given, Expression) else ()
        if len(names) > 1:
            raise BindError(
                "a column has one name", code="E1208", hint="several names are for table functions in join_lateral"
            )
        parts.append(compose([code, f" AS {name_sql(names[0])}"]) if names else code)
    return listed(parts)
