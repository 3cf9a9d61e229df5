"""Results in notebooks, and `%%sql`. IPython is not needed: what it gives is played here."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

import sqlengine
from sqlengine import SqlEngineError, TableEnvironment
from sqlengine.results.live_table import LiveTable


class Shell:
    """What the extension uses of IPython."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.magics: dict[str, Any] = {}

    def register_magic_function(self, function: Any, kind: str, name: str) -> None:
        assert kind == "line_cell"

        def last_line(line: str, cell: str | None = None) -> Any:
            given = function(line, cell)
            if given is not None:
                given._ipython_display_()
            return given

        self.magics[name] = last_line


class Place:
    """A place of a notebook, and all that was shown in it."""

    def __init__(self) -> None:
        self.contents: list[Any] = []

    def update(self, shown: Any) -> None:
        self.contents.append(shown)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What IPython has shown: HTML texts, places, or other things."""
    seen: list[Any] = []

    def display(thing: Any, raw: bool = False, display_id: bool = False) -> Any:
        if display_id:
            seen.append(Place())
            seen[-1].update(thing)
            return seen[-1]
        if hasattr(thing, "_ipython_display_"):
            return thing._ipython_display_()
        seen.append(thing["text/html"] if raw else thing)
        return None

    modules = {
        "IPython": types.ModuleType("IPython"),
        "IPython.display": types.SimpleNamespace(display=display, HTML=lambda text: text),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return seen


@pytest.fixture
def shell(shown: list[Any]) -> Iterator[Shell]:
    made = Shell()
    sqlengine.load_ipython_extension(made)
    yield made
    if "t_env" in made.user_ns:
        made.user_ns["t_env"].close()


def test_a_cell_runs_its_statements_and_shows_its_queries(shell: Shell, shown: list[Any]) -> None:
    sql = shell.magics["sql"]
    sql(
        "",
        "CREATE TABLE t (a INT, s STRING); INSERT INTO t VALUES (1, '<x>'), (2, NULL); SELECT a FROM t; SELECT * FROM t",
    )
    assert len(shown) == 2
    assert "2 rows" in shown[1] and "&lt;x&gt;" in shown[1] and "NULL" in shown[1] and "STRING" in shown[1]
    sql("SELECT COUNT(*) AS c FROM t")
    assert "<td" in shown[2]
    sql("kept", "SELECT a FROM t")
    assert shell.user_ns["kept"].to_pydict() == {"a": [1, 2]}
    assert len(shown) == 3
    assert isinstance(shell.user_ns["t_env"], TableEnvironment)
    sql("", "INSERT INTO t VALUES (3, 'c')")
    assert "1 row written to t" in shown[3]


def test_what_is_no_table_is_shown_as_text(shell: Shell, shown: list[Any]) -> None:
    sql = shell.magics["sql"]
    sql("CREATE TABLE t (a INT)")
    sql("EXPLAIN SELECT a FROM t")
    assert shown[0] == "<pre>OK</pre>"
    assert shown[1].startswith("<pre>== Abstract Syntax Tree ==\n")


def test_a_terminal_gets_text_and_changes_as_lines(
    shell: Shell, shown: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class TerminalInteractiveShell:
        pass

    texts: list[str] = []
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", TerminalInteractiveShell, raising=False)
    monkeypatch.setattr(sys.modules["IPython.display"], "display", lambda thing, raw: texts.append(thing["text/plain"]))
    with TableEnvironment.create() as env:
        env.execute_sql("SELECT 1 AS one")._ipython_display_()
        assert texts == ["+-----+\n| one |\n+-----+\n|   1 |\n+-----+\n1 row"]
        numbers = env.create_input("numbers", {"n": "INT"})
        result = env.execute_sql("SELECT SUM(n) AS s FROM numbers")
        numbers.push([(3,)])
        numbers.close()
        result._ipython_display_()
        assert "| +I |           3 |" in capsys.readouterr().out and result._live is None


def test_mistakes_are_shown_without_a_trace(shell: Shell) -> None:
    with pytest.raises(SqlEngineError, match="E1202") as failed:
        shell.magics["sql"]("SELECT * FROM u")
    lines = failed.value._render_traceback_()  # type: ignore[attr-defined]
    assert lines[0].startswith('E1202 unknown table "u"') and "^" in lines[3] and "Traceback" not in "".join(lines)
    with pytest.raises(SqlEngineError, match="no name for the result"):
        shell.magics["sql"]("a b", "SELECT 1")


def test_rows_that_were_shown_are_still_there(shown: list[Any]) -> None:
    with TableEnvironment.create() as env:
        result = env.from_elements([(n,) for n in range(60)], ["n"]).execute()
        text = result._repr_html_()
        assert (
            "60 rows, 50 shown" in text
            and ">24<" in text
            and ">25<" not in text
            and ">34<" not in text
            and ">35<" in text
        )
        assert "… 10 more rows" in text
        assert result.to_arrow().num_rows == 60 and len(list(result)) == 60


def test_a_result_without_end_is_followed_in_its_place(shown: list[Any]) -> None:
    with TableEnvironment.create() as env:
        numbers = env.create_input("numbers", {"n": "INT"})
        result = env.execute_sql("SELECT SUM(n) AS s FROM numbers")
        result._ipython_display_()
        (place,) = shown
        assert "waiting for rows" in place.contents[0]
        numbers.push([(1,), (2,)])
        numbers.push([(4,)])
        numbers.close()
        assert result._live is not None
        result._live.join(30)
        assert ">7<" in place.contents[-1] and "ended" in place.contents[-1]


def test_a_live_table_is_updated_so_often_and_no_more() -> None:
    with TableEnvironment.create() as env:
        numbers = env.create_input("numbers", {"n": "INT"})
        times = iter([0.0, 0.1, 0.5, 0.6, 0.7])
        place = Place()
        result = env.execute_sql("SELECT n FROM numbers")
        live = LiveTable(_OneAnEpoch(result, numbers), place, str, lambda: next(times))
        live.join(30)
        # The first, the one after a while, and the end.
        assert [text.count("<tr>") - 1 for text in place.contents] == [1, 3, 4]


class _OneAnEpoch:
    """A result whose input gets a row, four times, when the one before was taken."""

    def __init__(self, result: Any, numbers: Any) -> None:
        self.schema = result.schema
        self.cancel = result.cancel
        self._result = result
        self._numbers = numbers

    def changes(self) -> Iterator[Any]:
        changes = self._result.changes()
        for n in range(4):
            self._numbers.push_row(n)
            yield next(changes)
        self._numbers.close()
        yield from changes
