"""CHECK and UNIQUE: random changes against a naive model; between sessions, over restarts, and in jobs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.memory import MemoryTable, OpenChanges
from connectors.memory.constraints import BrokenConstraint, CheckRule, TableRules, UniqueRule
from runtime.core.changelog import DELETE, INSERT, ChangelogBatch
from runtime.core.errors import SqlEngineError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, STRING
from sqlengine import TableEnvironment

SCHEMA = Schema.of(("k", BIGINT.not_null()), ("u", STRING), ("n", BIGINT))
ROWS = st.tuples(st.integers(0, 4), st.sampled_from([None, "a", "b", "c"]), st.integers(-1, 3))
BATCHES = st.lists(st.lists(st.tuples(st.booleans(), ROWS), min_size=1, max_size=5), max_size=12)
Row = tuple[Any, ...]


def batch(changes: list[tuple[bool, Row]]) -> ChangelogBatch:
    arrays = [pa.array([row[i] for _, row in changes], f.type.arrow) for i, f in enumerate(SCHEMA)]
    kinds = np.array([INSERT if added else DELETE for added, _ in changes], np.int8)
    return ChangelogBatch.of(arrays, SCHEMA, kinds)


def changed(rows: Counter[Row], changes: list[tuple[bool, Row]], keyed: bool) -> Counter[Row]:
    """The rows after a batch: by key, or, of a bag, without those that are taken more often than they are there."""
    after = Counter(rows)
    for added, row in changes:
        if keyed:
            after = Counter({r: c for r, c in after.items() if r[0] != row[0]})
            if added:
                after[row] = 1
        else:
            after[row] += 1 if added else -1
    return Counter({row: count for row, count in after.items() if count > 0})


def holds(rows: Counter[Row], nulls_distinct: bool) -> bool:
    by_u: Counter[object] = Counter()
    pairs: Counter[object] = Counter()
    for row, count in rows.items():
        if row[1] is not None or not nulls_distinct:
            by_u[row[1]] += count
        if row[1] is not None:
            pairs[row[1:]] += count
    return all(count <= 1 for count in (*by_u.values(), *pairs.values()))


@settings(max_examples=150, deadline=None)
@given(batches=BATCHES, keyed=st.booleans(), distinct=st.booleans(), opened=st.booleans())
def test_what_is_there_is_what_a_naive_model_has(batches: list, keyed: bool, distinct: bool, opened: bool) -> None:
    table = MemoryTable("c.d.t", SCHEMA, ("k",) if keyed else ())
    check = CheckRule("pos", "n >= 0", lambda rows: pa.compute.greater_equal(rows.column(2), 0))
    table.rules = TableRules([check], [UniqueRule("u", [1], nulls_distinct=distinct), UniqueRule("un", [1, 2])])
    rows: Counter[Row] = Counter()
    for number, changes in enumerate(batches):
        wanted = changed(rows, changes, keyed)
        allowed = all(row[2] >= 0 for added, row in changes if added) and holds(wanted, distinct)
        try:
            if opened:
                epoch = OpenChanges(table)
                for change in changes:
                    epoch.apply(batch([change]))
                epoch.check_twins()
                epoch.commit()
                epoch.close()
            else:
                table.apply(batch(changes))
            rows = wanted
            assert allowed
        except BrokenConstraint as error:
            assert not allowed and error.code in ("E2024", "E2025")
        if number % 3 == 0:
            table.publish()
        elif number % 5 == 4:
            table.publish()
            table.apply(*[batch([(True, (9, "z", 1))])] if holds(rows + Counter([(9, "z", 1)]), distinct) else [])
            table.take_back()
        assert Counter(tuple(r.values()) for r in table.contents().to_pylist()) == rows


def test_two_sessions_cannot_bring_one_value(tmp_path: Path) -> None:
    first = TableEnvironment.create(path=str(tmp_path / "db"))
    second = first.new_session()
    first.execute_sql("CREATE TABLE t (id INT PRIMARY KEY, e STRING UNIQUE)")
    first.execute_sql("CREATE TABLE other (x INT)")
    for session, key in ((first, 1), (second, 2)):
        session.execute_sql("BEGIN EPOCH")
        session.execute_sql(f"INSERT INTO t VALUES ({key}, 'a')")
        session.execute_sql(f"INSERT INTO other VALUES ({key})")
    first.execute_sql("END EPOCH")
    with pytest.raises(SqlEngineError, match="E2025"):
        second.execute_sql("END EPOCH")
    # The epoch is over, and none of it is there.
    with pytest.raises(SqlEngineError, match="E1712"):
        second.execute_sql("END EPOCH")
    assert [tuple(r) for r in second.execute_sql("SELECT x FROM other")] == [(1,)]
    second.execute_sql("INSERT INTO t VALUES (2, 'b')")
    second.close()
    first.close()
    assert_kept(tmp_path / "db")


def assert_kept(path: Path) -> None:
    t_env = TableEnvironment.create(path=str(path))
    with pytest.raises(SqlEngineError, match="E2025"):
        t_env.execute_sql("INSERT INTO t VALUES (3, 'a')")
    t_env.execute_sql("INSERT INTO t VALUES (3, 'c')")
    t_env.close()


def test_a_condition_that_held_when_a_row_came_is_not_asked_again(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    t_env = TableEnvironment.create(path=path)
    t_env.session.database.clock = type("Past", (), {"now": staticmethod(lambda: 0)})()
    t_env.execute_sql("CREATE TABLE t (e STRING UNIQUE, at TIMESTAMP_LTZ(3) CHECK (at > CURRENT_TIMESTAMP))")
    t_env.execute_sql("INSERT INTO t VALUES ('a', TO_TIMESTAMP_LTZ(1000, 3))")
    assert t_env.session.durable is not None
    t_env.session.durable.abandon()
    t_env = TableEnvironment.create(path=path)
    assert len(list(t_env.execute_sql("SELECT * FROM t"))) == 1
    with pytest.raises(SqlEngineError, match="E2024"):
        t_env.execute_sql("INSERT INTO t VALUES ('b', TO_TIMESTAMP_LTZ(1000, 3))")
    t_env.close()


def test_a_job_that_goes_on_is_stopped_by_a_condition_and_refused_by_unique(tmp_path: Path) -> None:
    t_env = TableEnvironment.create(path=str(tmp_path / "db"))
    t_env.execute_sql(
        "CREATE TABLE s (n INT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'random', 'fields.n.min' = '1')"
    )
    t_env.execute_sql("CREATE TABLE t (n INT UNIQUE)")
    t_env.execute_sql("CREATE TABLE few (n INT CHECK (n < 3))")
    with pytest.raises(SqlEngineError, match="a job that goes on cannot write"):
        t_env.execute_sql("INSERT INTO t SELECT n FROM s")
    result = t_env.execute_sql("INSERT INTO few SELECT n FROM s")
    with pytest.raises(SqlEngineError, match="E2024"):
        result.wait()
    assert all(row[0] < 3 for row in t_env.execute_sql("SELECT n FROM few"))
    t_env.close()
