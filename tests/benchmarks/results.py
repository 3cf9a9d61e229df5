"""Measurements as lines of JSON in files: one line a run, appended as soon as it is known, so that a bench that is
stopped goes on where it was."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

__all__ = ["RESULTS", "Record", "append", "forget", "geometric_mean", "medians", "read"]

RESULTS = Path(__file__).parent / "results"
"""Where the figures of docs/performance.md come from: a file for each kind of measurement."""

Record = dict[str, Any]


def read(path: Path) -> list[Record]:
    """All lines; none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, record: Record) -> None:
    """Behind what is there; the folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def forget(path: Path, which: Callable[[Record], bool]) -> None:
    """Takes out the lines for which `which` holds."""
    kept = [record for record in read(path) if not which(record)]
    if path.exists():
        path.write_text("".join(json.dumps(record) + "\n" for record in kept))


def medians(records: Iterable[Record], by: Iterable[str]) -> dict[tuple[Any, ...], Record]:
    """One record for each value of the fields `by`: the median of every figure over its runs, `runs` how many there
    were; or the `error` of one that failed."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    names = tuple(by)
    for record in records:
        groups.setdefault(tuple(record.get(name) for name in names), []).append(record)
    return {key: _median(group) for key, group in groups.items()}


def _median(group: list[Record]) -> Record:
    failed = [record for record in group if "error" in record]
    if failed:
        return failed[-1]
    numbers = [name for name, value in group[0].items() if isinstance(value, (int, float)) and name != "round"]
    figures = {name: statistics.median(record[name] for record in group if name in record) for name in numbers}
    return {**group[-1], **figures, "runs": len(group)}


def geometric_mean(numbers: Iterable[float]) -> float:
    """Of numbers above zero; at least one."""
    return statistics.geometric_mean(numbers)
