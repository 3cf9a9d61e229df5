"""A database in a folder: what was made there is there again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from sqlengine.user_functions.declare import udf


def twice(x: int | None) -> int | None:
    return None if x is None else 2 * x


def run(path: Path, *statements: str, config: dict[str, str] | None = None) -> None:
    with TableEnvironment.create(config, path=path) as t_env:
        for statement in statements:
            t_env.execute_sql(statement)


def rows(t_env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return sorted((tuple(r.values()) for r in t_env.execute_sql(query).to_arrow().to_pylist()), key=repr)


def asked(path: Path, query: str) -> list[tuple[object, ...]]:
    with TableEnvironment.create(path=path) as t_env:
        return rows(t_env, query)


def shown(t_env: TableEnvironment) -> dict[str, str]:
    """All definitions as SHOW CREATE says them."""
    found = {}
    for kind, plural in (("TABLE", "TABLES"), ("VIEW", "VIEWS"), ("MATERIALIZED VIEW", "MATERIALIZED VIEWS")):
        for (name,) in rows(t_env, f"SHOW {plural}"):
            try:
                (((text),),) = rows(t_env, f"SHOW CREATE {kind} `{name}`")
            except SqlEngineError:
                continue
            found[f"{kind} {name}"] = str(text)
    return found


TYPES = (
    "BOOLEAN, TINYINT, SMALLINT, INT NOT NULL, BIGINT, FLOAT, DOUBLE, DECIMAL(38, 18), CHAR(3), VARCHAR(9), STRING, BINARY(2), "
    "VARBINARY(5), BYTES, DATE, TIME, TIMESTAMP(3), TIMESTAMP(6) NOT NULL, TIMESTAMP_LTZ(3), ARRAY<INT>, "
    "ARRAY<ARRAY<STRING NOT NULL>>, MAP<STRING, INT>, ROW<a INT, `b c` ROW<d STRING>>, INTERVAL DAY TO SECOND, "
    "INTERVAL YEAR TO MONTH, MULTISET<STRING>"
)
VALUES = (
    "TRUE, CAST(1 AS TINYINT), CAST(2 AS SMALLINT), 3, CAST(4 AS BIGINT), CAST(1.5 AS FLOAT), 2.5E0, 1.000000000000000001, 'abc', "
    "'ü€', 'text', X'0102', X'03', X'0405', DATE '1969-12-31', TIME '10:20:30', TIMESTAMP '2020-01-02 03:04:05.678', "
    "TIMESTAMP '2020-01-02 03:04:05.678901', CAST(TIMESTAMP '2020-01-02 03:04:05' AS TIMESTAMP_LTZ(3)), ARRAY[1, 2], "
    "ARRAY[ARRAY['x']], MAP['k', 1], ROW(1, ROW('d')), INTERVAL '1' DAY, INTERVAL '2' MONTH, COLLECT('m')"
)


@pytest.mark.parametrize("closed", [True, False], ids=["from the checkpoint", "from the log"])
def test_values_of_all_types(tmp_path: Path, closed: bool) -> None:
    columns = ", ".join(f"c{i} {t}" for i, t in enumerate(_split(TYPES)))
    t_env = TableEnvironment.create(path=tmp_path / "db")
    t_env.execute_sql(f"CREATE TABLE t ({columns})")
    t_env.execute_sql(f"INSERT INTO t SELECT {VALUES} FROM (VALUES (1)) AS v(x)")
    t_env.execute_sql("CREATE TABLE made AS SELECT c0, c7, c19, c22 FROM t")
    expected, made, definitions = rows(t_env, "SELECT * FROM t"), rows(t_env, "SELECT * FROM made"), shown(t_env)
    assert len(expected) == 1
    if closed:
        t_env.close()
    else:
        _die(t_env)
    with TableEnvironment.create(path=tmp_path / "db") as again:
        assert rows(again, "SELECT * FROM t") == expected
        assert rows(again, "SELECT * FROM made") == made
        assert shown(again) == definitions


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for c in text:
        depth += (c in "(<") - (c in ")>")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def _die(t_env: TableEnvironment) -> None:
    """As if the process had ended: nothing more is written, and the folder is nobody's."""
    assert t_env.session.durable is not None
    t_env.session.durable.abandon()


