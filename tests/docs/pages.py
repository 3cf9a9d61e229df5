"""A page of the documentation: its blocks of code, what each is, and the links that it has.

What a fence says behind its language decides what becomes of the block (CONTRIBUTING.md, "Documentation"):

    ```console              commands after `$ `, statements after `sqlengine> `, Python after `>>> `: run, output compared
    ```console until=PATH   the same; where `^C` or `Killed` stands in the output the command is ended once PATH is there
    ```console spark        run where there is a Spark session
    ```python               `>>> ` examples, or a program; what it prints stands in the `text` block right below
    ```sql                  statements of the page's session; their results stand in the `text` block right below
    ```sql example          statements that are only parsed
    ```sh                   commands whose names and options are checked, but which are not run
    ```slt NAME             a file that is written, and whose tests pass; also sql, python, csv, json with a NAME
    ```text SCREEN.txt      a screen of the terminal tests (tests/cli/screens)
    ```text                 not code
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Block", "blocks_of", "headings_of", "links_of", "matched", "named_files", "pages", "without_times"]

ROOT = Path(__file__).parent.parent.parent
_FENCE = re.compile(r"^```(\w*)(?: (.*))?$")
_TIME = re.compile(r"( in \d+\.\d s| \(\d+\.\d{3} s\))$")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the words behind that, its lines and the number of the first of them, from 0."""

    language: str
    words: tuple[str, ...]
    lines: tuple[str, ...]
    start: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    @property
    def stop(self) -> int:
        """The number of the closing fence."""
        return self.start + len(self.lines)

    @property
    def file(self) -> str | None:
        """The name of the file that the block shows."""
        return next((word for word in self.words if "." in word and "=" not in word), None)

    def follows(self, other: Block) -> bool:
        """Whether nothing but one empty line, at most, stands between."""
        return 0 < self.start - other.stop <= 3


def pages() -> list[Path]:
    """All pages whose code is run and whose links are followed."""
    examples = sorted((ROOT / "sql_examples").glob("**/README.md"))
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md")), *examples]


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page, those inside HTML comments too: they prepare what the reader has anyway."""
    found: list[Block] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        opened = _FENCE.match(lines[at])
        if opened is None:
            at += 1
            continue
        stop = lines.index("```", at + 1)
        found.append(Block(opened[1], tuple((opened[2] or "").split()), tuple(lines[at + 1 : stop]), at + 1))
        at = stop + 1
    return found


def named_files(text: str, languages: Sequence[str] = ("sql", "slt", "python", "csv", "json")) -> dict[str, str]:
    """The files that a page shows, by name."""
    return {b.file: b.text for b in blocks_of(text) if b.file is not None and b.language in languages}


def outside_of_blocks(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not in a block, with their numbers from 0."""
    inside = {n for b in blocks_of(text) for n in range(b.start - 1, b.stop + 1)}
    return ((n, line) for n, line in enumerate(text.splitlines()) if n not in inside)


def links_of(text: str) -> list[str]:
    """Where a page leads to: the targets of its links."""
    prose = "\n".join(re.sub(r"`[^`]*`", "", line) for _, line in outside_of_blocks(text))
    return _LINK.findall(prose)


def headings_of(text: str) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    found: set[str] = set()
    for _, line in outside_of_blocks(text):
        if line.startswith("#"):
            words = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            found.add(words.replace(" ", "-"))
    return found


def without_times(line: str) -> str:
    """A line without how long something took at its end."""
    return _TIME.sub("", line)


def matched(expected: Sequence[str], found: Sequence[str]) -> bool:
    """Whether output is as a page shows it. `...` alone on a line is any number of lines, within a line any text; how long
    something took is not compared."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += r"[^\n]*".join(re.escape(part) for part in without_times(line).split("...")) + "\n"
    return re.fullmatch(pattern, "".join(without_times(line) + "\n" for line in found)) is not None
