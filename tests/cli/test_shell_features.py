"""What else the shell has: completion by position, lists, help, mistakes, keys. And the list of all features with their
tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import SharedShell
from tests.cli.shell_terminal import ROOT, ShellTerminal, check_screen

FEATURES = {
    "lines up to the semicolon, highlighted": "test_a_first_session",
    "Alt-Enter runs what has no semicolon": "test_keys",
    "the grey rest of an earlier line": "test_keys",
    "completion of tables, columns, functions with signatures, options of the session": "test_completion",
    "completion of keywords by position, options of a connector with their documentation": "test_completion_by_position",
    "Tab and Enter take a completion and run nothing": "test_enter_takes_a_completion_and_runs_nothing",
    "history, its search, the init file, a catalog in a file, NO_COLOR": "test_what_is_typed_and_defined_is_there_the_next_time",
    "Ctrl-C drops what is typed, cancels the statement and not the shell": "test_ctrl_c_drops_what_is_typed_and_stops_what_runs",
    "tableau mode": "test_ctrl_c_drops_what_is_typed_and_stops_what_runs",
    "Ctrl-D and QUIT ask when jobs run; SHOW JOBS, DESCRIBE JOB, STOP JOB, TOP": "test_jobs",
    "table mode: updates in place, sorted, a row in whole": "test_live_table",
    "table mode: scrolled, paused, in another size of terminal": "test_the_live_table_of_the_guide",
    "TOP: a screen as a golden file": "test_top",
    "changelog mode": "test_changelog_mode",
    "paging of long and wide results, row counts": "test_long_and_wide_results_are_scrolled",
    r"\d, \df, \x, \timing, \?, HELP": "test_records_timing_lists_and_describe",
    r"\dt, \dv, \dm, \dj, \l, SHOW, SET, RESET, CLEAR": "test_lists_and_settings",
    r"\i, \o, \e, \watch": "test_files_editor_and_watch",
    "errors with caret and colour": "test_a_first_session",
    "mistakes in commands": "test_mistakes_in_commands",
    "-e, -f, -D, pipes, no colours without a terminal": "test_shell_pipes.py",
}
"""Every feature of the shell, and the test that holds it."""


ARGUMENTS = ("shell", "-D", "sql-client.display.print-time-cost=false", "--history", "")


@pytest.fixture(scope="module")
def shared_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedShell]:
    def make() -> ShellTerminal:
        terminal = ShellTerminal(tmp_path_factory.mktemp("home"), *ARGUMENTS, width=100, height=34)
        terminal.until_prompt()
        terminal.run("CREATE TABLE orders (id INT, customer STRING, at TIMESTAMP(3)) COMMENT 'what was bought';", "OK")
        terminal.run("CREATE VIEW recent AS SELECT * FROM orders WHERE id > 10;", "OK.*OK")
        terminal.run("CREATE MATERIALIZED VIEW counted AS SELECT COUNT(*) AS n FROM orders;", "OK.*OK.*OK")
        return terminal

    shared = SharedShell(make)
    yield shared
    shared.leave()


def cleared(shell: ShellTerminal) -> ShellTerminal:
    shell.type("\x0c")
    shell.until(r"\A\S+> *\Z")
    return shell


def test_every_feature_has_its_test() -> None:
    files = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "cli").glob("test_shell*.py")}
    for feature, test in FEATURES.items():
        assert test in files or any(f"def {test}(" in text for text in files.values()), feature


def test_a_screen_is_looked_at_in_whole_frames(tmp_path: Path) -> None:
    """Output that comes byte by byte shows no half of a menu."""
    terminal = ShellTerminal(tmp_path, *ARGUMENTS, bytes_at_once=1)
    terminal.until_prompt()
    terminal.type("SELECT id FROM orders W")
    assert "WINDOW" in terminal.until(r"^ +WHERE +keyword")
    terminal.interrupt()
    terminal.leave()


def test_completion_by_position(shell: ShellTerminal, rewrite: bool) -> None:
    cleared(shell).type("SELECT id FROM orders W")
    screen = shell.until(r"^ +WHERE +keyword")
    assert "WINDOW" in screen and "WITH" not in screen and "FROM   keyword" not in screen
    shell.interrupt()
    cleared(shell).type("SHOW CREATE T")
    shell.until(r"^ +TABLE +keyword")
    shell.interrupt()
    cleared(shell).type("CREATE TABLE x (a INT) WITH ('connector' = 'da")
    shell.until("datagen +rows of random values")
    shell.interrupt()
    cleared(shell).type("CREATE TABLE x (a INT) WITH ('connector' = 'datagen', 'row")
    shell.until("rows-per-second +rows a second")
    check_screen("completion_of_options", shell, rewrite=rewrite)
    shell.interrupt()


def test_lists_and_settings(shell: ShellTerminal, rewrite: bool) -> None:
    cleared(shell)
    shell.run("\\dt", r"orders │ table │ in memory │ what was bought")
    shell.run("\\dv rec", r"recent │ view │")
    shell.run("\\dm", r"counted │ materialized view │")
    shell.run("\\l", "default_database │ current")
    shell.run("\\dj", r"job id(?s:.*)0 rows")
    check_screen("lists", shell, rewrite=rewrite)
    cleared(shell)
    shell.run("SHOW TABLES;", r"counted +│\n│ orders +│\n│ recent +│")
    shell.run("SET 'sqlengine.epoch.max-rows' = '10';", "OK")
    shell.run("SET;", r"sqlengine\.epoch\.max-rows +│ 10 ")
    shell.run("RESET 'sqlengine.epoch.max-rows';", "OK")
    shell.run("SET 'sqlengine.epoch.max-row' = '10';", "E1503(?s:.*)did you mean")
    shell.type("CLEAR;\r")
    shell.until(r"\A\S+> *\Z")
    shell.run("\\?", "USE$")
    check_screen("help", shell, rewrite=rewrite)
    cleared(shell)
    shell.run("HELP STOP JOB;", r"WITH SAVEPOINT")


def test_mistakes_in_commands(shell: ShellTerminal, rewrite: bool) -> None:
    cleared(shell)
    shell.run("SELECT * FROM ordres;", "did you mean")
    shell.run("SELECT id,\rFROM orders;", "at 2:1")
    shell.run("\\foo", "unknown command")
    shell.run("\\x maybe", "on, off or auto")
    shell.run("\\i nofile.sql", "No such file")
    shell.run("STOP JOB 'job-9';", "job-9")
    check_screen("mistakes", shell, rewrite=rewrite)


def test_keys(shell: ShellTerminal) -> None:
    cleared(shell).type("SELECT 'no semicolon' AS said\x1b\r")
    shell.until_prompt(r"│ no semicolon │\n")
    cleared(shell).type("SELECT 'no")
    shell.until("SELECT 'no semicolon' AS said")
    shell.type("\x1b[C")
    shell.until("said$")
    shell.type(";\r")
    shell.until_prompt(r"│ no semicolon │\n")


def test_top(shell: ShellTerminal, rewrite: bool, tmp_path: Path) -> None:
    """What TOP shows of a job that runs and waits, of one that has ended, and of a materialized view."""
    shell.run(
        f"CREATE TABLE letters (at STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json',"
        " 'source.monitor-interval' = '10 ms');",
        "OK",
    )
    shell.run("CREATE TABLE read_letters (at STRING, n BIGINT) WITH ('connector' = 'blackhole');", "OK")
    shell.run("INSERT INTO orders VALUES (1, 'ann', TIMESTAMP '2024-01-01 10:00:00'), (2, 'bob', NULL);", "2 rows")
    shell.run("INSERT INTO read_letters SELECT customer, COUNT(*) FROM orders GROUP BY customer;", "2 rows written")
    shell.type("INSERT INTO read_letters SELECT at, COUNT(*) FROM letters GROUP BY at;\r")
    shell.until("runs in the background")
    shell.type("\\top\r")
    screen = shell.until(r"2 running, \d+ ended\n(?s:.*)q leave")
    numbers = sorted(set(re.findall(r"job-(\d)", screen)))

    def normalized(screen: str) -> str:
        """How busy a job is that only waits depends on the machine; queries of other tests have taken numbers of jobs."""
        screen = re.sub(r" \d+%", "  0%", screen)
        return re.sub(r"job-(\d)", lambda m: f"job-{numbers.index(m[1]) + 1}", screen)

    check_screen("top", shell, rewrite=rewrite, normalized=normalized)
    shell.type("q")
    shell.until("1 job runs, ")
    shell.type(f"STOP JOB 'job-{numbers[-1]}';\r")
    shell.until_prompt("was stopped: 0 rows written(?s:.*)OK")
