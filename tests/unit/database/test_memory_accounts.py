"""`system.memory`: the account grows with what somebody holds, and goes back when that goes."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.core import memory
from runtime.core.memory import MemoryAccount
from sqlengine import TableEnvironment

GENERATED = """CREATE TABLE g (id BIGINT, k INT, s STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{rows}', 'fields.s.length' = '20')"""


@pytest.fixture
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        made.execute_sql(GENERATED.format(rows=20_000))
        yield made


def accounts(t_env: TableEnvironment) -> list[MemoryAccount]:
    gc.collect()
    return [
        MemoryAccount(*row.values()) for row in t_env.execute_sql("SELECT * FROM system.memory").to_arrow().to_pylist()
    ]


def of(t_env: TableEnvironment, kind: str, part: str = "") -> int:
    return sum(a.bytes for a in accounts(t_env) if a.owner_kind == kind and a.part.startswith(part))


def test_a_table_takes_what_its_rows_take_and_gives_it_back(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE t (id BIGINT PRIMARY KEY NOT ENFORCED, k INT, s STRING)")
    t_env.execute_sql("INSERT INTO t SELECT * FROM g WHERE id <= 10000")
    rows, index = of(t_env, "TABLE", "rows"), of(t_env, "TABLE", "index")
    assert 10_000 * 36 <= rows <= 10_000 * 50
    assert 10_000 * 16 <= index <= 10_000 * 100
    t_env.execute_sql("INSERT INTO t SELECT * FROM g WHERE id > 10000")
    assert 1.9 * rows <= of(t_env, "TABLE", "rows") <= 2.2 * rows
    (whole,) = [a for a in accounts(t_env) if a.part == "rows"]
    assert (whole.owner, whole.rows, whole.process, whole.disk_bytes) == (
        "default_catalog.default_database.t",
        20_000,
        "driver",
        0,
    )
    t_env.execute_sql("DELETE FROM t WHERE id > 1000")
    assert of(t_env, "TABLE", "rows") < rows / 5
    t_env.execute_sql("DROP TABLE t")
    assert of(t_env, "TABLE") == 0


def test_rows_in_files_are_on_the_disk() -> None:
    with TableEnvironment.create({"state.backend.type": "rocksdb"}) as t_env:
        t_env.execute_sql(GENERATED.format(rows=100_000))
        t_env.execute_sql("CREATE TABLE t (id BIGINT, k INT, s STRING)")
        t_env.execute_sql("INSERT INTO t SELECT * FROM g")
        (rows,) = [a for a in accounts(t_env) if a.part == "rows"]
        assert rows.bytes < 200_000
        assert rows.disk_bytes >= 100_000 * 36


def test_a_view_takes_its_answer_and_the_state_of_its_operators(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE t (id BIGINT, k INT, s STRING)")
    t_env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    t_env.execute_sql("INSERT INTO t SELECT * FROM g")
    assert t_env.execute_sql("SELECT COUNT(*) AS n FROM v").to_arrow().to_pylist() == [{"n": 20_000}]
    assert of(t_env, "VIEW", "rows") >= 20_000 * 28
    assert of(t_env, "VIEW", "state of GroupAggregate") >= 20_000 * 36
    assert {a.owner for a in accounts(t_env) if a.owner_kind == "VIEW"} == {"default_catalog.default_database.v"}
    t_env.execute_sql("DROP MATERIALIZED VIEW v")
    assert of(t_env, "VIEW") == 0


def test_changes_that_gather_for_a_view_count_once(t_env: TableEnvironment) -> None:
    """What a table and a view that has still to take it hold both is the table's."""
    t_env.execute_sql("CREATE TABLE t (id BIGINT, k INT, s STRING)")
    t_env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    t_env.execute_sql("INSERT INTO t SELECT * FROM g WHERE id <= 3000")
    account = {(a.owner_kind, a.part): a.bytes for a in t_env.session.database.memory_accounts.accounts()}
    assert ("TABLE", "rows") in account
    assert not [part for kind, part in account if kind == "VIEW" and part.startswith("input")]


def test_the_rows_of_an_open_epoch_are_the_sessions(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE t (id BIGINT, k INT, s STRING)")
    t_env.execute_sql("BEGIN EPOCH")
    t_env.execute_sql("INSERT INTO t SELECT * FROM g")
    found = [a for a in accounts(t_env) if a.owner_kind == "SESSION"]
    assert [(a.owner, a.part, a.rows) for a in found] == [
        (str(t_env.session.number), "changes of default_catalog.default_database.t", 20_000)
    ]
    assert found[0].bytes >= 20_000 * 36
    t_env.execute_sql("END EPOCH")
    assert of(t_env, "SESSION") == 0
    assert of(t_env, "TABLE", "rows") >= 20_000 * 36


def test_a_query_takes_its_state_as_long_as_it_is_read(t_env: TableEnvironment) -> None:
    changes = t_env.execute_sql("SELECT s, COUNT(*) AS n FROM g GROUP BY s").changes()
    next(changes)
    assert of(t_env, "QUERY", "state of GroupAggregate") >= 20_000 * 36
    changes.close()
    assert of(t_env, "QUERY", "state of GroupAggregate") == 0


def test_a_job_takes_its_state_until_it_has_ended(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE b (s STRING, n BIGINT) WITH ('connector' = 'blackhole')")
    texts = t_env.create_input("texts", {"s": "STRING"})
    result = t_env.execute_sql("INSERT INTO b SELECT s, COUNT(*) FROM texts GROUP BY s")
    assert result.job is not None
    texts.push([{"s": f"a text of twenty {n}"} for n in range(5000)])
    while result.job.dataflow.state_rows < 5000:
        result.job.between_epochs(lambda: None).result()
    assert of(t_env, "JOB", "state of GroupAggregate") >= 5000 * 36
    assert {a.owner for a in accounts(t_env) if a.owner_kind == "JOB"} == {result.job.name}
    texts.close()
    result.wait()
    assert of(t_env, "JOB") == 0


@pytest.mark.skipif(sys.platform != "linux", reason="what a process takes is measured on Linux")
def test_the_account_adds_up_to_what_is_measured(t_env: TableEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlengine.database.memory_accounts.own_bytes", lambda: 1 << 40)
    t_env.execute_sql("CREATE TABLE t AS SELECT * FROM g")
    found = accounts(t_env)
    assert sum(a.bytes for a in found if a.process == "driver") == 1 << 40
    assert Counter(a.owner_kind for a in found)["PROCESS"] == 1


_GROWTH = """
import gc
from runtime.core import memory
from sqlengine import TableEnvironment

def measured():
    gc.collect()
    memory.release_free()
    return memory.own_bytes()

with TableEnvironment.create() as t_env:
    t_env.execute_sql("CREATE TABLE w (a BIGINT, s STRING, PRIMARY KEY (a) NOT ENFORCED)")
    t_env.execute_sql("INSERT INTO w VALUES (1, 'a')")
    t_env.execute_sql("CREATE MATERIALIZED VIEW x AS SELECT s, COUNT(*) AS n FROM w GROUP BY s")
    before = measured()
    t_env.execute_sql(
        "CREATE TABLE g (a BIGINT, s STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '800000', "
        "'fields.a.kind' = 'sequence', 'fields.a.start' = '1', 'fields.a.end' = '800000', 'fields.s.length' = '60')"
    )
    t_env.execute_sql("CREATE TABLE t (a BIGINT, s STRING, PRIMARY KEY (a) NOT ENFORCED)")
    t_env.execute_sql("INSERT INTO t SELECT * FROM g")
    t_env.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    grown = measured() - before
    accounts = t_env.session.database.memory_accounts.accounts()
    print(grown > 150 << 20, 0.6 < sum(a.bytes for a in accounts if a.owner_kind != "PROCESS") / grown < 1.4)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a process takes is measured on Linux")
def test_the_account_explains_most_of_what_a_process_grows_by(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _GROWTH], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("True True\n", 0), done.stderr


def test_the_account_keeps_neither_the_database_nor_jobs() -> None:
    t_env = TableEnvironment.create()
    known = t_env.session.database.memory_accounts
    t_env.execute_sql("SELECT 1 AS a").to_arrow()
    t_env.close()
    assert known.accounts() is not None
    del t_env
    gc.collect()
    assert known.accounts() == []


def test_the_error_at_the_limit_names_the_largest_owners(
    t_env: TableEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, rows in (("small", 100), ("larger", 20_000), ("largest", 20_000)):
        t_env.execute_sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY NOT ENFORCED, s STRING)")
        t_env.execute_sql(
            f"INSERT INTO {name} SELECT id, REPEAT(s, {3 if name == 'largest' else 2}) FROM g WHERE id <= {rows}"
        )
    process = memory.ProcessMemory(lambda: 1 << 50, lambda: None, iter(range(10**9)).__next__, lambda _: None)
    monkeypatch.setattr(memory, "_process", process)
    with pytest.raises(
        memory.MemoryLimitError,
        match=r"owners are table default_catalog\.default_database\.largest \(\d MiB\), table \S+\.larger \(\d MiB\); set ",
    ) as refused:
        t_env.execute_sql("INSERT INTO small VALUES (1, 'a')")
    assert "FROM system.memory" in (refused.value.hint or "")
