"""Values of keys as ClickHouse reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from connectors.clickhouse.columns import text_literal
from runtime.core.errors import ConnectorError
from runtime.core.schema import Field
from runtime.core.types import TypeRoot

__all__ = ["literals"]

_R = TypeRoot
_AS: Mapping[TypeRoot, Callable[[Any], str]] = {
    **dict.fromkeys((_R.TINYINT, _R.SMALLINT, _R.INT, _R.BIGINT), str),
    **dict.fromkeys((_R.CHAR, _R.VARCHAR), text_literal),
    **dict.fromkeys((_R.BINARY, _R.VARBINARY), lambda value: f"unhex('{value.hex()}')"),
    _R.BOOLEAN: lambda value: "true" if value else "false",
    _R.DATE: lambda value: f"toDate32('{value.isoformat()}')",
}


def literals(column: pa.Array, field: Field, place: str) -> list[str]:
    """Values, none of them NULL. Raises ConnectorError E3164 for a type by which ClickHouse is not asked."""
    if field.type.root not in _AS:
        raise ConnectorError(
            f"{place} cannot be asked by column {field.name} of type {field.type}",
            code="E3164",
            hint="'lookup.cache' = 'FULL' reads the whole table",
        )
    return [_AS[field.type.root](value) for value in column.to_pylist()]
