"""A view that is given one query after another has DuckDB's answer for the newest, after each change and each restart; and
what somebody hears who follows it adds up to that."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import duckdb

from connectors.memory import MemoryReader, MemoryTable
from runtime.core.changelog import ChangelogBatch
from sqlengine.verify.rows import Row
from tests.oracle.compare_engines import Engine, Oracle
from tests.oracle.compare_rows import differing
from tests.oracle.generate_replaced import RESTART, ReplacedCase
from tests.oracle.generate_tables import Contents
from tests.oracle.generate_text import Query
from tests.oracle.outcomes import Broken, Skipped, told

__all__ = ["check_replaced_case"]

_MOST_ROWS = 2000
_NAME = "kept"


class _Follower:
    """Hears the changes of a table, and adds them up."""

    def __init__(self, table: MemoryTable) -> None:
        self.table = table
        self._reader: MemoryReader = table.follow(lambda: None)
        self._rows: Counter[Row] = Counter()

    def check(self, rows: list[Row], where: str) -> None:
        while self._reader.waiting:
            batch = self._reader.poll(1)
            if batch is not None:
                self._take(batch)
        if +self._rows != Counter(rows) or any(count < 0 for count in self._rows.values()):
            raise Broken(f"who follows the view has heard of others {where}: {self._rows}, not {Counter(rows)}")

    def _take(self, batch: ChangelogBatch) -> None:
        for row, sign in zip(batch.rows.to_pylist(), batch.signs().tolist(), strict=True):
            self._rows[tuple(row.values())] += sign


class _Sides:
    """Both engines."""

    def __init__(self, case: ReplacedCase, folder: Path) -> None:
        self._case = case
        self.oracle = Oracle(case.tables, case.definitions)
        self.oracle.load(Contents(case.tables))
        lasts = RESTART in case.steps
        self.engine = Engine(case.tables, case.definitions, life=case.life, path=folder / "db" if lasts else None)
        self._query: Query | None = None
        self._follower: _Follower | None = None

    def run(self) -> None:
        for number, step in enumerate(self._case.steps, 1):
            where = f"after step {number}"
            self._answer("SELECT 1")
            if isinstance(step, Query):
                # Before anything is changed: what DuckDB cannot answer says nothing.
                self._answer(step.sql.duck)
                self.engine.environment.execute_sql(f"CREATE OR REPLACE MATERIALIZED VIEW {_NAME} AS {step.sql.ours}")
                self._query = step
            elif step is RESTART:
                self.engine.restart()
                self._follower = None
            else:
                try:
                    self.oracle.execute(step.duck)
                except duckdb.Error as error:
                    raise Skipped(f"DuckDB: {error}") from error
                self.engine.environment.execute_sql(step.ours)
            self._compare(where)

    def _answer(self, query: str) -> list[Row]:
        try:
            for table in self._case.tables:
                if self.oracle.rows(f"SELECT COUNT(*) FROM {table.name}")[0][0] > _MOST_ROWS:
                    raise Skipped("too many rows")
            if self.oracle.rows(f"SELECT COUNT(*) FROM ({query}) AS counted")[0][0] > 10 * _MOST_ROWS:
                raise Skipped("too many rows")
            return self.oracle.rows(query)
        except duckdb.Error as error:
            raise Skipped(f"DuckDB: {error}") from error

    def _compare(self, where: str) -> None:
        for view in self.engine.session.views.jobs():
            if view.failure is not None:
                raise view.failure
        if self._query is None:
            return
        theirs = self._answer(self._query.sql.duck)
        # Who reads it has what has gathered.
        self.engine.query_rows(f"SELECT * FROM {_NAME}")
        ours = self.engine.view_rows(_NAME)
        found = differing(ours, theirs, [c.kind for c in self._query.columns])
        if found is not None:
            raise Broken(f"the view differs {where}:\n{found}")
        if self._case.followed:
            contents = self.engine.memory(_NAME)
            before = None if self._follower is None else self._follower.table
            if before is not None and before is not contents and not before.append_only:
                raise Broken(f"who follows the view is left alone {where}")
            if self._follower is None or before is not contents:
                self._follower = _Follower(contents)
            self._follower.check(ours, where)


def check_replaced_case(case: ReplacedCase) -> None:
    """Raises Broken where the answers differ or the engine fails, Skipped for a case that says nothing."""
    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory()))
        closing.enter_context(told("E1410"))
        sides = _Sides(case, folder)
        closing.callback(sides.oracle.close)
        closing.callback(lambda: sides.engine.close())
        sides.run()
