"""A statement that needs more memory than there may be fails, and everything else goes on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from runtime.core import memory
from runtime.core.errors import MemoryLimitError
from sqlengine import SqlEngineError, TableEnvironment

_FAILS = """
import resource, sys
from runtime.core import memory
from sqlengine import SqlEngineError, TableEnvironment

limit = memory.own_bytes() + (300 << 20)
with TableEnvironment.create({"sqlengine.memory.limit": str(limit)}) as t_env:
    t_env.execute_sql("CREATE TABLE t (a BIGINT)")
    t_env.execute_sql("INSERT INTO t VALUES (1), (2)")
    t_env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s FROM t")
    t_env.execute_sql("CREATE TABLE g (a BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '500000000')")
    t_env.execute_sql("CREATE TABLE n AS SELECT a FROM g LIMIT 30000")
    try:
        t_env.execute_sql(sys.argv[1]).to_arrow()
    except SqlEngineError as error:
        print(error.code, error.__traceback__ is not None)
    t_env.execute_sql("INSERT INTO t VALUES (3)")
    print(t_env.execute_sql("SELECT s FROM v").to_arrow().to_pylist())
    print(t_env.execute_sql("SELECT COUNT(DISTINCT a) AS n FROM t").to_arrow().to_pylist())
    memory.release_free()
    print(memory.own_bytes() < limit - (150 << 20))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a process takes is measured on Linux")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, COUNT(*) FROM g GROUP BY a",
        "SELECT * FROM g",
        "INSERT INTO t SELECT a FROM g",
        "CREATE TABLE u AS SELECT a FROM g",
        "CREATE MATERIALIZED VIEW w AS SELECT x.a * 30000 + y.a AS a FROM n AS x, n AS y",
    ],
)
def test_the_process_lives_on(query: str) -> None:
    done = subprocess.run([sys.executable, "-c", _FAILS, query], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.returncode) == ("E3800 True\n[{'s': 6}]\n[{'n': 3}]\nTrue\n", 0), done.stderr


_LARGER = """
import sys
from runtime.core import memory
from sqlengine import SqlEngineError, TableEnvironment

limit = memory.own_bytes() + (600 << 20)
with TableEnvironment.create({"sqlengine.memory.limit": str(limit), "state.backend.type": sys.argv[1]}) as t_env:
    t_env.execute_sql(
        "CREATE TABLE g (a BIGINT, s STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '2000000', "
        "'fields.a.kind' = 'sequence', 'fields.a.start' = '1', 'fields.a.end' = '2000000', 'fields.s.length' = '300')"
    )
    t_env.execute_sql("CREATE TABLE t (a BIGINT, s STRING, PRIMARY KEY (a) NOT ENFORCED)")
    try:
        t_env.execute_sql("INSERT INTO t SELECT * FROM g")
    except SqlEngineError as error:
        print(error.code)
        sys.exit()
    t_env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n, SUM(CHAR_LENGTH(s)) AS s FROM t")
    t_env.execute_sql("UPDATE t SET s = 'x' WHERE MOD(a, 100) = 0")
    t_env.execute_sql("DELETE FROM t WHERE MOD(a, 100) = 1")
    print(t_env.execute_sql("SELECT COUNT(*) AS n, SUM(CHAR_LENGTH(s)) AS s FROM t").to_arrow().to_pylist())
    print(t_env.execute_sql("SELECT * FROM v").to_arrow().to_pylist())
    held = "SELECT MAX(`value`) < 100000000 AS few FROM system.metrics WHERE name = 'sqlengine_table_bytes'"
    print(t_env.execute_sql(held).to_arrow().to_pylist())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a process takes is measured on Linux")
@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ("memory", "E3800\n"),
        ("rocksdb", 2 * f"[{{'n': 1980000, 's': {1_960_000 * 300 + 20_000}}}]\n" + "[{'few': True}]\n"),
    ],
    ids=["memory", "rocksdb"],
)
def test_a_table_may_be_larger_than_memory(backend: str, said: str) -> None:
    done = subprocess.run([sys.executable, "-c", _LARGER, backend], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.returncode) == (said, 0), done.stderr


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the process is told to have no memory left."""
    now = [False]
    process = memory.ProcessMemory(
        lambda: (1 << 50) * now[0], lambda: None, iter(range(10**9)).__next__, lambda _: None
    )
    monkeypatch.setattr(memory, "_process", process)
    return now


def test_at_the_limit_rows_are_refused_and_may_be_deleted(full: list[bool]) -> None:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE TABLE t (a INT)")
        t_env.execute_sql("INSERT INTO t VALUES (1), (2)")
        t_env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT SUM(a) AS s FROM t")
        full[0] = True
        for insert in ("INSERT INTO t VALUES (3)", "INSERT INTO t SELECT a + 1 FROM t"):
            with pytest.raises(MemoryLimitError):
                t_env.execute_sql(insert)
        t_env.execute_sql("DELETE FROM t WHERE a = 1")
        assert t_env.execute_sql("SELECT s FROM v").to_arrow().to_pylist() == [{"s": 2}]
        full[0] = False
        t_env.execute_sql("INSERT INTO t VALUES (3)")
        assert t_env.execute_sql("SELECT s FROM v").to_arrow().to_pylist() == [{"s": 5}]


def test_a_job_that_has_ended_keeps_its_figures_and_no_large_state() -> None:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE TABLE g (a BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '100000')")
        t_env.execute_sql("CREATE TABLE b (a BIGINT) WITH ('connector' = 'blackhole')")
        t_env.execute_sql("INSERT INTO b SELECT a FROM g GROUP BY a").wait()
        (job,) = t_env.execute_sql(
            "SELECT state_rows, rows_out, state_bytes > 1048576 AS large FROM system.jobs"
        ).collect()
        assert tuple(job) == (100_000, 100_000, True)
        assert t_env.execute_sql("SELECT * FROM system.state").to_arrow().num_rows == 0


def test_an_unlimited_size_is_no_memory_size() -> None:
    with TableEnvironment.create() as t_env, pytest.raises(SqlEngineError, match="like '64mb'"):
        t_env.execute_sql("SET 'sqlengine.memory.limit' = 'much'")
