"""`sqlengine run` as a user meets it: what stands on stdout and on stderr, and the exit status."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from sqlengine.cli.main import main

WORDS = "(VALUES ('a', 1), ('b', 2), ('a', 3)) AS t(word, n)"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["run", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def usage_error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_a_table_is_aligned_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "-e", f"SELECT word, n, CAST(NULL AS INT) AS nothing FROM {WORDS} WHERE n > 1")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "+------+---+---------+",
        "| word | n | nothing |",
        "+------+---+---------+",
        "| b    | 2 |    NULL |",
        "| a    | 3 |    NULL |",
        "+------+---+---------+",
        "2 rows",
    ]


def test_wide_characters_and_line_ends_keep_the_table_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "-e", "SELECT * FROM (VALUES ('漢字'), (U&'a\\000Ab'), ('x')) AS t(s)")
    assert out.splitlines()[3:6] == ["| 漢字 |", "| a\\nb |", "| x    |"]


def test_csv_tells_null_from_empty_text(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(
        capsys,
        "--format",
        "csv",
        "-e",
        "SELECT * FROM (VALUES ('a,\"b\"', 1), ('', 2), (CAST(NULL AS STRING), 3)) AS t(s, n)",
    )
    assert out == 's,n\n"a,""b""",1\n"",2\n,3\n'


def test_json_has_row_kinds_only_for_changelogs(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(
        capsys, "--format", "json", "-e", f"SELECT word FROM {WORDS} WHERE n = 2; SELECT COUNT(*) AS c FROM {WORDS}"
    )
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows[0] == {"word": "b"}
    assert rows[1:] == [{"op": "+I", "c": 3}]


def test_a_changelog_is_a_line_per_change(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(
        capsys,
        "-D",
        "sqlengine.epoch.max-rows=1",
        "--format",
        "changelog",
        "-e",
        "CREATE TABLE t (word STRING) WITH ('connector' = 'values', 'data' = '{\"word\":\"a\"}\n{\"word\":\"a\"}');"
        "SELECT word, COUNT(*) AS n FROM t GROUP BY word",
    )
    assert out.splitlines() == ["+I a | 1", "-U a | 1", "+U a | 2"]


def test_order_by_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "--format", "csv", "-e", f"SELECT n FROM {WORDS} ORDER BY n DESC")
    assert out == "n\n3\n2\n1\n"


def test_results_on_stdout_all_else_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(
        capsys,
        "--format",
        "csv",
        "-e",
        "CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, b STRING);"
        "INSERT INTO t VALUES (1, 'x'), (2, 'y'); UPDATE t SET b = 'z' WHERE a = 1; DELETE FROM t WHERE a = 2; SELECT * FROM t",
    )
    assert (status, out) == (0, "a,b\n1,z\n")
    assert err.splitlines() == ["2 rows written to t", "1 row updated in t", "1 row deleted from t"]


def test_texts_of_explain_and_show_create_are_not_framed(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "-e", "CREATE TABLE t (a INT); SHOW CREATE TABLE t; EXPLAIN SELECT a FROM t")
    assert out.startswith("CREATE TABLE `default_catalog`.`default_database`.`t` (\n  `a` INT\n)\n")
    assert "== Physical Plan ==" in out and "|" not in out


def test_the_first_failing_statement_stops_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "job.sql"
    file.write_text("SELECT 1 AS a;\n\nSELECT amuont\n  FROM (VALUES (1)) AS t(amount);\nSELECT 2 AS b;\n")
    status, out, err = run(capsys, "--format", "csv", str(file))
    assert (status, out) == (1, "a\n1\n")
    assert err.splitlines() == [
        'E1201 unknown column "amuont"',
        f"  at {file}:3:8",
        "  3 | SELECT amuont",
        "             ^^^^^^",
        '  hint: did you mean "amount"?',
    ]


def test_an_error_while_rows_are_read_has_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "-e", "SELECT 1 AS a;\nSELECT 10 / n FROM (VALUES (1), (0)) AS t(n)")
    assert status == 1 and out.endswith("1 row\n")
    assert err.startswith("E2102 division by zero\n  at 2:8\n")


def test_a_syntax_error_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "-e", "SELECT 1 AS a; SELECT 2 SELECT 3")
    assert (status, out) == (1, "")
    assert 'unexpected "SELECT"' in err and "semicolons" in err


@pytest.mark.parametrize("text", ["", "-- nothing but a comment\n", ";;\n"])
def test_an_empty_script_does_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str) -> None:
    file = tmp_path / "empty.sql"
    file.write_text(text)
    assert run(capsys, str(file)) == (0, "", "")


def test_byte_order_mark_and_windows_line_ends(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "windows.sql"
    file.write_bytes(b"\xef\xbb\xbfSELECT 1 AS a;\r\nSELECT\r\n  nope;\r\n")
    status, out, err = run(capsys, "--format", "csv", str(file))
    assert (status, out) == (1, "a\n1\n")
    assert err.splitlines()[1:4] == [f"  at {file}:3:3", "  3 |   nope;", "        ^^^^"]


def test_a_very_long_line_is_shown_around_the_place(capsys: pytest.CaptureFixture[str]) -> None:
    columns = ", ".join(f"1 AS c{i}" for i in range(300))
    _, _, err = run(capsys, "-e", f"SELECT {columns}, nope, {columns}")
    shown, carets = err.splitlines()[2:4]
    assert len(shown) < 150 and "..." in shown
    assert shown[carets.index("^") :].startswith("nope")


def test_carets_stand_below_wide_characters_and_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(capsys, "-e", "SELECT '漢字',\tnope")
    assert err.splitlines()[2:4] == ["  1 | SELECT '漢字',    nope", "      " + " " * 18 + "^^^^"]


def test_text_that_is_too_deep(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "-e", "SELECT " + "+".join("x" * 3000) + " FROM (VALUES (1)) AS t(x)")
    assert status == 1 and "nested too deeply" in err


def test_files_and_standard_input_in_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.sql"
    file.write_text("SELECT 2 AS b")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"SELECT 3 AS c")))
    assert run(capsys, "--format", "csv", "-e", "SELECT 1 AS a", str(file), "-") == (0, "a\n1\nb\n2\nc\n3\n", "")


