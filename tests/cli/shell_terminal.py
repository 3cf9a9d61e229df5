"""A shell in a terminal of its own: what a user types, and the screen that they see."""

from __future__ import annotations

import copy
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyte

__all__ = ["ShellTerminal", "check_screen"]

ROOT = Path(__file__).parent.parent.parent
SCREENS = Path(__file__).parent / "screens"
SCROLLED_LINES = 3
SECONDS = float(os.environ.get("SHELL_TEST_SECONDS", "60"))
BYTES_AT_ONCE = int(os.environ.get("SHELL_TEST_READ", "65536"))


class _Screen(pyte.Screen):
    """With the other buffer that full screens use, with frames and prompts, which pyte does not have."""

    in_frame = False
    prompts = 0
    """How many prompts have begun: each asks for pasted texts in brackets."""

    def set_mode(self, *modes: int, **kwargs: bool) -> None:
        if 2026 in modes and kwargs.get("private"):
            self.in_frame = True
        if 2004 in modes and kwargs.get("private"):
            self.prompts += 1
        if 1049 in modes and kwargs.get("private"):
            self._kept = copy.deepcopy(self.buffer), copy.copy(self.cursor)
            self.erase_in_display(2)
        super().set_mode(*modes, **kwargs)

    def select_graphic_rendition(self, *attributes: int, **kwargs: bool) -> None:
        if not kwargs.get("private"):
            super().select_graphic_rendition(*attributes)

    def reset_mode(self, *modes: int, **kwargs: bool) -> None:
        super().reset_mode(*modes, **kwargs)
        if 2026 in modes and kwargs.get("private"):
            self.in_frame = False
        if 1049 in modes and kwargs.get("private"):
            self.buffer, self.cursor = self._kept


