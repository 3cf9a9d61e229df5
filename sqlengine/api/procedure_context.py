"""What a procedure of the user's gets of the environment that calls it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlengine.results.result import Result

if TYPE_CHECKING:
    from sqlengine.api.environment import TableEnvironment

__all__ = ["ProcedureContext", "context_of"]


class ProcedureContext:
    """What a procedure may use: the environment in which it was called.

    Its statements run one after another, each as an epoch of its own, or within the epoch that is open.
    """

    def __init__(self, environment: TableEnvironment) -> None:
        self.environment = environment

    def execute_sql(self, statement: str, parameters: Any = None) -> Result:
        """Carry out a statement, as `TableEnvironment.execute_sql` does."""
        return self.environment.execute_sql(statement, parameters)


def context_of(environment: weakref.ref[TableEnvironment]) -> Callable[[], ProcedureContext | None]:
    """Makes the context of each call; None when the environment is gone."""

    def context() -> ProcedureContext | None:
        found = environment()
        return None if found is None else ProcedureContext(found)

    return context
