"""Process table functions against a naive model of state and timers, with random rows, late ones too, and epochs.
FUZZ_CASES is how many cases there are."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable
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

ROWS = st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 12), st.integers(0, 40))


def model(epochs: list[list[Input]]) -> list[tuple[Any, ...]]:
    """Sessions of `Gaps`, by key, of the rows that are not late: in order of time, timers between them."""
    watermark, taken = -1, list[tuple[int, int, Input]]()
    for rows in epochs:
        taken += [(at, len(taken) + n, (key, gap, at)) for n, (key, gap, at) in enumerate(rows) if at > watermark]
        watermark = max([watermark, *(at for _, _, at in rows)])
    open_: dict[str | None, list[Any]] = {}
    found: list[tuple[Any, ...]] = []

    def close(until: int) -> None:
        for key in [k for k, (_, end, _) in open_.items() if end <= until]:
            first, end, texts = open_.pop(key)
            found.append((key, EPOCH + dt.timedelta(seconds=first), texts, EPOCH + dt.timedelta(seconds=end)))

    for at, _, (key, gap, _) in sorted(taken, key=lambda row: row[:2]):
        close(at - 1)
        session = open_.setdefault(key, [at, at, []])
        session[1] = max(session[1], at + gap)
        session[2].append(f"{gap}")
    close(watermark)
    return found


@settings(max_examples=max(40, int(os.environ.get("FUZZ_CASES", "0"))), deadline=None)
@given(epochs=st.lists(st.lists(ROWS, min_size=1, max_size=6), min_size=1, max_size=6))
def test_state_and_timers_are_those_of_a_model(epochs: list[list[Input]]) -> None:
    t_env = TableEnvironment.create()
    t_env.session.harness.checked = True
    t_env.create_temporary_system_function("gaps", process_program.Gaps)
    t_env.execute_sql("CREATE TABLE t (k STRING, text STRING, gap INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)")
    t_env.execute_sql(
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM gaps(input => TABLE t PARTITION BY k ORDER BY ts, on_time => DESCRIPTOR(ts))"
    )
    for rows in epochs:
        values = [
            f"({'CAST(NULL AS STRING)' if k is None else repr(k)}, '{gap}', {gap}, TIMESTAMP '{EPOCH + dt.timedelta(seconds=at)}')"
            for k, gap, at in rows
        ]
        t_env.execute_sql(f"INSERT INTO t VALUES {', '.join(values)}")
    found = [(k, first, texts, end) for k, first, texts, end in t_env.execute_sql("SELECT * FROM v").collect()]
    assert sorted(found, key=repr) == sorted(model(epochs), key=repr)
    t_env.close()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"tables": {"input": "SET_SEMANTIC"}}, "there is no 'SET_SEMANTIC' of a table"),
        (
            {"tables": {"input": ["SET_SEMANTIC_TABLE", "ROW_SEMANTIC_TABLE"]}},
            "SET_SEMANTIC_TABLE or ROW_SEMANTIC_TABLE",
        ),
        ({"tables": {"input": "SET_SEMANTIC_TABLE", "other": "SET_SEMANTIC_TABLE"}}, "eval has no parameter other"),
        ({"state": {"seen": "BIGINT"}}, "the state seen is BIGINT"),
        ({"state": {"timers": "ROW<n BIGINT>"}}, "cannot be called 'timers'"),
        ({"ttl": {"seen": "1 h"}}, "ttl names 'seen'"),
        ({"tables": {"input": "ROW_SEMANTIC_TABLE"}, "changelog": True}, "belong to keys"),
        ({"result_types": None}, "are not known"),
    ],
)
def test_wrong_declarations_say_so(declared: dict[str, Any], message: str) -> None:
    with pytest.raises(SqlEngineError, match=message):

        @udptf(**{"result_types": {"n": "BIGINT"}, **declared})
        class Wrong(ProcessTableFunction):
            def eval(self, ctx: Any, input: Any) -> None:
                """Nothing."""


def test_timers_that_set_one_another_end_with_an_error() -> None:
    @udptf(result_types={"n": "BIGINT"})
    class Ticking(ProcessTableFunction):
        def eval(self, ctx: Any, input: Any) -> None:
            ctx.register_on_time(ctx.time())

        def on_timer(self, ctx: Any) -> None:
            ctx.register_on_time(ctx.time() + dt.timedelta(milliseconds=1))

    t_env = TableEnvironment.create()
    t_env.create_temporary_system_function("ticking", Ticking)
    t_env.execute_sql("CREATE TABLE t (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)")
    t_env.execute_sql("INSERT INTO t VALUES ('a', TIMESTAMP '2024-01-01 00:00:00')")
    with pytest.raises(SqlEngineError) as raised:
        list(t_env.execute_sql("SELECT * FROM ticking(TABLE t PARTITION BY k, on_time => DESCRIPTOR(ts))").collect())
    assert raised.value.code == "E2113"


def test_a_class_without_eval_is_refused() -> None:
    with pytest.raises(SqlEngineError, match="the class has no method eval"):

        @udptf(result_types={"n": "INT"})
        class Empty(ProcessTableFunction):
            pass


def test_a_row_with_a_name_that_is_no_column_is_refused() -> None:
    """A value under a wrong name would be lost."""

    class Wrong(ProcessTableFunction):
        def eval(self, ctx: Any, input: Any) -> Iterable[Any]:
            yield {"n": 1, "totl": 2}

    with TableEnvironment.create() as t_env:
        t_env.create_temporary_system_function("wrong", udptf(Wrong, result_types={"n": "INT", "total": "INT"}))
        t_env.execute_sql("CREATE TABLE t (k INT)")
        t_env.execute_sql("INSERT INTO t VALUES (1)")
        with pytest.raises(SqlEngineError, match="E2111 .* the column 'totl', and the columns are n, total"):
            t_env.execute_sql("SELECT * FROM wrong(input => TABLE t PARTITION BY k)").to_arrow()
