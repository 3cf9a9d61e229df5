"""What is asked of Flink: the statements of a query as Flink 2.3 takes them, and the settings of a fair contest."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.benchmarks.suites import ROOT, SUITES, Texts

__all__ = ["MINI_BATCH", "REFUSED", "SETTINGS", "WAITS_FOR_THE_CLOCK", "job_of", "question_of"]

SETTINGS = {"parallelism.default": "2", "pipeline.object-reuse": "true", "table.local-time-zone": "UTC"}
"""State is on the heap, Flink's default and its fastest."""

MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}
"""As the Nexmark benchmark for Flink sets them."""

REFUSED = {("nexmark", "q6"): "OVER refuses input that is updated"}
"""What Flink cannot run, and why."""

WAITS_FOR_THE_CLOCK = {("nexmark", "q12")}
"""Windows of processing time: at the end of its input Flink waits, idle, until they close."""

_FILE_OPTIONS = {"parquet": ", 'parquet.utc-timezone' = 'true'"}
_SIDE_INPUT = ROOT / "sql_examples" / "nexmark" / "data" / "side_input.jsonl"


def job_of(job: dict[str, Any], warm_up_folder: str, mini_batch: bool) -> dict[str, Any]:
    """For `flink_run.py`: the query over the files of `job`, after it over those of another folder, which makes the JVM
    warm."""
    texts = _texts(job, "WITH ('connector' = 'blackhole')")
    measured = [*_declarations(job, job["folder"], texts), texts.measured]
    warm_up = [*_declarations(job, warm_up_folder, texts), texts.measured]
    return {"settings": SETTINGS | (MINI_BATCH if mini_batch else {}), "warm_up": warm_up, "measured": measured}


def question_of(job: dict[str, Any]) -> dict[str, Any]:
    """For `flink_run.py`: the query whose final rows it gives back."""
    texts = _texts(job, "WITH ('connector' = 'blackhole')")
    question = re.sub(r"\A(INSERT INTO \w+|CREATE TABLE .*? AS)\n", "", texts.measured)
    return {"settings": SETTINGS, "declared": _declarations(job, job["folder"], texts), "question": question}


def _declarations(job: dict[str, Any], folder: str, texts: Texts) -> list[str]:
    tables = SUITES[job["suite"]].tables_over(folder, job["format"], _FILE_OPTIONS.get(job["format"], ""))
    return [*tables, *(part.strip() for part in texts.declarations.split(";") if part.strip())]


def _texts(job: dict[str, Any], sink: str) -> Texts:
    texts = SUITES[job["suite"]].texts(job["query"], sink)
    if (job["suite"], job["query"]) != ("nexmark", "q13"):
        return texts
    # Flink has no lookup connector for files. A constant map is the fastest way it can look a key up.
    declarations = re.sub(r"CREATE TABLE side_input [^;]*;", "", texts.declarations)
    side = map(json.loads, _SIDE_INPUT.read_text().splitlines())
    pairs = ", ".join(f"CAST({row['key']} AS BIGINT), '{row['value']}'" for row in side)
    measured = (
        "INSERT INTO nexmark_q13\nSELECT * FROM (SELECT auction, bidder, price, `dateTime`, "
        f"MAP[{pairs}][MOD(auction, 100)] AS looked_up FROM bid) WHERE looked_up IS NOT NULL"
    )
    return Texts(declarations, measured, texts.answer, texts.batch)
