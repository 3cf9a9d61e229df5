"""Members of JSON objects that are not to be trusted: each has the type and range that is asked for, or it is Damage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.checkpoint.storage import Damage

__all__ = ["Members", "as_integer", "as_list", "as_mapping"]

_GREATEST = (1 << 63) - 1
_SHOWN = 60


class Members:
    """An object of a file.

    Args:
        value: what stands where the object should.
        where: the file, for messages.
        names: the members that it may have.
        known: it is an error to have others; else `check_names` says so later.
    Raises:
        Damage: it is no object, or has other members.
    """

    def __init__(self, value: Any, where: str, names: Sequence[str], *, known: bool = True) -> None:
        if not isinstance(value, dict):
            raise Damage(f"{where} holds {_shown(value)} where an object should be")
        self._value: dict[str, Any] = value
        self._where = where
        self._names = names
        if known:
            self.check_names()

    def check_names(self) -> None:
        """Raises Damage when there are members that nobody writes."""
        for name in self._value:
            if name not in self._names:
                raise Damage(f"{self._where} has a member that it should not have: {name[:_SHOWN]!r}")

    def value(self, name: str) -> Any:
        if name not in self._value:
            raise Damage(f"{self._where} has no {name}")
        return self._value[name]

    def text(self, name: str) -> str:
        found = self.value(name)
        if not isinstance(found, str):
            raise Damage(f"{self._where}: {name} is no text but {_shown(found)}")
        return found

    def choice(self, name: str, choices: Sequence[str]) -> str:
        found = self.text(name)
        if found not in choices:
            raise Damage(f"{self._where}: {name} is {found[:_SHOWN]!r}")
        return found

    def integer(self, name: str, least: int = -_GREATEST - 1, most: int = _GREATEST) -> int:
        return as_integer(self.value(name), name, self._where, least, most)

    def flag(self, name: str) -> bool:
        found = self.value(name)
        if not isinstance(found, bool):
            raise Damage(f"{self._where}: {name} is neither true nor false but {_shown(found)}")
        return found

    def list(self, name: str, default: list[Any] | None = None) -> list[Any]:
        if default is not None and name not in self._value:
            return default
        return as_list(self.value(name), name, self._where)

    def mapping(self, name: str = "", default: dict[str, Any] | None = None) -> dict[str, Any]:
        """A member that is an object, whatever its names; the object itself without a name."""
        if not name:
            return self._value
        if default is not None and name not in self._value:
            return default
        return as_mapping(self.value(name), name, self._where)


def as_integer(value: Any, name: str, where: str, least: int = -_GREATEST - 1, most: int = _GREATEST) -> int:
    """A value that must be a 64-bit integer from `least` to `most`. Raises Damage."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Damage(f"{where}: {name} is no integer but {_shown(value)}")
    if not least <= value <= most:
        raise Damage(f"{where}: {name} is {value}, which cannot be")
    return value


def as_list(value: Any, name: str, where: str) -> list[Any]:
    """A value that must be a list. Raises Damage."""
    if not isinstance(value, list):
        raise Damage(f"{where}: {name} is no list but {_shown(value)}")
    return value


def as_mapping(value: Any, name: str, where: str) -> dict[str, Any]:
    """A value that must be an object. Raises Damage."""
    if not isinstance(value, dict):
        raise Damage(f"{where}: {name} is no object but {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, dict | list) else "an object" if isinstance(value, dict) else "a list"
    return text[:_SHOWN]
