"""Process table functions that are called by epoch: what they give is what the row-wise form gives, whatever the epochs,
after restarts, too. FUZZ_CASES is how many cases there are."""

from __future__ import annotations

import datetime as dt
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.errors import SqlEngineError
from sqlengine import ProcessTableFunction, TableEnvironment, udptf
from tests.unit.table_api import process_program

EPOCH = dt.datetime(2024, 1, 1)
Input = tuple[str | None, int, int]
"""Key, gap and time, in seconds."""

ROWS = st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(1, 12), st.integers(0, 60))
EPOCHS = st.lists(st.lists(ROWS, min_size=1, max_size=8), min_size=1, max_size=6)


@udptf(result_types={"n": "BIGINT", "total": "BIGINT"}, state={"seen": "ROW<n BIGINT, total BIGINT>"})
class Rows(ProcessTableFunction):
    """`Running`, row by row."""

    def eval(self, ctx: Any, seen: Any, input: Any) -> Any:
        seen.n = (seen.n or 0) + 1
        seen.total = (seen.total or 0) + input.v
        yield seen.n, seen.total


def model(rows: list[Input]) -> list[tuple[Any, ...]]:
    """Count and sum of each row and those before it of its key."""
    found: list[tuple[Any, ...]] = []
    held: dict[str | None, tuple[int, int]] = {}
    for key, value, _ in rows:
        n, total = held.get(key, (0, 0))
        held[key] = (n + 1, total + value)
        found.append((key, *held[key]))
    return found


def view_of(t_env: TableEnvironment, name: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in t_env.execute_sql(f"SELECT * FROM {name}").collect()), key=repr)


def insert(t_env: TableEnvironment, rows: list[Input]) -> None:
    values = [
        f"({'CAST(NULL AS STRING)' if k is None else repr(k)}, '{gap}', {gap}, {gap}, TIMESTAMP '{EPOCH + dt.timedelta(seconds=at)}')"
        for k, gap, at in rows
    ]
    t_env.execute_sql(f"INSERT INTO t VALUES {', '.join(values)}")


def prepare(t_env: TableEnvironment) -> None:
    t_env.session.harness.checked = True
    for name in ("Gaps", "EpochGaps", "Timeout", "EpochTimeout", "Running"):
        t_env.create_temporary_system_function(name.lower(), getattr(process_program, name))
    t_env.create_temporary_system_function("rowwise", Rows)
    t_env.execute_sql("CREATE TABLE t (k STRING, text STRING, gap INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)")
    for name in ("gaps", "epochgaps", "timeout", "epochtimeout"):
        t_env.execute_sql(
            f"CREATE MATERIALIZED VIEW v_{name} AS SELECT * FROM {name}(input => TABLE t PARTITION BY k, on_time => DESCRIPTOR(ts))"
        )
    for name in ("running", "rowwise"):
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT * FROM {name}(input => TABLE t PARTITION BY k)")
        t_env.execute_sql(
            f"CREATE MATERIALIZED VIEW o_{name} AS "
            f"SELECT * FROM {name}(input => TABLE t PARTITION BY k ORDER BY ts, on_time => DESCRIPTOR(ts))"
        )


@settings(max_examples=max(30, int(os.environ.get("FUZZ_CASES", "0"))), deadline=None)
@given(epochs=EPOCHS)
def test_both_forms_give_the_same(epochs: list[list[Input]]) -> None:
    with TableEnvironment.create() as t_env:
        prepare(t_env)
        for rows in epochs:
            insert(t_env, rows)
            assert view_of(t_env, "v_epochgaps") == view_of(t_env, "v_gaps")
            assert view_of(t_env, "v_epochtimeout") == view_of(t_env, "v_timeout")
            assert view_of(t_env, "o_running") == view_of(t_env, "o_rowwise")
        every = [row for rows in epochs for row in rows]
        assert view_of(t_env, "v_running") == sorted(model(every), key=repr)
        assert view_of(t_env, "v_rowwise") == sorted(model(every), key=repr)


@pytest.mark.parametrize("declared", ["pandas", "arow"])
def test_other_kinds_of_functions_are_refused(declared: str) -> None:
    with pytest.raises(SqlEngineError, match=f"E1512 .* there is no func_type '{declared}'"):

        @udptf(result_types={"n": "BIGINT"}, func_type=declared)
        class Wrong(ProcessTableFunction):
            def eval(self, ctx: Any, input: Any) -> None:
                """Nothing."""


def test_a_key_with_many_timers_gets_one_a_call() -> None:
    """In order of time, as row by row; timers that a call sets come where their time stands."""
    calls: list[list[int]] = []

    @udptf(func_type="arrow", result_types={"n": "BIGINT"})
    class Many(ProcessTableFunction):
        def eval(self, ctx: Any, input: Any) -> None:
            for at in (5, 3, 9):
                ctx.register_on_time([at] * ctx.key_count)

        def on_timer(self, ctx: Any, timers: Any) -> None:
            times = timers["time"].cast("timestamp[ms]").cast("int64").to_pylist()
            calls.append(times)
            ctx.register_on_time([4 if at == 3 else None for at in times])

    with TableEnvironment.create() as t_env:
        t_env.create_temporary_system_function("many", Many)
        t_env.execute_sql("CREATE TABLE t (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)")
        t_env.execute_sql(
            "INSERT INTO t VALUES ('a', TIMESTAMP '2024-01-01 00:00:00'), ('b', TIMESTAMP '2024-01-01 00:00:00')"
        )
        t_env.execute_sql("SELECT * FROM many(TABLE t PARTITION BY k, on_time => DESCRIPTOR(ts))").to_arrow()
    assert calls == [[3, 3], [4, 4], [5, 5], [9, 9]]
