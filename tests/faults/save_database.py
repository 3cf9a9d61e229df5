"""Writes what this version keeps of a database in a folder, to be opened by all later ones.

    python -m tests.faults.save_database 0.1.0

makes `tests/faults/databases/0.1.0.zip`: a database as a kill leaves it, with a checkpoint and a log behind it, and what
was seen in it. Run it once, when a version is released or the format changes; a file that is there is never written
again.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment

__all__ = ["DATABASES", "MODIFIED", "come", "seen", "twice", "until_counted"]

DATABASES = Path(__file__).with_name("databases")

TYPES = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT NOT NULL", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(38, 18)", "CHAR(3)",
    "VARCHAR(9)", "STRING", "BINARY(2)", "VARBINARY(5)", "BYTES", "DATE", "TIME", "TIMESTAMP(3)", "TIMESTAMP(6) NOT NULL",
    "TIMESTAMP_LTZ(3)", "ARRAY<INT>", "ARRAY<ARRAY<STRING NOT NULL>>", "MAP<STRING, INT>",
    "ROW<a INT, `b c` ROW<d STRING>>", "INTERVAL DAY TO SECOND", "INTERVAL YEAR TO MONTH", "MULTISET<STRING>",
)  # fmt: skip
VALUES = (
    "TRUE, CAST(1 AS TINYINT), CAST(2 AS SMALLINT), 3, CAST(4 AS BIGINT), CAST(1.5 AS FLOAT), 2.5E0, 1.000000000000000001, "
    "'abc', 'ü€', 'text', X'0102', X'03', X'0405', DATE '1969-12-31', TIME '10:20:30', TIMESTAMP '2020-01-02 03:04:05.678', "
    "TIMESTAMP '2020-01-02 03:04:05.678901', CAST(TIMESTAMP '2020-01-02 03:04:05' AS TIMESTAMP_LTZ(3)), ARRAY[1, 2], "
    "ARRAY[ARRAY['x']], MAP['k', 1], ROW(1, ROW('d')), INTERVAL '1' DAY, INTERVAL '2' MONTH, COLLECT('m')"
)
JOB = "INSERT INTO counted SELECT n % 2, COUNT(*) FROM stream GROUP BY n % 2"
"""It is running when the database is opened again."""
IN_THE_CHECKPOINT = (
    f"CREATE TABLE types ({', '.join(f'c{i} {t}' for i, t in enumerate(TYPES))})",
    f"INSERT INTO types SELECT {VALUES} FROM (VALUES (1)) AS v(x)",
    "CREATE TABLE k (id INT PRIMARY KEY NOT ENFORCED, n INT COMMENT 'how many', s STRING) COMMENT 'by key'",
    "INSERT INTO k VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')",
    "CREATE TABLE bag (n INT) WITH ('changelog-mode' = 'retract')",
    "INSERT INTO bag VALUES (1), (1), (2), (CAST(NULL AS INT))",
    "CREATE TABLE app (n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)",
    "INSERT INTO app VALUES (1, TIMESTAMP '2020-01-01 00:00:00'), (2, TIMESTAMP '2020-01-01 00:01:30')",
    "CREATE FUNCTION twice AS 'tests.faults.save_database.twice' LANGUAGE PYTHON",
    "CREATE TABLE f (n INT) WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv')",
    "CREATE VIEW v (a) COMMENT 'doubled' AS SELECT twice(n) FROM bag",
    "CREATE MATERIALIZED VIEW m AS SELECT s, SUM(n) AS n, MAX(n) AS x FROM k GROUP BY s",
    "CREATE MATERIALIZED VIEW above AS SELECT SUM(a) AS a, (SELECT COUNT(*) FROM m) AS c FROM v",
    "CREATE MATERIALIZED VIEW outside AS SELECT SUM(n) AS n FROM f",
    "CREATE MATERIALIZED VIEW pairs AS SELECT k.id, b.n FROM k JOIN bag AS b ON k.id = b.n",
    "CREATE MATERIALIZED VIEW minutes AS SELECT window_start, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE app, DESCRIPTOR(ts), "
    "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end",
    "SET 'table.local-time-zone' = 'Asia/Tokyo'",
    "CREATE MATERIALIZED VIEW zone AS SELECT CAST(c18 AS STRING) AS a FROM types",
    "SET 'table.local-time-zone' = 'UTC'",
    "CREATE CATALOG c COMMENT 'second' WITH ('type' = 'generic_in_memory')",
    "CREATE DATABASE c.d COMMENT 'all of it' WITH ('owner' = 'me')",
    "CREATE TABLE c.d.t AS SELECT id, n FROM k",
    "CREATE TABLE stream (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'stream', 'format' = 'csv', "
    "'source.monitor-interval' = '10 ms')",
    "CREATE TABLE counted (r BIGINT PRIMARY KEY NOT ENFORCED, c BIGINT)",
    JOB,
)
IN_THE_LOG = (
    "UPDATE k SET n = n + 1 WHERE id < 3",
    "DELETE FROM bag WHERE n = 1",
    "DELETE FROM k WHERE id = 3",
    "BEGIN EPOCH",
    "INSERT INTO k VALUES (7, 70, 'a')",
    "INSERT INTO bag VALUES (7), (2)",
    "END EPOCH",
    "INSERT INTO app VALUES (3, TIMESTAMP '2020-01-01 00:02:30')",
    "CREATE TABLE other LIKE k",
    "INSERT INTO other SELECT * FROM k",
    "ALTER TABLE other ADD (more STRING)",
    "ALTER TABLE other RENAME TO another",
    "UPDATE another SET more = 'x'",
    "CREATE MATERIALIZED VIEW late AS SELECT COUNT(*) AS c FROM another",
    "CREATE TABLE gone (a INT)",
    "INSERT INTO gone VALUES (1)",
    "DROP TABLE gone",
    "INSERT INTO c.d.t VALUES (100, 1)",
)
QUERIES = (
    "types", "k", "bag", "app", "v", "m", "above", "outside", "pairs", "minutes", "zone", "c.d.t", "another", "late",
    "counted",
)  # fmt: skip
SHOWN = (
    "SHOW CATALOGS", "SHOW DATABASES", "SHOW TABLES", "SHOW VIEWS", "SHOW MATERIALIZED VIEWS", "SHOW USER FUNCTIONS",
    "SHOW CREATE DATABASE c.d", "SHOW CREATE TABLE k", "SHOW CREATE TABLE app", "SHOW CREATE TABLE another",
    "SHOW CREATE VIEW v", "SHOW CREATE MATERIALIZED VIEW m",
)  # fmt: skip
ALL = (*(f"SELECT * FROM {name}" for name in QUERIES), *SHOWN)
MODIFIED = 1_700_000_000_000_000_000
"""When the job's files were changed last, nanoseconds: sources remember it."""


