"""The commands of the shell itself: `\\d` and its kind as in psql and DuckDB, HELP, QUIT and CLEAR as in Flink's client."""

from __future__ import annotations

import fnmatch
import os
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.core.errors import UnsupportedError, did_you_mean
from runtime.core.schema import Schema
from runtime.core.types import STRING
from sqlengine.catalog.catalog import CatalogObject
from sqlengine.catalog.objects import CatalogTable, CatalogView, MaterializedView
from sqlengine.options.client import PRINT_TIME, RESULT_MODE
from sqlengine.results.result import Result
from sqlengine.shell.help_texts import STATEMENTS, TABLE_FUNCTIONS, help_on
from sqlengine.shell.reader import Piece
from sqlengine.shell.top import top_lines
from sqlengine.statements.settings import set_value
from sqlengine.text.functions import function_kind, is_called_by_name, signature_texts

if TYPE_CHECKING:
    from sqlengine.shell.executor import Executor

__all__ = ["COMMANDS", "WORDS", "Command", "Leave", "run_command"]

WATCH_SECONDS = 2.0


class Leave(Exception):
    """QUIT: the shell ends."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: how it is written, what it does, and what carries it out with the rest of its line."""

    usage: str
    about: str
    run: Callable[[Executor, str], None]


def run_command(executor: Executor, text: str) -> None:
    """Carry out a command. Raises UnsupportedError E1650 for one that there is not, or that cannot take its argument."""
    name, _, argument = text.strip().rstrip(";").partition(" ")
    if not name.startswith("\\"):
        name = WORDS[name.upper().rstrip(";")]
    command = COMMANDS.get(name)
    if command is None:
        raise UnsupportedError(
            f"unknown command {name}", code="E1650", hint=did_you_mean(name, COMMANDS) or "\\? lists the commands"
        )
    command.run(executor, argument.strip())


def _wrong(command: str, argument: str, hint: str) -> UnsupportedError:
    return UnsupportedError(f"{command} cannot take '{argument}'", code="E1650", hint=hint)


# --- lists
# ---------------------------------------------------------------------------------------------------------------------


def _list(executor: Executor, columns: tuple[str, ...], rows: list[tuple[str | None, ...]]) -> None:
    schema = Schema.of(*((name, STRING) for name in columns))
    cells = [[row[i] or "" for row in rows] for i in range(len(columns))]
    executor.show_list(Result.table(schema, cells))


def _describe(executor: Executor, argument: str) -> None:
    if not argument:
        _tables(executor, "")
        return
    if any(c in argument for c in "*?"):
        _tables(executor, argument)
        return
    executor.run(Piece(f"DESCRIBE {argument}", False, 1))
    thing = executor.session.catalogs.find(
        executor.session.catalogs.qualify(tuple(argument.replace("`", "").split(".")))
    )
    if thing is not None:
        executor.screen.say(_about(thing), "note")


def _about(thing: CatalogObject) -> str:
    """A line on what a name is: its kind, what it is kept in, its comment."""
    facts = [_kind(thing)]
    if isinstance(thing, CatalogTable):
        facts.append(f"connector {thing.connector}" if thing.connector else "in memory")
        if thing.watermark is not None:
            facts.append(f"watermark on {'.'.join(thing.watermark.column)}")
    if thing.comment:
        facts.append(thing.comment)
    return f"{thing.path}: " + ", ".join(facts)


def _kind(thing: CatalogObject) -> str:
    if isinstance(thing, MaterializedView):
        return thing.kind
    if isinstance(thing, CatalogView):
        return "temporary view" if thing.temporary else "view"
    return "temporary table" if thing.temporary else "table"


def _objects(kinds: tuple[type, ...]) -> Callable[[Executor, str], None]:
    def run(executor: Executor, argument: str) -> None:
        found = executor.session.catalogs.objects()
        rows = [
            (
                thing.path.name,
                _kind(thing),
                (thing.connector or "in memory") if isinstance(thing, CatalogTable) else None,
                thing.comment,
            )
            for thing in found
            if isinstance(thing, kinds) and _like(thing.path.name, argument)
        ]
        _list(executor, ("name", "kind", "connector", "comment"), rows)

    return run


