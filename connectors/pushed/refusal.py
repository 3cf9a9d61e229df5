"""`'connector' = 'python-input'` in SQL: such a table is made in Python."""

from __future__ import annotations

from typing import NoReturn

from runtime.core.errors import OptionError
from runtime.spi.registry import ConnectorFactory, TableRequest

__all__ = ["PYTHON_INPUT"]


def _refuse(request: TableRequest) -> NoReturn:
    raise OptionError(
        f"{request.name} has no program that pushes into it",
        code="E1510",
        hint='make it in Python: t_env.create_input("name", schema)',
    )


PYTHON_INPUT = ConnectorFactory(
    name="python-input",
    document="a stream that a Python program pushes: made by TableEnvironment.create_input",
    source=_refuse,
)
