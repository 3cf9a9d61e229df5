"""Whether all give the same answer: the final contents of a query's result as bags of rows."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections import Counter
from typing import Any

from tests.benchmarks.contenders import CONTENDERS, flink_answer, run
from tests.benchmarks.flink_text import WAITS_FOR_THE_CLOCK
from tests.benchmarks.one_run import answer_of

__all__ = ["disagreements"]


def disagreements(job: dict[str, Any], by: list[str]) -> int:
    """How many of DuckDB and, where it takes part in `by`, Flink answer otherwise than we do, or fail; printed.

    Windows of processing time are not compared with Flink's: they depend on when the rows came."""
    command = [sys.executable, "-m", "tests.benchmarks.one_run", json.dumps({**job, "by": "check"})]
    found = {"duckdb": run(command)}
    if "flink" in by and CONTENDERS["flink"].takes(job) and (job["suite"], job["query"]) not in WAITS_FOR_THE_CLOCK:
        found["flink"] = _flink_difference(job)
    print(f"{job['query']:<4}  " + "   ".join(f"{name}: {_verdict(one)}" for name, one in found.items()), flush=True)
    return sum(one.get("difference", 1) != 0 for one in found.values())


def _verdict(found: dict[str, Any]) -> str:
    if "error" in found:
        return str(found["error"])
    same = found["difference"] == 0
    return f"{found['rows']:,} rows the same" if same else f"{found['difference']:,} of {found['rows']:,} rows differ"


def _flink_difference(job: dict[str, Any]) -> dict[str, Any]:
    theirs = flink_answer(job)
    if "error" in theirs:
        return theirs
    mine = Counter(tuple(map(_text, row.values())) for row in answer_of(job).to_pylist())
    other = Counter(map(tuple, theirs["rows"]))
    return {"rows": mine.total(), "difference": ((mine - other) + (other - mine)).total()}


def _text(value: Any) -> str:
    """As `str` shows what PyFlink gives."""
    return str(value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value)