STATEMENTS = (
    "CREATE TABLE k (id INT PRIMARY KEY NOT ENFORCED, n INT, s STRING)",
    "INSERT INTO k VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')",
    "CREATE TABLE bag (n INT)",
    "INSERT INTO bag VALUES (1), (1), (2), (CAST(NULL AS INT))",
    "CREATE TABLE app (n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)",
    "INSERT INTO app VALUES (1, TIMESTAMP '2020-01-01 00:00:00')",
    "CREATE MATERIALIZED VIEW m AS SELECT s, SUM(n) AS n FROM k GROUP BY s",
    "CREATE VIEW v (a) COMMENT 'doubled' AS SELECT n * 2 FROM bag",
    "CREATE MATERIALIZED VIEW over AS SELECT SUM(a) AS a, (SELECT COUNT(*) FROM m) AS c FROM v",
    "UPDATE k SET n = n + 1 WHERE id < 3",
    "DELETE FROM bag WHERE n = 1",
    "DELETE FROM k WHERE id = 2",
    "BEGIN EPOCH",
    "INSERT INTO k VALUES (7, 70, 'a')",
    "INSERT INTO bag VALUES (7)",
    "END EPOCH",
    "BEGIN EPOCH",
    "INSERT INTO k VALUES (8, 80, 'a')",
    "CREATE TABLE within AS SELECT 1 AS one",
    "ROLLBACK EPOCH",
    "INSERT INTO within VALUES (2)",
    "CREATE TABLE other LIKE k",
    "INSERT INTO other SELECT * FROM k",
    "ALTER TABLE other ADD (more STRING)",
    "ALTER TABLE other RENAME n TO number",
    "INSERT INTO other VALUES (9, 90, 'z', 'more')",
    "ALTER TABLE other RENAME TO another",
    "UPDATE another SET more = 'x'",
    "CREATE OR REPLACE TABLE bag2 AS SELECT n FROM bag",
    "CREATE OR REPLACE TABLE bag2 AS SELECT n + 1 AS n FROM bag2",
    "DROP TABLE within",
    "CREATE TABLE within (a STRING)",
    "CREATE TEMPORARY TABLE k (gone INT)",
    "INSERT INTO k VALUES (1)",
    "DROP TEMPORARY TABLE k",
    "TRUNCATE TABLE bag2",
    "INSERT INTO bag2 VALUES (5)",
    "CREATE OR REPLACE MATERIALIZED VIEW over AS SELECT MAX(a) AS a FROM v",
)
QUERIES = tuple(f"SELECT * FROM {t}" for t in ("k", "bag", "app", "m", "v", "over", "another", "bag2", "within"))


@pytest.mark.parametrize("size", ["1", "2kb", "64mb"])
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_after_each_statement_all_is_there_again(tmp_path: Path, size: str, closed: bool) -> None:
    """One environment carries out all statements; another is opened anew after each of them, or some."""
    config = {"sqlengine.database.checkpoint-size": size}
    whole, t_env = TableEnvironment.create(), TableEnvironment.create(config, path=tmp_path / "db")
    for number, statement in enumerate(STATEMENTS):
        whole.execute_sql(statement)
        t_env.execute_sql(statement)
        if whole.session.in_epoch or "TEMPORARY TABLE k" in statement or statement == "INSERT INTO k VALUES (1)":
            continue
        if number % 3 == 0 or number == len(STATEMENTS) - 1:
            if closed:
                t_env.close()
            else:
                _die(t_env)
            t_env = TableEnvironment.create(config, path=tmp_path / "db")
        for query in QUERIES:
            assert _answer(t_env, query) == _answer(whole, query), (statement, query)
        assert shown(t_env) == shown(whole), statement
    t_env.close()


def _answer(t_env: TableEnvironment, query: str) -> object:
    try:
        return rows(t_env, query)
    except SqlEngineError as error:
        return error.code


