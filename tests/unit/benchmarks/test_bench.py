"""The bench works, at a size that takes no time; and the page of figures is what the measurements say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import compare, report, results
from tests.benchmarks.bars import Contest, nexmark_bars
from tests.benchmarks.results import medians


def test_runs_are_appended_and_not_made_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = ["nexmark", "1000", "--query", "q4", "--by", "ours,duckdb", "--format", "parquet"]
    words = [*query, "--repeat", "1", "--out", str(tmp_path / "r.jsonl")]
    assert compare.main(words) == 0
    first = results.read(tmp_path / "r.jsonl")
    assert {r["by"] for r in first} == {"ours", "duckdb"}
    assert all(r["seconds"] > 0 and r["bytes"] > 0 and r["processor"] > 0 and r["rows"] for r in first)
    assert compare.main(words) == 0
    assert results.read(tmp_path / "r.jsonl") == first
    assert "q4" in capsys.readouterr().out


@pytest.mark.long
def test_spark_reads_the_same_files(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    words = ["nexmark", "1000", "--query", "q17,q18", "--by", "ours,spark", "--format", "parquet", "--repeat", "1"]
    assert compare.main([*words, "--out", str(out)]) == 0
    found = {(r["query"], r["by"]): r for r in results.read(out)}
    assert set(found) == {("q17", "ours"), ("q17", "spark"), ("q18", "ours")}
    spark = found["q17", "spark"]
    assert spark["rows"] == 920 and spark["seconds"] > 0 and spark["processor"] > 0 and spark["bytes"] > 1 << 26


def test_page_and_plots_agree_with_the_measurements() -> None:
    assert report.stale() == []


def run(query: str, by: str, seconds: float, **figures: float) -> results.Record:
    return {"query": query, "by": by, "seconds": seconds, "processor": 1.0, "bytes": 1.0, "rows": 1, **figures}


def test_the_bar_takes_medians_and_the_better_setting_of_each() -> None:
    runs = [run("q1", "ours", seconds) for seconds in (9.0, 1.0, 2.0)]
    runs += [run("q1", "ours-2", 4.0), run("q1", "flink", 30.0), run("q1", "flink-mini-batch", 20.0)]
    runs += [run("q2", "ours", 1.0), {"query": "q2", "by": "flink", "error": "refused"}]
    runs += [run("q12", "ours", 1.0), run("q12", "flink", 50.0, processor=4.0)]
    contest = Contest(medians(runs, ["query", "by"]), ("q1", "q2", "q12"), "nexmark")
    assert contest.ratios("ours best", "flink best") == {"q1": 10.0, "q12": 2.0}
    mean, each, *_ = nexmark_bars(contest, Contest({}, (), "nexmark"))
    assert (mean.met, each.met, each.names) == (False, False, ("q12 2.00",))
