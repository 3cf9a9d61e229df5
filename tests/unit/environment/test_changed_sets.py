"""Which statements find the checkpoints of a set of INSERTs, and which would write rows again."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.core.errors import CheckpointError
from sqlengine import TableEnvironment

TABLES = "ab"
ROWS = ["1", "2", "3"]


def run(folder: Path, *statements: str, fresh: bool = False, name: str = "") -> None:
    """A process of its own that runs the statements over the same tables."""
    settings = {"execution.checkpointing.dir": str(folder / "state"), "pipeline.name": name}
    with TableEnvironment.create({k: v for k, v in settings.items() if v}, fresh=fresh) as t_env:
        (folder / "numbers.csv").write_text("1\n2\n3\n")
        for table, path in [("numbers", "numbers.csv"), *((t, t) for t in TABLES)]:
            t_env.execute_sql(
                f"CREATE TABLE {table} (n INT) WITH ('connector' = 'filesystem', 'path' = '{folder / path}', 'format' = 'csv')"
            )
        for statement in statements:
            t_env.execute_sql(statement).wait()


def insert(table: str) -> str:
    return f"INSERT INTO {table} SELECT n FROM numbers"


def together(*tables: str) -> str:
    return f"EXECUTE STATEMENT SET BEGIN {'; '.join(insert(t) for t in tables)}; END"


def written(folder: Path, table: str) -> list[str]:
    files = [f for f in (folder / table).glob("*") if not f.name.startswith((".", "_"))]
    return sorted(line for f in files for line in f.read_text().splitlines())


@pytest.mark.parametrize(("first", "then"), [(insert("a"), together("a", "b")), (together("a", "b"), insert("b"))])
def test_a_set_with_other_tables_does_not_write_rows_again(tmp_path: Path, first: str, then: str) -> None:
    run(tmp_path, first)
    before = [written(tmp_path, t) for t in TABLES]
    with pytest.raises(CheckpointError, match=r"E3412 .* was filled by another job[^$]*SET 'pipeline.name' = '.*'"):
        run(tmp_path, then)
    assert [written(tmp_path, t) for t in TABLES] == before
    run(tmp_path, then, name="anew")
    assert written(tmp_path, "b") == sorted(ROWS * (2 if before[1] else 1))
    run(tmp_path, then, fresh=True)


def test_jobs_of_one_script_and_of_other_tables_are_not_disturbed(tmp_path: Path) -> None:
    for _ in range(2):
        run(tmp_path, insert("a"), insert("a"), insert("b"))
    assert written(tmp_path, "a") == sorted(ROWS * 2) and written(tmp_path, "b") == ROWS
