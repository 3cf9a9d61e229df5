"""What a job of a database uses cannot be dropped, replaced or changed as long as the job is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.core.errors import CatalogError
from sqlengine import TableEnvironment
from tests.unit.database.test_kept_jobs import FILES, STORED, opened

MODULE = "def half(n: int) -> int:\n    return n // 2\n"
CHANGES = (
    "DROP TABLE g",
    "DROP TABLE IF EXISTS g",
    "DROP TABLE s",
    "ALTER TABLE g RENAME TO h",
    "ALTER TABLE g SET ('path' = 'elsewhere')",
    "ALTER TABLE s RENAME TO h",
    "ALTER TABLE s ADD more INT",
    "REPLACE TABLE g AS SELECT 1 AS n",
    "CREATE OR REPLACE TABLE s AS SELECT 1 AS n",
    "DROP VIEW v",
    "ALTER VIEW v RENAME TO w",
    "ALTER VIEW v AS SELECT n + 1 AS n FROM g",
    "DROP DATABASE d CASCADE",
)


@pytest.fixture
def t_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TableEnvironment]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "in").mkdir()
    with opened("CREATE DATABASE d", "USE d", FILES, STORED, "CREATE VIEW v AS SELECT n FROM g") as t_env:
        yield t_env


def refused(t_env: TableEnvironment, statement: str, job: str = "job-1") -> None:
    with pytest.raises(CatalogError) as caught:
        t_env.execute_sql(statement)
    assert caught.value.code == "E1410"
    assert f'by the job "{job}"' in caught.value.message
    assert f"STOP JOB '{job}'" in (caught.value.hint or "")


def test_what_a_job_reads_or_writes_stays(t_env: TableEnvironment) -> None:
    t_env.execute_sql("INSERT INTO s SELECT n FROM v")
    for change in CHANGES:
        refused(t_env, change)
    with TableEnvironment.create(path="other") as other:
        other.execute_sql("CREATE TABLE s (n BIGINT)")
        other.execute_sql("DROP TABLE s")
    t_env.execute_sql("CREATE TEMPORARY TABLE s (a INT)")
    t_env.execute_sql("ALTER TABLE s ADD b INT")
    t_env.execute_sql("DROP TEMPORARY TABLE s")
    t_env.execute_sql("STOP JOB 'job-1'")
    for change in ("ALTER TABLE s ADD more INT", "DROP VIEW v", "DROP TABLE s", "DROP TABLE g"):
        t_env.execute_sql(change)


def test_it_stays_after_the_database_was_opened_again(t_env: TableEnvironment) -> None:
    t_env.execute_sql("INSERT INTO s SELECT n FROM v")
    t_env.close()
    with opened("USE d") as again:
        for change in CHANGES:
            refused(again, change)


def test_a_catalog_in_which_a_job_writes_stays(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE CATALOG c WITH ('type' = 'generic_in_memory')")
    t_env.execute_sql("CREATE TABLE c.`default`.s (n BIGINT)")
    t_env.execute_sql("INSERT INTO c.`default`.s SELECT n FROM g")
    refused(t_env, "DROP CATALOG c")
    t_env.execute_sql("STOP JOB 'job-1'")
    t_env.execute_sql("DROP CATALOG c")


def test_a_function_that_a_job_calls_stays(t_env: TableEnvironment, tmp_path: Path) -> None:
    (tmp_path / "halves.py").write_text(MODULE)
    t_env.execute_sql("CREATE FUNCTION half AS 'halves.half' LANGUAGE PYTHON")
    t_env.execute_sql("INSERT INTO s SELECT CAST(half(n) AS BIGINT) FROM g")
    refused(t_env, "DROP FUNCTION half")
    refused(t_env, "ALTER FUNCTION Half AS 'halves.other' LANGUAGE PYTHON")
    t_env.execute_sql("STOP JOB 'job-1'")
    t_env.execute_sql("DROP FUNCTION half")
