"""`sqlengine shell postgresql://..`: the shell on a server."""

from __future__ import annotations

import io
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from runtime.core.errors import ConnectorError, SqlEngineError, UnsupportedError
from sqlengine import TableEnvironment
from sqlengine.cli.main import main
from sqlengine.shell.remote.connection import Connection
from sqlengine.shell.remote.executor import RemoteExecutor
from sqlengine.shell.remote.tables import as_result
from sqlengine.shell.screen import Screen
from sqlengine.shell.suggest import Suggester
from tests.server.conftest import Address


def url(address: Address) -> str:
    return (
        f"postgresql://sqlengine@{address.host}:{address.port}/default_catalog?options=-csearch_path%3D{address.schema}"
    )


class Shell:
    """A shell whose output is kept."""

    def __init__(self, connection: Connection, environment: TableEnvironment) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.executor = RemoteExecutor(connection, environment, Screen(self.out, self.err))
        self.executor.begin({})

    def says(self, text: str) -> str:
        """What comes to the screen for statements and commands."""
        for stream in (self.out, self.err):
            stream.seek(0)
            stream.truncate()
        self.executor.run_text(text)
        return self.out.getvalue() + self.err.getvalue()


@pytest.fixture
def shell(address: Address) -> Iterator[Shell]:
    with TableEnvironment.create() as environment, closing(Connection(url(address), print)) as connection:
        yield Shell(connection, environment)


def test_statements_and_commands_of_a_pipe(address: Address, capsys: pytest.CaptureFixture[str]) -> None:
    texts = (
        "CREATE TABLE t (a INT, b STRING, d DOUBLE); INSERT INTO t VALUES (1, 'x', 2.5), (2, CAST(NULL AS STRING), 3.5)",
        "SELECT * FROM t ORDER BY a",
        "SELECT `a` FROM t WHERE a > 5",
    )
    assert main(["shell", url(address), *(word for text in texts for word in ("-e", text))]) == 0
    shown = capsys.readouterr()
    assert shown.out == (
        "+---+------+-----+\n"
        "| a | b    | d   |\n"
        "+---+------+-----+\n"
        "| 1 | x    | 2.5 |\n"
        "| 2 | NULL | 3.5 |\n"
        "+---+------+-----+\n"
        "2 rows\n"
        "+---+\n| a |\n+---+\n0 rows\n"
    )
    assert shown.err == "INSERT: 2 rows\n"


def test_an_error_has_its_place_in_the_file(address: Address, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shell", url(address), "-e", "SELECT 1 AS one;\nSELECT\n  2 + nope AS b"]) == 1
    assert "E1201 unknown column" in (told := capsys.readouterr().err)
    assert "at 3:7\n" in told
    assert "           ^^^^" in told


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shell", "postgresql://who:secret@127.0.0.1:1/x", "-e", "SELECT 1"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("E3790 cannot connect") and "secret" not in told


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--database", "x"], ["--catalog", "x"]):
        with pytest.raises(SystemExit):
            main(["shell", "postgresql://a@b/c", *words])
    assert "once" in capsys.readouterr().err


def test_lists_and_descriptions(shell: Shell, address: Address) -> None:
    shell.says("CREATE TABLE tea (a INT); CREATE MATERIALIZED VIEW teas AS SELECT COUNT(*) AS n FROM tea;")
    mine = [line.replace("|", " ").split() for line in shell.says("\\d te*").splitlines() if address.schema in line]
    assert mine == [[address.schema, "tea", "table"], [address.schema, "teas", "materialized", "view"]]
    assert address.schema not in "".join(line for line in shell.says("\\dm tea").splitlines())
    assert "| a    | INT  |" in shell.says("\\d tea")
    assert "job id" in shell.says("\\dj") and address.schema in shell.says("\\l")
    with pytest.raises(UnsupportedError, match="not there on a server"):
        shell.says("\\top")


def test_options_of_the_shell_stay_here_and_others_go_there(shell: Shell) -> None:
    shell.says("SET 'sql-client.display.max-column-width' = '7'; \\x on")
    assert "a | 1" in shell.says("SELECT 1 AS a")
    shell.says("SET 'sqlengine.sql.dialect' = 'postgres'; \\x off")
    assert shell.executor.dialect() == "postgres" and "| 1 |" in shell.says("SELECT '1'::text AS a")
    shell.says("RESET 'sqlengine.sql.dialect'")
    assert shell.executor.dialect() == "flink" and "| 1 |" in shell.says("SELECT `a` FROM (VALUES (1)) AS t (a)")


def test_copy_shows_lines_and_sends_none(shell: Shell) -> None:
    shell.says("CREATE TABLE t (a INT, b STRING); INSERT INTO t VALUES (1, 'x')")
    assert shell.says("COPY t TO STDOUT") == "1\tx\n"
    with pytest.raises(SqlEngineError, match="sends no rows"):
        shell.says("COPY t FROM STDIN")
    assert "| 1 |" in shell.says("SELECT COUNT(*) AS n FROM t")


def test_names_of_the_server_are_suggested(shell: Shell, address: Address) -> None:
    shell.executor.screen.interactive = True
    shell.says("CREATE TABLE teapots (handle INT)")
    found = Suggester(shell.executor.session).suggest(f"SELECT * FROM {address.schema}.", "")
    assert "teapots" in [one.text for one in found]


def test_a_subscription_ends_with_control_c(shell: Shell, client: psycopg.Connection) -> None:
    shell.says(
        "CREATE TABLE t (a INT); INSERT INTO t VALUES (1); CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t"
    )
    lines = shell.executor.screen.lines
    seen: list[str] = []

    def shown(given: object) -> None:
        lines(given)  # type: ignore[arg-type]
        seen.append(shell.out.getvalue())
        if "+I" in seen[-1] and len(seen) == 2:
            client.execute("INSERT INTO t VALUES (2)")
        if "+U" in seen[-1] and "-U" in seen[-1] and not shell.executor.interrupted:
            signal.raise_signal(signal.SIGINT)

    shell.executor.screen.lines = shown  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        shell.says("SUBSCRIBE TO v")
    assert "3 rows" in shell.err.getvalue()
    shell.executor.screen.lines = lines  # type: ignore[method-assign]
    assert "| 2 |" in shell.says("SELECT n FROM v")


def test_a_lost_connection_is_opened_again(shell: Shell) -> None:
    with socket.socket(fileno=os.dup(shell.executor.connection._connection.fileno())) as wire:
        wire.shutdown(socket.SHUT_RDWR)
    with pytest.raises(ConnectorError, match="the connection was lost") as raised:
        shell.says("SELECT 1 AS a")
    assert raised.value.code == "E3791"
    assert "| 1 |" in shell.says("SELECT 1 AS a")


def test_columns_of_one_name_are_shown() -> None:
    shown = as_result(("a", "a", "a1"), (23, 16, 25), (("1", "t", None), (None, None, "x")))
    assert shown.schema.names == ("a", "a1", "a11")
    assert [tuple(row) for row in shown] == [(1, True, None), (None, None, "x")]
