"""`%load_ext sqlengine`: SQL in the cells of a notebook, and in lines of IPython.

    %%sql
    CREATE TABLE t (a INT);
    INSERT INTO t VALUES (1), (2);
    SELECT SUM(a) FROM t

    %sql SELECT * FROM t

A cell runs all its statements and gives the result of the last one, which the notebook shows when the magic is the last
line; queries before it are shown, too. `df = %sql SELECT ...` keeps the result: `df.to_pandas()`, `df.to_arrow()`. The
environment is the variable `t_env` of the notebook, which is made when there is none: in the Spark session `spark` where
the notebook has one (`sqlengine.spark.install`). `%%sql name` (or `name <<`) keeps the
last result under a name: an Arrow table where the rows end.

A statement that fails makes its cell fail, with the error alone: its place in the SQL, and no stack trace.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from runtime.core.cancellation import watching
from runtime.core.errors import SqlEngineError, SqlSyntaxError, render
from runtime.core.rooms import Room
from sqlengine.api.environment import TableEnvironment
from sqlengine.results.live_table import shows_in_place
from sqlengine.results.result import Result
from sqlengine.terminal.progress import Progress, StatementProgress

if TYPE_CHECKING:
    import sqlengine.spark as _spark
else:
    _spark = Room("sqlengine.spark")

__all__ = ["load_ipython_extension"]

VARIABLE = "t_env"
SPARK = "spark"
"""The variable that notebooks of Spark have for their session."""


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext sqlengine`."""
    shell.register_magic_function(_Magic(shell), "line_cell", "sql")


class _Magic:
    """`%sql` and `%%sql`."""

    __name__ = "sql"

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def __call__(self, line: str, cell: str | None = None) -> Any:
        """Run a line, or the statements of a cell, whose `line` is the name that keeps the last result."""
        name, script = _named(line) if cell is None else (line.strip().removesuffix("<<").strip(), cell)
        try:
            if name and not name.isidentifier():
                raise SqlSyntaxError(f"{name!r} is no name for the result", hint="write %%sql, or %%sql name")
            last: Result | None = None
            results = self._environment().run_script(script, variables=self._shell.user_ns)
            while True:
                with _progress():
                    result = next(results, None)
                    if result is not None and result.is_query and result.bounded:
                        result.keep()
                if result is None:
                    break
                if last is not None and last.is_query:
                    _show(last)
                last = result
        except SqlEngineError as error:
            raise _alone(error, render(error)) from None
        except KeyboardInterrupt as interrupt:
            raise _alone(interrupt, "interrupted") from None
        if last is None or not name:
            return last
        self._shell.user_ns[name] = last.to_arrow() if last.is_query and last.bounded else last
        return None

    def _environment(self) -> TableEnvironment:
        found = self._shell.user_ns.get(VARIABLE)
        if not isinstance(found, TableEnvironment):
            spark = self._shell.user_ns.get(SPARK)
            of_spark = type(spark).__module__.startswith("pyspark.sql.")
            found = _spark.install(spark) if of_spark else TableEnvironment.create()
            self._shell.user_ns[VARIABLE] = found
        return found


@contextmanager
def _progress() -> Iterator[None]:
    """How far a statement has come: a line in the output of its cell, gone when it is done; on stderr in a terminal."""
    if not shows_in_place():
        with Progress() as progress, progress.statement():
            yield
        return
    display = importlib.import_module("IPython.display").display
    places: list[Any] = []

    def show(line: str) -> None:
        if places:
            places[0].update({"text/plain": line}, raw=True)
        else:
            places.append(display({"text/plain": line}, raw=True, display_id=True))

    try:
        with watching(StatementProgress(show)):
            yield
    finally:
        for place in places:
            place.update({"text/plain": ""}, raw=True)


def _show(result: Result) -> None:
    importlib.import_module("IPython.display").display(result)


def _named(line: str) -> tuple[str, str]:
    """`name << SELECT ...`, as other SQL magics have it: the name, and the statement."""
    name, arrows, statement = line.partition("<<")
    return (name.strip(), statement) if arrows and name.strip().isidentifier() else ("", line)


Raised = TypeVar("Raised", bound=BaseException)


def _alone(error: Raised, text: str) -> Raised:
    """The error as IPython shall show it: as its text, without a stack trace of ours."""
    setattr(error, "_render_traceback_", text.splitlines)  # noqa: B010
    return error
