"""CALL: the procedures of the engine, and those of users."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connectors.filesystem import compaction
from runtime.core.errors import SqlEngineError
from sqlengine import ProcedureContext, TableEnvironment, procedure

FORMATS = ("csv", "json", "parquet", "orc")
COLUMNS = "id INT, s STRING, at TIMESTAMP(3)"


@pytest.fixture
def t_env() -> TableEnvironment:
    return TableEnvironment.create()


def rows(t_env: TableEnvironment, sql: str, parameters: Any = None) -> list[Any]:
    return [tuple(r.values()) for r in t_env.execute_sql(sql, parameters).to_arrow().to_pylist()]


def contents(t_env: TableEnvironment, table: str = "f") -> list[str]:
    return sorted(map(str, rows(t_env, f"SELECT * FROM {table}")))


def files_table(t_env: TableEnvironment, path: Path, form: str, more: str = "", columns: str = COLUMNS) -> None:
    options = f"'connector' = 'filesystem', 'path' = '{path}', 'format' = '{form}'"
    t_env.execute_sql(f"CREATE TABLE f ({columns}) {more} WITH ({options})")


@pytest.mark.parametrize("form", FORMATS)
def test_small_files_go_together_and_rows_stay(t_env: TableEnvironment, tmp_path: Path, form: str) -> None:
    files_table(t_env, tmp_path / "f", form, "PARTITIONED BY (id)")
    for i in range(4):
        t_env.execute_sql(
            f"INSERT INTO f VALUES ({i % 2}, 'a\"b, c{i}', TIMESTAMP '2020-01-01 00:00:00.12'), (7, NULL, NULL)"
        )
    before = contents(t_env)
    found = rows(t_env, "CALL sys.compact('f')")
    assert found == [("id=0", 2, 1, 0), ("id=1", 2, 1, 0), ("id=7", 4, 1, 0)]
    assert contents(t_env) == before
    assert rows(t_env, "CALL sys.compact(`table` => 'f', target_size => '1 mb')") == []
    t_env.execute_sql("INSERT INTO f VALUES (7, 'last', NULL)")
    assert rows(t_env, "CALL sys.compact('f', '10 b')") == []
    assert len(contents(t_env)) == len(before) + 1


def test_what_the_table_does_not_declare_stays_in_the_files(t_env: TableEnvironment, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    for i in range(2):
        pq.write_table(pa.table({"id": [i], "more": ["x"]}), folder / f"{i}.parquet")
    pq.write_table(pa.table({"id": [2]}), folder / "other.parquet")
    files_table(t_env, folder, "parquet", columns="id BIGINT")
    assert rows(t_env, "CALL sys.compact('f')") == [(None, 3, 2, 0)]
    assert sorted(pq.read_table(folder).column("id").to_pylist()) == [0, 1, 2]
    (made,) = folder.glob("compacted-*")
    assert pq.read_table(made).to_pydict() == {"id": [0, 1], "more": ["x", "x"]}


def test_lines_stay_apart_and_odd_files_stay(t_env: TableEnvironment, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "a.csv").write_bytes("\ufeff1,a".encode())
    (folder / "b.csv").write_bytes(b'2,"b\n')
    (folder / "c.csv").write_bytes("\ufeff3,c\r\n".encode())
    (folder / "d.csv").write_bytes(b"")
    files_table(t_env, folder, "csv", columns="id INT, s STRING")
    assert rows(t_env, "CALL sys.compact('f')") == [(None, 4, 2, 0)]
    assert (folder / "b.csv").exists()
    (made,) = folder.glob("compacted-*")
    assert made.read_bytes() == b"1,a\n3,c\r\n"


def test_a_header_stands_once(t_env: TableEnvironment, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    for name, head in (("a", "id,s"), ("b", "id,s"), ("c", "s,id")):
        (folder / f"{name}.csv").write_text(f"{head}\n1,2\n")
    t_env.execute_sql(
        f"CREATE TABLE f (id INT, s INT) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv',"
        " 'csv.header' = 'true')"
    )
    before = contents(t_env)
    assert rows(t_env, "CALL sys.compact('f')") == [(None, 3, 2, 0)]
    assert contents(t_env) == before


def test_files_of_a_job_that_may_go_on_stay(tmp_path: Path) -> None:
    state = tmp_path / "state"
    t_env = TableEnvironment.create({"execution.checkpointing.dir": str(state)})
    files_table(t_env, tmp_path / "f", "csv", columns="id INT")
    t_env.execute_sql("INSERT INTO f VALUES (1)").wait()
    t_env.execute_sql(
        f"CREATE TABLE g (id INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'g'}', 'format' = 'csv')"
    )
    TableEnvironment.create().execute_script(
        f"CREATE TABLE f (id INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'f'}', 'format' = 'csv');"
        "INSERT INTO f VALUES (2); INSERT INTO f VALUES (3)"
    )
    (before,) = (p for p in os.listdir(state))
    assert rows(t_env, "CALL sys.compact('f')") == [(None, 3, 2, 1)]
    assert contents(t_env) == ["(1,)", "(2,)", "(3,)"]
    call = "CALL sys.expire_checkpoints(older_than => CURRENT_TIMESTAMP + INTERVAL '1' DAY, dry_run => {})"
    (shown,) = rows(t_env, call.format("TRUE"))
    assert shown[1] == str(state / before)
    assert rows(t_env, call.format("FALSE")) == [shown]
    assert rows(t_env, call.format("FALSE")) == []
    assert rows(t_env, "CALL sys.compact('f')") == [(None, 2, 1, 0)]


def test_a_call_that_died_is_finished_by_the_next(
    t_env: TableEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files_table(t_env, tmp_path / "f", "csv", columns="id INT")
    for i in range(3):
        t_env.execute_sql(f"INSERT INTO f VALUES ({i})")

    class Dead(BaseException):
        pass

    def dies_after(count: int) -> Callable[[str, str], None]:
        done: list[str] = []

        def rename(old: str, new: str) -> None:
            if len(done) == count:
                raise Dead
            done.append(old)
            real(old, new)

        return rename

    real = os.rename
    for count in range(4):
        # Nothing puts the files back, as when the process is killed.
        with monkeypatch.context() as patched, pytest.raises(Dead):
            patched.setattr(compaction.os, "rename", dies_after(count))
            patched.setattr(compaction, "remove_file", lambda path: None)
            rows(t_env, "CALL sys.compact('f')")
        assert not t_env.execute_sql("CALL sys.compact('f', '1 b')").to_arrow().num_rows
        assert contents(t_env) == ["(0,)", "(1,)", "(2,)"]
    with monkeypatch.context() as patched:
        patched.setattr(compaction, "remove_file", lambda path: None)
        rows(t_env, "CALL sys.compact('f')")
    assert contents(t_env) == ["(0,)", "(1,)", "(2,)"]
    rows(t_env, "CALL sys.compact('f')")
    assert len(os.listdir(tmp_path / "f")) == 1


@pytest.mark.parametrize(
    ("options", "code"),
    [("'source.monitor-interval' = '1 s'", "E1604"), ("'format' = 'debezium-json'", "E1604")],
)
def test_a_table_that_cannot_be_compacted(t_env: TableEnvironment, tmp_path: Path, options: str, code: str) -> None:
    form = "" if "format" in options else ", 'format' = 'csv'"
    t_env.execute_sql(
        f"CREATE TABLE f (id INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', {options}{form})"
    )
    with pytest.raises(SqlEngineError) as caught:
        t_env.execute_sql("CALL sys.compact('f')")
    assert caught.value.code == code


def test_a_job_in_the_way_and_its_savepoints(t_env: TableEnvironment, tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    files_table(t_env, tmp_path / "f", "csv", columns="id INT")
    t_env.execute_sql("CREATE TABLE nowhere (id INT) WITH ('connector' = 'blackhole')")
    job = t_env.execute_sql("INSERT INTO nowhere SELECT * FROM f /*+ OPTIONS('source.monitor-interval' = '1 s') */")
    with pytest.raises(SqlEngineError, match="E1719 job-1 follows the folder of f"):
        t_env.execute_sql("CALL sys.compact('f')")
    t_env.execute_sql(f"SET 'execution.checkpointing.savepoint-dir' = '{tmp_path / 'saved'}'")
    first, second = (rows(t_env, "CALL sys.savepoint(?)", ["job-1"])[0][0] for _ in range(2))
    assert rows(t_env, f"CALL sys.savepoint('job-1', path => '{tmp_path / 'kept'}')") == [(str(tmp_path / "kept"),)]
    Path(first, "notes.txt").write_text("mine")
    call = "CALL sys.expire_savepoints(CURRENT_TIMESTAMP + INTERVAL '1' DAY, retain => {})"
    assert [r[1] for r in rows(t_env, call.format(1))] == [first]
    assert os.listdir(first) == ["notes.txt"] and os.path.exists(second)
    with pytest.raises(SqlEngineError, match="E1500"):
        t_env.execute_sql(call.format(-1))
    assert rows(t_env, "CALL sys.expire_savepoints(TIMESTAMP_LTZ '2020-01-01 00:00:00', retain => 0)") == []
    (stopped,) = rows(t_env, "CALL sys.stop_job('job-1', savepoint => TRUE)")
    assert stopped[0] == "job-1" and os.path.exists(stopped[1])
    job.wait()
    assert [r[1] for r in rows(t_env, call.format(0))] == [second, stopped[1]]


def test_a_database_keeps_procedures_with_a_path(tmp_path: Path) -> None:
    path = "tests.unit.environment.procedures_of_users.one"
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        t_env.execute_sql(f"CREATE PROCEDURE one AS '{path}' LANGUAGE PYTHON")
        t_env.create_procedure("other", lambda context: None)
        assert t_env.list_procedures() == ["one", "other"]
        assert rows(t_env, "CALL sys.checkpoint()")[0][0] >= 1
        t_env.execute_sql("CREATE TABLE t (a INT)")
        t_env.execute_sql("INSERT INTO t VALUES (1)")
        assert rows(t_env, f"CALL sys.backup('{tmp_path / 'copy'}')") == [(str(tmp_path / "copy"), 1)]
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert t_env.list_procedures() == ["one"]
        assert rows(t_env, "CALL one(1)") == [(1, "two"), (2, "times")]
        t_env.drop_procedure("one")
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert t_env.list_procedures() == []


def test_procedures_of_a_program(t_env: TableEnvironment) -> None:
    def add(context: ProcedureContext, a: int, b: int = 1) -> list[int]:
        return [a + b]

    t_env.create_procedure("add", add)
    t_env.create_procedure("default_database.add", add, ignore_if_exists=True)
    t_env.create_temporary_procedure("own", add)
    with pytest.raises(SqlEngineError, match="E1401"):
        t_env.create_procedure("add", add)
    other = t_env.new_session()
    assert rows(other, "CALL add(1, b => ?)", [5]) == [(6,)]
    assert rows(t_env, "CALL own(?)", [7]) == [(8,)]
    with pytest.raises(SqlEngineError, match="E1460"):
        other.execute_sql("CALL own(1)")
    t_env.drop_temporary_procedure("own")
    with t_env.prepare("CALL add(:a)") as prepared:
        assert [tuple(row) for n in range(3) for row in prepared.execute({"a": n})] == [(1,), (2,), (3,)]


def test_rows_that_do_not_fit(t_env: TableEnvironment) -> None:
    @procedure(result_type={"a": "INT"})
    def wrong(context: ProcedureContext) -> object:
        return [("x",)]

    t_env.create_procedure("wrong", wrong)
    with pytest.raises(SqlEngineError, match="E1325"):
        t_env.execute_sql("CALL wrong()")


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (lambda: 1, "its parameters are"),
        (int, "has to be a Procedure"),
        (lambda *a: 1, "its parameters are"),
        (3, "cannot be called"),
    ],
)
def test_what_is_no_procedure(t_env: TableEnvironment, thing: Any, message: str) -> None:
    with pytest.raises(SqlEngineError, match=f"E1512 .*{message}"):
        t_env.create_procedure("p", thing)
