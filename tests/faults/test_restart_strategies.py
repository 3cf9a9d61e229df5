"""A source, a sink or the disk fails for a while: what becomes of the job is as its restart strategy says, and in the
end its output is exact, in the same process or in the next one."""

from __future__ import annotations

import errno
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError
from tests.faults.disk import Disk, Fault, takes_space
from tests.faults.jobs import JOBS
from tests.faults.runs import PlannedJob, published

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

STRATEGIES: Mapping[str, tuple[Mapping[str, str], int]] = {
    "none": ({}, 0),
    "fixed-delay": ({"fixed-delay.attempts": "3", "fixed-delay.delay": "0"}, 3),
    "exponential-delay": (
        {
            "exponential-delay.initial-backoff": "1 ms",
            "exponential-delay.max-backoff": "2 ms",
            "exponential-delay.attempts-before-reset-backoff": "3",
        },
        3,
    ),
    "failure-rate": ({"failure-rate.max-failures-per-interval": "3", "failure-rate.delay": "0"}, 3),
}
"""Options of each strategy, and how many failures a job survives with them."""
JOB_NAMES = ("three-joins", "partitions", "rejecting")


def options(strategy: str) -> dict[str, str]:
    given, _ = STRATEGIES[strategy]
    return {
        "execution.checkpointing.interval": "1 ms",
        "restart-strategy.type": strategy,
        **{f"restart-strategy.{key}": value for key, value in given.items()},
    }


class Failing:
    """Operations of one kind fail, each time the job tries again, until that has happened so often."""

    def __init__(self, what: str, start: int, times: int) -> None:
        self._what = what
        self._start = start
        self.left = times

    def __call__(self, number: int, kind: str, path: str) -> int:
        if self.left == 0 or number < self._start or not self._is_meant(number, kind, path):
            return 0
        self.left -= 1
        return errno.ENOSPC if self._what == "disk" else errno.EIO

    def _is_meant(self, number: int, kind: str, path: str) -> bool:
        if self._what == "source":
            return kind in ("read", "preadv")
        if self._what == "sink":
            return "/out/" in path and kind in ("create", "write", "fsync")
        return takes_space(number, kind, 0, number + 1)


@pytest.fixture(scope="module", params=JOB_NAMES)
def planned(request: pytest.FixtureRequest, few_rows: Path, tmp_path_factory: pytest.TempPathFactory) -> PlannedJob:
    job = next(job for job in JOBS if job.name == request.param)
    return PlannedJob(job, few_rows, tmp_path_factory.mktemp(request.param), rows=6)


@pytest.mark.parametrize("what", ["source", "sink", "disk"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_failure_that_passes(planned: PlannedJob, strategy: str, what: str) -> None:
    rng = random.Random(3)
    survived = STRATEGIES[strategy][1]
    for failures in (survived or 1, 50):
        planned.clear()
        fault = Failing(what, planned.operations // 3, failures)
        failed = _run(planned, fault, strategy, rng)
        assert planned.started is not None
        assert fault.left < failures
        assert planned.started.attempts <= survived
        # One failure may be met twice by a job that cannot even give up cleanly.
        assert not (failed is not None and failures <= survived), failed
        assert not (failed is None and failures == 50)
        if failed is not None:
            assert planned.started.status == "FAILED"
            assert failed.code.startswith(("E31", "E34")), failed
            planned.run({"execution.checkpointing.interval": "1 ms"}, rng)
        assert published(planned.out) == planned.expected
        assert planned.rejected.counts == planned.expected_rejected


def _run(planned: PlannedJob, fault: Fault, strategy: str, rng: random.Random) -> SqlEngineError | None:
    """Run it on a disk that fails; the error that it ended with."""
    with Disk(fault).installed():
        try:
            planned.run(options(strategy), rng)
        except SqlEngineError as error:
            return error
    return None


def test_rows_rejected_before_a_restart_are_counted_once(few_rows: Path, tmp_path: Path) -> None:
    """Whatever was rejected after the checkpoint comes again, and the rest does not: neither counts nor rows double."""
    job = next(job for job in JOBS if job.name == "rejecting")
    planned = PlannedJob(job, few_rows, tmp_path, rows=6)
    assert len(planned.expected_rejected) == 3
    for start in range(0, planned.operations, 10):
        planned.clear()
        failed = _run(planned, Failing("source", start, 2), "fixed-delay", random.Random(start))
        assert failed is None
        assert planned.rejected.counts == planned.expected_rejected
        assert planned.rejected.rows().num_rows == planned.rejected.total
        letters = [line for line in published(planned.out) if line.startswith("letters: ")]
        assert len(letters) == planned.rejected.total
