"""A job on Spark whose tasks are watched, and its answer."""

from __future__ import annotations

from typing import Any

from runtime.local.job import Job
from runtime.tasks.divided import Divided
from runtime.tasks.task import Report
from sqlengine.api.environment import TableEnvironment

__all__ = ["QUERY", "ROWS", "Watched", "answer", "environment"]

ROWS = 4000
EVENTS = f"""
CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{ROWS}', 'fields.i.kind' = 'sequence',
  'fields.i.start' = '0', 'fields.i.end' = '{ROWS - 1}')"""
QUERY = """SELECT k, COUNT(*) AS n, SUM(s) AS s FROM (SELECT MOD(i, 97) AS k, MOD(i, 1000) AS m, SUM(i) AS s FROM n GROUP BY
  MOD(i, 97), MOD(i, 1000)) GROUP BY k"""


def environment(spark: Any = None, **options: str) -> TableEnvironment:
    given = {"sqlengine.epoch.max-rows": "200", "parallelism.default": "2", **options}
    t_env = TableEnvironment.create(given, spark=spark)
    t_env.execute_sql(EVENTS)
    return t_env


def answer(t_env: TableEnvironment) -> list[tuple[int, ...]]:
    return sorted(tuple(row.values()) for row in t_env.execute_sql(QUERY).folded().to_pylist())


class Watched:
    """A job, and the reports of its tasks. `at`: what is done after epochs, by number."""

    def __init__(self, t_env: TableEnvironment, **at: Any) -> None:
        self.reports: list[Report] = []
        self.at = {int(name.removeprefix("epoch")): what for name, what in at.items()}
        t_env.session.on_job = self._begin

    def _begin(self, job: Job) -> None:
        self.job = job
        divided = job.dataflow.elsewhere
        assert isinstance(divided, Divided)
        note = divided._kept.note
        divided._kept.note = lambda phase, report: (self.reports.append(report), note(phase, report))[1]  # type: ignore[method-assign]
        job.on_epoch = lambda job: self.at.pop(job.dataflow.epoch, lambda: None)()

    @property
    def cold(self) -> int:
        divided = self.job.dataflow.elsewhere
        assert divided is not None
        return divided.cold_starts
