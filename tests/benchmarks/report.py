"""The figures of docs/performance.md and its plots, from the measurements in `results/`: `python -m
tests.benchmarks.report` writes them between the marks in the page; `--check` only says whether they agree."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import plots
from tests.benchmarks.bars import SHUFFLING, Bar, Contest, growth_bars, latency_bars, nexmark_bars
from tests.benchmarks.flink_text import REFUSED
from tests.benchmarks.results import RESULTS, Record, geometric_mean, medians, read
from tests.benchmarks.suites import ROOT, SUITES

__all__ = ["main", "stale"]

PAGE = ROOT / "docs" / "performance.md"
PLOTS = ROOT / "docs" / "plots"
MARKS = re.compile(r"<!-- figures: (.*?) -->\n(.*?)<!-- end of figures -->", re.DOTALL)
MIB = 2**20
SIZE = 10_000_000
"""The size at which the bar is set."""
CSV_SIZE = 1_000_000
"""From CSV, where reading bounds: as much as makes start and planning small."""
NAMES = {"ours": "1 task", "ours-2": "2 tasks", "duckdb": "DuckDB", "flink": "Flink"}


def main() -> int:
    """Exit status 1 when, with --check, page and plots do not agree with the measurements."""
    if "--check" in sys.argv[1:]:
        wrong = stale()
        print("\n".join(wrong) or "page and plots agree with the measurements")
        return int(bool(wrong))
    for path, text in _wanted().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return 0


def stale() -> list[str]:
    """The files that are not as the measurements say."""
    return [
        f"{path.relative_to(ROOT)} is not what `python -m tests.benchmarks.report` writes"
        for path, text in _wanted().items()
        if not path.exists() or path.read_text() != text
    ]


def _wanted() -> dict[Path, str]:
    page = MARKS.sub(
        lambda found: f"<!-- figures: {found[1]} -->\n{_section(found[1])}<!-- end of figures -->", PAGE.read_text()
    )
    return {PAGE: page, **{PLOTS / name: text for name, text in _plots().items()}}


def _section(name: str) -> str:
    kind, *words = name.split()
    if kind in SUITES:
        return _queries(kind, words[0], int(words[1]))
    written = {
        "bars": _bars,
        "growth": _growth,
        "latency": _latency,
        "start-up": _startup,
        "spark": _spark,
        "tasks": _tasks,
        "runs": _runs,
    }
    return "".join(f"{line}\n" for line in ["", *written[kind](), ""])


def _contest(suite: str, file_format: str, size: int) -> Contest:
    found = [r for r in read(RESULTS / f"{suite}.jsonl") if (r["format"], r["size"]) == (file_format, size)]
    return Contest(medians(found, ["query", "by"]), SUITES[suite].queries, suite)


def _queries(suite: str, file_format: str, size: int) -> str:
    contest = _contest(suite, file_format, size)
    if not contest.queries:
        return "\nNo measurements.\n\n"
    heads = (
        "query",
        "1 task",
        "2 tasks",
        "DuckDB",
        "Flink",
        "cpu s",
        "DuckDB",
        "Flink",
        "MiB",
        "DuckDB",
        "Flink",
        "state",
    )
    heads = (*heads, "x DuckDB", "x Flink", "cpu x Flink")
    table: list[tuple[str, ...]] = [heads]
    for query in contest.queries:
        one, two, duckdb = (contest.of(query, by) for by in ("ours", "ours-2", "duckdb"))
        flink, best = contest.flink(query), contest.ours(query)
        assert one is not None and best is not None
        rates = [_cell(r, lambda r: size / r["seconds"], ",.0f") for r in (one, two, duckdb, flink)]
        if flink is None and (contest.error(query, "flink") or (suite, query) in REFUSED):
            rates[-1] = "fails" if contest.error(query, "flink") else "refuses"
        busy = [_cell(r, lambda r: r["processor"], ".2f") for r in (one, duckdb, flink)]
        memory = [_cell(r, lambda r: r["bytes"] / MIB, ",.0f") for r in (one, duckdb, flink)]
        faster = ["" if r is None else f"{r['seconds'] / best['seconds']:.2f}" for r in (duckdb, flink)]
        faster.append("" if flink is None else f"{flink['processor'] / one['processor']:.2f}")
        table.append((query, *rates, *busy, *memory, _cell(one, lambda r: r["state"] / MIB, ",.0f"), *faster))
    means = [_mean(contest.ratios("ours best", other)) for other in ("duckdb", "flink best")]
    means.append(_mean(contest.ratios("ours", "flink best", "processor")))
    table.append(("mean", *[""] * (len(heads) - 4), *means))
    return f"\n{_aligned(table)}\n"


def _cell(record: Record | None, figure: Callable[[Record], float], form: str) -> str:
    return "" if record is None else format(figure(record), form)


def _mean(ratios: dict[str, float]) -> str:
    return f"{geometric_mean(ratios.values()):.2f}" if ratios else ""


def _aligned(table: Sequence[Sequence[str]]) -> str:
    """Columns under each other, indented as a block; a column without any figure is left out."""
    columns = [column for column in zip(*table, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    lines: list[str] = []
    for row in zip(*columns, strict=True):
        first, *rest = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("    " + "  ".join([first.strip().ljust(widths[0]), *rest]).rstrip())
    return "\n".join(lines) + "\n"


def _bars() -> list[str]:
    found: list[Bar] = [
        *nexmark_bars(_contest("nexmark", "parquet", SIZE), _contest("nexmark", "csv", CSV_SIZE)),
        *latency_bars(medians(read(RESULTS / "latency.jsonl"), ["query"])),
        *growth_bars(medians(read(RESULTS / "growth.jsonl"), ["query", "keys"])),
    ]
    lines = ["| | wanted | measured | | below it |", "| --- | --- | --- | --- | --- |"]
    return lines + [
        f"| {bar.what} | {bar.wanted} | {bar.measured} | {'met' if bar.met else '**missed**'} | {', '.join(bar.names)} |"
        for bar in found
    ]


def _tasks() -> list[str]:
    contest = _contest("nexmark", "parquet", SIZE)
    table: list[tuple[str, ...]] = [
        ("query", "1 task: s", "cpu s", "own s", "2 tasks: s", "cpu s", "own s", "clock", "own")
    ]
    for query in SHUFFLING:
        one, two = contest.of(query, "ours"), contest.of(query, "ours-2")
        if one is not None and two is not None:
            cells = [f"{run[name]:.2f}" for run in (one, two) for name in ("seconds", "processor", "thread")]
            table.append((query, *cells, *(f"{one[n] / two[n]:.2f}" for n in ("seconds", "thread"))))
    return [_aligned(table).rstrip("\n")]


def _spark() -> list[str]:
    contest = _contest("nexmark", "parquet", SIZE)
    table: list[tuple[str, ...]] = [("query", "ours", "Spark", "x", "cpu s", "Spark", "MiB", "Spark")]
    for query in contest.queries:
        best, spark = contest.ours(query), contest.of(query, "spark")
        if best is not None and spark is not None:
            rates = [f"{SIZE / r['seconds']:,.0f}" for r in (best, spark)]
            cells = [f"{r['processor']:.2f}" for r in (best, spark)] + [
                f"{r['bytes'] / MIB:,.0f}" for r in (best, spark)
            ]
            table.append((query, *rates, f"{spark['seconds'] / best['seconds']:.2f}", *cells))
    table.append(("mean", "", "", _mean(contest.ratios("ours best", "spark")), *[""] * 4))
    return [_aligned(table).rstrip("\n")]


def _growth() -> list[str]:
    middle = medians(read(RESULTS / "growth.jsonl"), ["query", "keys"])
    table: list[tuple[str, ...]] = [("query", "keys", "rows/s", "state MiB", "peak MiB")]
    for (query, keys), r in middle.items():
        if "error" not in r:
            cells = (f"{r['rows_per_second']:,.0f}", f"{r['state'] / MIB:,.0f}", f"{r['bytes'] / MIB:,.0f}")
            table.append((query, f"{keys:,}", *cells))
    return [_aligned(table).rstrip("\n")]


def _latency() -> list[str]:
    middle = medians(read(RESULTS / "latency.jsonl"), ["query"])
    table: list[tuple[str, ...]] = [("query", "p50 ms", "p99 ms", "slowest ms", "rows/s")]
    for (query,), r in middle.items():
        if "error" not in r:
            table.append((query, *(f"{r[n]:.1f}" for n in ("p50", "p99", "slowest")), f"{r['rows_per_second']:,.0f}"))
    return [_aligned(table).rstrip("\n")]


def _startup() -> list[str]:
    middle = medians(read(RESULTS / "startup.jsonl"), ["command"])
    return [
        f"    {command:<30} {r['seconds']:6.2f} s"
        + (f"  {r['processor']:6.2f} s of the processor" if "processor" in r else "")
        for (command,), r in sorted(middle.items(), key=lambda found: found[1].get("processor", found[1]["seconds"]))
    ]


def _runs() -> list[str]:
    found = [r for suite in SUITES for r in read(RESULTS / f"{suite}.jsonl")]
    runs: dict[tuple[Any, ...], list[int]] = {}
    for (*kind, _query), record in medians(found, ["suite", "format", "size", "by", "query"]).items():
        runs.setdefault(tuple(kind), []).append(record.get("runs", 0))
    table: list[tuple[str, ...]] = [("suite", "from", "size", "by", "queries", "runs of each")]
    for (suite, file_format, size, by), counts in runs.items():
        span = str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        table.append((suite, file_format, f"{size:,}", by, str(len(counts)), span))
    return [*sorted({str(r["machine"]) for r in found}), "", _aligned(table).rstrip("\n")]


def _plots() -> dict[str, str]:
    made: dict[str, str] = {}
    contest = _contest("nexmark", "parquet", SIZE)
    if contest.queries:
        series = {name: [_rate(contest, q, by) for q in contest.queries] for by, name in NAMES.items()}
        title = f"Nexmark, {SIZE:,} events from Parquet"
        made["nexmark.svg"] = plots.bars(title, "events/s", contest.queries, series)
    growth = medians(read(RESULTS / "growth.jsonl"), ["query", "keys"])
    if growth:
        lines: dict[str, dict[float, float]] = {}
        for (query, keys), record in growth.items():
            if "error" not in record:
                lines.setdefault(query, {})[keys] = record["rows_per_second"]
        made["growth.svg"] = plots.lines("Throughput and keys in the state", "rows/s", "keys", lines)
    return made


def _rate(contest: Contest, query: str, by: str) -> float | None:
    found = contest.flink(query) if by == "flink" else contest.of(query, by)
    return None if found is None else SIZE / found["seconds"]


if __name__ == "__main__":
    sys.exit(main())
