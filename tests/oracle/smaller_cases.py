"""A failing case with a part left out: what shrinking tries one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from tests.oracle.generate_cases import Case
from tests.oracle.generate_dml import DmlCase
from tests.oracle.generate_lives import LIVES

__all__ = ["smaller"]

T = TypeVar("T")


def smaller(case: Any) -> list[Any]:
    """Cases with a part less: a view, an epoch, a change, a disabled rule, a simpler life."""
    if isinstance(case, Case):
        return _lives(case) + _cases(case)
    return _lives(case) + (_dml(case) if isinstance(case, DmlCase) else [])


def _lives(case: Any) -> list[Any]:
    return [replace(case, life=life) for life in LIVES[: LIVES.index(case.life)]]


def _without(parts: tuple[T, ...]) -> list[tuple[T, ...]]:
    return [parts[:i] + parts[i + 1 :] for i in range(len(parts))]


def _cases(case: Case) -> list[Case]:
    found = [replace(case, disabled=left) for left in _without(case.disabled)]
    found += [replace(case, definitions=left) for left in _without(case.definitions)]
    found += [replace(case, epochs=left) for left in _without(case.epochs)]
    found += [
        replace(case, epochs=(*case.epochs[:i], case.epochs[i] + case.epochs[i + 1], *case.epochs[i + 2 :]))
        for i in range(len(case.epochs) - 1)
    ]
    for i, epoch in enumerate(case.epochs):
        found += [replace(case, epochs=(*case.epochs[:i], left, *case.epochs[i + 1 :])) for left in _without(epoch)]
    return found


def _dml(case: DmlCase) -> list[DmlCase]:
    found = [replace(case, definitions=left) for left in _without(case.definitions)]
    found += [replace(case, steps=left) for left in _without(case.steps)]
    for i, step in enumerate(case.steps):
        fewer = [replace(step, parts=left) for left in _without(step.parts) if left]
        fewer += [replace(step, end="")] if step.end else []
        found += [replace(case, steps=(*case.steps[:i], s, *case.steps[i + 1 :])) for s in fewer]
    return found
