"""What came out of a record against what its file says."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from sqlengine.testing.slt import Record

__all__ = ["Difference", "Expectations", "wrong_error"]


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