_tables = _objects((CatalogTable, CatalogView, MaterializedView))


def _like(name: str, pattern: str) -> bool:
    """Shell patterns, `*` and `?`; no pattern takes all, and a bare word everything that begins with it."""
    wanted = pattern.lower()
    return fnmatch.fnmatchcase(name.lower(), wanted if any(c in wanted for c in "*?") else wanted + "*")


def _functions(executor: Executor, argument: str) -> None:
    rows: list[tuple[str | None, ...]] = [
        (f.name.lower(), function_kind(f).lower(), "; ".join(dict.fromkeys(signature_texts(f))).lower(), f.document)
        for f in sorted(executor.session.functions, key=lambda f: f.name)
        if is_called_by_name(f) and _like(f.name, argument)
    ]
    for name, text in TABLE_FUNCTIONS.items():
        if _like(name, argument):
            signature, about = text.split(": ", 1)
            rows.append((name.lower(), "table", signature.lower(), about))
    rows.sort(key=lambda row: str(row[0]))
    _list(executor, ("function", "kind", "signature", "about"), rows)


def _databases(executor: Executor, argument: str) -> None:
    catalogs = executor.session.catalogs
    here = (catalogs.current_catalog, catalogs.current_database)
    rows: list[tuple[str | None, ...]] = [
        (c.name, d, "current" if (c.name, d) == here else None, c.databases[d].comment)
        for c in catalogs.catalogs()
        for d in sorted(c.databases)
        if _like(c.name, argument) or _like(d, argument)
    ]
    _list(executor, ("catalog", "database", "", "comment"), rows)


def _jobs(executor: Executor, argument: str) -> None:
    del argument
    executor.run(Piece("SHOW JOBS", False, 1))


# --- switches
# ------------------------------------------------------------------------------------------------------------------


def _expanded(executor: Executor, argument: str) -> None:
    choices: dict[str, bool | None] = {"on": True, "off": False, "auto": None}
    if not argument:
        executor.expanded = not executor.expanded
    elif argument.lower() in choices:
        executor.expanded = choices[argument.lower()]
    else:
        raise _wrong("\\x", argument, "it takes on, off or auto")
    now = {True: "on: a line for each column", False: "off", None: "auto: where a row is too wide for the screen"}
    executor.screen.say(f"expanded display is {now[executor.expanded]}", "note")


def _timing(executor: Executor, argument: str) -> None:
    now = executor.session.options.get(PRINT_TIME)
    if argument.lower() not in ("", "on", "off"):
        raise _wrong("\\timing", argument, "it takes on or off")
    after = argument.lower() == "on" if argument else not now
    set_value(executor.session, PRINT_TIME.key, str(after).lower())
    executor.screen.say(f"timing is {'on' if after else 'off'}", "note")


def _mode(executor: Executor, argument: str) -> None:
    if argument:
        set_value(executor.session, RESULT_MODE.key, argument.lower())
    executor.screen.say(f"queries are shown in {executor.session.options.get(RESULT_MODE)} mode", "note")


# --- files, repetition
# ---------------------------------------------------------------------------------------------------------


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'") if len(text) > 1 and text[0] == text[-1] == "'" else text


def _include(executor: Executor, argument: str) -> None:
    if not argument:
        raise _wrong("\\i", "", "give the name of a file of SQL statements")
    executor.run_file(str(Path(_unquoted(argument)).expanduser()))


def _output(executor: Executor, argument: str) -> None:
    executor.redirect(_unquoted(argument) or None)
    where = _unquoted(argument) or "the screen"
    executor.screen.say(f"results go to {where}", "note")


def _watch(executor: Executor, argument: str) -> None:
    try:
        seconds = float(argument or WATCH_SECONDS)
    except ValueError:
        seconds = -1
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise _wrong("\\watch", argument, "it takes a number of seconds")
    query = executor.last_query
    if query is None:
        raise UnsupportedError("there is no query to watch", code="E1650", hint="run a query, then \\watch 2")
    try:
        while True:
            executor.screen.say(f"{time.strftime('%H:%M:%S')}  every {seconds:g} s, until Ctrl-C", "note")
            executor.run(Piece(query, False, 1))
            if executor.interrupted:
                return
            threading.Event().wait(seconds)
    except KeyboardInterrupt:
        executor.screen.say("")


