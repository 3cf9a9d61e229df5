"""Whether all that came of a phase belongs together.

A task that is repeated computes the same, so that it does not matter whose changes reached which task. Not so where it
has asked a table outside: that may say something else a moment later, and rows that are taken back leave with what was
said when they came. There each attempt has a name. It goes with the changes, tasks report whose they have had, and the
driver takes a phase only when these are the attempts whose reports it has; otherwise the phase is carried out again. Long-lived
tasks are never apart: they repeat a phase as a whole.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["Attempt", "attempt_name", "belong_together"]


class Attempt(NamedTuple):
    """An attempt of a task. `name`: empty where all attempts give the same."""

    stage: int
    partition: int
    name: str


def attempt_name(asks: bool, seen: Sequence[Attempt]) -> str:
    """The name of an attempt that `asks` a table outside, or gives what follows from the attempts that it has seen."""
    if asks:
        return uuid.uuid4().hex
    return hashlib.blake2b(repr(sorted(seen)).encode(), digest_size=16).hexdigest() if seen else ""


def belong_together(told: Iterable[tuple[Attempt, Sequence[Attempt]]]) -> bool:
    """Whether those that were seen are those that have told: for each the attempts that it has seen."""
    found = list(told)
    names = {(own.stage, own.partition): own.name for own, _ in found}
    return all(names.get((a.stage, a.partition)) == a.name for _, seen in found for a in seen)