def test_catalogs_and_databases(tmp_path: Path) -> None:
    (tmp_path / "kept.sql").write_text("CREATE TABLE f (a INT) WITH ('connector' = 'blackhole');\n")
    run(
        tmp_path / "db",
        "CREATE DATABASE shop COMMENT 'all of it' WITH ('owner' = 'me')",
        "ALTER DATABASE shop SET ('owner' = 'you')",
        "CREATE CATALOG c COMMENT 'second' WITH ('type' = 'generic_in_memory', 'token' = 'secret')",
        "CREATE DATABASE c.d",
        "USE c.d",
        "CREATE TABLE t (a INT)",
        "INSERT INTO t VALUES (1)",
        "CREATE MATERIALIZED VIEW m AS SELECT a + 1 AS a FROM t",
        f"CREATE CATALOG f WITH ('type' = 'file', 'path' = '{tmp_path / 'kept.sql'}')",
        "CREATE DATABASE gone",
        "DROP DATABASE gone",
        "DROP DATABASE c.`default`",
        "DROP DATABASE default_catalog.default_database",
    )
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert rows(t_env, "SHOW CATALOGS") == [("c",), ("default_catalog",), ("f",)]
        assert rows(t_env, "SELECT * FROM c.d.t") == [(1,)]
        assert rows(t_env, "SELECT * FROM c.d.m") == [(2,)]
        assert rows(t_env, "SHOW DATABASES") == [("shop",)]
        assert "'owner' = 'you'" in str(rows(t_env, "SHOW CREATE DATABASE shop"))
        t_env.execute_sql("USE CATALOG f")
        assert rows(t_env, "SHOW TABLES") == [("f",)]
        t_env.execute_sql("DROP CATALOG c")
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert rows(t_env, "SHOW CATALOGS") == [("default_catalog",), ("f",)]


def test_a_view_has_the_options_that_were_set_when_it_was_made(tmp_path: Path) -> None:
    run(
        tmp_path / "db",
        "CREATE TABLE t (a TIMESTAMP_LTZ(3))",
        "INSERT INTO t VALUES (TO_TIMESTAMP_LTZ(0, 3))",
        "SET 'table.local-time-zone' = 'Asia/Tokyo'",
        "CREATE MATERIALIZED VIEW m AS SELECT CAST(a AS STRING) AS a FROM t",
    )
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert rows(t_env, "SELECT * FROM m") == [("1970-01-01 09:00:00.000",)]
        assert rows(t_env, "SELECT CAST(a AS STRING) FROM t") == [("1970-01-01 00:00:00.000",)]


def test_functions_by_path_are_kept_others_are_not(tmp_path: Path) -> None:
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        t_env.execute_sql("CREATE FUNCTION twice AS 'tests.unit.database.test_lasting.twice' LANGUAGE PYTHON")
        t_env.execute_sql("CREATE TEMPORARY FUNCTION t2 AS 'tests.unit.database.test_lasting.twice' LANGUAGE PYTHON")
        t_env.execute_sql("CREATE TABLE t (a BIGINT)")
        t_env.execute_sql("INSERT INTO t VALUES (4)")
        t_env.execute_sql("CREATE MATERIALIZED VIEW m AS SELECT twice(a) AS a FROM t")
        t_env.create_temporary_function("mine", udf(twice, result_type="BIGINT"))
        t_env.execute_sql("CREATE TEMPORARY TABLE tt (a BIGINT)")
        t_env.execute_sql("CREATE TEMPORARY VIEW tv AS SELECT mine(a) AS a FROM t")
        for query in ("SELECT mine(a) AS a FROM t", "SELECT T2(a) AS a FROM t", "SELECT * FROM tv", "SELECT * FROM tt"):
            for kind in ("VIEW", "MATERIALIZED VIEW"):
                with pytest.raises(SqlEngineError, match="is kept in the folder") as error:
                    t_env.execute_sql(f"CREATE {kind} x AS {query}")
                assert error.value.code == "E3705"
        t_env.execute_sql("CREATE VIEW x AS SELECT a FROM t")
        with pytest.raises(SqlEngineError, match="E3705"):
            t_env.execute_sql("ALTER VIEW x AS SELECT mine(a) AS a FROM t")
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert rows(t_env, "SELECT * FROM m") == [(8,)]
        assert rows(t_env, "SHOW USER FUNCTIONS") == [("twice",)] or rows(t_env, "SHOW USER FUNCTIONS") == [("TWICE",)]
        t_env.execute_sql("DROP MATERIALIZED VIEW m")
        t_env.execute_sql("DROP FUNCTION twice")
    assert asked(tmp_path / "db", "SHOW USER FUNCTIONS") == []


