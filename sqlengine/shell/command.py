"""`sqlengine shell`: what the arguments say, where statements come from, and the exit status."""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.core.errors import SqlEngineError
from runtime.core.rooms import Room
from sqlengine.api.environment import TableEnvironment
from sqlengine.shell.executor import Executor
from sqlengine.shell.meta import Leave
from sqlengine.shell.reader import pieces, pieces_of_lines
from sqlengine.shell.screen import Screen
from sqlengine.statements.create_text import literal, quoted
from sqlengine.statements.file_catalog import catalog_name
from sqlengine.terminal.scripts import scripts

if TYPE_CHECKING:
    import sqlengine.shell.remote.connection as _connection
    import sqlengine.shell.remote.executor as _remote
else:
    _connection = Room("sqlengine.shell.remote.connection")
    _remote = Room("sqlengine.shell.remote.executor")

__all__ = ["ShellArguments", "default_history", "default_init", "is_server", "shell_command"]


@dataclass(frozen=True, slots=True)
class ShellArguments:
    """What the command line says.

    `texts` and `files` run instead of a prompt; `init` is the file to run first (None: the user's own, if there is
    one; empty: none); `catalog` a file that keeps definitions; `history` where lines are remembered (empty: nowhere);
    `database` the folder of a database that lasts, or the address of a server (`postgresql://..`).
    """

    texts: Sequence[str] = ()
    files: Sequence[str] = ()
    init: str | None = None
    catalog: str | None = None
    history: str | None = None
    database: str | None = None


def default_init() -> Path | None:
    """`$XDG_CONFIG_HOME/sqlengine/init.sql` (`~/.config`), else `~/.sqlenginerc`; None when neither is there."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return next((p for p in (folder / "sqlengine" / "init.sql", Path.home() / ".sqlenginerc") if p.is_file()), None)


def default_history() -> Path:
    """`$XDG_STATE_HOME/sqlengine/history` (`~/.local/state`)."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "sqlengine" / "history"


def shell_command(arguments: ShellArguments, options: dict[str, str]) -> int:
    """Run statements from the command line, a pipe or a prompt; gives the exit status.

    At a prompt an error is shown and the next statement asked for; otherwise the first error ends it.
    """
    scripted = bool(arguments.texts or arguments.files)
    interactive = not scripted and sys.stdin.isatty() and sys.stdout.isatty()
    screen = Screen(interactive=interactive)
    with _executor(arguments, options, screen) as executor:
        init = default_init() if arguments.init is None else Path(arguments.init) if arguments.init else None
        try:
            if init is not None and (interactive or arguments.init is not None):
                if not _initialise(executor, init, goes_on=interactive):
                    return 1
            executor.quiet = False
            if interactive:
                # prompt_toolkit is imported here and not by a pipe, which has no use for it.
                prompt = pkgutil.resolve_name("sqlengine.shell.prompt:prompt_loop")
                history = arguments.history
                return prompt(executor, default_history() if history is None else Path(history) if history else None)
            for source, text in scripts(arguments.texts, arguments.files):
                executor.run_pieces(pieces(text, executor.dialect), source)
            if not scripted:
                executor.run_pieces(pieces_of_lines(_lines_of_stdin(), executor.dialect), "<stdin>")
        except Leave:
            return 0
        executor.wait_for_jobs()
    return 0


@contextmanager
def _executor(arguments: ShellArguments, options: dict[str, str], screen: Screen) -> Iterator[Executor]:
    """What carries statements out: in this process, or at the server of an address. It is quiet to begin with."""
    if arguments.database is not None and is_server(arguments.database):
        with (
            TableEnvironment.create() as environment,
            closing(_connection.Connection(arguments.database, screen.say)) as connection,
        ):
            remote = _remote.RemoteExecutor(connection, environment, screen)
            remote.quiet = True
            remote.begin(options)
            yield remote
        return
    with TableEnvironment.create(options, path=arguments.database) as environment:
        executor = Executor(environment, screen)
        executor.quiet = True
        if arguments.catalog is not None:
            name = quoted(catalog_name(arguments.catalog))
            path = literal(str(Path(arguments.catalog).expanduser()))
            executor.run_text(f"CREATE CATALOG {name} WITH ('type' = 'file', 'path' = {path}); USE CATALOG {name}")
        yield executor


def is_server(place: str) -> bool:
    """Whether the argument of the shell names a server and no folder."""
    return place.lower().startswith(("postgresql://", "postgres://"))


def _initialise(executor: Executor, path: Path, *, goes_on: bool) -> bool:
    """Run the init file; at a prompt an error in it is told and no more."""
    try:
        executor.run_file(str(path))
    except SqlEngineError as error:
        executor.screen.complain(error, verbose=executor.verbose)
        return goes_on
    return True


def _lines_of_stdin() -> Iterable[str]:
    """Line by line, so that each statement runs as soon as it is there."""
    stream = sys.stdin
    first = True
    for line in stream:
        yield line.removeprefix("\ufeff") if first else line
        first = False
