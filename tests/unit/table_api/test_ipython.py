"""The magics in a real IPython: what is displayed, what is kept, which cells fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.testing.globalipapp import get_ipython as start_ipython
from IPython.utils.capture import CapturedIO, capture_output

from sqlengine import SqlEngineError
from sqlengine.results.result import Result


class Notebook:
    """Cells of a shell, and what they display."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    def run(self, cell: str) -> tuple[Any, CapturedIO]:
        with capture_output() as shown:
            done = self.shell.run_cell(cell)
        return done, shown

    def __call__(self, cell: str) -> CapturedIO:
        done, shown = self.run(cell)
        done.raise_error()
        return shown


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    shell = start_ipython() or InteractiveShell.instance()
    shell.run_line_magic("load_ext", "sqlengine")
    shell.run_line_magic("reload_ext", "sqlengine")
    yield Notebook(shell)
    shell.user_ns.pop("t_env").close()


def test_a_result_is_displayed_once_and_may_be_kept(notebook: Notebook) -> None:
    assert len(notebook("%sql SELECT 1 AS one").outputs) == 1
    assert len(notebook("%%sql\nSELECT 1 AS one; SELECT 2 AS two").outputs) == 2
    assert notebook("df = %sql SELECT 1 AS one").outputs == []
    kept = notebook.shell.user_ns["df"]
    assert isinstance(kept, Result)
    for _ in range(2):
        assert kept.to_arrow().to_pydict() == {"one": [1]} and [row.one for row in kept] == [1]
    assert list(kept.to_pandas()["one"]) == [1]
    notebook("%sql named << SELECT 2 AS two")
    notebook("%%sql also <<\nSELECT 3 AS three")
    notebook("%%sql plain\nSELECT 4 AS four")
    names = ("named", "also", "plain")
    assert [notebook.shell.user_ns[n].to_pydict() for n in names] == [{"two": [2]}, {"three": [3]}, {"four": [4]}]
    notebook("x = 5")
    notebook("y = %sql SELECT {x} AS five")
    assert notebook.shell.user_ns["y"].to_arrow().to_pydict() == {"five": [5]}
    assert notebook("%sql CREATE TABLE t (a INT)").outputs[0].data["text/plain"] == "OK"


def test_what_is_displayed_of_many_rows_is_small(notebook: Notebook) -> None:
    notebook("%sql CREATE TABLE big (v INT, s STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '200000')")
    (shown,) = notebook("%sql SELECT v, REPEAT(s, 50) AS s FROM big").outputs
    for text in shown.data.values():
        assert "… 199,950 more rows" in text and "200,000 rows" in text
        assert len(text) < 100_000
    (few,) = notebook("%sql SELECT v FROM big LIMIT 50").outputs
    assert "more row" not in few.data["text/plain"] and "50 rows" in few.data["text/plain"]


@pytest.mark.parametrize(
    "cell",
    [
        "%sql SELECT * FROM nowhere",
        "x = %sql SELECT 1 / 0 AS a FROM (VALUES (1), (2)) AS t (b) WHERE b > 1",
        "%%sql\nSELECT 1; SELECT CAST('x' AS INT) AS a",
        "%%sql a b\nSELECT 1",
        "%%sql kept\nSELECT FROM",
    ],
)
def test_a_statement_that_fails_makes_its_cell_fail(notebook: Notebook, cell: str) -> None:
    done, shown = notebook.run(cell)
    assert not done.success and isinstance(done.error_in_exec, SqlEngineError)
    told = shown.stdout + shown.stderr
    assert done.error_in_exec.code is not None and done.error_in_exec.code in told
    assert "Traceback" not in told and ".py" not in told
    assert notebook("%sql SELECT 1 AS one").outputs
