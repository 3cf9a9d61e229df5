"""The Nexmark queries of `sql_examples/nexmark` as jobs of the fault suite: more events, and output to files."""

from __future__ import annotations

import re
from pathlib import Path

from tests.faults.jobs import FaultJob

__all__ = ["nexmark_jobs"]

_FOLDER = Path(__file__).parents[2] / "sql_examples" / "nexmark"
_RATES = "'first-event.rate' = '10', 'next-event.rate' = '10'"
_WITH = r"( WITH \(.*?\))?"
_CHANGING = {4, 6, 9, 15, 16, 17, 18, 19}
_BY_PROCESSING_TIME = {12}


def nexmark_jobs(events: int) -> list[FaultJob]:
    """q0 to q22 over so many events, of which there are a thousand a second."""
    return [_job(number, events) for number in range(23)]


def _job(number: int, events: int) -> FaultJob:
    name = f"nexmark_q{number}"
    text = (_FOLDER / f"q{number}.sql").read_text()
    text = text.replace("'events.num' = '500'", f"'events.num' = '{events}'")
    text = text.replace(_RATES, "'first-event.rate' = '1000', 'next-event.rate' = '1000'")
    text = text.replace("'sql_examples/nexmark/", f"'{_FOLDER}/")
    found = re.search(
        rf"CREATE TABLE {name} \((?P<columns>.*?)\)(?P<parts> PARTITIONED BY \(.*?\))?{_WITH};", text, re.S
    )
    insert = re.search(r"^(INSERT.*?);", text, re.S | re.M)
    assert found is not None and insert is not None
    form = "debezium-json" if number in _CHANGING else "csv"
    sink = f" WITH ('connector' = 'filesystem', 'path' = '{{out}}/sink', 'format' = '{form}');"
    tables = text[: found.start()] + text[found.start() : found.end("columns")] + ")" + (found["parts"] or "") + sink
    tables += text[found.end() : insert.start()]
    return FaultJob(f"q{number}", tables, insert[1], sources="", in_order=number not in _BY_PROCESSING_TIME)