class ShellTerminal:
    """`sqlengine` under a pseudo-terminal, whose output a terminal emulator draws. Nothing waits for a time: `until` waits
    for what the screen shows. It looks at the screen between frames only (synchronized output), as a user does, however
    the output is cut on its way. What is printed without a prompt is no frame: wait for the end of it, or for the prompt.

    With SHELL_TEST_READ=1 in the environment each byte comes by itself.
    """

    def __init__(
        self,
        home: Path,
        *arguments: str,
        width: int = 80,
        height: int = 24,
        bytes_at_once: int = BYTES_AT_ONCE,
        **environment: str,
    ) -> None:
        self._bytes_at_once = bytes_at_once
        self._screen = _Screen(width, height)
        self._stream = pyte.Stream(self._screen)
        self.raw = ""
        variables = {
            **{k: v for k, v in os.environ.items() if not k.startswith("XDG_") and k != "NO_COLOR"},
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            **environment,
        }
        variables.pop("COLUMNS", None)
        variables.pop("LINES", None)
        self.process = pexpect.spawn(
            sys.executable,
            ["-m", "sqlengine", *arguments],
            env=variables,
            cwd=str(home),
            dimensions=(height, width),
            encoding="utf-8",
            timeout=SECONDS,
        )
        self.process.delaybeforesend = None
        # Programs ask a terminal where its cursor is.
        self._screen.write_process_input = self.process.send

    # --- the screen

    def lines(self) -> list[str]:
        """The lines of the screen, without blanks at their ends."""
        shown = [line.rstrip() for line in self._screen.display]
        while shown and not shown[-1]:
            shown.pop()
        return shown

    def text(self) -> str:
        return "\n".join(self.lines())

    def style_of(self, word: str) -> tuple[str, bool]:
        """Colour and boldness of the last place of a word on the screen."""
        for y in range(self._screen.lines - 1, -1, -1):
            x = self._screen.display[y].rfind(word)
            if x >= 0:
                cell = self._screen.buffer[y][x]
                return cell.fg, cell.bold
        raise AssertionError(f"{word!r} is not on the screen:\n{self.text()}")

    def _read(self) -> None:
        try:
            more = self.process.read_nonblocking(self._bytes_at_once, timeout=SECONDS)
        except pexpect.TIMEOUT:
            raise AssertionError(f"nothing more came; the screen:\n{self.text()}") from None
        except pexpect.EOF:
            raise AssertionError(f"the shell has ended; the screen:\n{self.text()}") from None
        self._take(more)

    def _take(self, more: str) -> None:
        self.raw += more
        self._stream.feed(more)

    def until(self, pattern: str) -> str:
        """Read until the screen shows something; gives the screen."""
        return self.until_shown(lambda screen: re.search(pattern, screen, re.MULTILINE) is not None, repr(pattern))

    def until_shown(self, looks_right: Callable[[str], bool], what: str) -> str:
        """Read until the screen looks right; gives the screen."""
        deadline = time.monotonic() + SECONDS
        while self._screen.in_frame or not looks_right(self.text()):
            assert time.monotonic() < deadline, f"{what} did not come; the screen:\n{self.text()}"
            self._read()
        return self.text()

    def until_prompt(self, pattern: str = "") -> str:
        """Read until something is there and, below it, an empty prompt."""
        return self.until(rf"(?s:{pattern}.*)^\S+> *\Z")

    def settled(self) -> str:
        """Read until nothing has come for a second, as somebody does who takes a picture of the screen."""
        try:
            while True:
                self._take(self.process.read_nonblocking(self._bytes_at_once, timeout=1))
        except pexpect.TIMEOUT:
            return self.text()

    # --- the keyboard

    def type(self, text: str) -> None:
        self.process.send(text)

    def run(self, text: str, pattern: str = "") -> str:
        """Type something and Enter; read until a pattern and the next prompt are there."""
        return self._until_next_prompt(text + "\r", pattern)

    def interrupt(self, pattern: str = "") -> str:
        """Ctrl-C; read until a pattern and the next prompt are there."""
        return self._until_next_prompt("\x03", pattern)

    def _until_next_prompt(self, keys: str, pattern: str) -> str:
        before = self._screen.prompts
        shown = re.compile(rf"(?s:{pattern}.*)^\S+> *\Z", re.MULTILINE)
        self.process.send(keys)
        return self.until_shown(
            lambda screen: self._screen.prompts > before and shown.search(screen) is not None, repr(pattern)
        )

    def resize(self, width: int, height: int) -> None:
        self._screen.resize(height, width)
        self.process.setwinsize(height, width)

    def leave(self) -> None:
        """Ctrl-D, and wait for the end."""
        self.process.send("\x04")
        self.ended()

    def ended(self) -> int:
        """Read to the end; gives the exit status."""
        deadline = time.monotonic() + SECONDS
        try:
            while True:
                assert time.monotonic() < deadline, f"it does not end; the screen:\n{self.text()}"
                self._take(self.process.read_nonblocking(self._bytes_at_once, timeout=SECONDS))
        except pexpect.EOF:
            pass
        self.process.close()
        assert self.process.exitstatus is not None, self.text()
        return self.process.exitstatus


def check_screen(
    name: str, terminal: ShellTerminal, *, rewrite: bool, normalized: Callable[[str], str] = lambda screen: screen
) -> None:
    """Wait until the screen is as its golden file, or (`--rewrite`) make that. On a full screen the first lines may be
    gone: the menu of completions takes room below the prompt, or is not there yet when Enter comes. `normalized` takes
    out what depends on the machine."""
    path = SCREENS / f"{name}.txt"
    if rewrite:
        SCREENS.mkdir(exist_ok=True)
        path.write_text(normalized(terminal.settled()) + "\n", encoding="utf-8")
    golden = path.read_text(encoding="utf-8").splitlines()
    terminal.until_shown(lambda screen: _same_but_for_scrolling(normalized(screen).splitlines(), golden), path.name)


def _same_but_for_scrolling(shown: list[str], golden: list[str]) -> bool:
    lines = min(len(shown), len(golden))
    return abs(len(shown) - len(golden)) <= SCROLLED_LINES and shown[-lines:] == golden[-lines:]
