"""`system.log` shows the checkpoints of a database in a folder, and what each epoch of its log has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.core.errors import DatabaseError
from sqlengine import TableEnvironment
from sqlengine.database.folder import changes

COLUMNS = "SELECT epoch, kind, type, object, `rows`, synced FROM system.log"
T = "default_catalog.default_database.t"


def log(env: TableEnvironment) -> list[tuple]:
    return [tuple(row) for row in env.execute_sql(COLUMNS)]


def test_each_epoch_says_what_it_has_changed(tmp_path: Path) -> None:
    with TableEnvironment.create(path=tmp_path / "db") as env:
        env.execute_sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, x STRING)")
        env.execute_sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        env.execute_sql("UPDATE t SET x = 'c' WHERE id = 1")
        env.execute_sql("CREATE VIEW v AS SELECT x FROM t")
        env.execute_sql("DROP VIEW v")
        shown = log(env)
        begin = next(epoch for epoch, kind, _, name, *_ in shown if (kind, name) == ("definition", T))
        v = T[:-1] + "v"
        assert [row for row in shown if row[0] >= begin and row[2] not in ("catalog", "database")] == [
            (begin, "definition", "table", T, None, True),
            (begin + 1, "rows", "table", T, 2, True),
            (begin + 2, "rows", "table", T, 1, True),
            (begin + 3, "definition", "view", v, None, True),
            (begin + 4, "drop", "view", v, None, True),
        ]
        assert shown[0][1] == "checkpoint"
        (size, file), *_ = (
            tuple(row) for row in env.execute_sql("SELECT bytes, file FROM system.log WHERE `rows` = 2")
        )
        assert 0 < size < (tmp_path / "db" / file).stat().st_size
    with TableEnvironment.create(path=tmp_path / "db") as env:
        assert log(env) == [(begin + 4, "checkpoint", None, None, 2, True)]
        env.execute_sql("INSERT INTO t VALUES (3, 'd')")
        assert log(env)[1:] == [(begin + 5, "rows", "table", T, 1, True)]


def test_an_epoch_of_many_rows_is_one_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_BODY_BYTES", 1 << 12)
    monkeypatch.setattr(changes, "_BATCH_ROWS", 300)
    with TableEnvironment.create(path=tmp_path / "db") as env:
        env.execute_sql("CREATE TABLE t (id BIGINT)")
        env.execute_sql("INSERT INTO t VALUES " + ", ".join(f"({i})" for i in range(5000)))
        assert [row[1:5] for row in log(env) if row[1] == "rows"] == [("rows", "table", T, 5000)]


def test_what_is_not_synced_says_so(tmp_path: Path) -> None:
    with TableEnvironment.create({"sqlengine.database.synchronous": "normal"}, path=tmp_path / "db") as env:
        env.execute_sql("CREATE TABLE t (id INT)")
        env.execute_sql("INSERT INTO t VALUES (1)")
        assert {row[-1] for row in log(env) if row[1] in ("definition", "rows")} == {False}


def test_a_database_in_memory_has_no_log() -> None:
    with TableEnvironment.create() as env:
        env.execute_sql("CREATE TABLE t (id INT)")
        env.execute_sql("INSERT INTO t VALUES (1)")
        assert log(env) == []
        assert "log" in [row[0] for row in env.execute_sql("SHOW TABLES FROM system")]


def test_damage_is_told(tmp_path: Path) -> None:
    with TableEnvironment.create(path=tmp_path / "db") as env:
        env.execute_sql("CREATE TABLE t (id INT)")
        env.execute_sql("INSERT INTO t VALUES (1)")
        env.execute_sql("INSERT INTO t VALUES (2)")
        (file,) = {row[0] for row in env.execute_sql("SELECT file FROM system.log WHERE kind = 'rows'")}
        whole = (tmp_path / "db" / file).read_bytes()
        at = whole.index(b"default_catalog")
        (tmp_path / "db" / file).write_bytes(whole[:at] + b"D" + whole[at + 1 :])
        with pytest.raises(DatabaseError) as raised:
            log(env)
        assert raised.value.code == "E3702"
        (tmp_path / "db" / file).write_bytes(whole)
