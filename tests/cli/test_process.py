"""The command as a process of its own: signals, pipes, what it imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TICKS = "CREATE TABLE ticks (v INT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'fields.v.min' = '0', 'fields.v.max' = '3');"


def start(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "sqlengine", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    )


def interrupted(process: subprocess.Popen[str], number: int = signal.SIGINT) -> tuple[str, str]:
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    return out, err


def test_an_endless_select_shows_changes_as_they_come_until_interrupted() -> None:
    process = start("run", "--format", "json", "-e", TICKS + "SELECT v, COUNT(*) AS n FROM ticks GROUP BY v")
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first.startswith('{"op":"+I","v":')
    interrupted(process)


def test_a_table_of_endless_rows_has_a_header_before_the_first_row() -> None:
    process = start("run", "-e", TICKS + "SELECT v FROM ticks")
    assert process.stdout is not None
    head = [process.stdout.readline() for _ in range(4)]
    assert head[1].split() == ["|", "op", "|", "v", "|"] and head[3].startswith("| +I | ")
    out, _ = interrupted(process)
    assert out.splitlines()[-1].startswith("+----+")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_background_insert_publishes_what_it_wrote(tmp_path: Path, number: int) -> None:
    process = start(
        "run",
        "-e",
        TICKS
        + f"CREATE TABLE out (v INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'csv');"
        "INSERT INTO out SELECT v FROM ticks; SELECT v FROM ticks",
    )
    assert process.stdout is not None
    for _ in range(200):
        process.stdout.readline()
    _, err = interrupted(process, number)
    assert "job-1 runs in the background" in err and "job-1 has stopped" in err
    files = list((tmp_path / "out").rglob("*"))
    assert all(not f.name.startswith((".", "_")) for f in files), files
    rows = [line for f in files for line in f.read_text().splitlines()]
    assert rows and all(line in ("0", "1", "2", "3") for line in rows)
    assert f"{len(rows):,} rows written" in err


def test_ctrl_c_during_a_bounded_insert_ends_the_file() -> None:
    process = start(
        "run",
        "-e",
        "CREATE TABLE t (v BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100', 'fields.v.kind' = 'sequence',"
        " 'fields.v.start' = '1', 'fields.v.end' = '1000000000');"
        "CREATE TABLE shown (v BIGINT) WITH ('connector' = 'print', 'standard-error' = 'true');"
        "INSERT INTO shown SELECT v FROM t WHERE v = 1; SELECT 'too late'",
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "+I[1]\n"
    out, _ = interrupted(process)
    assert out == ""


def test_a_reader_that_leaves_is_no_error() -> None:
    process = start("run", "--format", "csv", "-e", TICKS + "SELECT v FROM ticks")
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == "v\n"
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr.read() == ""


def test_an_error_in_a_background_job_ends_the_run(tmp_path: Path) -> None:
    process = start(
        "run",
        "-e",
        TICKS
        + f"CREATE TABLE out (v INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'csv');"
        "INSERT INTO out\nSELECT 10 / v FROM ticks",
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert "E2102 division by zero\n  at 2:8\n" in err
    assert [f for f in (tmp_path / "out").rglob("*") if f.is_file()] == []


def test_pandas_is_not_loaded_because_it_is_installed() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "sqlengine", "run", "-e"]
    query = "SELECT COUNT(*) FROM (VALUES (1), (2)) AS t(x) WHERE x > 1"
    done = subprocess.run([*command, query], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "|      1 |" in done.stdout and "pyarrow.lib" in done.stderr
    assert "pandas.core" not in done.stderr


def test_what_a_simple_query_needs_not_import() -> None:
    code = (
        "import sys; from sqlengine.cli.main import main; main(['run', '-e', 'SELECT 1'])\n"
        "print([m for m in ('duckdb', 'pyspark', 'lark') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_jobs_of_a_database_go_on_and_are_waited_for_when_nothing_else_is_said(tmp_path: Path) -> None:
    shop = ("run", "--database", str(tmp_path / "shop"))
    process = start(
        *shop,
        "-e",
        TICKS.replace("TEMPORARY", "") + "CREATE TABLE p (v INT) WITH ('connector' = 'print');"
        "INSERT INTO p SELECT v FROM ticks; SELECT 1 AS one",
    )

    def prints(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("+I"):
                return
        raise AssertionError("nothing was printed")

    prints(process)
    _, err = interrupted(process)
    assert "job-1 has stopped until the database is opened again" in err
    # Statements end although the job never does.
    out, err = start(*shop, "-e", "SELECT job, status FROM system.jobs WHERE job = 'job-1'").communicate(timeout=60)
    assert "| job-1 | RUNNING |" in out, err
    for arguments in ((), ("--wait", "-e", "SELECT 1 AS one"), ("-e", "-- nothing")):
        process = start(*shop, *arguments)
        prints(process)
        interrupted(process)
    # Whoever has stopped the last job waits for nothing.
    for arguments in (("--wait", "-e", "STOP JOB 'job-1'"), ()):
        process = start(*shop, *arguments)
        process.communicate(timeout=60)
        assert process.returncode == 0


def test_what_waits_for_jobs_needs_a_database() -> None:
    process = start("run", "--wait", "-e", "SELECT 1")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "give --database FOLDER" in err


def test_a_module_that_imports_the_package_keeps_ctrl_c_and_the_collector(tmp_path: Path) -> None:
    """`python -m other` begins as `python -m sqlengine` does; only that one is the command line."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "__init__.py").write_text("import sqlengine\n")
    (tmp_path / "other" / "__main__.py").write_text(
        "import gc, signal\nprint(gc.isenabled(), signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "other"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        timeout=60,
    )
    assert done.stdout == "True True\n"
