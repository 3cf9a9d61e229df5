"""Secrets by name: a marked one goes through everything, and stands in nothing that is shown or written."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError, render
from runtime.core.secrets import MASK, masked_source, masked_sql
from sqlengine import TableEnvironment
from sqlengine.database.acting import act_for
from sqlengine.roles.authority import Authority
from sqlengine.roles.secret import Secret

MARK = "nachtigall-7f3a"


def shown(env: TableEnvironment, sql: str) -> str:
    """All that is shown of a statement: its rows, its summary and warnings, or its error with the line."""
    try:
        result = env.execute_sql(sql)
        rows = result.to_arrow().to_pylist() if result.bounded else []
        return f"{rows} {result!r} {result.summary} {result.warnings}"
    except SqlEngineError as error:
        return f"{error!r} {render(error)} {error.message} {error.hint} {error.text and masked_source(error.text)}"


def code_of(env: TableEnvironment, sql: str) -> str:
    try:
        env.execute_sql(sql).to_arrow()
    except SqlEngineError as error:
        return error.code
    return ""


def test_a_marked_secret_stands_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MARKED", MARK)
    caplog.set_level(logging.DEBUG)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.csv").write_text(f"1\n{MARK}\n3\n")
    plan, points, home = tmp_path / "plan.json", tmp_path / "points", tmp_path / "home"
    files = "'connector' = 'filesystem', 'format' = 'csv'"
    texts: list[str] = []
    with TableEnvironment.create({"execution.checkpointing.dir": str(points)}, path=home) as env:
        env.execute_sql("CREATE SECRET mark AS '${env:MARKED}'")
        for sql in (
            f"CREATE TABLE t (a INT) WITH ({files}, 'path' = '{tmp_path}/in', 'csv.null-literal' = '${{secret:mark}}')",
            f"CREATE TABLE out1 (a INT) WITH ({files}, 'path' = '{tmp_path}/out')",
            "CREATE CONNECTION c WITH ('password' = '${secret:mark}', 'format' = 'csv')",
            "CREATE VIEW v AS SELECT * FROM t",
            "CREATE MATERIALIZED VIEW m AS SELECT COUNT(*) AS n, COUNT(a) AS k FROM t",
        ):
            assert "'OK'" in shown(env, sql), shown(env, sql)
        env.execute_sql("INSERT INTO out1 SELECT a FROM t").wait()
        assert env.execute_sql("SELECT n, k FROM m").to_arrow().to_pylist() == [{"n": 3, "k": 2}]
        for sql in (
            "SHOW SECRETS",
            "SHOW CREATE TABLE t",
            "SHOW CREATE CONNECTION c",
            "DESCRIBE EXTENDED t",
            "DESCRIBE CONNECTION c",
            "SELECT * FROM information_schema.table_options",
            "SELECT * FROM system.metrics",
            "SELECT * FROM system.log",
            "SELECT * FROM system.jobs",
            "EXPLAIN SELECT * FROM t",
            "EXPLAIN ESTIMATED_COST, CHANGELOG_MODE, PLAN_ADVICE, JSON_EXECUTION_PLAN SELECT * FROM t",
            "EXPLAIN STATE SELECT COUNT(*) FROM t",
            "EXPLAIN INSERT INTO out1 SELECT a FROM t",
            f"COMPILE PLAN '{plan}' FOR INSERT INTO out1 SELECT a FROM t",
            "COMPILE PLAN FOR INSERT INTO out1 SELECT a FROM t",
            # A connector that quotes what it cannot use.
            "SELECT * FROM t /*+ OPTIONS('csv.field-delimiter' = '${secret:mark}') */",
            "SELECT * FROM t /*+ OPTIONS('format' = '${secret:mark}') */",
            "SELECT * FROM t /*+ OPTIONS('path' = '/nowhere/${secret:mark}') */",
            "SELECT * FROM t /*+ OPTIONS('nonsense' = '${secret:mark}') */",
            f"CREATE SECRET again AS '{MARK}'",
            f"CREATE SECRET mark AS '{MARK}'",
            f"CREATE SECRET AS '{MARK}'",
            f"ALTER SECRET mark TO '{MARK}'",
            f"ALTER SECRET nobody AS '{MARK}",
        ):
            texts.append(shown(env, sql))
        texts.append(env.metrics_text())
        texts.append(repr(env.session.database.roles.secrets) + repr(env.session.catalogs.frozen()))
    for sql in (f"CREATE SECRET s AS '{MARK}'", f"ALTER SECRET s AS 'it''s {MARK}'", f"create secret s as '{MARK}"):
        texts += [masked_sql(sql), masked_source(sql)]
        assert len(masked_source(sql)) == len(sql)
    for number, text in enumerate(texts):
        assert MARK not in text, (number, text)
    assert MARK not in caplog.text
    out, err = capfd.readouterr()
    assert MARK not in out + err
    kept = [path for path in (*home.rglob("*"), *points.rglob("*"), plan) if path.is_file()]
    assert len(kept) > 3
    for path in kept:
        assert MARK.encode() not in path.read_bytes(), path
    # It is there again, because it is known where it is.
    with TableEnvironment.create(path=home) as env:
        assert env.execute_sql("SELECT COUNT(a) AS k FROM t").to_arrow().to_pylist() == [{"k": 2}]
        monkeypatch.delenv("MARKED")
        assert code_of(env, "SELECT * FROM t") == "E1531"
        assert code_of(env, "CREATE SECRET plain AS 'written-down'") == "E3711"


def test_values_names_and_files(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("1\n2\n")
    (tmp_path / "name").write_text(f"{tmp_path}/in.csv\n")
    with TableEnvironment.create() as env:
        env.execute_sql(f"CREATE SECRET folder AS '{tmp_path}'")
        env.execute_sql("CREATE SECRET IF NOT EXISTS folder AS 'other'")
        table = "CREATE TEMPORARY TABLE {} (a INT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}')"
        env.execute_sql(table.format("t", "${secret:folder}/in.csv"))
        env.execute_sql(table.format("u", f"${{file:{tmp_path}/name}}"))
        assert env.execute_sql("SELECT COUNT(*) AS n FROM t JOIN u ON t.a = u.a").to_arrow().to_pylist()[-1]["n"] == 2
        assert MASK in shown(env, "EXPLAIN SELECT * FROM t") or str(tmp_path) not in shown(
            env, "EXPLAIN SELECT * FROM t"
        )
        env.execute_sql("ALTER SECRET folder AS '/nowhere-at-all'")
        assert code_of(env, "SELECT * FROM t") != ""
        env.execute_sql("DROP SECRET folder")
        env.execute_sql("DROP SECRET IF EXISTS folder")
        for sql, code in (
            ("SELECT * FROM t", "E1531"),
            ("DROP SECRET folder", "E1473"),
            ("ALTER SECRET folder AS 'xxxxx'", "E1473"),
            ("CREATE SECRET short AS 'abc'", "E1500"),
            ("CREATE SECRET x AS 1", "E1100"),
            (f"SELECT * FROM u /*+ OPTIONS('path' = '${{file:{tmp_path}/none}}') */", "E1531"),
        ):
            assert code_of(env, sql) == code, sql
    assert repr(Secret("s", "abcdef")) == "Secret(s)"
    with pytest.raises(TypeError):
        Secret("s", "abcdef").__reduce__()


def test_who_may_use_one(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("1\n")
    (tmp_path / "key").write_text("key-of-the-server\n")
    with TableEnvironment.create() as env:
        env.execute_sql(f"CREATE SECRET folder AS '{tmp_path}'")
        env.execute_sql("CREATE USER ann")
        for right in (
            "CREATE ON SCHEMA default_database",
            "USAGE ON CONNECTOR filesystem",
            f"READ ON PATH '{tmp_path}'",
        ):
            env.execute_sql(f"GRANT {right} TO ann")
        ann = env.new_session()
        act_for(ann.session, Authority(env.session.database.roles, "ann"))
        make = "CREATE TEMPORARY TABLE {} (a INT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{}')"
        assert code_of(ann, "CREATE SECRET mine AS 'something'") == "E1800"
        assert code_of(ann, "SHOW SECRETS") == "" and ann.execute_sql("SHOW SECRETS").to_arrow().num_rows == 0
        env.execute_sql("GRANT USAGE ON SECRET folder TO ann")
        assert ann.execute_sql("SHOW SECRETS").to_arrow().num_rows == 1
        own = "CREATE TABLE own (a INT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '${secret:folder}/in.csv')"
        assert code_of(ann, own) == code_of(ann, "SELECT * FROM own") == code_of(env, "SELECT * FROM own") == ""
        env.execute_sql("REVOKE USAGE ON SECRET folder FROM ann")
        assert code_of(ann, "SELECT * FROM own") == "E1800"
        for number, option in enumerate(("${secret:folder}/in.csv", f"${{file:{tmp_path}/key}}", "${env:HOME}")):
            assert code_of(ann, make.format(f"t{number}", option)) == "E1800"