def test_a_file_that_is_not_there_or_not_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, _, err = run(capsys, str(tmp_path / "nope.sql"))
    assert status == 1 and err.startswith("E3300 cannot read") and "No such file" in err
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xe4'")
    assert "byte 8 is not UTF-8" in run(capsys, str(tmp_path / "latin.sql"))[2]


def test_options(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(
        capsys,
        "-D",
        "table.local-time-zone=Europe/Berlin",
        "--format",
        "csv",
        "-e",
        "SELECT TO_TIMESTAMP_LTZ(0, 3) AS t",
    )
    assert out == "t\n1970-01-01 01:00:00.000\n"
    status, _, err = run(capsys, "-D", "table.local-time-zon=UTC", "-e", "SELECT 1")
    assert status == 1 and err.startswith("E1503 unknown option") and 'did you mean "table.local-time-zone"' in err


def test_rejected_rows_are_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("1,a\nx,b\n3,c\n")
    status, out, err = run(
        capsys,
        "--format",
        "csv",
        "-e",
        f"CREATE TABLE t (id INT, s STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv',"
        " 'csv.ignore-parse-errors' = 'true'); SELECT * FROM t; SELECT \"row\" FROM system.rejected".replace(
            '"row"', "`row`"
        ),
    )
    assert (status, out) == (0, 'id,s\n1,a\n3,c\nrow\n"x,b"\n')
    assert err.startswith("1 row rejected by ")


def test_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give a FILE of SQL" in usage_error(capsys, "run")
    assert "-D takes KEY=VALUE" in usage_error(capsys, "run", "-D", "x", "-e", "SELECT 1")
    assert "invalid choice: 'xml'" in usage_error(capsys, "run", "--format", "xml", "-e", "SELECT 1")
    assert "no command 'rnu'; did you mean \"run\"?" in usage_error(capsys, "rnu")
    assert "did you mean: sqlengine run job.sql" in usage_error(capsys, "job.sql")
    assert 'there is: "explain", "run", "serve", "shell"' in usage_error(capsys, "frobnicate")


def test_internal_errors_show_no_stack(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr("sqlengine.cli.run.scripts", broken)
    status, _, err = run(capsys, "-e", "SELECT 1")
    assert (
        status == 1 and err.startswith("E9100 internal error: ZeroDivisionError: surprise") and "Traceback" not in err
    )
    with pytest.raises(ZeroDivisionError):
        main(["--traceback", "run", "-e", "SELECT 1"])


def test_help_names_commands_formats_and_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        (["--help"], ("run", "explain", "test")),
        (["run", "--help"], ("--format", "-D", "exit status", "Ctrl-C")),
    ):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 0
        shown = capsys.readouterr().out
        assert all(word in shown for word in words)


def test_a_view_that_failed_is_an_error_though_nobody_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(
        capsys,
        "-e",
        "CREATE TABLE t (v INT); CREATE MATERIALIZED VIEW b AS SELECT 1 / v AS x FROM t; INSERT INTO t VALUES (0)",
    )
    assert status == 1 and 'E1713 the materialized view "b" has failed: division by zero' in err


def test_a_log_on_request(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    insert = "CREATE TABLE b (n INT) WITH ('connector' = 'blackhole'); INSERT INTO b VALUES (1)"
    file = tmp_path / "engine.log"
    assert run(capsys, "-e", insert)[2].splitlines() == ["1 row written to b"]
    _, out, err = run(capsys, "--log-level", "INFO", "-e", insert)
    lines = [line for line in err.splitlines() if " sqlengine.jobs: " in line]
    assert out == "" and len(lines) == 3 and lines[0].endswith("job-1 is CREATED")
    _, _, err = run(capsys, "--log-file", str(file), "-e", insert)
    assert err.splitlines() == ["1 row written to b"]
    first = file.read_text().splitlines()[0]
    assert first[10] == "T" and first[23:] == "Z INFO sqlengine.jobs: job-1 is CREATED"
    run(capsys, "--log-file", str(file), "--log-level", "error", "-e", insert)
    assert len(file.read_text().splitlines()) == 3
    _, _, err = run(capsys, "--log-level", "info", "--log-format", "json", "-e", insert)
    first = json.loads(err.splitlines()[0])
    assert first.pop("time").endswith("Z") and first == {
        "level": "INFO", "logger": "sqlengine.jobs", "message": "job-1 is CREATED",
        "job": "job-1", "epoch": 0, "status": "CREATED",
    }  # fmt: skip


def test_a_log_that_cannot_be_written_is_wrong_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "cannot be written" in usage_error(capsys, "run", "--log-file", str(tmp_path), "-e", "SELECT 1")


def test_a_log_at_a_prompt_needs_a_file(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert "give --log-file" in usage_error(capsys, "shell", "--log-level", "info")


def test_rows_of_returning_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    script = "CREATE TABLE t (id INT); INSERT INTO t VALUES (1), (2) RETURNING id * 10 AS tens"
    status, out, err = run(capsys, "-e", script, "--format", "csv")
    assert (status, out, err) == (0, "tens\n10\n20\n", "2 rows changed in t\n")
