"""What is typed, piped or read from a file, cut into statements and commands.

A statement ends with a semicolon; semicolons in texts, comments and statement sets end nothing. A command of the shell
begins with a backslash and ends with its line, or begins with a word such as HELP or QUIT and may do without a semicolon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from runtime.core.errors import SqlSyntaxError
from sqlengine.options.dialect import FLINK
from sqlengine.parse import statement_spans

__all__ = ["CLIENT_WORDS", "Piece", "is_complete", "pieces", "pieces_of_lines"]

CLIENT_WORDS = frozenset(("CLEAR", "EXIT", "HELP", "QUIT", "SOURCE", "TOP"))
"""First words of what the shell carries out itself. `SOURCE` takes a file in quotes."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement, or a command of the shell. `text` is without its semicolon; `line` is where it begins in its source,
    counted from 1."""

    text: str
    is_command: bool
    line: int

    @property
    def placed(self) -> str:
        """The text with line ends in front, so that places in errors count from the start of the source."""
        return "\n" * (self.line - 1) + self.text


Dialect = Callable[[], str]


def flink() -> str:
    """The dialect where nobody says otherwise."""
    return FLINK


def is_complete(text: str, dialect: Dialect = flink) -> bool:
    """Whether a text can be carried out as it stands: Enter runs it and does not begin another line."""
    found = list(pieces(text, dialect))
    if not found or found[-1].is_command:
        return bool(found) or not text.strip()
    last = "\n".join(text.split("\n")[found[-1].line - 1 :])
    try:
        spans = statement_spans(last, dialect())
    except SqlSyntaxError as error:
        return not _may_go_on(error)
    return not spans or spans[-1][1]


def _may_go_on(error: SqlSyntaxError) -> bool:
    """Whether more lines could mend a text that cannot be scanned: something is not closed yet."""
    return "not closed" in error.message


def pieces(text: str, dialect: Dialect = flink) -> Iterator[Piece]:
    """The pieces of a whole text; what is left without a semicolon at its end is one, too."""
    return pieces_of_lines(text.splitlines(keepends=True), dialect)


def pieces_of_lines(lines: Iterable[str], dialect: Dialect = flink) -> Iterator[Piece]:
    """The pieces of lines, each as soon as its last line is there; `dialect` is asked how the next ones are read."""
    held, begun, number = "", 1, 0
    for line in lines:
        number += 1
        if not held.strip():
            held, begun = "", number
            stripped = line.strip()
            if stripped.startswith("--"):
                continue
            if stripped.startswith("\\"):
                yield Piece(stripped, True, number)
                continue
            if _first_word(stripped) in CLIENT_WORDS:
                yield Piece(stripped.rstrip("; "), True, number)
                continue
        held += line
        if ";" in line:
            found, held, begun = _cut(held, begun, dialect())
            yield from found
    if held.strip():
        found, rest, begun = _cut(held, begun, dialect())
        yield from found
        if rest.strip():
            yield _piece(rest.strip(), begun)


def _cut(text: str, line: int, dialect: str) -> tuple[list[Piece], str, int]:
    """The closed statements of a text, what is left of it, and the line of that.

    A command may follow a statement on its line: there the scanner finds a backslash.
    """
    command: Piece | None = None
    try:
        spans = statement_spans(text, dialect)
    except SqlSyntaxError as error:
        if _may_go_on(error):
            return [], text, line
        place = error.span.start if error.span is not None else 0
        if not text.startswith("\\", place) or not text[:place].rstrip().endswith(";"):
            return [_piece(text.strip(), line)], "", line
        command = Piece(text[place:].strip(), True, line + text.count("\n", 0, place))
        text = text[:place]
        spans = statement_spans(text, dialect)
    found: list[Piece] = []
    at = 0
    for span, closed in spans:
        if not closed:
            break
        found.append(_piece(text[span.start : span.end], line + text.count("\n", 0, span.start)))
        at = text.index(";", span.end) + 1
    if command is not None:
        found.append(command)
    rest = text[at:]
    if all(closed for _, closed in spans):
        return found, "", line
    blank = len(rest) - len(rest.lstrip())
    return found, rest[blank:], line + text.count("\n", 0, at + blank)


def _piece(text: str, line: int) -> Piece:
    return Piece(text.rstrip("; \n"), _first_word(text) in CLIENT_WORDS or text.startswith("\\"), line)


def _first_word(text: str) -> str:
    word = text.rstrip(";").split(None, 1)
    return word[0].rstrip(";").upper() if word else ""
