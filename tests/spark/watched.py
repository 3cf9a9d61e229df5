"""A job on Spark whose tasks are watched, and its answer."""

from __future__ import annotations

from typing import Any

from runtime.local.job import Job
from runtime.spark.continuous import Continuous
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
    """A job, and the reports of its tasks. `crews`: those of its Spark application, if their tasks are counted apart; `at`:
    what is done after epochs, by number."""

    def __init__(self, t_env: TableEnvironment, crews: Continuous | None = None, **at: Any) -> None:
        self.reports: list[Report] = []
        self.cold_in_crews = 0
        """How many tasks of long-lived crews opened their state from files."""
        self._crews = crews
        self._phases = crews.phases if crews is not None else 0
        self._epoch, self._of_crew = -1, False
        self.at = {int(name.removeprefix("epoch")): what for name, what in at.items()}
        t_env.session.on_job = self._begin

    def _begin(self, job: Job) -> None:
        self.job = job
        divided = job.dataflow.elsewhere
        assert isinstance(divided, Divided)
        note = divided._kept.note

        def watched(phase: int, report: Report) -> None:
            self.reports.append(report)
            self.cold_in_crews += self._by_crew(job.dataflow.epoch) and not report.warm
            note(phase, report)

        divided._kept.note = watched  # type: ignore[method-assign]
        job.on_epoch = lambda job: self.at.pop(job.dataflow.epoch, lambda: None)()

    def _by_crew(self, epoch: int) -> bool:
        """Whether a crew has carried out an epoch (of one phase), asked at each of its reports."""
        if self._crews is not None and epoch != self._epoch:
            self._of_crew = self._crews.phases > self._phases
            self._epoch, self._phases = epoch, self._crews.phases
        return self._of_crew

    @property
    def cold(self) -> int:
        divided = self.job.dataflow.elsewhere
        assert divided is not None
        return divided.cold_starts
