"""The shell as its user sees it: every feature in a terminal, screens as golden files (tests/cli/screens)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import SharedShell
from tests.cli.shell_terminal import ShellTerminal, check_screen

NO_TIMES = ("-D", "sql-client.display.print-time-cost=false")
NO_HISTORY = ("--history", "")
ENDLESS = (
    "CREATE TABLE ticks (v INT) WITH ('connector' = 'datagen', 'rows-per-second' = '100', 'fields.v.min' = '7',"
    " 'fields.v.max' = '7');"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def shared_shell(home: Path) -> Iterator[SharedShell]:
    """One shell for the tests that leave nothing behind but tables of their own."""

    def make() -> ShellTerminal:
        terminal = ShellTerminal(home, "shell", *NO_TIMES, *NO_HISTORY, EDITOR=str(home / "editor.sh"))
        terminal.until_prompt()
        return terminal

    shared = SharedShell(make)
    yield shared
    shared.leave()


def cleared(shell: ShellTerminal) -> ShellTerminal:
    """Nothing but a prompt on the screen."""
    shell.type("\x0c")
    shell.until(r"\A\S+> *\Z")
    return shell


def test_a_first_session(home: Path, rewrite: bool) -> None:
    """`sqlengine` alone opens the shell; lines up to the semicolon; NULL, wide characters; an error with its caret."""
    terminal = ShellTerminal(home, height=40)
    terminal.until_prompt("Ctrl-D leaves")
    terminal.run("SET 'sql-client.display.print-time-cost' = 'false';", "OK")
    terminal.run("CREATE TABLE cities (name STRING, people INT);", "OK.*OK")
    terminal.run("INSERT INTO cities VALUES ('東京', 14), (CAST(NULL AS STRING), 8), ('Köln', 1);", "3 rows written")
    terminal.run("SELECT name, people\rFROM cities\rWHERE people > 0;", "3 rows\n")
    terminal.run("SELECT nam, people\rFROM cities;", "did you mean")
    check_screen("first_session", terminal, rewrite=rewrite)
    assert terminal.style_of("E1201") == ("red", True)
    assert terminal.style_of("FROM cities;") == ("blue", True)
    assert terminal.style_of("'東京'")[0] == "green"
    terminal.leave()


def test_ctrl_c_drops_what_is_typed_and_stops_what_runs(shell: ShellTerminal, home: Path) -> None:
    cleared(shell)
    shell.type("SELECT never")
    shell.until("never")
    shell.interrupt("never")
    shell.run(ENDLESS, "OK")
    shell.run("\\mode tableau", "tableau mode")
    shell.type("SELECT v FROM ticks;\r")
    shell.until(r"│ \+I │ +7 │")
    shell.interrupt(r"cancelled after [\d,]+ changes?")
    shell.run("SELECT 'still here' AS said;", r"│ still here +│")
    shell.run("\\mode table", "table mode")
    shell.run("DROP TABLE ticks;", "OK")


def test_completion(shell: ShellTerminal, rewrite: bool) -> None:
    shell.run(
        "CREATE TABLE orders (order_id INT, customer STRING, amount DECIMAL(10, 2)) COMMENT 'what was bought';", "OK"
    )
    shell.run("CREATE VIEW large AS SELECT * FROM orders WHERE amount > 100;", "OK")
    cleared(shell)
    shell.type("SELECT cust")
    shell.until(r"^ +customer +STRING")
    shell.type("\t")
    shell.until("SELECT customer$")
    shell.type(" FROM \t")
    shell.until("what was bought")
    check_screen("completion_of_tables", shell, rewrite=rewrite)
    shell.type("orde")
    shell.until(r"FROM orde$\n +orders +table \(in memory\)")
    shell.type("\t")
    shell.until("FROM orders$")
    shell.type(" WHERE rou")
    shell.until(r"round\(<numeric")
    check_screen("completion_of_functions", shell, rewrite=rewrite)
    shell.interrupt()
    cleared(shell)
    shell.type("SET 'sqlengine.epoch")
    shell.until("the most rows that one source")
    shell.type("\t")
    shell.until("SET 'sqlengine.epoch.max-rows'")
    shell.interrupt()


def test_enter_takes_a_completion_and_runs_nothing(shell: ShellTerminal) -> None:
    cleared(shell)
    shell.type("SELECT 1 AS a; SELEC")
    shell.until("^ +SELECT +keyword")
    shell.type("\t")
    shell.until("SELECT 1 AS a; SELECT$")
    shell.interrupt()
    cleared(shell)
    shell.type("\\timin")
    shell.until("how long statements take")
    shell.type("\t")
    shell.until(r"\\timing$")
    shell.type("\r")
    shell.type(" off\r")
    shell.until_prompt("timing is off")


def test_live_table(shell: ShellTerminal, home: Path, rewrite: bool) -> None:
    """Rows change in place while a file comes; sorting; a row in whole; what is left when the user leaves."""
    folder = home / "clicks"
    folder.mkdir()

    def came(name: str, *rows: tuple[str, int]) -> None:
        lines = "".join(json.dumps({"page": page, "ms": ms}) + "\n" for page, ms in rows)
        (folder / f".{name}").write_text(lines, encoding="utf-8")
        (folder / f".{name}").rename(folder / name)

    came("1.json", ("home", 10), ("about", 20), ("home", 30))
    shell.run(
        f"CREATE TABLE clicks (page STRING, ms INT) WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json',"
        " 'source.monitor-interval' = '10 ms');",
        "OK",
    )
    cleared(shell)
    shell.type("SELECT page, COUNT(*) AS n, SUM(ms) AS total FROM clicks GROUP BY page;\r")
    shell.until(r"│ home +│ 2 │ +40 │\n│ about +│ 1 │ +20 │")
    came("2.json", ("home", 5), ("shop", 7), ("a page with a long name", 1))
    shell.until(r"running \| 4 rows(?s:.*)│ home +│ 3 │ +45 │\n│ about +│ 1 │ +20 │\n│ shop +│ 1 │")
    shell.type("\x1b[C\x1b[Cs")
    shell.until(r"\[total ▲\](?s:.*)a page(?s:.*)shop(?s:.*)about(?s:.*)home")
    shell.type("s")
    shell.until(r"\[total ▼\](?s:.*)home(?s:.*)about(?s:.*)shop(?s:.*)a page")
    shell.type("\r")
    shell.until(r"^page +│ home\nn +│ 3\ntotal +│ 45$")
    shell.type("q")
    shell.until(r"\[total ▼\]")
    shell.type("q")
    shell.until_prompt("4 rows")
    check_screen("live_table_left", shell, rewrite=rewrite)


def test_changelog_mode(shell: ShellTerminal, rewrite: bool) -> None:
    shell.run("CREATE TABLE points (id INT PRIMARY KEY NOT ENFORCED, n INT);", "OK")
    shell.run("CREATE MATERIALIZED VIEW summed AS SELECT SUM(n) AS total FROM points;", "OK")
    shell.run("INSERT INTO points VALUES (1, 10), (2, 20);", "2 rows written")
    shell.run("\\mode changelog", "changelog mode")
    cleared(shell)
    shell.type("SUBSCRIBE TO summed;\r")
    shell.until(r"│ \+I │ +30 │")
    check_screen("changelog_mode", shell, rewrite=rewrite)
    shell.type("q")
    shell.until_prompt("1 change")
    shell.run("\\mode table", "table mode")


def test_long_and_wide_results_are_scrolled(shell: ShellTerminal, rewrite: bool) -> None:
    shell.run("CREATE TABLE numbers (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1000',"
              " 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '1000');", "OK")  # fmt: skip
    cleared(shell)
    shell.type("SELECT n, n * n AS squared FROM numbers;\r")
    shell.until("row 1 of 1,000")
    shell.type("\x1b[6~\x1b[6~")
    shell.until("row 33 of 1,000")
    assert "│ 33 │" in shell.text() or "33 │" in shell.text()
    shell.type("G")
    shell.until("row 1,000 of 1,000")
    check_screen("long_result", shell, rewrite=rewrite)
    shell.resize(50, 12)
    shell.until(r"\A.*\n1,000 rows\n(?s:.*)1000 │ 1000000 │\n└(?s:.*)\Z")
    check_screen("long_result_in_a_small_terminal", shell, rewrite=rewrite)
    shell.resize(80, 24)
    shell.until(r"│ +995 │")
    shell.type("q")
    shell.until_prompt("1,000 rows, the first 18 shown")
    columns = ", ".join(f"'value number {i}' AS column_{i}" for i in range(12))
    shell.run(f"SELECT {columns};", r"column_11 │ value number 11\n1 row")
    cleared(shell)
    shell.type(f"SELECT {columns} FROM (VALUES 1, 2, 3) AS t(x);\r")
    shell.until(r"\[column_0\]")
    shell.type("\x1b[C" * 11)
    shell.until(r"\[column_11\]")
    check_screen("wide_result", shell, rewrite=rewrite)
    shell.type("q")
    shell.until_prompt("3 rows, the first 1 shown")


def test_records_timing_lists_and_describe(shell: ShellTerminal, rewrite: bool) -> None:
    shell.run(
        "CREATE TABLE staff (id INT, name STRING COMMENT 'in full', PRIMARY KEY (id) NOT ENFORCED) COMMENT 'who works';",
        "OK",
    )
    shell.run("INSERT INTO staff VALUES (1, 'Ada');", "1 row written")
    cleared(shell)
    shell.run("\\d staff", "who works")
    shell.run("\\x on", "expanded display is on")
    shell.run("SELECT * FROM staff;", r"name │ Ada\n1 row")
    shell.run("\\x auto", "is auto")
    shell.run("\\df ltr", "ltrim")
    check_screen("records_and_lists", shell, rewrite=rewrite)
    shell.run("\\timing on", "timing is on")
    shell.run("SELECT 1 AS one;", r"1 row \(\d+\.\d{3} s\)")
    shell.run("\\timing off", "timing is off")
    cleared(shell)
    shell.run("\\?", "HELP and a statement")
    cleared(shell)
    shell.run("HELP drop;", r"DROP \[TEMPORARY\]")


def test_files_editor_and_watch(shell: ShellTerminal, home: Path) -> None:
    (home / "script.sql").write_text("SELECT 'from a file' AS said;\nSELECT oops;\nSELECT 'never' AS said;\n")
    cleared(shell)
    shell.run("\\i script.sql", "script.sql:2:8")
    assert "from a file" in shell.text() and "never" not in shell.text()
    shell.run("\\o out.json", "results go to out.json")
    shell.run("SELECT 1 AS a, 'x' AS b;")
    shell.run("\\o", "results go to the screen")
    assert (home / "out.json").read_text() == '{"a":1,"b":"x"}\n'
    cleared(shell)
    shell.run("SELECT 42 AS answer;", "42")
    shell.type("\\watch 0.01\r")
    shell.until(r"every 0.01 s(?s:.*)every 0.01 s")
    shell.interrupt()
    cleared(shell)
    editor = home / "editor.sh"
    editor.write_text("#!/bin/sh\necho \"SELECT 'edited' AS answer;\" > $1\n")
    editor.chmod(0o755)
    shell.run("\\e", r"│ edited +│")


def test_jobs(home: Path, rewrite: bool) -> None:
    """INSERTs run in the background, TOP shows them, STOP JOB ends one, and leaving asks."""
    terminal = ShellTerminal(home, "shell", *NO_TIMES, *NO_HISTORY, width=100)
    terminal.until_prompt()
    terminal.run(ENDLESS, "OK")
    terminal.run("CREATE TABLE o (v INT, n BIGINT) WITH ('connector' = 'blackhole');", "OK(?s:.*)OK")
    terminal.type("INSERT INTO o SELECT v, COUNT(*) FROM ticks GROUP BY v;\r")
    terminal.until("job-1 runs in the background")
    terminal.until("1 job runs, ")
    terminal.type("SHOW JOBS;\r")
    terminal.until(r"│ job-1 +│ INSERT INTO o .* │ RUNNING │")
    terminal.type("DESCRIBE JOB 'job-1';\r")
    terminal.until(r"│ restarts +│ 0 +│")
    terminal.type("TOP;\r")
    screen = terminal.until(r"1 running, 0 ended\n job +status +in +in/s(?s:.*)GroupAggregate(?s:.*)q leave")
    assert "Sink" in screen and "pressure" in screen
    terminal.type("q")
    terminal.until("1 job runs, ")
    terminal.type("\x04")
    terminal.until(r"1 job runs \(job-1\). Stop and leave\? \[y/N\]\Z")
    terminal.type("n\r")
    terminal.until(r"\[y/N\] n\nsqlengine>\n(?s:.*)1 job runs, ")
    terminal.type("STOP JOB 'job-1';\r")
    terminal.until(r"job-1 was stopped: [\d,]+ rows? written to o")
    terminal.type("INSERT INTO o SELECT v, COUNT(*) FROM ticks GROUP BY v;\r")
    terminal.until("job-2 runs in the background")
    terminal.type("QUIT;\r")
    terminal.until(r"Stop and leave\? \[y/N\]\Z")
    terminal.type("y\r")
    assert terminal.ended() == 0


@pytest.mark.long
def test_what_is_typed_and_defined_is_there_the_next_time(home: Path) -> None:
    """History, its search, the init file, and a catalog in a file; without colours where NO_COLOR asks for that."""
    config = home / ".config" / "sqlengine"
    config.mkdir(parents=True)
    (config / "init.sql").write_text("SET 'table.local-time-zone' = 'Asia/Tokyo';\n")
    arguments = ("shell", *NO_TIMES, "--catalog", "work.sql")
    first = ShellTerminal(home, *arguments, NO_COLOR="1")
    first.until_prompt("Ctrl-D leaves")
    assert first.lines()[0].startswith("sqlengine ")  # what the start carries out says no OK
    first.run("CREATE TABLE kept (a INT) COMMENT 'remembered';", "OK")
    first.run("SELECT 'a line to find' AS x;", "1 row")
    first.run(" SELECT 'secret' AS x;", "│ secret")
    first.run("SET 'spark.hadoop.fs.s3a.secret.key' = 'kanarienvogel';", "OK")
    first.type("\x1b[A")
    first.until(r"= 'kanarienvogel';\Z")
    first.interrupt()
    first.run("SELECT 'the last line' AS x;", "1 row.*1 row")
    first.leave()
    assert not re.search(r"\x1b\[(3\d|9\d|38;[0-9;]+)m", first.raw)
    history = home / ".local" / "state" / "sqlengine" / "history"
    assert "the last line" in history.read_text() and "secret" not in history.read_text()
    assert history.stat().st_mode & 0o077 == 0

    second = ShellTerminal(home, *arguments)
    second.until(r"^work.default> *\Z")
    second.run("\\dt", "kept +│ table │ in memory │ remembered")
    second.run("SELECT CAST(TO_TIMESTAMP_LTZ(0, 3) AS STRING) AS t;", "1970-01-01 09:00:00")
    second.type("\x1b[A\x1b[A\x1b[A")
    second.until("> SELECT 'the last line' AS x;")
    second.interrupt()
    second.type("\x12line to")
    second.until("SELECT 'a line to find' AS x;")
    second.type("\r")
    second.type("\r")
    second.until_prompt("│ a line to find │")
    second.leave()
