"""A secret stands nowhere where text is shown or kept beside state: a canary in options, URIs and JAAS texts is looked for
in every such place."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError, render
from runtime.core.secrets import MASK, is_secret, masked_source, masked_sql, masked_text, shown_value
from sqlengine import TableEnvironment
from sqlengine.cli.main import main

CANARY = "kanarienvogel"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{CANARY}";'
KAFKA = f"""WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json', 'properties.bootstrap.servers' = 'localhost:1',
  'properties.sasl.mechanism' = 'PLAIN', 'properties.sasl.jaas.config' = '{JAAS}', 'properties.sasl.password' = '{CANARY}',
  'properties.ssl.key.password' = '{CANARY}')"""
JDBC = f"""WITH ('connector' = 'cassandra', 'url' = 'jdbc:postgresql://u:{CANARY}@db/x?password={CANARY}', 'password' = '{CANARY}')"""
HINT = f"/*+ OPTIONS('properties.sasl.password' = '{CANARY}') */"


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "properties.sasl.jaas.config",
        "properties.sasl.username",
        "properties.ssl.keystore.password",
        "properties.ssl.key.password",
        "fs.s3a.access.key",
        "fs.s3a.secret.key",
        "s3.access-key",
        "api-key",
        "apikey",
        "aws.credentials.provider.basic.secretkey",
        "sas-token",
        "private.key",
        "azure.account.key",
        "client_secret",
        "sasl.oauthbearer.token.endpoint.url",
        "connection-string",
        "encryption-key",
        "fs.azure.service-key",
        "user.pass",
        "redis.auth",
        "bearer",
    ],
)
def test_keys_of_secrets(key: str) -> None:
    assert is_secret(key)
    assert shown_value(key, CANARY) == MASK


@pytest.mark.parametrize(
    "key",
    [
        "topic",
        "key.format",
        "key.fields",
        "path",
        "url",
        "properties.sasl.mechanism",
        "primary-key",
        "format",
        "author",
        "compass",
        "bypass-cache",
    ],
)
def test_keys_of_what_is_no_secret(key: str) -> None:
    assert shown_value(key, "value") == "value"


@pytest.mark.parametrize(
    "text",
    [
        f"s3://user:{CANARY}@bucket/x",
        f"s3://user:a/{CANARY}@bucket/x",
        f"s3://user:a@{CANARY}@bucket/x",
        f"s3a://{CANARY}@bucket/x",
        f"https://x.blob.core.windows.net/c?sv=1&sig={CANARY}&se=2",
        f"https://x/y?access_token={CANARY}",
        f"jdbc:mysql://root:{CANARY}@host:3306/db",
        f"jdbc:sqlserver://host;user=sa;password={CANARY};encrypt=true",
        f"postgresql://u:{CANARY}@h/db failed: connection refused",
        JAAS,
        f"password={CANARY}",
        f"https://x/y?api_key={CANARY}",
        f"AccountKey={CANARY};EndpointSuffix=core.windows.net",
    ],
)
def test_texts_with_credentials(text: str) -> None:
    shown = masked_text(text)
    assert CANARY not in shown
    assert MASK in shown
    assert CANARY not in masked_sql(f"CREATE TABLE t (a INT) WITH ('path' = '{text}')")
    assert CANARY not in masked_source(f"SELECT '{text}'")


def test_other_texts_stay() -> None:
    for text in ("s3://bucket/a=1/b", "a@b.example", "x = 5 AND token = 3", "file:///tmp/x?y=1", "k=v;a=b", ""):
        assert masked_text(text) == text
    sql = "SELECT a FROM t /*+ OPTIONS('path' = '/x', 'key.fields' = 'a') */ WHERE a = 'b'"
    assert masked_sql(sql) == sql


def test_the_caret_stays_where_it_points() -> None:
    sql = f"SELECT x FROM t /*+ OPTIONS('password' = '{CANARY}') */ WHERE nowhere"
    assert len(masked_source(sql)) == len(sql)


WITH = "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', "
NOT_SQL = [
    *(
        WITH + rest
        for rest in (
            f"'password' = '{CANARY})",
            f"'password' '{CANARY}')",
            f"'password', '{CANARY}')",
            f"'password' : '{CANARY}')",
            f"'password' == '{CANARY}')",
            f"'password' => '{CANARY}')",
            f"'password' := '{CANARY}')",
            f"'password' = {CANARY})",
            f"'password' = x@{CANARY}!)",
            f"'password' = \"{CANARY}\")",
            f"'password' = 'x' '{CANARY}')",
            f"'password' = 'x'{CANARY}')",
            f"'password' = 'x\n{CANARY}', 'topic')",
            f"'password' = N'{CANARY}')",
            f"'password' = U&'{CANARY}')",
            f"'password' = X'{CANARY}')",
            f"'password' = '{CANARY}'::STRING)",
            f"'password' /* c */ = '{CANARY}')",
            f"'password' = -- c\n '{CANARY}')",
            f"'password = '{CANARY}')",
            f"password = '{CANARY}')",
            f"`password` = '{CANARY}')",
            f'"password" = "{CANARY}")',
            f"'passwrd' = '{CANARY}')",
            f"'paswsord' = '{CANARY}')",
            f"'properties.secrt' = '{CANARY}', 'topik' = 'x')",
        )
    ),
    f"SET 'x.password' = '{CANARY}",
    f"SET x.password = {CANARY}",
    f"SET x.password = '{CANARY}'",
    f"SET 'x.password' '{CANARY}'",
    f"SET 'x.password' = {CANARY}",
    f"RESET 'x.password' = '{CANARY}'",
    f"SELECT * FROM t /*+ OPTIONS('password' '{CANARY}') */",
    f"SELECT * FROM t /*+ OPTIONS('password', '{CANARY}') */",
    f"SELECT * FROM t /*+ OPTIONS(password = '{CANARY}') */",
    f"SELECT * FROM t /*+ OPTIONS('password' = '{CANARY}'",
    f"ALTER TABLE t SET ('password' = '{CANARY}'",
    f"CREATE USER u WITH PASSWORD '{CANARY}' LOGGIN",
    f"CREATE USER u WITH PASWORD '{CANARY}'",
]


@pytest.mark.parametrize("sql", NOT_SQL)
def test_a_wrong_statement_hides_its_secret(sql: str) -> None:
    """In the line with the caret, in the message and in the hint; everything else stays where it stands."""
    with TableEnvironment.create() as env:
        shown = _shown(env, sql)
        assert "error" in shown.lower()
        assert CANARY not in shown
    masked = masked_source(sql)
    assert [len(line) for line in masked.split("\n")] == [len(line) for line in sql.split("\n")]
    assert all(a in (b, "*") for a, b in zip(masked, sql, strict=True))


def test_a_line_without_a_secret_is_shown_as_it_is() -> None:
    for sql in (
        "SELECT 'password' FORM t",
        "SELECT * FROM t WHERE kind IN ('a', 'b') ODER BY taken",
        "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' 'x')",
        "SELECT a -- 'password' = 'x'\nFORM t",
    ):
        assert masked_source(sql) == sql


def test_a_statement_as_it_is_shown() -> None:
    for shown in (
        "CREATE TABLE t (a INT) WITH ('password' = '******')",
        "CREATE TABLE t (a INT) WITH ('password' /* why */ = '******', 'x' = 'y')",
        "SELECT a FROM t /*+ OPTIONS(password = '******') */",
        "SELECT a FROM t WHERE kind IN ('password', 'x') AND password = 'x'",
    ):
        assert masked_sql(shown.replace(MASK, CANARY)) == shown


def _shown(env: TableEnvironment, sql: str) -> str:
    """All that is shown of a statement: its result as text and HTML, its summary, its warnings, or its error."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            result = env.execute_sql(sql)
            table = result.to_arrow()
            out.write(repr(table.to_pylist()))
            out.write(f"{result!r} {result.summary} {result.warnings}")
        except SqlEngineError as error:
            out.write(f"{error} {error!r} {error.message} {error.hint} {render(error)}")
    return out.getvalue()


