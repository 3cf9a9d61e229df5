"""A secret: a value with a name, which no text shows."""

from __future__ import annotations

from runtime.core.secrets import REFERENCE, hide

__all__ = ["Secret", "is_reference"]


class Secret:
    """A value that no text shows; `reveal` gives it. It may be a reference itself, to the environment or to a file."""

    __slots__ = ("_value", "name")

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self._value = value
        if not is_reference(value):
            hide(value)

    def reveal(self) -> str:
        """The value."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self.name})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret is not written anywhere")


def is_reference(value: str) -> bool:
    """Whether a value is nothing but a reference to the environment or a file, which may be written anywhere."""
    found = REFERENCE.fullmatch(value)
    return found is not None and found[1] in ("env", "file")
