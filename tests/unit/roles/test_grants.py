"""What roles may do: each kind of statement with what it needs, views, what is seen, and what becomes of privileges."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from sqlengine.database.acting import act_for
from sqlengine.parse import ddl_nodes as ddl
from sqlengine.parse import parse_script
from sqlengine.parse import statement_nodes as st
from sqlengine.roles.authority import Authority
from sqlengine.roles.outside import Outside, whole_path
from sqlengine.roles.privileges import covers
from sqlengine.shell.suggest import Suggester
from sqlengine.statements import allowed, dispatch

CODE = """
from sqlengine import udf
from sqlengine import procedure

@udf(result_type="INT")
def double(a: int) -> int:
    return a * 2

@procedure(result_type="STRING")
def hello(context) -> str:
    return "hello"
"""
SETUP = """
CREATE DATABASE d;
CREATE TABLE d.t (id INT PRIMARY KEY NOT ENFORCED, a INT);
INSERT INTO d.t VALUES (1, 10), (2, 20);
CREATE TABLE d.other (id INT);
CREATE VIEW d.v AS SELECT SUM(a) AS s FROM d.t;
CREATE MATERIALIZED VIEW d.m AS SELECT COUNT(*) AS n FROM d.t;
CREATE FUNCTION twice AS 'code_of_roles.double' LANGUAGE PYTHON;
CREATE PROCEDURE d.p AS 'code_of_roles.hello' LANGUAGE PYTHON;
CREATE CONNECTION d.c WITH ('format' = 'csv');
CREATE SEQUENCE d.n;
CREATE TABLE d.files (a INT) WITH ('connector' = 'filesystem', 'path' = '{folder}/in', 'format' = 'csv');
CREATE USER ann;
CREATE USER bob;
CREATE ROLE team;
"""
FILES = "WITH ('connector' = 'filesystem', 'path' = '{folder}/in/x', 'format' = 'csv')"
NEEDED: list[tuple[str, tuple[str, ...]]] = [
    ("SELECT * FROM d.t", ("SELECT ON d.t",)),
    ("SELECT * FROM d.v", ("SELECT ON d.v",)),
    ("SELECT * FROM d.m", ("SELECT ON d.m",)),
    ("SELECT twice(1)", ("EXECUTE ON FUNCTION twice",)),
    ("SELECT * FROM d.files", ("SELECT ON d.files",)),
    (
        "SELECT * FROM d.files /*+ OPTIONS('path' = '{folder}/other') */",
        ("OWNERSHIP ON d.files", "USAGE ON CONNECTOR filesystem", "READ ON PATH '{folder}'"),
    ),
    ("SELECT * FROM '{folder}/in/x.csv'", ("USAGE ON CONNECTOR filesystem", "READ ON PATH '{folder}/in'")),
    ("SELECT * FROM system.jobs", ("MONITOR ON SYSTEM",)),
    ("EXPLAIN SELECT * FROM d.t", ("SELECT ON d.t",)),
    ("INSERT INTO d.t VALUES (3, 1)", ("INSERT ON d.t",)),
    ("INSERT INTO d.t SELECT id, 1 FROM d.other", ("INSERT ON d.t", "SELECT ON d.other")),
    ("INSERT INTO d.t VALUES (3, 1) RETURNING id", ("INSERT ON d.t", "SELECT ON d.t")),
    ("INSERT OVERWRITE d.t VALUES (3, 1)", ("INSERT ON d.t", "DELETE ON d.t")),
    ("EXECUTE STATEMENT SET BEGIN INSERT INTO d.t VALUES (5, 1); END", ("INSERT ON d.t",)),
    ("UPDATE d.t SET a = 0", ("UPDATE ON d.t", "SELECT ON d.t")),
    ("DELETE FROM d.t WHERE id = 1", ("DELETE ON d.t", "SELECT ON d.t")),
    ("TRUNCATE TABLE d.t", ("TRUNCATE ON d.t",)),
    ("ANALYZE TABLE d.t COMPUTE STATISTICS", ("OWNERSHIP ON d.t",)),
    ("PREPARE q AS INSERT INTO d.t VALUES (?, 1)", ("INSERT ON d.t",)),
    ("COMPILE PLAN FOR INSERT INTO d.t SELECT id, 1 FROM d.other", ("INSERT ON d.t", "SELECT ON d.other")),
    ("CREATE TABLE d.n (a INT)", ("CREATE ON DATABASE d",)),
    ("CREATE TABLE d.n AS SELECT * FROM d.t", ("CREATE ON DATABASE d", "SELECT ON d.t")),
    ("CREATE TABLE d.n (b INT) LIKE d.t", ("CREATE ON DATABASE d", "SELECT ON d.t")),
    ("CREATE TABLE d.n (a INT) " + FILES, ("CREATE ON DATABASE d", "USAGE ON CONNECTOR filesystem", "READ ON PATH '{folder}/in'")),
    ("CREATE TEMPORARY TABLE n (a INT) " + FILES, ("USAGE ON CONNECTOR filesystem", "WRITE ON PATH '{folder}'")),
    ("CREATE OR REPLACE TABLE d.t AS SELECT 1 AS id", ("OWNERSHIP ON d.t",)),
    ("ALTER TABLE d.other ADD b INT", ("OWNERSHIP ON d.other",)),
    ("ALTER TABLE d.other RENAME TO d.renamed", ("OWNERSHIP ON d.other", "CREATE ON DATABASE d")),
    ("DROP TABLE d.other", ("OWNERSHIP ON d.other",)),
    ("DROP TABLE d.files", ("OWNERSHIP ON DATABASE d",)),
    ("CREATE VIEW d.w AS SELECT * FROM d.t", ("CREATE ON DATABASE d", "SELECT ON d.t")),
    ("CREATE OR REPLACE VIEW d.v AS SELECT 1 AS s", ("OWNERSHIP ON d.v",)),
    ("ALTER VIEW d.v RENAME TO d.w", ("OWNERSHIP ON d.v", "CREATE ON DATABASE d")),
    ("DROP VIEW d.v", ("OWNERSHIP ON d.v",)),
    ("CREATE MATERIALIZED VIEW d.w AS SELECT * FROM d.t", ("CREATE ON DATABASE d", "SELECT ON d.t")),
    ("CREATE OR REPLACE MATERIALIZED VIEW d.m AS SELECT 1 AS n", ("OWNERSHIP ON d.m",)),
    ("DROP MATERIALIZED VIEW d.m", ("OWNERSHIP ON d.m",)),
    ("SUBSCRIBE TO d.m", ("SELECT ON d.m",)),
    ("CREATE DATABASE e", ("CREATE ON CATALOG default_catalog",)),
    ("ALTER DATABASE d SET ('k' = 'v')", ("OWNERSHIP ON DATABASE d",)),
    ("DROP DATABASE d CASCADE", ("OWNERSHIP ON DATABASE d",)),
    ("CREATE FUNCTION f AS 'code_of_roles.double' LANGUAGE PYTHON", ("PYTHON ON SYSTEM",)),
    ("CREATE TEMPORARY FUNCTION f AS 'os.system' LANGUAGE PYTHON", ("PYTHON ON SYSTEM",)),
    ("ALTER FUNCTION twice AS 'code_of_roles.double' LANGUAGE PYTHON", ("PYTHON ON SYSTEM", "OWNERSHIP ON FUNCTION twice")),
    ("DROP FUNCTION twice", ("OWNERSHIP ON FUNCTION twice",)),
    ("COMMENT ON COLUMN d.t.a IS 'x'", ("OWNERSHIP ON d.t",)),
    ("CREATE PROCEDURE d.q AS 'code_of_roles.hello' LANGUAGE PYTHON", ("PYTHON ON SYSTEM", "CREATE ON DATABASE d")),
    ("CALL d.p()", ("EXECUTE ON PROCEDURE d.p",)),
    ("DROP PROCEDURE d.p", ("OWNERSHIP ON PROCEDURE d.p",)),
    ("CREATE MODEL d.k WITH ('provider' = 'pickle')", ("PYTHON ON SYSTEM", "CREATE ON DATABASE d")),
    ("ADD JAR '/x.jar'", ("PYTHON ON SYSTEM",)),
    ("CREATE CONNECTION d.e WITH ('format' = 'csv')", ("CREATE ON DATABASE d",)),
    ("ALTER CONNECTION d.c SET ('format' = 'json')", ("OWNERSHIP ON CONNECTION d.c",)),
    ("DROP CONNECTION d.c", ("OWNERSHIP ON CONNECTION d.c",)),
    ("CREATE SEQUENCE d.n2", ("CREATE ON DATABASE d",)),
    ("ALTER SEQUENCE d.n RESTART", ("OWNERSHIP ON SEQUENCE d.n",)),
    ("DROP SEQUENCE d.n", ("OWNERSHIP ON SEQUENCE d.n",)),
    ("SELECT NEXTVAL('d.n')", ("USAGE ON SEQUENCE d.n",)),
    ("STOP JOB 'x'", ("JOBS ON SYSTEM",)),
    ("DESCRIBE d.t", ("UPDATE ON d.t",)),
    ("SHOW CREATE TABLE d.t", ("SELECT ON DATABASE d",)),
    ("SHOW CREATE FUNCTION twice", ("EXECUTE ON FUNCTION twice",)),
    ("GRANT SELECT ON d.t TO bob", ("OWNERSHIP ON d.t",)),
    ("GRANT SELECT ON ALL TABLES IN SCHEMA d TO bob", ("OWNERSHIP ON ALL TABLES IN SCHEMA d",)),
]  # fmt: skip
CHANGES = ("ALTER", "CREATE", "DROP", "TRUNCATE", "COMMENT")
FREE = (
    "SELECT 1", "VALUES (1)", "BEGIN EPOCH", "FLUSH", "USE d", "SHOW TABLES", "SHOW GRANTS", "SHOW ROLES", "SHOW JOBS", "SET",
    "SET 'execution.runtime-mode' = 'batch'", "RESET", "CREATE TEMPORARY TABLE n (a INT)", "CREATE TEMPORARY VIEW n AS SELECT 1 AS a",
    "SELECT * FROM information_schema.tables", "DEALLOCATE ALL",
)  # fmt: skip
FOR_SUPERUSERS = (
    "BACKUP TO '/tmp/x'",
    "RESTORE FROM '/tmp/x'",
    "EXECUTE PLAN '/tmp/x'",
    "LOAD MODULE x",
    "CREATE CATALOG c WITH ('type' = 'file', 'path' = '/x')",
    "DROP CATALOG default_catalog",
    "ALTER CATALOG default_catalog COMMENT 'x'",
    "CALL sys.checkpoint()",
    "COMPILE PLAN '/tmp/x' FOR INSERT INTO d.t VALUES (1, 1)",
    "SET 'execution.checkpointing.dir' = '/etc'",
    "SET 'sqlengine.models.allow-pickle' = 'true'",
    "GRANT READ ON PATH '/' TO ann",
    "GRANT PYTHON ON SYSTEM TO ann",
    "GRANT USAGE ON CONNECTOR kafka TO ann",
    "GRANT SELECT ON CATALOG default_catalog TO ann",
    "GRANT team TO ann",
    "CREATE SECRET s AS 'value'",
    "DROP SECRET IF EXISTS s",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    found = tmp_path_factory.mktemp("code")
    (found / "code_of_roles.py").write_text(CODE)
    (found / "in").mkdir()
    (found / "other").mkdir()
    for name in ("in", "other"):
        (found / name / "x.csv").write_text("1\n")
    sys.path.insert(0, str(found))
    yield str(found.resolve())
    sys.path.remove(str(found))


@pytest.fixture
def env(folder: str) -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as found:
        for result in found.run_script(SETUP.replace("{folder}", folder)):
            result.wait()
        yield found


def as_role(env: TableEnvironment, name: str) -> TableEnvironment:
    session = env.new_session()
    act_for(session.session, Authority(env.session.database.roles, name))
    return session


def code_of(session: TableEnvironment, sql: str) -> str:
    """The code of the error of a statement; empty where there is none."""
    try:
        result = session.execute_sql(sql)
        if result.bounded and result.is_query:
            result.wait()
        result.cancel()
    except SqlEngineError as error:
        return error.code
    return ""


def names(session: TableEnvironment, sql: str) -> list[object]:
    return session.execute_sql(sql).to_arrow().column(0).to_pylist()


def test_each_statement_needs_its_privileges(env: TableEnvironment, folder: str) -> None:
    """Without one of them it is refused, with all of them it is not."""
    wrong: list[str] = []
    ann = as_role(env, "ann")
    for written, needed in NEEDED:
        sql, privileges = (written.replace("{folder}", folder), [p.replace("{folder}", folder) for p in needed])
        for left_out in privileges:
            others = [p for p in privileges if p != left_out]
            for privilege in others:
                env.execute_sql(f"GRANT {privilege} TO ann")
            if (code := code_of(ann, sql)) != "E1800":
                wrong.append(f"{written}: {code or 'carried out'} with {others} alone")
            for privilege in others:
                env.execute_sql(f"REVOKE {privilege} FROM ann")
        for privilege in privileges:
            env.execute_sql(f"GRANT {privilege} TO team")
        env.execute_sql("GRANT team TO ann")
        if sql.split()[0] in CHANGES:
            # The next cases need what it would take away.
            code = ""
            try:
                allowed.check(parse_script(sql)[0], ann.session)
            except SqlEngineError as error:
                code = error.code
        else:
            code = code_of(ann, sql)
        if code.startswith("E18"):
            wrong.append(f"{written}: {code} with {privileges}")
        for privilege in privileges:
            env.execute_sql(f"REVOKE {privilege} FROM team")
        env.execute_sql("REVOKE team FROM ann")
    assert not wrong, "\n".join(wrong)


def test_what_everybody_may_and_what_superusers_alone(env: TableEnvironment) -> None:
    for sql in FREE:
        assert code_of(as_role(env, "ann"), sql) == "", sql
    ann = as_role(env, "ann")
    for sql in FOR_SUPERUSERS:
        assert code_of(ann, sql) == "E1800", sql


def test_every_statement_is_in_the_table() -> None:
    """A new kind of statement is for superusers until it has a rule, and has a case here with it."""
    texts = (*(sql for sql, _ in NEEDED), *FREE, *FOR_SUPERUSERS)
    known = {type(s) for text in texts for s in parse_script(text)}
    roles = {st.CreateRole, st.AlterRole, st.DropRole, st.CreateToken, st.DropToken}
    alike = {
        st.RollbackEpoch, st.EndEpoch, st.ExecutePrepared, st.UseCatalog, st.UseModules, st.UnloadModule, st.RemoveJar, st.DropModel,
        st.AlterModel, st.CreateSavepoint, ddl.AlterMaterializedTable, ddl.AlterMaterializedView,
    }  # fmt: skip
    assert {t.__name__ for t in dispatch._RUN if t not in known | roles | alike} == set()
    assert set(allowed._RULES) <= {*dispatch._RUN, st.StopJob, st.CreateSavepoint, st.Call, st.ExecutePrepared}


def test_a_view_reads_what_its_owner_may(env: TableEnvironment) -> None:
    env.execute_sql("GRANT SELECT ON d.t TO ann")
    env.execute_sql("GRANT CREATE ON DATABASE d TO ann")
    ann, bob = as_role(env, "ann"), as_role(env, "bob")
    ann.execute_sql("CREATE VIEW d.inner1 AS SELECT a FROM d.t")
    ann.execute_sql("CREATE VIEW d.outer1 AS SELECT a FROM d.inner1")
    assert code_of(bob, "SELECT * FROM d.outer1") == "E1800"
    ann.execute_sql("GRANT SELECT ON d.outer1 TO bob")
    assert sorted(names(bob, "SELECT * FROM d.outer1")) == [10, 20]
    assert code_of(bob, "SELECT * FROM d.inner1") == code_of(bob, "SELECT * FROM d.t") == "E1800"
    prepared = bob.prepare("SELECT a FROM d.outer1 WHERE a > ?")
    assert prepared.execute([15]).to_arrow().column(0).to_pylist() == [20]
    # What its owner may not any more, nobody may by it; a plan that was made before is no way around.
    env.execute_sql("REVOKE SELECT ON d.t FROM ann")
    with pytest.raises(SqlEngineError, match="E1800"):
        prepared.execute([15])
    assert code_of(bob, "SELECT * FROM d.outer1") == "E1800"
    # A temporary view has the rights of its session.
    bob.execute_sql("CREATE TEMPORARY VIEW mine AS SELECT 1 AS a")
    assert names(bob, "SELECT a FROM mine") == [1]


def test_who_makes_something_owns_it(env: TableEnvironment) -> None:
    env.execute_sql("GRANT CREATE ON CATALOG default_catalog TO ann")
    ann, bob = as_role(env, "ann"), as_role(env, "bob")
    ann.execute_sql("CREATE DATABASE mine")
    ann.execute_sql("CREATE TABLE mine.x (a INT)")
    ann.execute_sql("INSERT INTO mine.x VALUES (1)").wait()
    ann.execute_sql("GRANT ALL PRIVILEGES ON mine.x TO bob, PUBLIC")
    bob.execute_sql("INSERT INTO mine.x VALUES (2)").wait()
    assert code_of(bob, "DROP TABLE mine.x") == "E1800"
    # Somebody else's table does not become the own by asking for it once more.
    assert code_of(ann, "CREATE TABLE IF NOT EXISTS d.t (a INT)") == ""
    assert code_of(ann, "DROP TABLE d.t") == "E1800"
    assert code_of(env, "DROP ROLE ann") == "E1478"
    # A name that comes again begins anew.
    ann.execute_sql("ALTER TABLE mine.x RENAME TO mine.y")
    assert code_of(bob, "SELECT * FROM mine.y") == ""
    ann.execute_sql("DROP TABLE mine.y")
    env.execute_sql("CREATE TABLE mine.y (a INT)")
    assert code_of(bob, "SELECT * FROM mine.y") == "E1800"
    assert code_of(ann, "ALTER TABLE mine.y ADD b INT") == "E1800" and code_of(ann, "DROP TABLE mine.y") == ""
    env.execute_sql("GRANT OWNERSHIP ON DATABASE mine TO bob")
    env.execute_sql("DROP ROLE ann")
    assert code_of(ann, "SELECT 1") == "" and code_of(ann, "CREATE DATABASE other") == "E1800"


def test_what_a_role_sees(env: TableEnvironment) -> None:
    ann = as_role(env, "ann")
    env.execute_sql("GRANT SELECT ON d.v TO team")
    assert names(ann, "SHOW DATABASES") == ["default_database"]
    env.execute_sql("GRANT team TO ann")
    assert names(ann, "SHOW DATABASES") == ["d", "default_database"]
    assert names(ann, "SHOW TABLES FROM d") == ["v"]
    assert "twice" not in names(ann, "SHOW USER FUNCTIONS")
    assert names(ann, "SHOW CONNECTIONS FROM d") == [] == names(ann, "SHOW MATERIALIZED VIEWS FROM d")
    assert names(ann, "SELECT table_name FROM information_schema.tables") == ["v"]
    ann.execute_sql("USE d")
    found = {s.text for s in Suggester(ann.session).suggest("SELECT * FROM ", "")}
    assert "v" in found and not {"t", "other", "m"} & found
    assert not [s for s in Suggester(ann.session).suggest("SELECT ", " FROM t") if s.kind == "column"]
    with pytest.raises(SqlEngineError) as raised:
        ann.execute_sql("SELECT * FROM othr")
    assert "other" not in str(raised.value)
    assert names(env, "SHOW TABLES FROM d") == ["files", "m", "other", "t", "v"]
    assert names(ann, "SHOW GRANTS") == ["ann", "team"]


def test_paths_and_hosts(folder: str, tmp_path: Path, env: TableEnvironment) -> None:
    (tmp_path / "link").symlink_to(Path(folder) / "other")
    env.execute_sql(f"GRANT READ ON PATH '{tmp_path}' TO ann")
    env.execute_sql("GRANT USAGE ON CONNECTOR filesystem TO ann")
    (tmp_path / "own.csv").write_text("5\n")
    ann = as_role(env, "ann")
    assert code_of(ann, f"SELECT * FROM '{tmp_path}/own.csv'") == ""
    for path in (
        f"{tmp_path}/link/x.csv",
        f"{tmp_path}/../x.csv",
        f"{tmp_path}x/y.csv",
        f"{folder}/in/x.csv",
        "/etc/passwd",
    ):
        assert code_of(ann, f"SELECT * FROM '{path}'") == "E1800", path
    own = f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/own.csv', 'format' = 'csv')"
    ann.execute_sql(f"CREATE TEMPORARY TABLE own (a INT) {own}")
    assert names(ann, "SELECT * FROM own") == [5]
    assert code_of(ann, "INSERT INTO own VALUES (1)") == "E1800"
    # What the server reaches: also for those who may do everything.
    env.session.database.outside = Outside((f"{folder}/in",), ("db.example.com", "*.internal"))
    assert code_of(env, "SELECT * FROM d.files") == ""
    assert code_of(env, f"SELECT * FROM '{folder}/other/x.csv'") == "E1801"
    (Path(folder) / "in" / "link").symlink_to(Path(folder) / "other")
    assert code_of(env, f"SELECT * FROM '{folder}/in/link/x.csv'") == "E1801"
    (Path(folder) / "in" / "link").unlink()
    assert code_of(env, f"BACKUP TO '{tmp_path}'") == "E1801"
    assert code_of(env, f"SET 'execution.checkpointing.dir' = '{tmp_path}'") == "E1801"
    for host, code in (
        ("db.example.com", ""),
        ("x.internal", ""),
        ("internal.evil.com", "E1802"),
        ("169.254.169.254", "E1802"),
    ):
        outside = env.session.database.outside
        for options in (
            {"url": f"jdbc:postgresql://{host}:5432/x"},
            {"properties.bootstrap.servers": f"db.example.com:9092,{host}:9092"},
            {"hosts": f"http://{host}"},
            {"hostname": host},
        ):
            try:
                outside.check(options)
                found = ""
            except SqlEngineError as error:
                found = error.code
            assert found == code, options


def test_catalogs_whose_host_is_a_secret() -> None:
    """What a server lets reach is asked with the values of secrets."""
    with TableEnvironment.create() as env:
        env.session.database.outside = Outside(("/in",), ("good",))
        env.execute_sql("CREATE SECRET address AS 'postgresql://evil/x'")
        env.execute_sql("CREATE SECRET place AS '/out/x.db'")
        catalog = "CREATE CATALOG c WITH ('type' = "
        assert code_of(env, f"{catalog}'postgres', 'url' = '${{secret:address}}', 'username' = 'u')") == "E1802"
        assert code_of(env, f"{catalog}'sqlite', 'path' = '${{secret:place}}')") == "E1801"


def test_whole_paths() -> None:
    for path, whole in (
        ("s3a://bucket/a/../b//c/./d/", "s3://bucket/b/c/d"),
        ("S3://user:key@bucket/../../x", "s3://bucket/x"),
        ("file:///tmp/../etc/x", "/etc/x"),
        ("/tmp/../etc/", "/etc"),
    ):
        assert whole_path(path) == whole
    assert (
        covers("/data", "/data/x")
        and covers("/data", "/data")
        and covers("/", "/x")
        and not covers("/data", "/database")
    )


def test_they_are_there_again(tmp_path: Path) -> None:
    with TableEnvironment.create(path=tmp_path / "shop") as env:
        env.execute_sql("CREATE TABLE t (a INT)")
        env.execute_sql("CREATE USER ann")
        env.execute_sql("CREATE ROLE team")
        env.execute_sql("GRANT team TO ann")
        env.execute_sql("GRANT SELECT ON t TO team")
        env.execute_sql("GRANT READ, WRITE ON PATH '/data/it''s' TO team")
        env.execute_sql("GRANT JOBS ON SYSTEM TO PUBLIC")
        env.execute_sql("GRANT CREATE ON SCHEMA default_database TO ann")
        as_role(env, "ann").execute_sql("CREATE TABLE own (a INT)")
        shown = env.execute_sql("SHOW GRANTS").to_arrow().to_pylist()
        assert len(shown) == 7
    with TableEnvironment.create(path=tmp_path / "shop") as env:
        assert env.execute_sql("SHOW GRANTS").to_arrow().to_pylist() == shown
        ann = as_role(env, "ann")
        assert code_of(ann, "SELECT * FROM t") == code_of(ann, "DROP TABLE own") == ""
        env.execute_sql("ALTER ROLE team RENAME TO crew")
        assert code_of(ann, "SELECT * FROM t") == ""
        env.execute_sql("DROP ROLE crew")
        assert code_of(ann, "SELECT * FROM t") == "E1800"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("GRANT SELECT ON nowhere TO ann", "E1202"),
        ("GRANT SELECT ON d.t TO nobody", "E1473"),
        ("GRANT SELCT ON d.t TO ann", "E1476"),
        ("GRANT EXECUTE ON d.t TO ann", "E1476"),
        ("GRANT EXECUTE ON FUNCTION abs TO ann", "E1442"),
        ("GRANT USAGE ON CONNECTOR kafkaa TO ann", "E1501"),
        ("GRANT OWNERSHIP ON d.t TO PUBLIC", "E1471"),
        ("GRANT ann TO ann", "E1475"),
        ("GRANT team TO PUBLIC", "E1471"),
        ("GRANT SELECT ON d.t ann", "E1100"),
        ("REVOKE SELECT ON d.t TO ann", "E1100"),
        ("GRANT", "E1100"),
    ],
)
def test_what_is_wrong(env: TableEnvironment, sql: str, code: str) -> None:
    assert code_of(env, sql) == code