def test_nothing_that_is_shown_has_the_canary(tmp_path: Path) -> None:
    with TableEnvironment.create() as env:
        env.execute_script(f"""
        CREATE CATALOG kept WITH ('type' = 'file', 'path' = '{tmp_path / "work.sql"}', 'token' = '{CANARY}');
        CREATE TABLE queue (a INT, `ts` TIMESTAMP(3)) {KAFKA};
        CREATE TABLE db (a INT) {JDBC};
        CREATE TABLE files (a INT) WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = 's3://u:{CANARY}@b/x');
        CREATE VIEW hinted AS SELECT a FROM queue {HINT};
        CREATE DATABASE other WITH ('secret' = '{CANARY}');
        SET 'spark.hadoop.fs.s3a.secret.key' = '{CANARY}';
        SET 'execution.checkpointing.savepoint-dir' = 's3://u:{CANARY}@bucket/savepoints'
        """)
        statements = [
            "SHOW CREATE TABLE queue",
            "SHOW CREATE TABLE db",
            "SHOW CREATE VIEW hinted",
            "SHOW CREATE CATALOG kept",
            "DESCRIBE EXTENDED queue",
            "DESCRIBE CATALOG EXTENDED kept",
            "DESCRIBE DATABASE EXTENDED other",
            "SET",
            "SELECT * FROM information_schema.table_options",
            "SELECT * FROM information_schema.views",
            "SELECT * FROM files",
            f"SELECT * FROM queue {HINT} WHERE nowhere = 1",
            f"EXPLAIN CHANGELOG_MODE, ESTIMATED_COST, STATE, JSON_EXECUTION_PLAN, PLAN_ADVICE SELECT a FROM queue {HINT}",
            "EXPLAIN JSON_EXECUTION_PLAN SELECT a FROM db",
            "EXPLAIN JSON_EXECUTION_PLAN INSERT INTO queue (a) SELECT a FROM db",
            f"CREATE TABLE wrong (a INT) WITH ('connector' = 'kafak', 'password' = '{CANARY}')",
            f"CREATE TABLE wrong (a INT) {KAFKA[:-1]}, 'topik' = 'x')",
            f"CREATE TABLE wrong (a INT) WITH ('connector' = 'filesystem', 'format' = 'json', 'pth' = 's3://u:{CANARY}@b/x')",
            f"CREATE TABLE wrong (a INT) WITH ('connector' = 's3://u:{CANARY}@b')",
            f"ALTER TABLE queue SET ('properties.sasl.password' = '{CANARY}', 'formt' = 'x')",
            f"SET 'execution.checkpointing.interval' = 's3://u:{CANARY}@b'",
            "SHOW JOBS",
            "SELECT * FROM system.jobs",
        ]
        for sql in statements:
            shown = _shown(env, sql)
            assert CANARY not in shown, f"{sql}\n{shown}"
        for name in ("queue", "db", "files"):
            found = env.session.catalogs.get((name,), None)
            assert CANARY not in repr(found)
            assert CANARY not in repr(env.session.request(found, {}, for_sink=False))  # type: ignore[arg-type]
    # The definitions in the catalog's file are the tables: who opens it again needs them whole, and nobody else reads it.
    assert (tmp_path / "work.sql").stat().st_mode & 0o077 == 0


def test_checkpoints_keep_no_secret(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("1\n2\n")
    with TableEnvironment.create({"execution.checkpointing.dir": str(tmp_path / "state")}) as env:
        env.execute_script(f"""
        CREATE TABLE a (x INT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/in.csv',
          'csv.null-literal' = 'https://x/?token={CANARY}');
        CREATE TABLE out WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{tmp_path}/out') LIKE a (EXCLUDING ALL);
        INSERT INTO out SELECT x FROM a
        """)
    kept = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert kept
    for path in kept:
        assert CANARY.encode() not in path.read_bytes(), path


def test_the_command_line_shows_no_secret(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "job.sql"
    script.write_text(
        f"CREATE TABLE queue (a INT) {KAFKA};\nCREATE TABLE db (a INT) {JDBC};\n"
        f"INSERT INTO queue SELECT a FROM db /*+ OPTIONS('password' = '{CANARY}') */;\n"
    )
    for words in (["explain", "--details", "JSON_EXECUTION_PLAN", str(script)], ["run", str(script)]):
        with contextlib.suppress(SystemExit):
            main(words)
    shown = capfd.readouterr()
    assert "INSERT INTO queue" in shown.out
    assert "E1501" in shown.err
    assert CANARY not in shown.out + shown.err
