"""A job that waits sleeps until something comes: polls are counted, and no clock but a given one moves."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.datagen.table import DatagenReader, DatagenSource
from connectors.listing import Listing
from connectors.watching import Watcher
from runtime.core.changelog import APPEND, ChangelogBatch
from runtime.core.clock import SystemClock, VirtualClock, seconds_until
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import BIGINT
from runtime.core.wakeup import Wakeup
from runtime.expr.library import builtin_functions
from runtime.local.agenda import Agenda
from runtime.local.job import Job
from runtime.local.job_settings import JobSettings
from runtime.local.rejected import RejectedRows
from runtime.plan.nodes import SourceExec
from runtime.spi.reader import ReadContext
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

SCHEMA = Schema.of(("v", BIGINT))


class Inbox:
    """A source that calls when it has rows, or (`wait`) knows when it has some."""

    schema = SCHEMA
    changelog_mode = APPEND
    bounded = False

    def __init__(self, *, wait: float | None = None) -> None:
        self.wait = wait
        self.polls = 0
        self.steps: list[ChangelogBatch] = []

    def put(self, *values: int) -> None:
        self.steps.append(ChangelogBatch.of([pa.array(values, pa.int64())], SCHEMA))
        self.context.wake()

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        return [Split("all")]

    def watch_splits(self, wake: Any) -> Any:
        return lambda: None

    def open(self, split: Split, context: ReadContext) -> Inbox:
        self.context = context
        return self

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        self.polls += 1
        return self.steps.pop(0) if self.steps else None

    def available_in(self) -> float | None:
        return 0.0 if self.steps else self.wait

    finished = False

    def position(self) -> int:
        return 0

    def seek(self, position: Any) -> None: ...

    def close(self) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {}


class AskedInbox(Inbox):
    """One that does not tell when it has rows."""

    available_in = None  # type: ignore[assignment]


class SleepLog(Wakeup):
    """Never sleeps; a job that would wait does what the test says, and is stopped when that is over."""

    def __init__(self, job: Job, plan: Sequence[Any]) -> None:
        super().__init__()
        self.slept: list[float | None] = []
        self._job = job
        self._plan = list(plan)

    def wait(self, seconds: float | None) -> bool:
        self.slept.append(seconds)
        if self._plan:
            self._plan.pop(0)()
        else:
            self._job.cancel()
        return True


def job_of(table: Any, clock: Any = None, **node: Any) -> Job:
    source = SourceExec(table=table, name="t", schema=SCHEMA, mode=APPEND, **node)
    settings = JobSettings(Options({}), builtin_functions(), "UTC", clock or VirtualClock(), RejectedRows())
    return Job("job-1", [source], settings)


def run(job: Job, *plan: Any) -> tuple[list[int], list[float | None]]:
    """The values that come out, and how long the job would have slept each time."""
    sleeps = job._idling.wakeup = SleepLog(job, plan)
    sleeps.on_wake = job.wakeup.wake
    found = [v for (b,) in job.epochs() if b is not None for v in b.column(0).to_pylist()]
    return found, sleeps.slept


def test_a_job_sleeps_until_its_source_calls() -> None:
    inbox = Inbox()
    found, slept = run(job_of(inbox), lambda: inbox.put(1, 2), lambda: inbox.put(3))
    assert found == [1, 2, 3]
    assert slept == [None, None, None]
    # Before each sleep the source is asked once, and once for each step.
    assert inbox.polls == 3 + 2 + 2


def test_a_source_that_knows_its_next_row_is_asked_then() -> None:
    inbox = Inbox(wait=7.5)
    _, slept = run(job_of(inbox), lambda: None)
    assert slept == [7.5, 7.5]


def test_a_source_that_does_not_tell_is_asked_as_often_as_ever() -> None:
    _, slept = run(job_of(AskedInbox()), *[lambda: None] * 7)
    assert slept == [0.0005, 0.001, 0.002, 0.004, 0.008, 0.01, 0.01, 0.01]


def test_requests_and_the_clock_wake_a_job() -> None:
    clock = VirtualClock()
    inbox, asked = Inbox(), list[str]()
    job = job_of(inbox, clock)
    wakes: list[int] = []
    job.wakeup.on_wake = lambda: wakes.append(inbox.polls)
    run(job, lambda: job.between_epochs(lambda: asked.append("now")), lambda: clock.advance_to(5))
    assert asked == ["now"]
    # After the first poll the request, after the second the clock, then the request to stop.
    assert wakes == [1, 2, 3]


def test_a_row_that_comes_while_the_job_reads_is_not_slept_over() -> None:
    class Late(Inbox):
        def poll(self, max_rows: int) -> ChangelogBatch | None:
            found = super().poll(max_rows)
            if self.polls == 1:
                self.put(1)
            return found

    job = job_of(Late())
    wakeup = job._idling.wakeup
    assert job.advance() == ([None], False)
    assert wakeup.wait(0)
    assert not wakeup.wait(0)
    assert job.advance()[1]
    # Who was heard counts no more.
    assert not wakeup.wait(0)


def test_idleness_is_due_by_the_clock() -> None:
    class Ticking(SystemClock):
        def now(self) -> int:
            return 1000

    _, slept = run(job_of(Inbox(), Ticking(), idle_timeout=400))
    assert slept == [0.4]
    # A clock that tells when it moves needs no timer.
    clock = VirtualClock(1000)
    job = job_of(Inbox(), clock, idle_timeout=400)
    _, slept = run(job, lambda: clock.advance_to(1400))
    assert slept == [None, None]
    assert job.inputs[0].slowest is None


def test_clocks() -> None:
    class Passing:
        def now(self) -> int:
            return 7

    assert seconds_until(Passing(), 900) == 0
    assert seconds_until(VirtualClock(5), 900) is None
    assert seconds_until(VirtualClock(900), 900) == 0


def test_an_agenda_gives_turns_to_the_woken_and_the_due() -> None:
    now = [0.0]
    agenda: Agenda[str] = Agenda(lambda: now[0])
    agenda.put("a", 5)
    agenda.put("b", 3)
    agenda.put("c", None)
    agenda.put("a", 9)  # what was said last counts
    agenda.wake("c")
    agenda.wake("c")
    assert agenda.take() == ["c"]
    now[0] = 6
    assert agenda.take() == ["b"]
    now[0] = 20
    assert agenda.take() == ["a"]
    agenda.wakeup.wake()
    assert agenda.take() == []


def test_folders_with_one_interval_are_listed_together(tmp_path: Path) -> None:
    now = [0.0]
    watcher = Watcher(lambda: now[0])
    looked: list[tuple[float, int]] = []
    ends = []
    for number in range(100):
        now[0] = 0.1 + number / 2000
        ends.append(watcher.add(lambda n=number: looked.append((now[0], n)), 1.0, start=False))
    waits = []
    while now[0] < 3:
        seconds = watcher.look()
        assert seconds is not None and 0 < seconds <= 1
        waits.append(seconds)
        now[0] += seconds
    # Each once a second or a little more often, all of them in few calls of the thread.
    assert len(waits) <= 5
    assert 200 <= len(looked) <= 400
    gaps = [b - a for n in range(100) for a, b in zip(*(2 * [[t for t, m in looked if m == n]]), strict=True)]
    assert max(gaps) <= 1.0
    for end in ends:
        end()
    assert watcher.look() is None


def test_a_watched_listing_calls_when_something_else_is_there() -> None:
    now, there, whole, woken = [0.0], ["a"], [0], list[str]()

    def list_now() -> list[str]:
        whole[0] += 1
        return list(there)

    listing = Listing(list_now, 1000, lambda: now[0], glance=lambda: len(there))
    one = listing.watch("test", lambda: woken.append("one"))
    two = listing.watch("test", lambda: woken.append("two"))
    try:
        listing.look()
        assert (listing.entries(), woken) == (["a"], ["one", "two"])
        woken.clear()
        for _ in range(5):
            now[0] += 1
            listing.look()
        assert (woken, whole[0]) == ([], 1)
        there.append("b")
        now[0] += 0.1
        # Whoever asks first finds it, and the others hear of it.
        now[0] += 1
        assert listing.entries() == ["a", "b"]
        assert woken == ["one", "two"]
        listing.look()
        there[:] = ["a", "c"]  # The same at a glance.
        listing.look()
        assert woken == ["one", "two"]
        now[0] += 10
        listing.look()
        assert woken == 2 * ["one", "two"]
    finally:
        one()
        two()
    there.append("d")
    listing.look()
    assert woken == 2 * ["one", "two"]


def test_a_job_that_is_gone_has_nothing_listed() -> None:
    class Dropped:
        def wake(self) -> None:
            raise AssertionError

    dropped, listed = Dropped(), list[int]()
    listing = Listing(lambda: listed.append(1) or [], 1000, lambda: 0.0)
    listing.watch("test", dropped.wake)
    del dropped
    gc.collect()
    listing.look()
    assert (listed, listing._wakes) == ([], {})


def test_a_folder_that_cannot_be_listed_wakes_its_job() -> None:
    woken = list[str]()

    def list_now() -> list[str]:
        raise OSError("gone")

    listing = Listing(list_now, 1000, lambda: 0.0)
    end = listing.watch("test", lambda: woken.append("job"))
    listing.look()
    end()
    assert woken == ["job"]
    with pytest.raises(OSError, match="gone"):
        listing.entries()


def test_datagen_knows_its_next_row() -> None:
    now = [10.0]
    reader = DatagenReader(DatagenSource("t", SCHEMA, (), 1, None, 4), lambda: now[0])
    assert reader.available_in() == 0
    assert reader.poll(10) is None
    assert reader.available_in() == 0.25
    now[0] += 0.3
    batch = reader.poll(10)
    assert batch is not None and len(batch) == 1
    assert reader.available_in() == pytest.approx(0.2)
