"""Which work of a session another thread does while the main thread waits for it (`runtime.core.attended`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from runtime.core.attended import attended
from runtime.expr.function import any_made_by_program
from sqlengine.session import Session

__all__ = ["attend", "attends"]

T = TypeVar("T")


def attend(session: Session, call: Callable[[], T]) -> T:
    """What a call gives or raises, made by that thread where it may be."""
    return attended(call) if attends(session) else call()


def attends(session: Session) -> bool:
    """Not where this thread holds the lock of the views, for which the other one would wait; nor where the program has
    made functions, which may need the thread that has made them."""
    return not session.views.lock.held and not any_made_by_program()
