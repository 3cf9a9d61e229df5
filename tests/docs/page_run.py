"""Does what a reader of a page does, block by block, and tells what the page ought to show."""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from sqlengine.cli.main import build_parser, full_command, main
from sqlengine.parse import parse_script
from sqlengine.results.render import render_result
from sqlengine.shell.executor import Executor
from sqlengine.shell.meta import Leave
from sqlengine.shell.prompt import greeting
from sqlengine.shell.reader import pieces
from sqlengine.shell.screen import Screen
from sqlengine.terminal.colours import Paint
from tests.docs.pages import ROOT, Block, blocks_of, matched, named_files, without_times

__all__ = ["PageRun", "check_page"]

SCREENS = ROOT / "tests" / "cli" / "screens"
VARIABLES = {"NO_COLOR": "1", "COLUMNS": "120", "LINES": "40", "PYTHONPATH": str(ROOT)}
"""The environment in which pages are run."""
QUIET = {"sql-client.display.print-time-cost": "false"}
SECONDS = 60
_PROMPT = re.compile(r"(?:sqlengine|[a-z_]+\.[a-z_]+)> ")
_CONTINUED = re.compile(r" *-> ")
_NUMBERED = re.compile(r"from_elements_\d+")


def check_page(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, *, rewrite: bool, spark: bool = False
) -> None:
    """Run the blocks of a page in a folder: those for Spark, or all others. What they show must be what comes out."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    # Modules of the page can be imported, and are others on the next page.
    monkeypatch.syspath_prepend(folder)
    for file in named_files(page.read_text(encoding="utf-8"), ["python"]):
        monkeypatch.delitem(sys.modules, file.removesuffix(".py"), raising=False)
    (folder / "sql_examples").symlink_to(ROOT / "sql_examples")
    run = PageRun(page.read_text(encoding="utf-8"), folder, spark=spark)
    run.run()
    if rewrite:
        page.write_text("\n".join(run.lines) + "\n", encoding="utf-8")
    difference = list(
        unified_diff(page.read_text(encoding="utf-8").splitlines(), run.lines, "the page", "what comes out", n=2)
    )
    assert not difference, "\n".join(difference)


class PageRun:
    """One reading of a page, in a folder of its own that has the `sql_examples` of the repository.

    `lines` are the lines of the page as they should be: equal to those that it has where what it shows is right.
    """

    def __init__(self, text: str, folder: Path, *, spark: bool = False) -> None:
        self._folder = folder
        self._spark = spark
        self._blocks = blocks_of(text)
        self._page = text.splitlines()
        self._globals: dict[str, Any] = {"__name__": "__main__"}
        self._printed: list[str] | None = None
        """What the block before has printed."""
        self._session: _Session | None = None
        self._commands = _Commands(folder)
        self.lines: list[str] = []

    def run(self) -> None:
        """All blocks, in order."""
        at = 0
        try:
            for number, block in enumerate(self._blocks):
                self.lines += self._page[at : block.start]
                above = self._blocks[number - 1] if number and block.follows(self._blocks[number - 1]) else None
                self.lines += self._block(block, above)
                at = block.stop
            self.lines += self._page[at:]
        finally:
            self._close()

    def _close(self) -> None:
        if self._session is not None:
            self._session.environment.close()
        for value in self._globals.values():
            if isinstance(value, TableEnvironment):
                value.close()

    # --- blocks

    def _block(self, block: Block, above: Block | None) -> Sequence[str]:
        printed, self._printed = self._printed, None
        if self._spark != ("spark" in block.words) and not (self._spark and block.file is not None):
            return block.lines
        if block.file is not None and block.language != "text":
            self._write(block)
            return block.lines
        match block.language:
            case "console":
                return self._console(block)
            case "sql" if "example" in block.words:
                assert parse_script(block.text), block.text
            case "sql":
                self._printed = self._statements(block.text)
            case "python" if any(line.startswith(">>> ") for line in block.lines):
                return self._examples(block.lines)
            case "python":
                self._printed = self._program(block)
            case "sh":
                check_commands(block.lines)
            case "text" if block.file is not None:
                return (SCREENS / block.file).read_text(encoding="utf-8").splitlines()
            case "text":
                if printed is not None and above is not None:
                    return block.lines if matched(block.lines, printed) else printed
            case _:
                raise AssertionError(f"line {block.start}: no such kind of block: {block.language!r}")
        return block.lines

    def _write(self, block: Block) -> None:
        assert block.file is not None
        (self._folder / block.file).write_text(block.text, encoding="utf-8")
        if block.language == "slt" and not self._spark:
            status, output = _inside(lambda: main(["test", str(block.file)]))
            assert status == 0, "\n".join(output)

    def _statements(self, text: str) -> list[str]:
        environment = self._opened().environment
        environment.session.inserts_in_background = False
        shown: list[str] = []
        for result in environment.run_script(text):
            if result.is_query:
                shown += "".join(render_result(result, "table", Paint(None))).splitlines()
        environment.session.inserts_in_background = True
        return shown

    def _program(self, block: Block) -> list[str]:
        # Line numbers of errors are those of the page.
        code = compile("\n" * block.start + block.text, "page", "exec")
        return _inside(lambda: exec(code, self._globals))[1]

    def _examples(self, lines: Sequence[str]) -> list[str]:
        made: list[str] = []
        for source, shown, expected in _inputs(lines, lambda line: line.startswith(">>> "), _python_goes_on):
            made += shown
            text = "\n".join(line[4:] for line in shown) + "\n"
            output = self._example(text)
            made += expected if matched(_numbers_apart(expected), _numbers_apart(output)) else output
            del source
        return made

    def _example(self, text: str) -> list[str]:
        try:
            return _inside(lambda: exec(compile(text, "page", "single"), self._globals))[1]
        except Exception as error:
            return ["Traceback (most recent call last):", "  ...", f"{type(error).__name__}: {error}"]

    # --- what stands after prompts

    def _console(self, block: Block) -> list[str]:
        until = next((word.partition("=")[2] for word in block.words if word.startswith("until=")), None)
        made: list[str] = []
        for kind, shown, expected in _inputs(block.lines, _prompt_of, _console_goes_on):
            made += shown
            if kind == "$ ":
                output = self._command([shown[0][2:], *shown[1:]], expected, until)
            elif kind == ">>> ":
                output = self._example("\n".join(line[4:] for line in shown) + "\n")
            else:
                output = self._typed(kind, shown, expected)
            made += expected if matched(expected, output) else map(without_times, output)
        return made

    def _command(self, lines: Sequence[str], expected: Sequence[str], until: str | None) -> list[str]:
        text = "\n".join(lines)
        cut = next((word for word in ("^C", "Killed") if word in expected), None)
        if cut is not None:
            assert until is not None, f"say when {text!r} is to be ended: until=PATH"
            return self._commands.ended(text, cut, until)
        words = shlex.split(text, comments=True)
        if words[0] == "sqlengine" and _is_plain(text):
            if words[1:2] in ([], ["shell"]) and not {"-e", "-f"} & set(words):
                return self._shell(words[1:])
            return _inside(lambda: main(words[1:]))[1]
        return self._commands.run(text)

    def _shell(self, words: Sequence[str]) -> list[str]:
        """A prompt: its greeting."""
        if self._session is not None:
            self._session.environment.close()
        arguments = build_parser().parse_args(list(words) or ["shell"])
        self._session = _Session(dict(option.split("=", 1) for option in arguments.options))
        if arguments.init:
            self._session.executor.run_file(arguments.init)
        if arguments.catalog:
            name = Path(arguments.catalog).stem
            self._session.executor.run_text(
                f"CREATE CATALOG {name} WITH ('type' = 'file', 'path' = '{arguments.catalog}'); USE CATALOG {name}"
            )
            self._session.out.taken()
        self._session.greet()
        return self._session.out.taken()

    def _opened(self) -> _Session:
        if self._session is None:
            self._session = _Session({})
        return self._session

    def _typed(self, prompt: str, shown: Sequence[str], expected: Sequence[str]) -> list[str]:
        text = "\n".join([shown[0][len(prompt) :], *(_CONTINUED.sub("", line, count=1) for line in shown[1:])])
        session = self._opened()
        out = session.out
        if "^C" in expected:
            out.interrupt_after = list(expected).index("^C")
        try:
            for piece in pieces(text):
                session.executor.run(piece)
        except Leave:
            session.environment.close()
            self._session = None
        except SqlEngineError as error:
            session.screen.complain(error)
        out.interrupt_after = None
        return out.taken()


# --- the shell
# -----------------------------------------------------------------------------------------------------------------


class _Output(io.TextIOWrapper):
    """What the shell has shown. After `interrupt_after` lines somebody types Ctrl-C."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes, encoding="utf-8", write_through=True)
        self._start = 0
        self.interrupt_after: int | None = None
        self._cut: int | None = None

    def write(self, text: str) -> int:
        written = super().write(text)
        if self.interrupt_after is not None and self._lines().count("\n") >= self.interrupt_after:
            self.interrupt_after, self._cut = None, self.interrupt_after
            os.kill(os.getpid(), signal.SIGINT)
        return written

    def _lines(self) -> str:
        return self._bytes.getvalue()[self._start :].decode()

    def taken(self) -> list[str]:
        """The lines since the last time."""
        lines = self._lines().splitlines()
        if self._cut is not None:
            lines.insert(self._cut, "^C")
            self._cut = None
        self._start = len(self._bytes.getvalue())
        return lines