def test_a_view_that_cannot_be_made_again_says_why_and_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.csv").write_text("1\n2\n")
    run(
        tmp_path / "db",
        f"CREATE TABLE f (a INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'in.csv'}', 'format' = 'csv')",
        "CREATE MATERIALIZED VIEW m AS SELECT SUM(a) AS a FROM f",
        "CREATE MATERIALIZED VIEW over AS SELECT a + 1 AS a FROM m",
        "CREATE FUNCTION f1 AS 'tests.unit.database.test_lasting.twice' LANGUAGE PYTHON",
        "CREATE TABLE t (a BIGINT)",
        "CREATE MATERIALIZED VIEW calls AS SELECT f1(a) AS a FROM t",
    )
    told: list[str] = []
    monkeypatch.setattr("sqlengine.statements.lasting.tell", told.append)
    monkeypatch.setattr("sqlengine.statements.lasting_views.tell", told.append)
    with monkeypatch.context() as patch:
        patch.delattr("tests.unit.database.test_lasting.twice")
        for _ in range(2):
            with TableEnvironment.create(path=tmp_path / "db") as t_env:
                assert [text.split(" is kept")[0] for text in told] == [
                    "the function F1",
                    "the materialized view default_catalog.default_database.calls",
                ]
                told.clear()
                with pytest.raises(SqlEngineError, match="unknown function F1") as error:
                    t_env.execute_sql("SELECT * FROM calls")
                assert error.value.code == "E1713"
                assert ("calls",) in rows(t_env, "SHOW MATERIALIZED VIEWS")
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        t_env.flush()
        assert rows(t_env, "SELECT * FROM calls") == []
        assert rows(t_env, "SELECT * FROM over") == [(4,)]
        t_env.execute_sql("DROP MATERIALIZED VIEW calls")


def test_a_view_that_a_materialized_view_reads_stays(tmp_path: Path) -> None:
    run(
        tmp_path / "db",
        "CREATE TABLE t (a INT)",
        "CREATE VIEW v AS SELECT a FROM t",
        "CREATE VIEW w AS SELECT a FROM v",
        "CREATE MATERIALIZED VIEW m AS SELECT a FROM w",
    )
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        for statement in ("DROP VIEW v", "ALTER VIEW v AS SELECT 1 AS a", "ALTER VIEW w RENAME TO x"):
            with pytest.raises(SqlEngineError, match='read by the materialized view "m"'):
                t_env.execute_sql(statement)
        t_env.execute_sql("DROP MATERIALIZED VIEW m")
        t_env.execute_sql("DROP VIEW w")


@pytest.mark.filterwarnings("ignore:job-1 ends with the process")
def test_what_a_background_job_writes_is_kept(tmp_path: Path) -> None:
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        for statement in (
            "CREATE TABLE a (n INT)",
            "CREATE TABLE b (n INT, PRIMARY KEY (n) NOT ENFORCED)",
            "CREATE TABLE g (n INT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', "
            "'fields.n.end' = '50')",
        ):
            t_env.execute_sql(statement)
        t_env.session.harness.inserts_follow = True
        job = t_env.execute_sql("INSERT INTO b SELECT n FROM a ON CONFLICT DO DEDUPLICATE")
        t_env.execute_sql("INSERT INTO a VALUES (1), (2)")
        t_env.execute_sql("INSERT INTO a VALUES (3)")
        while len(rows(t_env, "SELECT * FROM b")) < 3:
            pass
        job.cancel()
        _die(t_env)
    assert asked(tmp_path / "db", "SELECT * FROM b") == [(1,), (2,), (3,)]


def test_only_one_may_have_it_open(tmp_path: Path) -> None:
    with TableEnvironment.create(path=tmp_path / "db"):
        with pytest.raises(SqlEngineError, match="is open already: process") as error:
            TableEnvironment.create(path=tmp_path / "db")
        assert error.value.code == "E3701"
        assert error.value.hint is not None and "new_session()" in error.value.hint
    TableEnvironment.create(path=tmp_path / "db").close()


def test_folders_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").write_text("")
    for name in ("file", "full"):
        with pytest.raises(SqlEngineError) as error:
            TableEnvironment.create(path=tmp_path / name)
        assert error.value.code == "E3706"
    assert sorted(p.name for p in (tmp_path / "full").iterdir()) == ["thing"]


def test_nobody_else_reads_it(tmp_path: Path) -> None:
    run(tmp_path / "db", "CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)")
    assert all(p.stat().st_mode & 0o077 == 0 for p in [tmp_path / "db", *(tmp_path / "db").rglob("*")])


