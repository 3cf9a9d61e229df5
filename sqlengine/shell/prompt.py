"""The prompt of a terminal: editing over several lines, colours, history and its search, completion, notes of jobs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from prompt_toolkit import PromptSession, prompt
from prompt_toolkit.application import create_app_session, get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, completion_is_selected, has_completions, is_searching
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style

from runtime.core.errors import SqlEngineError
from runtime.core.secrets import masked_source
from sqlengine import __version__
from sqlengine.shell.completion import SqlCompleter
from sqlengine.shell.executor import Executor
from sqlengine.shell.frames import frame_output
from sqlengine.shell.full_screen import FullScreen
from sqlengine.shell.highlight import SqlLexer
from sqlengine.shell.meta import Leave
from sqlengine.shell.reader import is_complete, pieces
from sqlengine.shell.styles import STYLES
from sqlengine.text.amounts import human_count

__all__ = ["greeting", "prompt_loop"]

PROMPT, CONTINUED = "> ", "-> "


def prompt_loop(executor: Executor, history: Path | None) -> int:
    """Ask for statements until the user leaves. Gives the exit status."""
    with create_app_session(output=frame_output()):
        return _prompts(executor, history)


def _prompts(executor: Executor, history: Path | None) -> int:
    colour = executor.screen.colour
    executor.viewer = FullScreen(executor, colour=colour)
    session = _prompt_session(executor, _history(executor, history), colour=colour)
    executor.screen.say(greeting(executor))
    while True:
        try:
            with patch_stdout(raw=True):
                text = session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            text = "\\q"
        try:
            for piece in pieces(text, executor.dialect):
                executor.run(piece)
                if executor.interrupted:
                    break
        except Leave:
            if may_leave(executor):
                return 0
        except KeyboardInterrupt:
            executor.screen.say("cancelled", "warning")
        except SqlEngineError as error:
            executor.screen.complain(error, verbose=executor.verbose)
        except Exception as error:
            executor.screen.complain(error, verbose=executor.verbose)


def greeting(executor: Executor) -> str:
    """The first line of a shell."""
    name = executor.screen.paint("sqlengine", "bold")
    return f"{name} {__version__}: statements end with a semicolon, \\? is help, Ctrl-D leaves"


def may_leave(executor: Executor) -> bool:
    """Whether no job runs, or the user wants to leave in spite of that."""
    running = executor.running_jobs()
    if not running:
        return True
    names = ", ".join(job.id for job in running)
    ask = f"{'1 job runs' if len(running) == 1 else f'{len(running)} jobs run'} ({names}). Stop and leave? [y/N] "
    try:
        answer = prompt(ask)
    except KeyboardInterrupt:
        return False
    except EOFError:
        return True
    return answer.strip().lower() in ("y", "yes")


class _Lines(FileHistory):
    """A history that leaves out what begins with a space, and whose file has no statement in which a secret is written:
    that one can be called back until the shell ends."""

    def append_string(self, string: str) -> None:
        if not string.startswith(" "):
            super().append_string(string)

    def store_string(self, string: str) -> None:
        if masked_source(string) != string:
            return
        try:
            super().store_string(string)
        except OSError:
            pass  # a history that cannot be written is no reason to stop working


def _history(executor: Executor, path: Path | None) -> History:
    if path is None:
        return InMemoryHistory()
    try:
        path.expanduser().parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path.expanduser(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
        if path.expanduser().is_file():
            path.expanduser().chmod(0o600)
    except OSError as error:
        executor.screen.say(f"the history is not kept: {path}: {error.strerror}", "warning")
        return InMemoryHistory()
    return _Lines(str(path.expanduser()))


def _prompt_session(executor: Executor, history: History, *, colour: bool) -> PromptSession[str]:
    names: set[str] = {f.name for f in executor.session.functions}

    def message() -> StyleAndTextTuples:
        return [("class:prompt", executor.place), ("class:prompt.mark", PROMPT)]

    def continuation(width: int, number: int, wrapped: int) -> StyleAndTextTuples:
        return [("class:prompt.more", " " * width if wrapped else CONTINUED.rjust(width))]

    def toolbar() -> StyleAndTextTuples | None:
        running = executor.running_jobs()
        if not running:
            return None
        rows = sum(v.rows_in for r in running for v in r.job.dataflow.vertices if v.operator is None)
        what = "1 job runs" if len(running) == 1 else f"{len(running)} jobs run"
        return [("", f" {what}, {human_count(rows)} rows read; SHOW JOBS, \\top, STOP JOB '{running[-1].id}' ")]

    return PromptSession(
        message,
        multiline=True,
        lexer=SqlLexer(lambda: names),
        completer=SqlCompleter(executor.session),
        complete_while_typing=True,
        complete_style=CompleteStyle.COLUMN,
        history=history,
        auto_suggest=AutoSuggestFromHistory(),
        enable_open_in_editor=True,
        enable_suspend=True,
        key_bindings=_keys(executor.dialect),
        editing_mode=EditingMode.VI if "vi" in os.environ.get("SQLENGINE_EDITING_MODE", "") else EditingMode.EMACS,
        prompt_continuation=continuation,
        bottom_toolbar=lambda: toolbar(),
        refresh_interval=1.0,
        style=Style.from_dict(STYLES if colour else {}),
        color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
        include_default_pygments_style=False,
        reserve_space_for_menu=8,
    )


def _keys(dialect: Callable[[], str]) -> KeyBindings:
    keys = KeyBindings()

    @Condition
    def complete() -> bool:
        return is_complete(get_app().current_buffer.text, dialect)

    @keys.add("enter", filter=completion_is_selected)
    def _take(event: KeyPressEvent) -> None:
        """Enter on a line of the menu takes it, and runs nothing."""
        event.current_buffer.complete_state = None

    @keys.add("enter", filter=complete & ~is_searching & ~completion_is_selected)
    def _run(event: KeyPressEvent) -> None:
        """Enter at the end of a statement runs it; elsewhere it begins another line."""
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=~is_searching)
    def _run_anyway(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", filter=has_completions, eager=True)
    def _close_menu(event: KeyPressEvent) -> None:
        event.current_buffer.cancel_completion()

    return keys
