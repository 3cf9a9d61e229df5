"""Jobs whose process is killed with SIGKILL at random moments, resumed, killed again: what they publish is, byte for
byte after sorting, what an uninterrupted run publishes.

`make faults` kills each of them fifty times; FAULT_FIRST_SEED gives other moments.
"""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.conftest import FIRST_SEED, KILLS, MANY_KILLS
from tests.faults.jobs import JOBS, FaultJob
from tests.faults.nexmark_jobs import nexmark_jobs
from tests.faults.processes import ProcessJob, WarmProcess

EVENTS = 3000 if KILLS <= MANY_KILLS else 20_000
ROUNDS = 10
EPOCHS = 40 if KILLS <= MANY_KILLS else 150


@pytest.mark.parametrize("job", [*nexmark_jobs(EVENTS), *JOBS], ids=lambda job: job.name)
def test_a_killed_job_publishes_what_it_would_have(
    job: FaultJob, many_rows: Path, tmp_path: Path, warm: WarmProcess
) -> None:
    rows = (EVENTS if not job.sources else 800 if KILLS <= MANY_KILLS else 4000) // EPOCHS
    expected, seconds = ProcessJob(job, many_rows, tmp_path / "whole", rows, warm).whole()
    kills = 0
    # A run that comes to its end before it was killed so often is followed by another one, from the start, killed sooner.
    for number in range(ROUNDS):
        seed = FIRST_SEED + number
        found = ProcessJob(job, many_rows, tmp_path / f"killed-{number}", rows, warm).killed(
            seed, KILLS - kills, seconds / 2**number
        )
        print(f"{job.name}: seed {seed}, {found.kills} kills, {found.resumed} resumed, {len(found.lines)} lines")
        assert expected
        if job.in_order:
            assert found.lines == expected, f"seed {seed}"
        else:
            assert bids_by_bidder(found.lines) == bids_by_bidder(expected), f"seed {seed}"
        kills += found.kills
        if kills >= KILLS:
            return


def bids_by_bidder(lines: list[str]) -> Counter[str]:
    """Windows of processing time are others in every run, but each bid is in one."""
    counts: Counter[str] = Counter()
    for bidder, bids, *_ in csv.reader(line.partition(": ")[2] for line in lines):
        counts[bidder] += int(bids)
    return counts


def test_the_command_itself_is_killed(many_rows: Path, tmp_path: Path, warm: WarmProcess) -> None:
    """Once without the fork: the interpreter, the command, and Ctrl-C's big brother."""
    job = next(job for job in JOBS if job.name == "inner-join")
    whole = ProcessJob(job, many_rows, tmp_path / "whole", 20, warm)
    expected, _ = whole.whole()
    killed = ProcessJob(job, many_rows, tmp_path / "killed", 20, warm)
    process = subprocess.Popen(
        [sys.executable, "-m", "sqlengine", *killed.arguments(saved=True)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not killed.checkpoints():
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.005)
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode in (0, -signal.SIGKILL)
    assert killed.killed(0, 0, 1.0).lines == expected
