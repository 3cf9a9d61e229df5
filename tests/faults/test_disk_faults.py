"""Whatever fails or ends a job while it reads, writes, saves or publishes: run again, it publishes exactly what an
undisturbed run does, and before its end nothing else is visible.

A seed is a few runs of one job: in each, operations of the disk fail, or the process is killed at one of them. A run
ends well, is killed, or fails with an error that has a code. FAULT_SEEDS says how many seeds there are,
FAULT_FIRST_SEED which is the first.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.faults.conftest import FIRST_SEED, SEEDS
from tests.faults.jobs import JOBS, FaultJob
from tests.faults.runs import PlannedJob

pytestmark = [
    # What a job does when nobody uses it any more fails as well.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

EACH = -(-SEEDS // len(JOBS))
ENOUGH = 20


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_faults_by_seed(job: FaultJob, few_rows: Path, tmp_path: Path) -> None:
    planned = PlannedJob(job, few_rows, tmp_path, rows=14)
    assert planned.expected
    ends: Counter[str] = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + EACH):
        ends += planned.trial(seed)
    print(f"{job.name}: seeds {FIRST_SEED} to {FIRST_SEED + EACH - 1}, {planned.operations} operations, {dict(ends)}")
    # That the faults struck.
    assert EACH < ENOUGH or (ends["killed"] > EACH // 4 and ends["failed"] > 0)
