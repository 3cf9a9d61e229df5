"""docs/shell.md: what is typed at its prompts gives what stands below them (`pytest --rewrite` writes that)."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from sqlengine.shell.executor import Executor
from sqlengine.shell.reader import pieces
from sqlengine.shell.screen import Screen

MANUAL = Path(__file__).parent.parent.parent / "docs" / "shell.md"
PROMPT, CONTINUED, INDENT = "    sqlengine> ", "            -> ", "    "


class Console:
    """The shell of somebody who types what the manual says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setenv("LINES", "40")
        self._bytes = io.BytesIO()
        out = io.TextIOWrapper(self._bytes, encoding="utf-8")
        self.environment = TableEnvironment.create({"sql-client.display.print-time-cost": "false"})
        self._screen = Screen(out, interactive=True)
        self._executor = Executor(self.environment, self._screen)

    def answer(self, text: str) -> list[str]:
        start = len(self._bytes.getvalue())
        for piece in pieces(text):
            try:
                self._executor.run(piece)
            except SqlEngineError as error:
                self._screen.complain(error)
        return self._bytes.getvalue()[start:].decode().splitlines()


def blocks(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Of each input its first line, the line behind it, and its text."""
    at = 0
    while at < len(lines):
        if lines[at].startswith(PROMPT) and lines[at] != PROMPT.rstrip():
            stop = at + 1
            while stop < len(lines) and lines[stop].startswith(CONTINUED):
                stop += 1
            yield at, stop, "\n".join(line[len(PROMPT) :] for line in lines[at:stop])
            at = stop
        else:
            at += 1


def test_transcripts(monkeypatch: pytest.MonkeyPatch, rewrite: bool) -> None:
    console = Console(monkeypatch)
    lines = MANUAL.read_text(encoding="utf-8").splitlines()
    made: list[str] = []
    at = 0
    with console.environment:
        for start, stop, text in blocks(lines):
            made += lines[at:stop]
            made += [(INDENT + line).rstrip() for line in console.answer(text)]
            at = stop
            while at < len(lines) and lines[at].startswith(INDENT) and not lines[at].startswith(PROMPT):
                at += 1
            assert start < stop
    made += lines[at:]
    if rewrite:
        MANUAL.write_text("\n".join(made) + "\n", encoding="utf-8")
    assert made == MANUAL.read_text(encoding="utf-8").splitlines()


def test_statements_without_a_prompt_can_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = re.findall(r"(?m)^    (?:CREATE|SELECT|USE)\b[^;]*;$", MANUAL.read_text(encoding="utf-8"))
    assert len(found) == 4
    with TableEnvironment.create() as environment:
        for text in found:
            if text.strip().startswith("SELECT"):
                environment.explain_sql(text)
            else:
                environment.execute_sql(text)
    assert (tmp_path / "work.sql").exists()
