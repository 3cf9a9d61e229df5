"""How like two names are, and which one was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["did_you_mean", "edits"]


def edits(a: str, b: str, most: int) -> int:
    """How many letters are wrong, missing, too many or exchanged with their neighbour between two words; `most` + 1 for
    more than that."""
    if abs(len(a) - len(b)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
        before, last = last, row
    return min(last[-1], most + 1)


def did_you_mean(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """A hint for a name that is not known: the nearest ones, of at least this likeness (1 is the same), else all if they
    are few."""
    names = sorted(set(known))
    lower = {n.lower(): n for n in names}
    if len(name) > 3:
        slips = [n for low, n in lower.items() if edits(name.lower(), low, 1) == 1]
        if slips:
            return "did you mean " + " or ".join(f'"{n}"' for n in slips[:3]) + "?"
    near = [lower[m] for m in difflib.get_close_matches(name.lower(), list(lower), n=3, cutoff=likeness)]
    if near:
        best = _likeness(name, near[0])
        # Of names that are nearly the same the others are no help.
        near = [n for n in near if _likeness(name, n) > best - (0.03 if best > 0.9 else 0.15)]
        return "did you mean " + " or ".join(f'"{n}"' for n in near) + "?"
    if 0 < len(names) <= 12:
        return "there is: " + ", ".join(f'"{n}"' for n in names)
    return None


def _likeness(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, b.lower(), a.lower()).ratio()
