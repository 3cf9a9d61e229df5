"""Event-time queries: the answer at the end of the input equals DuckDB's over all rows, however the input is cut.

A view over the same tables, fed epoch by epoch and then with a row far in the future, gives the same: by then every
window is closed. Beside it stand the keys that the planner claims of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import duckdb

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import InternalError, SqlEngineError
from runtime.plan.nodes import SourceExec
from sqlengine.verify.rows import difference
from tests.oracle.compare_engines import Engine, Oracle
from tests.oracle.generate_late import LateCase, arrivals, with_times
from tests.oracle.generate_lives import LIVES, Life
from tests.oracle.generate_tables import Contents, Row
from tests.oracle.generate_windows import WindowCase, sentinel
from tests.oracle.outcomes import Broken, Skipped

__all__ = ["check_late_case", "check_window_case", "feed", "named"]


class _Cut:
    """So many rows per epoch, by source in turn; in every third epoch at least one of each, so that all come to their
    end."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = numbers
        self._at = 0

    def rows(self, sources: Sequence[SourceExec], epoch: int) -> Sequence[int]:
        found = []
        for _ in sources:
            found.append(self._numbers[self._at % len(self._numbers)])
            self._at += 1
        return found if epoch % 3 and any(found) else [max(1, n) for n in found]


def _engine(case: WindowCase | LateCase, life: Life = LIVES[0]) -> Engine:
    engine = Engine((), (), life=life)
    for statement in case.ddl():
        engine.environment.execute_sql(statement)
    return engine


def feed(engine: Engine, case: WindowCase | LateCase, number: int, rows: Sequence[Row]) -> None:
    if rows:
        memory = engine.memory(case.tables[number].name)
        memory.apply(ChangelogBatch(case.tables[number].batch(list(rows))))
        engine.session.publish([memory])


def _bounded(case: WindowCase, cut: _Cut | None) -> list[Row]:
    engine = _engine(case)
    try:
        for number, rows in enumerate(case.rows):
            feed(engine, case, number, rows)
        engine.session.harness.cut = cut
        found = engine.query_rows(case.sql.ours)
        if engine.session.rejected.total:
            raise Broken("rows were late that are not")
        return found
    finally:
        engine.close()


def _live(case: WindowCase) -> list[Row]:
    engine = _engine(case, case.life)
    try:
        engine.create_view("fuzzed", named(case))
        claims = engine.claims(named(case), below=True)
        at = [0] * len(case.rows)
        turn = 0
        while any(a < len(rows) for a, rows in zip(at, case.rows, strict=True)):
            for number, rows in enumerate(case.rows):
                size = max(turn % 3 == 2, case.cuts[turn % len(case.cuts)])
                turn += 1
                feed(engine, case, number, rows[at[number] : at[number] + size])
                at[number] += size
        for number in range(len(case.rows)):
            feed(engine, case, number, [sentinel(number)])
        for view in engine.session.views.jobs():
            if view.failure is not None:
                raise view.failure
        wrong = claims.problem()
        if wrong is not None:
            raise Broken(wrong)
        far = {sentinel(number)[0] for number in range(len(case.rows))}
        return [row for row in engine.view_rows("fuzzed") if not far & set(row)]
    finally:
        engine.close()


def named(case: WindowCase | LateCase) -> str:
    """The query with a name for each column, as a view wants them."""
    names = ", ".join(f"c{i}" for i in range(case.columns))
    head, body = ("", case.sql.ours)
    if body.startswith("WITH"):
        at = body.rindex("SELECT window_start, window_end, SUM(n)")
        head, body = body[:at], body[at:]
    return f"{head}SELECT * FROM ({body}) AS named ({names})"


def _expected(case: WindowCase) -> list[Row]:
    contents = Contents(case.tables)
    contents.rows = [list(rows) for rows in case.rows]
    oracle = Oracle(case.tables, ())
    try:
        oracle.load(contents)
        return oracle.rows(case.sql.duck)
    except duckdb.Error as error:
        raise Skipped(f"DuckDB: {error}") from error
    finally:
        oracle.close()


def check_window_case(case: WindowCase) -> None:
    """Raises Broken where the answers differ or the engine fails."""
    expected = _expected(case)
    runs = (
        ("as written", lambda: _bounded(case, None)),
        ("one row an epoch", lambda: _bounded(case, _Cut([1]))),
        ("cut at random", lambda: _bounded(case, _Cut(case.cuts))),
        (f"a view, {case.life.label}", lambda: _live(case)),
    )
    _compare(runs, expected, case.columns)


def check_late_case(case: LateCase) -> None:
    """A view fed in fixed epochs, of rows of which some are late. Raises Broken where its rows differ, or the number of
    rows that were rejected."""
    oracle = Oracle(case.tables, ())
    try:
        oracle.load_arrow(with_times(case))
        expected = oracle.rows(case.sql.duck)
        lost = oracle.rows(case.lost)[0][0] if case.lost else None
    finally:
        oracle.close()

    def run() -> list[Row]:
        engine = _engine(case, case.life)
        try:
            engine.create_view("fuzzed", named(case))
            for number, rows in arrivals(case):
                feed(engine, case, number, rows)
            for number in range(len(case.rows)):
                feed(engine, case, number, [sentinel(number)])
            for view in engine.session.views.jobs():
                if view.failure is not None:
                    raise view.failure
            if lost not in (None, engine.session.rejected.total):
                raise Broken(f"{engine.session.rejected.total} rows were late, not {lost}")
            far = {sentinel(number)[0] for number in range(len(case.rows))}
            return [row for row in engine.view_rows("fuzzed") if not far & set(row)]
        finally:
            engine.close()

    _compare([(f"a view, {case.life.label}", run)], expected, case.columns)


def _compare(runs: Iterable[tuple[str, Callable[[], list[Row]]]], expected: list[Row], columns: int) -> None:
    for label, run in runs:
        try:
            found = difference(run(), expected, [False] * columns)
        except InternalError as error:
            raise Broken(f"{label}: {error}\n{error.hint or ''}") from error
        except SqlEngineError as error:
            raise Broken(f"{label}: refused: {error}") from error
        except Broken:
            raise
        except Exception as error:
            raise Broken(f"{label}: {type(error).__name__}: {error}") from error
        if found is not None:
            raise Broken(f"{label}: differs:\n{found}")
