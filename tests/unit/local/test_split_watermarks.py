"""The watermark of a source by those of its splits: waiting, active, idle, ended; alignment; FLUSH."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK, VirtualClock
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import timestamp
from runtime.expr.library import builtin_functions
from runtime.expr.nodes import InputRef
from runtime.local.job import Job
from runtime.local.job_settings import JobSettings
from runtime.local.rejected import RejectedRows
from runtime.plan.nodes import SourceExec, WatermarkExec
from runtime.plan.parts import Alignment
from runtime.spi.reader import ReadContext, SourceReader
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

TIME = timestamp(3)
SCHEMA = Schema.of(("at", TIME))
NOTHING_NOW = None


@dataclass
class Reader:
    """Gives one row a poll; None where the script has `NOTHING_NOW`."""

    times: list[int | None]
    ends: bool
    read: list[int]

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        time = self.times.pop(0) if self.times else None
        if time is None:
            return None
        self.read.append(time)
        return ChangelogBatch.of([pa.array([time * 1000], pa.timestamp("us"))], SCHEMA)

    @property
    def finished(self) -> bool:
        return self.ends and not self.times

    def position(self) -> Any:
        return None

    def seek(self, position: Any) -> None: ...

    def close(self) -> None: ...


@dataclass(eq=False)
class Scripted:
    """Splits by name; `ends` says whether a split is at its end with its script."""

    scripts: dict[str, list[int | None]]
    ends: bool = True
    bounded: bool = False
    endless: bool = False
    read: list[int] = field(default_factory=list)
    schema: Schema = SCHEMA
    changelog_mode: ChangelogMode = APPEND

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        return [Split(name, endless=self.endless) for name in self.scripts]

    def open(self, split: Split, context: ReadContext) -> SourceReader:
        return Reader(self.scripts[split.id], self.ends, self.read)

    def describe(self) -> dict[str, Any]:
        return {"of": sorted(self.scripts)}


class Rows:
    """So many rows of each source an epoch."""

    def __init__(self, count: int) -> None:
        self._count = count

    def rows(self, sources: Sequence[SourceExec], epoch: int) -> Sequence[int]:
        return [self._count] * len(sources)


def job_of(*tables: Scripted, rows: int = 1, clock: VirtualClock | None = None, **options: Any) -> Job:
    sources = [
        SourceExec(table=table, name=f"t{i}", schema=SCHEMA, mode=APPEND, **options) for i, table in enumerate(tables)
    ]
    plans = [WatermarkExec(s, 0, InputRef(0, TIME), SCHEMA, APPEND) for s in sources]
    settings = JobSettings(
        Options(), builtin_functions(), "UTC", clock or VirtualClock(), RejectedRows(), cut=Rows(rows)
    )
    return Job("job", plans, settings)


def watermarks(job: Job, epochs: int) -> list[int]:
    found = []
    for _ in range(epochs):
        job.advance()
        found.append(job.dataflow.watermark)
    return found


def test_time_waits_for_a_split_that_was_not_begun_then_for_the_one_that_goes_on() -> None:
    table = Scripted({"a": [100, 120], "b": [50, 60, 200]}, bounded=True)
    assert watermarks(job_of(table), 5) == [MIN_WATERMARK, MIN_WATERMARK, 50, 60, MAX_WATERMARK]


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_when_all_known_splits_have_ended_the_watermark_is_that_of_all_rows(names: tuple[str, str]) -> None:
    scripts: dict[str, list[int | None]] = {"a": [100, 120], "b": [50, 60]}
    table = Scripted({name: scripts[name] for name in names})
    job = job_of(table)
    assert watermarks(job, 4)[-1] == 120
    # What is found later is a split like the others, but time does not go back for it.
    table.scripts["c"] = [90, 130, 140]
    assert watermarks(job, 3) == [120, 130, 140]


def test_splits_in_order_of_time_do_not_wait_for_each_other() -> None:
    table = Scripted({"a": [10, 20], "b": [30, 40]}, bounded=True)
    assert watermarks(job_of(table, splits_in_order=True), 4) == [10, 20, 30, MAX_WATERMARK]


def test_the_least_of_the_active_splits_counts_and_idle_ones_do_not() -> None:
    clock = VirtualClock()
    a: list[int | None] = [100, 110]
    b: list[int | None] = [50]
    job = job_of(Scripted({"a": a, "b": b}, ends=False), rows=10, clock=clock, idle_timeout=1000)
    assert watermarks(job, 1) == [50]
    clock.advance_to(999)
    a.append(120)
    assert watermarks(job, 1) == [50]
    clock.advance_to(1000)
    _, moved = job.advance()
    assert (job.dataflow.watermark, moved) == (120, True)
    # It is back: its old row moves nothing, then time waits for it again.
    b.append(70)
    assert watermarks(job, 1) == [120]
    a.append(200)
    b.append(130)
    assert watermarks(job, 1) == [130]
    # All idle: time stands still.
    clock.advance_to(9000)
    assert watermarks(job, 2) == [130, 130]


def test_a_split_that_could_not_be_asked_is_not_idle() -> None:
    clock = VirtualClock()
    job = job_of(Scripted({"a": [1] * 3 + [NOTHING_NOW], "b": [2]}, ends=False), clock=clock, idle_timeout=10)
    for now in (0, 100, 200):
        clock.advance_to(now)
        assert watermarks(job, 1) == [MIN_WATERMARK]
    assert watermarks(job, 1) == [1]


def test_a_restart_keeps_the_watermarks_of_splits() -> None:
    job = job_of(Scripted({"a": [100], "b": [50, 60]}))
    job.advance()
    job.advance()
    operator = job.dataflow.vertices[1].operator
    assert operator is not None
    ((saved,),) = [[t.contents() for t in operator.tables]]
    job.dataflow.renew({})
    again = job.dataflow.vertices[1].operator
    assert again is not None and again is not operator
    again.tables[0].restore(saved, None, {})
    assert watermarks(job, 1) == [100]


def test_aligned_splits_are_read_side_by_side_and_keep_together() -> None:
    table = Scripted({"a": [0, 10, 20, 30], "b": [0, 1, 2, 3, 21], "c": [5, 25]}, bounded=True)
    job = job_of(table, rows=1, alignment=Alignment("g", 5))
    job.run()
    assert table.read == [0, 0, 5, 10, 1, 2, 3, 21, 25, 20, 30]
    assert job.dataflow.watermark == MAX_WATERMARK


def test_a_source_that_has_given_nothing_holds_back_its_group_until_it_is_idle() -> None:
    clock = VirtualClock()
    fast, silent = Scripted({"a": [0, 100, 200]}, ends=False), Scripted({"s": []}, ends=False)
    job = job_of(fast, silent, rows=1, clock=clock, alignment=Alignment("g", 50), idle_timeout=1000)
    watermarks(job, 3)
    assert fast.read == [0]
    clock.advance_to(1000)
    watermarks(job, 3)
    assert fast.read == [0, 100, 200]


def test_more_splits_than_are_read_side_by_side() -> None:
    table = Scripted({f"s{i:02}": [100 - i, 200 + i] for i in range(40)}, bounded=True)
    job = job_of(table, rows=1000, alignment=Alignment("g", 1))
    assert watermarks(job, 2) == [MIN_WATERMARK, MIN_WATERMARK]
    job.run()
    assert sorted(table.read) == sorted([100 - i for i in range(40)] + [200 + i for i in range(40)])


def test_a_flush_takes_what_is_there_and_a_number_of_epochs_of_what_never_ends() -> None:
    ending = Scripted({"a": list(range(30)), "b": [NOTHING_NOW, 7]})
    job = job_of(ending)
    job.begin_flush()
    ending.scripts["later"] = [1] * 100
    while not job.flushed:
        job.advance()
    assert ending.read == list(range(30))
    endless = Scripted({"a": list(range(1000))}, ends=False, endless=True)
    job = job_of(endless)
    job.begin_flush()
    while not job.flushed:
        job.advance()
    assert endless.read == list(range(16))


@pytest.mark.parametrize("seed", range(40))
def test_no_row_is_late_when_each_split_is_in_order(seed: int) -> None:
    chance = random.Random(seed)
    scripts: dict[str, list[int | None]] = {}
    for name in range(chance.randint(1, 25)):
        times: list[int | None] = sorted(chance.randrange(1000) for _ in range(chance.randint(0, 12)))
        for _ in range(chance.randint(0, 3)):
            times.insert(chance.randint(0, len(times)), NOTHING_NOW)
        scripts[f"s{name:02}"] = times
    rows = [time for times in scripts.values() for time in times if time is not None]
    table = Scripted(scripts, bounded=chance.random() < 0.5)
    alignment = Alignment("g", chance.choice((0, 10, 500))) if chance.random() < 0.5 else None
    job = job_of(table, rows=chance.randint(1, 9), alignment=alignment)
    before, given = MIN_WATERMARK, 0
    for _ in range(500):
        job.advance()
        assert all(time >= before for time in table.read[given:])
        given = len(table.read)
        assert job.dataflow.watermark >= before
        before = job.dataflow.watermark
    assert sorted(table.read) == sorted(rows)
    assert before == (MAX_WATERMARK if table.bounded else max(rows, default=MIN_WATERMARK))