class _Session:
    """The shell of somebody who types what a page says."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.out = _Output()
        self.environment = TableEnvironment.create({**QUIET, **options})
        self.screen = Screen(self.out, interactive=True)
        self.executor = Executor(self.environment, self.screen)

    def greet(self) -> None:
        self.screen.say(greeting(self.executor))


# --- inputs and their output
# ---------------------------------------------------------------------------------------------------


def _prompt_of(line: str) -> str | None:
    for prompt in ("$ ", ">>> "):
        if line.startswith(prompt):
            return prompt
    found = _PROMPT.match(line)
    return found[0] if found is not None else None


def _inputs(
    lines: Sequence[str], begins: Callable[[str], Any], goes_on: Callable[[str, Sequence[str], str], bool]
) -> Iterator[tuple[Any, list[str], list[str]]]:
    """(what `begins` told of its first line, the lines of the input, those of its output)."""
    assert not lines or begins(lines[0]), f"output without an input: {lines[0]}"
    at = 0
    while at < len(lines):
        kind = begins(lines[at])
        stop = at + 1
        while stop < len(lines) and goes_on(kind, lines[at:stop], lines[stop]):
            stop += 1
        end = stop
        while end < len(lines) and not begins(lines[end]):
            end += 1
        yield kind, list(lines[at:stop]), list(lines[stop:end])
        at = end


def _python_goes_on(kind: Any, above: Sequence[str], line: str) -> bool:
    return line.startswith("... ") or line == "..."


def _console_goes_on(kind: str, above: Sequence[str], line: str) -> bool:
    if kind == "$ ":
        return above[-1].endswith("\\") or _is_open("\n".join(above)[2:])
    if kind == ">>> ":
        return _python_goes_on(kind, above, line)
    return _CONTINUED.match(line) is not None


def _is_open(command: str) -> bool:
    """Whether a quotation mark of a command is not closed yet."""
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return True
    return False


def _is_plain(command: str) -> bool:
    """Whether a command has no pipes, redirections and the like: it is run in this process."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return "$(" not in command and not any(set(token) <= set("|&;<>()") for token in lexer)


def _numbers_apart(lines: Sequence[str]) -> list[str]:
    """Tables of Python rows are numbered through the life of a process."""
    return [_NUMBERED.sub("from_elements_N", line) for line in lines]


# --- commands
# ------------------------------------------------------------------------------------------------------------------


def _inside(act: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What a call gives, and the lines that it writes to both streams."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="utf-8", write_through=True)
    with redirect_stdout(stream), redirect_stderr(stream):
        try:
            given = act()
        except SystemExit as left:
            given = left.code
    return given, written.getvalue().decode().splitlines()


class _Commands:
    """Runs lines of a reader's shell, in which `sqlengine`, `python` and `pytest` are ours."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None

    def _environment(self) -> dict[str, str]:
        if self._path is None:
            self._path = self._folder / ".bin"
            self._path.mkdir()
            for name, target in (("sqlengine", " -m sqlengine"), ("python", ""), ("pytest", " -m pytest")):
                script = self._path / name
                script.write_text(f'#!/bin/sh\nexec "{sys.executable}"{target} "$@"\n', encoding="utf-8")
                script.chmod(0o755)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "PYTEST_"))}
        return {**kept, **VARIABLES, "HOME": str(self._folder), "PATH": f"{self._path}:{os.environ['PATH']}"}

    @contextmanager
    def _process(self, text: str) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            ["bash", "-c", text],
            cwd=self._folder,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def run(self, text: str) -> list[str]:
        with self._process(text) as process:
            return process.communicate(timeout=SECONDS)[0].decode().splitlines()

    def ended(self, text: str, cut: str, until: str) -> list[str]:
        """Run a command until a path (a pattern) is there, then end it by Ctrl-C or `kill -9`."""
        with self._process(text) as process:
            deadline = time.monotonic() + SECONDS
            while not any(self._folder.glob(until)):
                assert time.monotonic() < deadline, f"{until} did not appear"
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.01)
                    pytest.fail(f"ended before {until} appeared: {process.communicate()[0].decode()}")
            os.killpg(process.pid, signal.SIGINT if cut == "^C" else signal.SIGKILL)
            output = process.communicate(timeout=SECONDS)[0].decode().splitlines()
        if cut == "Killed":
            return [*output, "Killed"]
        return ["^C", *output]


def check_commands(lines: Sequence[str]) -> None:
    """Commands of ours that a page tells of: the arguments exist, and so do the targets of `make`."""
    text, held = [], ""
    for line in lines:
        held = f"{held}\n{line}" if held else line
        if not held.endswith("\\") and not _is_open(held):
            text.append(held)
            held = ""
    assert not held, held
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in text:
        for command in line.replace("$(", "|").replace(")", "|").split("|"):
            words = shlex.split(command, comments=True)
            if words[:1] == ["sqlengine"] and words[1:]:
                try:
                    build_parser().parse_args(full_command(words[1:]))
                except SystemExit as left:
                    assert left.code == 0, f"not a command: {command}"
            elif words[:1] == ["make"]:
                for target in (word for word in words[1:] if "=" not in word):
                    assert re.search(rf"(?m)^{re.escape(target)}:", makefile), f"make has no target {target}"
