"""`%load_ext sqlengine`: SQL in the cells of a notebook, and in lines of IPython.

    %%sql
    CREATE TABLE t (a INT);
    INSERT INTO t VALUES (1), (2);
    SELECT SUM(a) FROM t

    %sql SELECT * FROM t

A cell runs all its statements and shows the result of the last one, and of every query before it. The environment is
the variable `t_env` of the notebook, which is made when there is none. `%%sql name` keeps the last result under a name:
an Arrow table where the rows end.
"""

from __future__ import annotations

import importlib
from typing import Any

from runtime.core.errors import SqlEngineError, render
from sqlengine.environment import TableEnvironment
from sqlengine.result import Result

__all__ = ["load_ipython_extension"]

VARIABLE = "t_env"


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext sqlengine`."""
    shell.register_magic_function(_Magic(shell), "line_cell", "sql")


class _Magic:
    """`%sql` and `%%sql`."""

    __name__ = "sql"

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def __call__(self, line: str, cell: str | None = None) -> Any:
        """Run a line, or the statements of a cell; `line` of a cell is the name that keeps the last result."""
        name = line.strip() if cell is not None else ""
        script = line if cell is None else cell
        if name and not name.isidentifier():
            raise _usage(f"{name!r} is no name for the result: write %%sql, or %%sql name")
        last: Result | None = None
        try:
            for result in self._environment().run_script(script):
                if last is not None and last.is_query:
                    _show(last)
                last = result
            if last is None:
                return None
            if not name:
                _show(last)
                return None
            kept = last.to_arrow() if last.is_query and last.bounded else last
        except SqlEngineError as error:
            raise _usage(render(error)) from None
        self._shell.user_ns[name] = kept
        return None

    def _environment(self) -> TableEnvironment:
        found = self._shell.user_ns.get(VARIABLE)
        if not isinstance(found, TableEnvironment):
            found = self._shell.user_ns[VARIABLE] = TableEnvironment.create()
        return found


def _show(result: Result) -> None:
    importlib.import_module("IPython.display").display(result)


def _usage(text: str) -> Exception:
    """An error that IPython shows as its text alone, without a stack trace."""
    return importlib.import_module("IPython.core.error").UsageError(text)
