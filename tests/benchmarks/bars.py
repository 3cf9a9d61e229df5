"""The bar that the engine is measured by, and how far each measurement is above or below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.flink_text import WAITS_FOR_THE_CLOCK
from tests.benchmarks.results import Record, geometric_mean

__all__ = ["SHUFFLING", "Bar", "Contest", "growth_bars", "latency_bars", "nexmark_bars"]

SHUFFLING = tuple(f"q{i}" for i in (3, 4, 5, 7, 8, 9, 11, 12, 15, 16, 17, 18, 19, 20))
"""The queries of Nexmark that send rows to the task of their key."""
CORES = 2


@dataclass(frozen=True)
class Bar:
    """`names` are the queries that miss it, each with its figure."""

    what: str
    wanted: str
    measured: str
    met: bool
    names: tuple[str, ...] = ()


class Contest:
    """The medians of one suite at one size from one format. Args: `middle`: by query and contender."""

    def __init__(self, middle: Mapping[tuple[Any, ...], Record], queries: Sequence[str], suite: str) -> None:
        self._middle = middle
        self._suite = suite
        self.queries = [q for q in queries if self.of(q, "ours") is not None]

    def of(self, query: str, by: str) -> Record | None:
        """None where it was not measured or failed."""
        found = self._middle.get((query, by))
        return None if found is None or "error" in found else found

    def error(self, query: str, by: str) -> str | None:
        found = self._middle.get((query, by))
        return None if found is None else found.get("error")

    def ours(self, query: str) -> Record | None:
        """With one task or two: the better."""
        return self._better(query, "ours", "ours-2")

    def flink(self, query: str) -> Record | None:
        """With mini-batch or without: the better. Where it waits for the clock at its end, the least time that its
        processor seconds could have taken on all cores."""
        found = self._better(query, "flink", "flink-mini-batch")
        if found is not None and (self._suite, query) in WAITS_FOR_THE_CLOCK:
            return {**found, "seconds": found["processor"] / CORES}
        return found

    def _better(self, query: str, *by: str) -> Record | None:
        found = [record for record in (self.of(query, name) for name in by) if record is not None]
        return min(found, key=lambda record: record["seconds"]) if found else None

    def ratios(self, mine: str, other: str, figure: str = "seconds") -> dict[str, float]:
        """How many times as much of a figure `other` takes as `mine`, by query, where both are known. Args: names of
        contenders, or "ours best" and "flink best"."""
        pairs = {q: (self._named(q, mine), self._named(q, other)) for q in self.queries}
        return {q: b[figure] / a[figure] for q, (a, b) in pairs.items() if a is not None and b is not None}

    def _named(self, query: str, by: str) -> Record | None:
        return {"ours best": self.ours, "flink best": self.flink}.get(by, lambda q: self.of(q, by))(query)


def nexmark_bars(parquet: Contest, csv: Contest) -> list[Bar]:
    """Those of throughput, memory and two tasks. A contest without measurements gives none."""
    made: list[Bar] = []
    flink = parquet.ratios("ours best", "flink best")
    if flink:
        made.append(_mean("Flink from Parquet, geometric mean", "at least 10 times", flink, 10))
        made.append(_each("Flink from Parquet, each query", "at least 3 times", flink, 3))
    from_csv = csv.ratios("ours best", "flink best")
    if from_csv:
        made.append(_mean("Flink from CSV, geometric mean", "at least 4 times", from_csv, 4))
    duckdb = parquet.ratios("ours best", "duckdb")
    if duckdb:
        made.append(_mean("DuckDB batch from Parquet, geometric mean", "at least 1/5", duckdb, 1 / 5))
        made.append(_each("DuckDB batch from Parquet, each query", "at least 1/15", duckdb, 1 / 15))
    memory = parquet.ratios("ours best", "flink best", "bytes")
    if memory:
        made.append(_each("peak memory, Flink's to ours, each query", "above 1", memory, 1))
    tasks = {q: ratio for q, ratio in parquet.ratios("ours-2", "ours").items() if q in SHUFFLING}
    if tasks:
        made.append(_each("two tasks against one, queries that shuffle", "at least 1.6 times", tasks, 1.6))
    return made


def latency_bars(middle: Mapping[tuple[Any, ...], Record]) -> list[Bar]:
    """Args: `middle` by query."""
    found = {query: record["p99"] for (query,), record in middle.items() if "p99" in record}
    if not found:
        return []
    slow = tuple(f"{query} {p99:.1f}" for query, p99 in found.items() if p99 >= 20)
    span = f"{min(found.values()):.1f} to {max(found.values()):.1f} ms"
    return [Bar("p99 latency at 100,000 rows/s", "below 20 ms", span, not slow, slow)]


def growth_bars(middle: Mapping[tuple[Any, ...], Record]) -> list[Bar]:
    """Args: `middle` by query and number of keys."""
    least, most = 10_000, 10_000_000
    rates = {key: record.get("rows_per_second") for key, record in middle.items()}
    found = {q: rates[q, most] / rates[q, least] for q, _ in rates if rates.get((q, most)) and rates.get((q, least))}
    return [_each("throughput of 10^7 keys to that of 10^4", "at least 0.5", found, 0.5)] if found else []


def _mean(what: str, wanted: str, ratios: Mapping[str, float], least: float) -> Bar:
    mean = geometric_mean(ratios.values())
    return Bar(what, wanted, f"{mean:.2f} ({len(ratios)} queries)", mean >= least)


def _each(what: str, wanted: str, ratios: Mapping[str, float], least: float) -> Bar:
    short = tuple(f"{query} {ratio:.2f}" for query, ratio in ratios.items() if ratio < least)
    worst = min(ratios, key=lambda query: ratios[query])
    return Bar(what, wanted, f"least {ratios[worst]:.2f} ({worst})", not short, short)
