"""What the frames of a program need of the environment that they belong to."""

from __future__ import annotations

from typing import Any, Protocol

from sqlengine.database.session import Session
from sqlengine.results.result import Result

__all__ = ["Environment"]


class Environment(Protocol):
    """A `TableEnvironment`, which stands above this package."""

    @property
    def session(self) -> Session:
        """The session whose tables and jobs these are."""
        ...

    def execute_sql(self, statement: str) -> Result:
        """Carry out a statement."""
        ...

    def get_config(self) -> Any:
        """The options, to read and set."""
        ...
