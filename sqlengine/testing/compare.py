"""What came out of a record against what its file says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlengine.testing.slt import Record

__all__ = ["WHEN_FOLDED", "Difference", "Expectations", "together", "wrong_error"]


WHEN_FOLDED = " when folded"
"""Stands behind what differs where only what changes amount to is compared."""


@dataclass(frozen=True)
class Difference:
    """What did not come out as the file says. `expected` and `actual` are both empty when `problem` says it all."""

    path: Path
    line: int
    cut: str
    sql: str
    problem: str
    expected: tuple[str, ...]
    actual: tuple[str, ...]


class Expectations:
    """The lines that the records of one run must give: as written, or (not `exact`) what the changes fold to."""

    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self._so_far: dict[str, Counter[str]] = {}

    def of(self, record: Record) -> list[str]:
        """The lines for a record; to be asked once for each, in order."""
        lines = list(record.expected or [])
        if record.kind in ("query", "table"):
            return lines if {"nosort", "text"} & set(record.words) else sorted(lines)
        if self._exact or record.kind not in ("changes", "changelog"):
            return lines
        live = self._so_far.setdefault(record.words[0], Counter()) if record.kind == "changes" else Counter()
        for line in lines:
            live[line[3:]] += 1 if line[:2] in ("+I", "+U") else -1
        return sorted("+I " + row for row in live.elements())


def together(differences: Sequence[Difference]) -> list[Difference]:
    """Differences that are the same in several ways of running a file once, with the number of ways."""
    groups: dict[Difference, list[Difference]] = {}
    for difference in differences:
        same = replace(difference, cut="", problem=difference.problem.removesuffix(WHEN_FOLDED))
        groups.setdefault(same, []).append(difference)
    return [replace(found[0], cut=found[0].cut + _others(len(found) - 1)) for found in groups.values()]


def _others(count: int) -> str:
    return "" if count == 0 else f" and {count} other way{'s' if count > 1 else ''}"


def wrong_error(record: Record, code: str, message: str) -> str | None:
    """What is wrong with the error of a record that must fail; None when it is the expected one."""
    wanted = record.words[1] if len(record.words) > 1 else code
    if code != wanted:
        return f"fails with {code} instead of {wanted}"
    if _one_line(" ".join(record.expected or ())) not in _one_line(message):
        return "fails with another message"
    return None


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)
