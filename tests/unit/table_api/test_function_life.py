"""Functions that are opened and closed, their parameters, figures and limits in time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.core.errors import SqlEngineError
from runtime.core.options import Options
from sqlengine import (
    AggregateFunction,
    AsyncScalarFunction,
    FunctionContext,
    ScalarFunction,
    TableAggregateFunction,
    TableEnvironment,
    TableFunction,
    col,
    udaf,
    udf,
    udtaf,
    udtf,
)
from sqlengine.user_functions.context import job_parameters
from tests.unit.table_api.function_program import Best, scaled

LIFE: list[str] = []


@pytest.fixture
def env() -> Iterator[TableEnvironment]:
    LIFE.clear()
    with TableEnvironment.create() as made:
        made.create_temporary_view("t", made.from_elements([(1, "a"), (2, "b"), (3, "c")], ["n", "s"]))
        yield made


def rows(env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return sorted(map(tuple, env.execute_sql(query).collect()), key=repr)


class Lived(ScalarFunction):
    def open(self, context: FunctionContext) -> None:
        self.calls = 0
        LIFE.append(f"open {context.get_task_name()} {context.get_job_parameter('who', 'nobody')}")

    def eval(self, n: int) -> int:
        self.calls += 1
        return n

    def close(self) -> None:
        LIFE.append(f"close after {self.calls}")


class Letters(TableFunction):
    def open(self, context: FunctionContext) -> None:
        self.mark = context.get_job_parameter("who", "?")

    def eval(self, text: str) -> Iterator[str]:
        yield text + self.mark


class Total(AggregateFunction):
    def open(self, context: FunctionContext) -> None:
        self.seen = context.get_metric_group().counter("seen")
        context.get_metric_group().gauge("twice", lambda: 2 * self.seen.get_count())
        context.get_metric_group().gauge("broken", lambda: 1 // 0)

    def create_accumulator(self) -> list[int]:
        return [0]

    def accumulate(self, total: list[int], n: int) -> None:
        self.seen.inc()
        total[0] += n

    def retract(self, total: list[int], n: int) -> None:
        self.seen.dec()
        total[0] -= n

    def get_value(self, total: list[int]) -> int:
        return total[0]

    def close(self) -> None:
        LIFE.append("close total")


def test_each_job_opens_its_own_and_closes_it(env: TableEnvironment) -> None:
    env.create_temporary_system_function("lived", udf(Lived()))
    env.create_temporary_system_function("letters", udtf(Letters(), result_types=["STRING"]))
    env.execute_sql("SET 'pipeline.global-job-parameters' = 'who:me,other:''a,b'''")
    assert rows(env, "SELECT lived(n) FROM t") == [(1,), (2,), (3,)]
    assert rows(env, "SELECT lived(n) FROM t WHERE n > 1") == [(2,), (3,)]
    assert [line.split()[0] for line in LIFE] == ["open", "close", "open", "close"]
    assert LIFE[1::2] == ["close after 3", "close after 2"]
    assert all(line.endswith(" me") for line in LIFE[::2])
    assert rows(env, "SELECT l FROM t, LATERAL TABLE(letters(s)) AS r (l)") == [("ame",), ("bme",), ("cme",)]


def test_a_job_that_fails_closes_too(env: TableEnvironment) -> None:
    env.create_temporary_system_function("lived", udf(Lived()))
    with pytest.raises(SqlEngineError, match="E2001|zero"):
        rows(env, "SELECT 1 / (lived(n) - 2) FROM t")
    assert LIFE[-1].startswith("close")


def test_figures_are_in_system_metrics(env: TableEnvironment) -> None:
    env.create_temporary_system_function("total", udaf(Total(), result_type="BIGINT"))
    env.create_temporary_system_function("scaled", scaled)
    env.execute_script(
        """CREATE TABLE u (n BIGINT, PRIMARY KEY (n) NOT ENFORCED);
           CREATE MATERIALIZED VIEW v AS SELECT total(n) AS s FROM u;
           CREATE MATERIALIZED VIEW w AS SELECT scaled(n) AS s FROM u;
           INSERT INTO u VALUES (1), (2), (3);
           DELETE FROM u WHERE n = 3"""
    )
    assert rows(env, "SELECT * FROM v") == [(3,)]
    assert rows(env, "SELECT * FROM w") == [(1,), (2,)]
    shown = rows(
        env,
        "SELECT name, labels['job'], labels['function'], labels['metric'], labels['part'], `value` FROM system.metrics "
        "WHERE name LIKE 'sqlengine_function%'",
    )
    assert shown == [
        ("sqlengine_function_counter", "view v", "Total", "seen", "", 2.0),
        ("sqlengine_function_counter", "view w", "Scaled", "scaled.rows", "", 4.0),
        ("sqlengine_function_distribution", "view w", "Scaled", "sizes", "count", 4.0),
        ("sqlengine_function_distribution", "view w", "Scaled", "sizes", "max", 3.0),
        ("sqlengine_function_distribution", "view w", "Scaled", "sizes", "min", 1.0),
        ("sqlengine_function_distribution", "view w", "Scaled", "sizes", "sum", 9.0),
        ("sqlengine_function_gauge", "view v", "Total", "twice", "", 4.0),
    ]
    env.execute_sql("DROP MATERIALIZED VIEW v")
    assert LIFE == ["close total"]


def test_a_gauge_that_fails_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    context = FunctionContext("f")
    figures = context.get_metric_group().add_group("of")
    figures.gauge("broken", lambda: 1 // 0)
    figures.gauge("well", lambda: 2)
    for _ in range(2):
        assert [(f.name, f.value) for f in context._figures()] == [("of.well", 2.0)]
    assert [r.getMessage() for r in caplog.records] == [
        "the gauge of.broken has no value: ZeroDivisionError: integer division or modulo by zero"
    ]


class _Empty(ScalarFunction):
    pass


class _Halved(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def accumulate(self, accumulator: int, n: int) -> int:
        return accumulator + n


class _Silent(TableAggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def accumulate(self, accumulator: int, n: int) -> int:
        return accumulator + n


@pytest.mark.parametrize(
    ("declare", "lacks"),
    [
        (lambda: udf(_Empty, result_type="INT"), "eval"),
        (lambda: udtf(_Empty, result_types=["INT"]), "eval"),
        (lambda: udaf(_Halved, result_type="INT"), "get_value"),
    ],
)
def test_a_class_that_lacks_a_method_is_refused_when_it_is_declared(declare: Any, lacks: str) -> None:
    with pytest.raises(SqlEngineError, match=f"E1512 no object of the Python class .* {lacks}"):
        declare()


def test_a_table_aggregate_gives_rows_somehow(env: TableEnvironment) -> None:
    with pytest.raises(SqlEngineError, match="E1512 .* has no method that gives the rows of a group"):
        env.create_temporary_system_function("silent", udtaf(_Silent(), result_type="ROW<n INT>"))


def test_parameters_of_jobs_are_read_as_flink_writes_maps() -> None:
    def read(text: str) -> dict[str, str]:
        return dict(job_parameters(Options({"pipeline.global-job-parameters": text})))

    assert read("") == {}
    assert read("a:1, b : 2") == {"a": "1", "b": "2"}
    assert read("url:http://x:80/") == {"url": "http://x:80/"}
    assert read("a:'x,y:z','b:c':\"it's\"") == {"a": "x,y:z", "b:c": "it's"}
    assert read("a:'it''s'") == {"a": "it's"}


def _waits(event: threading.Event) -> Any:
    def stuck(n: int) -> int:
        if n == 2:
            event.wait(60)
        return n

    return stuck


@pytest.mark.parametrize("kind", ["scalar", "table", "vector", "aggregate", "async"])
def test_a_call_may_take_so_long(env: TableEnvironment, kind: str) -> None:
    never = threading.Event()
    stuck = _waits(never)

    async def forever(n: int) -> int:
        if n == 2:
            await asyncio.Event().wait()
        return n

    class Stuck(AggregateFunction):
        def create_accumulator(self) -> int:
            return 0

        def accumulate(self, total: int, n: int) -> int:
            return total + stuck(n)

        def get_value(self, total: int) -> int:
            return total

    t = env.from_path("t")
    made = {
        "scalar": lambda: t.select(udf(stuck, result_type="BIGINT", timeout="500 ms")(col("n"))),
        "table": lambda: t.flat_map(udtf(lambda n: [stuck(n)], result_types=["BIGINT"], timeout=0.5)(col("n"))),
        "vector": lambda: t.select(
            udf(lambda n: [stuck(2)] * len(n), result_type="BIGINT", func_type="arrow", timeout=0.5)(col("n"))
        ),
        "aggregate": lambda: t.select(udaf(Stuck(), result_type="BIGINT", timeout=0.5)(col("n"))),
        "async": lambda: t.select(udf(forever, timeout=0.5)(col("n"))),
    }[kind]
    with pytest.raises(SqlEngineError, match=r"E2114 the Python function .* took longer than 0.5 s") as caught:
        made().to_arrow()
    never.set()
    if kind not in ("vector", "async"):
        assert "for (" in caught.value.message
        assert "2)" in caught.value.message
    if kind != "async":
        assert any(place.startswith("in stuck, ") and "event.wait(60)" in place for place in caught.value.trace)


def test_a_call_that_takes_too_long_may_be_rejected(env: TableEnvironment) -> None:
    never = threading.Event()
    env.create_temporary_system_function("stuck", udf(_waits(never), result_type="BIGINT"))
    env.execute_sql("SET 'sqlengine.functions.timeout' = '1 s'")
    env.execute_sql("SET 'sqlengine.functions.on-error' = 'reject'")
    assert rows(env, "SELECT stuck(n), s FROM t") == [(1, "a"), (3, "c")]
    never.set()
    ((reason, row),) = rows(env, "SELECT reason, `row` FROM system.rejected")
    assert (reason, row) == ("the Python function stuck took too long", "(2, b)")


def test_a_thread_of_a_function_ends(env: TableEnvironment) -> None:
    """Also one that was left behind, once its call is over."""
    never = threading.Event()
    stuck = udf(_waits(never), result_type="BIGINT", timeout=1, on_error="reject", name="ends")
    assert [tuple(r) for r in env.from_path("t").select(stuck(col("n"))).execute()] == [(1,), (3,)]
    never.set()
    del stuck
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if sum(t.name == "function ends" for t in threading.enumerate()) <= 1:
            break
        threading.Event().wait(0.01)
    else:
        pytest.fail("a thread stays")


def test_async_functions_are_repeated_and_bounded(env: TableEnvironment) -> None:
    tried: dict[int, int] = {}
    now, most = [0], [0]

    class Flaky(AsyncScalarFunction):
        async def eval(self, n: int) -> int:
            now[0] += 1
            most[0] = max(most[0], now[0])
            tried[n] = tried.get(n, 0) + 1
            await asyncio.sleep(0)
            now[0] -= 1
            if n == 2 and tried[n] < 3:
                raise OSError("try again")
            return n

    env.create_temporary_system_function("flaky", udf(Flaky()))
    env.execute_script(
        """SET 'table.exec.async-scalar.retry-delay' = '1 ms';
           SET 'table.exec.async-scalar.max-concurrent-operations' = '2'"""
    )
    assert rows(env, "SELECT flaky(n) FROM t") == [(1,), (2,), (3,)]
    assert tried == {1: 1, 2: 3, 3: 1}
    assert most[0] <= 2
    tried.clear()
    env.execute_sql("SET 'table.exec.async-scalar.retry-strategy' = 'NO_RETRY'")
    with pytest.raises(SqlEngineError, match="E2110.*OSError: try again"):
        rows(env, "SELECT flaky(n) FROM t")


def test_arguments_stand_as_in_pyflink(env: TableEnvironment) -> None:
    t = env.from_path("t")
    for made in (
        udf(lambda n: n + 1, "BIGINT", "BIGINT"),
        udf(lambda n: n + 1, ["BIGINT"], "BIGINT", True, "next"),
        udf(lambda n: n + 1, "ROW<a BIGINT>", "BIGINT"),
    ):
        assert [tuple(r) for r in t.select(made(col("n"))).execute()] == [(2,), (3,), (4,)]
    with pytest.raises(SqlEngineError, match="E1324.*the result type"):
        udtaf(type("Nothing", (Best,), {"get_result_type": lambda self: None})())


def test_arguments_by_name(env: TableEnvironment) -> None:
    env.create_temporary_system_function("scaled", scaled)
    assert rows(env, "SELECT scaled(times => 2, n => 5), scaled(n => 1)") == [(10, 1)]
    for query, message in (
        ("SELECT scaled(m => 1)", 'SCALED has no argument "m"'),
        ("SELECT scaled(plus => 1)", "SCALED lacks its argument n"),
        ("SELECT scaled(1, n => 1)", "the argument n of SCALED is there twice"),
    ):
        with pytest.raises(SqlEngineError, match=message):
            rows(env, query)
