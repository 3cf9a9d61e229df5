"""`sqlengine shell` without a terminal: pipes, -e, -f, -i, -D, exit status."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from sqlengine.cli.main import main

ROOT = Path(__file__).parent.parent.parent


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str, stdin: str = ""):
    monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
    status = main(["shell", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_statements_and_commands_come_from_a_pipe(monkeypatch, capsys) -> None:
    status, out, err = run(monkeypatch, capsys, stdin="SELECT 1 AS one;\n\\x on\nSELECT 2 AS two\n")
    assert (status, out) == (0, "+-----+\n| one |\n+-----+\n|   1 |\n+-----+\n1 row\n-[ row 1 ]-----\ntwo | 2\n1 row\n")
    assert err == "expanded display is on: a line for each column\n"


def test_the_first_error_ends_a_pipe_and_tells_its_line(monkeypatch, capsys) -> None:
    status, out, err = run(monkeypatch, capsys, stdin="SELECT 1;\n\nSELECT nope;\nSELECT 3;\n")
    assert status == 1 and "3" not in out
    assert err == 'E1201 unknown column "nope"\n  at <stdin>:3:8\n  3 | SELECT nope\n             ^^^^\n'


def test_files_init_file_and_options(monkeypatch, capsys, tmp_path: Path) -> None:
    init, file, out_file = tmp_path / "init.sql", tmp_path / "job.sql", tmp_path / "out.csv"
    init.write_text("CREATE TABLE t (a INT, ts TIMESTAMP_LTZ(3));\nINSERT INTO t VALUES (1, TO_TIMESTAMP_LTZ(0, 3));")
    file.write_text(f"\\o {out_file}\nSELECT * FROM t;\n\\o\n\\i {tmp_path / 'more.sql'}\nquit\nSELECT 1/0;")
    (tmp_path / "more.sql").write_text("SELECT COUNT(*) AS n FROM t;")
    status, out, err = run(
        monkeypatch, capsys, "-i", str(init), "-f", str(file), "-D", "table.local-time-zone=Europe/Berlin"
    )
    assert (status, out) == (0, "+---+\n| n |\n+---+\n| 1 |\n+---+\n1 row\n"), err
    assert out_file.read_text() == "a,ts\n1,1970-01-01 01:00:00.000\n"


def test_an_error_in_an_init_file_ends_a_script(monkeypatch, capsys, tmp_path: Path) -> None:
    (tmp_path / "init.sql").write_text("SELEC 1;")
    status, out, err = run(monkeypatch, capsys, "-i", str(tmp_path / "init.sql"), "-e", "SELECT 1")
    assert (status, out) == (1, "") and f"at {tmp_path / 'init.sql'}:1:1" in err


@pytest.mark.parametrize(
    "command", ["\\nope", "\\x maybe", "\\i", "\\watch", "\\watch nan", "\\i /nowhere.sql", "help nope"]
)
def test_wrong_commands_are_errors(command: str, monkeypatch, capsys) -> None:
    status, out, err = run(monkeypatch, capsys, "-e", command)
    assert (status, out) == (1, "") and "hint: " in err


def test_a_real_pipe() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sqlengine", "shell"],
        input="SELECT 1 AS one",
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("+-----+\n| one |\n+-----+\n|   1 |\n+-----+\n1 row\n", "")
