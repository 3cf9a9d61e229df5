"""`'connector' = 'memory'` by name: tables in memory are declared without a connector."""

from __future__ import annotations

from typing import NoReturn

from runtime.core.errors import OptionError
from runtime.spi.registry import ConnectorFactory, TableRequest

__all__ = ["MEMORY"]


def _refuse(request: TableRequest) -> NoReturn:
    raise OptionError(
        f"{request.name} names the connector 'memory'",
        code="E1506",
        hint="leave the option 'connector' out: a table without connector lives in memory",
    )


MEMORY = ConnectorFactory(
    name="memory",
    document="tables in memory: declared by leaving the option 'connector' out",
    source=_refuse,
    sink=_refuse,
    check=_refuse,
)
