"""What operations are given: the right kind of thing, or an error that says what to write."""

from __future__ import annotations

from typing import Any, NoReturn

from runtime.core.errors import TypeMismatchError, with_article

__all__ = ["NextStep", "a_number", "refuse", "wanted"]


def refuse(operation: str, wants: str, value: Any, hint: str) -> NoReturn:
    """Raise TypeMismatchError E1329: `join takes a table, and this is 'orders'`."""
    shown = repr(value) if isinstance(value, (str, int, float, type(None))) else with_article(type(value).__name__)
    raise TypeMismatchError(f"{operation} takes {wants}, and this is {shown}", code="E1329", hint=hint)


def wanted(operation: str, wants: str, value: Any, kinds: type | tuple[type, ...], hint: str) -> None:
    """Raise TypeMismatchError E1329 unless a value is of a kind."""
    if not isinstance(value, kinds):
        refuse(operation, wants, value, hint)


def a_number(operation: str, value: Any) -> int:
    """A number of rows. Raises TypeMismatchError E1329 for anything else."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 0:
        refuse(operation, "a number of rows", value, f"for example {operation}(10)")
    return int(value)


class NextStep:
    """Something between a table and a table, on which only a few operations make sense. `next_step` says which."""

    next_step: str = ""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} has no {name!r}: {type(self).next_step}")
