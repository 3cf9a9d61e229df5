"""Generated queries that check themselves: the product's reference against the engine, and how often it could be asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from runtime.core.errors import SqlEngineError
from runtime.local.job import Job
from tests.oracle.compare_case import VIEW, concrete
from tests.oracle.compare_engines import Engine
from tests.oracle.compare_windows import feed, named
from tests.oracle.generate_cases import Case
from tests.oracle.generate_windows import WindowCase, sentinel

__all__ = ["Outcome", "run_case", "run_window_case"]


class Outcome:
    """What became of the cases: how many answers were compared, what DuckDB could not be asked, what differed."""

    def __init__(self) -> None:
        self.compared = 0
        self.verified = 0
        self.refused: Counter[str] = Counter()
        self.wrong: list[str] = []

    def take(self, engine: Engine) -> None:
        self.refused.update(note.partition("asked about ")[2] for note, _ in engine.session.notes)
        for view in engine.session.views.jobs():
            self._count(view.job)
            if view.failure is not None and view.failure.code == "E9102":
                self.wrong.append(f"{view.failure}")

    def _count(self, job: Job) -> None:
        for _, verifier in getattr(job.watch, "verifiers", ()):
            self.verified += 1
            self.compared += verifier.compared


def _verifying(engine: Engine) -> Engine:
    engine.environment.get_config().set("sqlengine.verify", "true")
    return engine


def run_case(case: Case, outcome: Outcome) -> None:
    """A view over the case's query that compares after every epoch."""
    engine = _verifying(Engine(case.tables, case.definitions))
    try:
        engine.create_view(VIEW, case.sql.ours)
        for epoch in concrete(case):
            engine.take([change for op in epoch for change in op])
    except SqlEngineError as error:
        if error.code != "E9102":
            return
    finally:
        outcome.take(engine)
        engine.close()


def run_window_case(case: WindowCase, outcome: Outcome) -> None:
    """The same for an event-time query, whose windows close one after the other."""
    engine = Engine((), ())
    for statement in case.ddl():
        engine.environment.execute_sql(statement)
    _verifying(engine)
    try:
        engine.create_view(VIEW, named(case))
        at: Sequence[int] = [0] * len(case.rows)
        for number, rows in enumerate(case.rows):
            for start in range(at[number], len(rows), 3):
                feed(engine, case, number, rows[start : start + 3])
        for number in range(len(case.rows)):
            feed(engine, case, number, [sentinel(number)])
    except SqlEngineError as error:
        if error.code != "E9102":
            return
    finally:
        outcome.take(engine)
        engine.close()
