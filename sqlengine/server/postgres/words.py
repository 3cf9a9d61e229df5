"""PostgreSQL's text as tokens: enough to split a message into statements and to read those about the connection.

Source: PostgreSQL 15, 4.1 "Lexical Structure".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlengine.server.postgres.sqlstate import PgError

__all__ = ["Reader", "Word", "changes_rows", "scan", "split", "with_back_ticks"]

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*)
    | (?P<comment>/\*)
    | (?P<escaped>[eE]'(?:[^'\\]|''|\\.)*')
    | (?P<string>(?:[xXbB]|[uU]&)?'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<back>`(?:[^`]|``)*`)
    | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<number>\d+(?:\.\d+)?)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True, slots=True)
class Word:
    """A token. `kind`: word, quoted, string, number, other. `value`: without quotes; of a word in lower case."""

    kind: str
    value: str
    start: int
    end: int


def scan(text: str) -> Iterator[Word]:
    """The tokens of a text, without space and comments. What is not closed runs to the end of the text."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None
        kind, start, at = match.lastgroup, at, match.end()
        raw = match[0]
        if kind == "comment":
            at = _comment_end(text, at)
        elif kind == "dollar":
            end = text.find(raw, at)
            end = len(text) if end < 0 else end
            yield Word("string", text[at:end], start, end + len(raw))
            at = end + len(raw)
        elif kind == "escaped":
            yield Word("string", re.sub(r"''|\\(.)", _unescaped, raw[2:-1], flags=re.DOTALL), start, at)
        elif kind == "string":
            yield Word("string", raw[raw.index("'") + 1 : -1].replace("''", "'"), start, at)
        elif kind == "quoted":
            yield Word("quoted", raw[1:-1].replace('""', '"'), start, at)
        elif kind == "back":
            yield Word("quoted", raw[1:-1].replace("``", "`"), start, at)
        elif kind == "word":
            yield Word("word", raw.lower(), start, at)
        elif kind in ("number", "other"):
            yield Word(kind, raw, start, at)


def _unescaped(match: re.Match[str]) -> str:
    return "'" if match[1] is None else _ESCAPES.get(match[1], match[1])


def _comment_end(text: str, at: int) -> int:
    """Comments nest."""
    depth = 1
    while depth:
        match = _COMMENT.search(text, at)
        if match is None:
            return len(text)
        depth += 1 if match[0] == "/*" else -1
        at = match.end()
    return at


def split(text: str) -> list[tuple[int, str]]:
    """The statements of a text, each with the place where it begins; empty ones are left out."""
    found: list[tuple[int, str]] = []
    first, last = -1, 0
    for word in scan(text):
        if word.kind == "other" and word.value == ";":
            if first >= 0:
                found.append((first, text[first:last]))
            first = -1
            continue
        first, last = word.start if first < 0 else first, word.end
    if first >= 0:
        found.append((first, text[first:last]))
    return found


def changes_rows(text: str) -> bool:
    """Whether a statement may be one of several in one epoch: it reads or changes rows, and defines nothing."""
    word = text.split(None, 1)[0].lower()
    return word in ("insert", "update", "delete", "select", "with", "values")


def with_back_ticks(text: str) -> str:
    """The text with back-ticks around names that stand in double quotes: the engine's own quotes. Places stay, but for
    doubled quotes in a name."""
    parts, done = [], 0
    for word in scan(text):
        if word.kind == "quoted" and text[word.start] == '"':
            parts += [text[done : word.start], "`", word.value.replace("`", "``"), "`"]
            done = word.end
    return "".join([*parts, text[done:]])


class Reader:
    """Reads a statement token by token; `expect` raises PgError 42601 at the first that does not fit."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._words = list(scan(text))
        self._at = 0

    @property
    def ended(self) -> bool:
        return self._at >= len(self._words)

    def peek(self) -> Word | None:
        return None if self.ended else self._words[self._at]

    def at(self, mark: str) -> bool:
        """Whether this mark is the next token."""
        word = self.peek()
        return word is not None and word.kind == "other" and word.value == mark

    def accept(self, *words: str) -> bool:
        """Whether these words or marks follow; they are read then."""
        ahead = self._words[self._at : self._at + len(words)]
        if len(ahead) < len(words) or any(w.kind in ("string", "quoted") or w.value != t for w, t in zip(ahead, words)):
            return False
        self._at += len(words)
        return True

    def accept_any(self, *words: str) -> str | None:
        """The one of these words that follows; it is read then."""
        return next((word for word in words if self.accept(word)), None)

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise self.unexpected(" ".join(words).upper())

    def name(self) -> str:
        """A name: as it is written in quotes, otherwise in lower case."""
        word = self.peek()
        if word is None or word.kind not in ("word", "quoted"):
            raise self.unexpected("a name")
        self._at += 1
        return word.value

    def value(self) -> str:
        """A name, a text, or a number with its sign."""
        sign = "-" if self.accept("-") else ""
        word = self.peek()
        if word is None or word.kind == "other":
            raise self.unexpected("a value")
        self._at += 1
        return sign + (self.text[word.start : word.end] if word.kind == "word" else word.value)

    def parenthesized(self) -> str:
        """What stands between the next parenthesis and its end."""
        start = self.peek()
        self.expect("(")
        assert start is not None
        depth = 1
        while not self.ended:
            word = self._words[self._at]
            self._at += 1
            if word.kind == "other" and word.value in "()":
                depth += 1 if word.value == "(" else -1
                if not depth:
                    return self.text[start.end : word.start]
        raise self.unexpected(")")

    def rest(self) -> tuple[str, int]:
        """All that is left, and where it begins."""
        word = self.peek()
        if word is None:
            raise self.unexpected("a statement")
        self._at = len(self._words)
        return self.text[word.start :], word.start

    def skip(self) -> None:
        """Pass over all that is left."""
        self._at = len(self._words)

    def end(self) -> None:
        if not self.ended:
            raise self.unexpected("the end of the statement")

    def unexpected(self, wanted: str) -> PgError:
        word = self.peek()
        at = "end of input" if word is None else f'"{self.text[word.start : word.end]}"'
        return PgError("42601", f"syntax error at or near {at}; {wanted} is expected")
