"""Plans that give numbers of sequences: where they may run."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.core.errors import UnsupportedError
from runtime.expr.library.sequence import SESSION_FUNCTIONS
from runtime.expr.nodes import Call, walk
from runtime.plan.nodes import PhysicalNode
from runtime.plan.walk import expressions_of, walk_all

__all__ = ["number_call", "refuse_numbers"]


def number_call(roots: Sequence[PhysicalNode]) -> Call | None:
    """A call in plans that only the session can compute."""
    for node in walk_all(roots):
        for expression in expressions_of(node):
            for part in walk(expression):
                if isinstance(part, Call) and part.function in SESSION_FUNCTIONS:
                    return part
    return None


def refuse_numbers(roots: Sequence[PhysicalNode], what: str) -> None:
    """Raise UnsupportedError E1600 where plans give numbers, and `what` they are for would have to give the same again."""
    call = number_call(roots)
    if call is not None:
        raise UnsupportedError(
            f"{call.function} is another number each time, so {what} cannot keep it up to date",
            span=call.span,
            hint="number rows where they are written: DEFAULT NEXTVAL('s'), or INSERT INTO .. SELECT NEXTVAL('s'), ..",
        )
