"""Positions of readers as they come back: JSON values of a checkpoint, which may be damaged or made up."""

from __future__ import annotations

from typing import Any

__all__ = ["as_count", "counts_of"]

_GREATEST = 2**63 - 1


def as_count(value: Any) -> int:
    """A position, or a part of one, that counts something: 64 bits, not below zero. Raises ValueError."""
    if type(value) is not int or not 0 <= value <= _GREATEST:
        raise ValueError(f"{str(value)[:40]!r} is no position")
    return value


def counts_of(position: Any, *names: str) -> tuple[int, ...]:
    """Parts of a position that count something, by name. Raises ValueError when one is missing or no count."""
    if not isinstance(position, dict) or not all(name in position for name in names):
        raise ValueError(f"{str(position)[:40]!r} is no position: it has {' and '.join(names)}")
    return tuple(as_count(position[name]) for name in names)