def twice(x: int | None) -> int | None:
    """A function that is found by its path."""
    return None if x is None else 2 * x


def come(name: str, *numbers: int) -> None:
    """A file for the job."""
    hidden = Path("stream", f"_{name}")
    hidden.write_text("".join(f"{n}\n" for n in numbers))
    os.utime(hidden, ns=(MODIFIED, MODIFIED))
    hidden.rename(Path("stream", f"{name}.csv"))


def until_counted(t_env: TableEnvironment, expected: int) -> None:
    """Wait until the job has counted so many rows."""
    count = "SELECT SUM(c) AS c FROM counted"
    while t_env.execute_sql(count).to_arrow().to_pylist() != [{"c": expected}]:
        assert not t_env.session.jobs.failed


def seen(t_env: TableEnvironment, queries: Iterable[str] = ALL) -> dict[str, list[str]]:
    """All that can be seen of the database, by query."""
    t_env.flush()
    found: dict[str, list[str]] = {}
    for query in queries:
        try:
            found[query] = sorted(map(repr, t_env.execute_sql(query).to_arrow().to_pylist()))
        except SqlEngineError as error:
            raise AssertionError(query) from error
    return found


def _main(version: str) -> None:
    target = DATABASES / f"{version}.zip"
    if target.exists():
        sys.exit(f"{target} is there already")
    DATABASES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("in.csv").write_text("1\n2\n")
        Path("stream").mkdir()
        come("a", 1, 2, 3)
        with TableEnvironment.create(path="db") as t_env:
            for statement in IN_THE_CHECKPOINT:
                t_env.execute_sql(statement)
        t_env = TableEnvironment.create(path="db")
        for statement in IN_THE_LOG:
            t_env.execute_sql(statement)
        come("b", 4)
        until_counted(t_env, 4)
        Path("seen.json").write_text(json.dumps(seen(t_env), indent=1))
        assert t_env.session.durable is not None
        t_env.session.durable.abandon()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as packed:
            for path in sorted(p for p in Path().rglob("*") if p.is_file()):
                packed.write(path)


if __name__ == "__main__":
    _main(sys.argv[1])