def test_a_key_signs_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a" * 32)
    (tmp_path / "other").write_text("b" * 32)
    config = {"execution.checkpointing.key-file": str(tmp_path / "key")}
    run(tmp_path / "db", "CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)", config=config)
    with TableEnvironment.create(config, path=tmp_path / "db") as t_env:
        t_env.execute_sql("INSERT INTO t VALUES (2)")
        assert rows(t_env, "SELECT * FROM t") == [(1,), (2,)]
        _die(t_env)
    with pytest.raises(SqlEngineError, match="key") as error:
        TableEnvironment.create({"execution.checkpointing.key-file": str(tmp_path / "other")}, path=tmp_path / "db")
    assert error.value.code == "E3702"
    with TableEnvironment.create(config, path=tmp_path / "db") as t_env:
        assert rows(t_env, "SELECT * FROM t") == [(1,), (2,)]


def test_checkpoints_write_what_has_changed(tmp_path: Path) -> None:
    config = {"sqlengine.database.checkpoint-size": "1"}
    with TableEnvironment.create(config, path=tmp_path / "db") as t_env:
        t_env.execute_sql("CREATE TABLE large (a INT)")
        t_env.execute_sql("CREATE TABLE k (a INT PRIMARY KEY NOT ENFORCED, b INT)")
        t_env.execute_sql("INSERT INTO large VALUES " + ", ".join(f"({i})" for i in range(500)))
    large = {p.name for p in (tmp_path / "db" / "checkpoints").glob("state*")}
    with TableEnvironment.create(config, path=tmp_path / "db") as t_env:
        for number in range(60):
            t_env.execute_sql(f"INSERT INTO k VALUES ({number % 3}, {number})")
            t_env.session.durable.folder._wait()  # type: ignore[union-attr]
    files = {p.name: p.stat().st_size for p in (tmp_path / "db" / "checkpoints").glob("state*")}
    assert large & set(files)
    assert sum(files.values()) < 200_000
    assert len(list((tmp_path / "db" / "log").iterdir())) == 1
    assert len(asked(tmp_path / "db", "SELECT * FROM large")) == 500
    assert asked(tmp_path / "db", "SELECT * FROM k") == [(0, 57), (1, 58), (2, 59)]
    assert Counter(p.suffix for p in (tmp_path / "db" / "checkpoints").iterdir())[".json"] == 1


def test_a_backup_is_a_database_and_is_restored(tmp_path: Path) -> None:
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        for statement in STATEMENTS:
            t_env.execute_sql(statement)
        t_env.execute_sql("CREATE FUNCTION f AS 'tests.unit.database.test_lasting.twice' LANGUAGE PYTHON")
        t_env.execute_sql("CREATE DATABASE more")
        expected = [_answer(t_env, query) for query in QUERIES], shown(t_env)
        t_env.execute_sql("BEGIN EPOCH")
        t_env.execute_sql("INSERT INTO bag VALUES (1000)")
        count = t_env.execute_sql(f"BACKUP TO '{tmp_path / 'saved'}'").to_arrow().to_pylist()[0]["rows"]
        t_env.execute_sql("END EPOCH")
        with pytest.raises(SqlEngineError, match="something already") as error:
            t_env.execute_sql(f"BACKUP TO '{tmp_path / 'saved'}'")
        assert error.value.code == "E3708"
        with pytest.raises(SqlEngineError, match="has the table k already"):
            t_env.execute_sql(f"RESTORE FROM '{tmp_path / 'saved'}'")
    assert count == sum(len(a) for q, a in zip(QUERIES, expected[0], strict=True) if q[14:] not in ("m", "v", "over"))
    for closed in (False, True):
        t_env = TableEnvironment.create(path=tmp_path / f"again-{closed}")
        t_env.execute_sql(f"RESTORE FROM '{tmp_path / 'saved'}'")
        assert ([_answer(t_env, query) for query in QUERIES], shown(t_env)) == expected
        t_env.execute_sql("INSERT INTO k VALUES (100, 100, 'new')")
        if closed:
            t_env.close()
        else:
            _die(t_env)
        with TableEnvironment.create(path=tmp_path / f"again-{closed}") as t_env:
            assert (100, 100, "new") in rows(t_env, "SELECT * FROM k")
            assert shown(t_env) == expected[1] and ("more",) in rows(t_env, "SHOW DATABASES")
            assert rows(t_env, "SELECT f(CAST(2 AS BIGINT))") == [(4,)]
    with TableEnvironment.create(path=tmp_path / "saved") as t_env:
        assert ([_answer(t_env, query) for query in QUERIES], shown(t_env)) == expected