def _edit(executor: Executor, argument: str) -> None:
    del argument
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "query.sql"
        path.write_text((executor.last_query or "") + "\n", encoding="utf-8")
        before = path.read_text(encoding="utf-8")
        try:
            status = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
        except OSError as error:
            raise UnsupportedError(
                f"cannot start {editor}: {error.strerror}", code="E1650", hint="the variable EDITOR names the editor"
            ) from error
        text = path.read_text(encoding="utf-8")
    if status == 0 and text.strip() and text != before:
        executor.screen.say(text.rstrip())
        executor.run_text(text)


def _top(executor: Executor, argument: str) -> None:
    del argument
    if executor.viewer is not None:
        executor.viewer.top()
    else:
        executor.screen.lines(top_lines(executor.session, {}, 0.0))


# --- the shell
# -----------------------------------------------------------------------------------------------------------------


def _help(executor: Executor, argument: str) -> None:
    if argument:
        executor.screen.say(help_on(argument))
        return
    width = max(len(c.usage) for c in COMMANDS.values()) + 2
    lines = ["A statement runs when it ends with a semicolon. Commands of the shell:", ""]
    seen: set[str] = set()
    for command in COMMANDS.values():
        if command.usage not in seen:
            seen.add(command.usage)
            lines.append(f"  {command.usage:{width}}{command.about}")
    names = ", ".join(sorted(STATEMENTS))
    lines += ["", "HELP and a statement shows how it is written:", ""]
    line = " "
    for name in names.split(", "):
        if len(line) + len(name) > 96:
            lines.append(line)
            line = " "
        line += f" {name}," if name != names.rsplit(", ", 1)[-1] else f" {name}"
    executor.screen.say("\n".join([*lines, line]))


def _clear(executor: Executor, argument: str) -> None:
    del argument
    if executor.screen.interactive:
        executor.screen.write("\x1b[H\x1b[2J\x1b[3J")


def _quit(executor: Executor, argument: str) -> None:
    del executor, argument
    raise Leave


COMMANDS: dict[str, Command] = {
    "\\?": Command("\\?  HELP [statement]", "this list; how a statement is written", _help),
    "\\h": Command("\\?  HELP [statement]", "this list; how a statement is written", _help),
    "\\q": Command("\\q  QUIT", "leave; Ctrl-D does, too", _quit),
    "\\d": Command("\\d [name]", "tables and views; or the columns of one", _describe),
    "\\dt": Command("\\dt [pattern]", "tables", _objects((CatalogTable,))),
    "\\dv": Command("\\dv [pattern]", "views", _objects((CatalogView, MaterializedView))),
    "\\dm": Command("\\dm [pattern]", "materialized views", _objects((MaterializedView,))),
    "\\df": Command("\\df [pattern]", "functions, how they are called and what they do", _functions),
    "\\dj": Command("\\dj  SHOW JOBS", "jobs; STOP JOB 'id' ends one", _jobs),
    "\\l": Command("\\l [pattern]", "catalogs and databases", _databases),
    "\\x": Command("\\x [on|off|auto]", "a line for each column", _expanded),
    "\\timing": Command("\\timing [on|off]", "how long statements take", _timing),
    "\\mode": Command("\\mode [mode]", "how queries without an end are shown: table, changelog, tableau", _mode),
    "\\i": Command("\\i file  SOURCE 'file'", "run a file of statements", _include),
    "\\o": Command("\\o [file]", "results into a file (.csv, .json, else as tables), or back to the screen", _output),
    "\\e": Command("\\e", "the last query in $EDITOR; it runs when changed", _edit),
    "\\watch": Command("\\watch [seconds]", "the last query again and again, until Ctrl-C", _watch),
    "\\top": Command("\\top  TOP", "jobs and their operators, live", _top),
    "\\clear": Command("\\clear  CLEAR", "wipe the screen", _clear),
}

WORDS = {
    "HELP": "\\?",
    "QUIT": "\\q",
    "EXIT": "\\q",
    "CLEAR": "\\clear",
    "SOURCE": "\\i",
    "TOP": "\\top",
}
