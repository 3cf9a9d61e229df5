"""Jobs of statements that have ended, but for the newest, go by themselves: rows that they have read do not wait for the
garbage collector."""

from __future__ import annotations

import gc
import weakref

import pytest

from runtime.local.job import Job
from sqlengine import TableEnvironment
from sqlengine.database import jobs as ended_jobs


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t SELECT id + 10, note FROM t",
        "INSERT INTO t SELECT a.id + 20, b.note FROM t AS a JOIN t AS b ON a.id = b.id",
        "INSERT INTO t SELECT id, CAST(COUNT(*) AS STRING) FROM t GROUP BY id",
        "SELECT a.note, COUNT(*) FROM t AS a JOIN t AS b ON a.id = b.id GROUP BY a.note",
    ],
)
def test_a_job_that_has_ended_is_in_no_cycle(statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_jobs, "ENDED_JOBS_KEPT", 1)
    jobs: list[weakref.ref[Job]] = []
    with TableEnvironment.create() as environment:
        environment.execute_sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, note STRING)")
        environment.execute_sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        environment.session.on_job = lambda job: jobs.append(weakref.ref(job))
        gc.disable()
        try:
            for _ in range(5):
                environment.execute_sql(statement).to_arrow()
            assert len(jobs) == 5
            assert [job() for job in jobs[:3]] == [None] * 3
        finally:
            gc.enable()