def test_backups_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(SqlEngineError) as error:
        TableEnvironment.create().execute_sql(f"BACKUP TO '{tmp_path / 'b'}'")
    assert error.value.code == "E3709"
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        with pytest.raises(SqlEngineError, match="no database at") as error:
            t_env.execute_sql(f"RESTORE FROM '{tmp_path / 'nowhere'}'")
        assert error.value.code == "E3706"
        t_env.execute_sql(f"BACKUP TO '{tmp_path / 'b'}'")
        (manifest,) = (tmp_path / "b" / "checkpoints").glob("manifest*")
        manifest.write_bytes(manifest.read_bytes()[:-1])
        with pytest.raises(SqlEngineError, match="is damaged") as error:
            t_env.execute_sql(f"RESTORE FROM '{tmp_path / 'b'}'")
        assert error.value.code == "E3702"


def test_a_damaged_checkpoint_is_made_up_for_by_the_one_before_where_the_log_reaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash right after a checkpoint leaves the one before, and the log between them."""
    t_env = TableEnvironment.create(path=tmp_path / "db")
    for statement in ("CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)"):
        t_env.execute_sql(statement)
    t_env.close()
    with monkeypatch.context() as patch:
        patch.setattr("sqlengine.database.folder.checkpoint.remove_others", lambda storage, manifest: 1 / 0)
        t_env = TableEnvironment.create(path=tmp_path / "db")
        t_env.execute_sql("INSERT INTO t VALUES (2)")
        t_env.close()
    newest = max((tmp_path / "db" / "checkpoints").glob("manifest*"))
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-2])
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        assert rows(t_env, "SELECT * FROM t") == [(1,), (2,)]
        _die(t_env)
    newest.write_bytes(whole[:-2])
    for path in sorted((tmp_path / "db" / "log").iterdir())[:-1]:
        path.unlink()
    with pytest.raises(SqlEngineError) as error:
        TableEnvironment.create(path=tmp_path / "db")
    assert error.value.code == "E3702"


def test_all_ways_to_write_rows(tmp_path: Path) -> None:
    with TableEnvironment.create(path=tmp_path / "db") as t_env:
        t_env.execute_sql("CREATE TABLE t (a INT)")
        t_env.execute_sql("INSERT INTO t VALUES (?)", rows=[[1], [2]])
        t_env.execute_sql("INSERT INTO t VALUES (?)", [3])
        t_env.prepare("INSERT INTO t VALUES (:a)").execute({"a": 4})
        t_env.from_elements([(5,)], {"a": "INT"}).execute_insert("t").wait()
        t_env.execute_sql("PREPARE p AS INSERT INTO t VALUES (?)")
        t_env.execute_sql("EXECUTE p(6)")
        t_env.execute_sql("EXECUTE STATEMENT SET BEGIN INSERT INTO t VALUES (7); INSERT INTO t VALUES (8); END")
        t_env.execute_sql("EXPLAIN ANALYZE INSERT INTO t VALUES (9)")
        expected = rows(t_env, "SELECT * FROM t")
        _die(t_env)
    assert {(n,) for n in range(1, 9)} <= set(expected)
    assert asked(tmp_path / "db", "SELECT * FROM t") == expected


def test_what_was_interrupted_while_it_was_logged_stops_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t_env = TableEnvironment.create(path=tmp_path / "db")
    t_env.execute_sql("CREATE TABLE t (a INT)")
    t_env.execute_sql("INSERT INTO t VALUES (1)")

    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sqlengine.database.folder.stored.State.add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            t_env.execute_sql("INSERT INTO t VALUES (2)")
    with pytest.raises(SqlEngineError) as error:
        t_env.execute_sql("SELECT * FROM t")
    assert error.value.code == "E3704"
    with pytest.raises(SqlEngineError):
        t_env.close()
    assert asked(tmp_path / "db", "SELECT * FROM t") in ([(1,)], [(1,), (2,)])


def test_options_of_the_database_are_given_when_it_is_opened(tmp_path: Path) -> None:
    t_env = TableEnvironment.create(path=tmp_path / "db")
    with pytest.raises(SqlEngineError, match="is read when the database is opened"):
        t_env.execute_sql("SET 'sqlengine.database.synchronous' = 'off'")
    t_env.close()
    with pytest.raises(SqlEngineError, match="it is one of: 'full', 'normal', 'off'"):
        TableEnvironment.create({"sqlengine.database.synchronous": "never"}, path=tmp_path / "db")
