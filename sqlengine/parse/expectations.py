"""What may stand at a place in a text: the parser's own knowledge, for completion.

The text before the place is read as a statement that breaks off there. Every word that the grammar looks for at the
break, and every name, text, type or expression that it asks for, is what may be typed next. So this knows of every
clause that the parser knows of, and of no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from sqlglot import exp

from runtime.core.errors import SqlEngineError
from sqlengine.parse.lexer import END, Token
from sqlengine.parse.statements import STARTERS, StatementGrammar

__all__ = ["Expected", "expected_after"]

_UTILITY_TERMINALS = frozenset(("LPAR", "RPAR", "COMMA", "EQUAL", "DOT", "$END", "NUMBER"))

_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
"""Units of time that are typed often. INTERVAL, EXTRACT, FLOOR and TIMESTAMPDIFF do not take quite the same."""


@dataclass(slots=True)
class Expected:
    """What may come next.

    `words`: keywords, several where they belong together (`GROUP BY`), in the order in which the grammar looks for them.
    `names`: which names, in the grammar's words (`a table`, `a column name`). `expression`, `text`, `type`: whether one
    may begin here. `complete`: whether the statement may end here; None when the text before has an error.
    """

    words: dict[str, None] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    expression: bool = False
    text: bool = False
    type: bool = False
    reached: bool = False
    """Whether the text was read up to its end: else an error stands before it."""


class _Break(Exception):
    """The end of the text was reached where something must follow."""


class _Recorder(StatementGrammar):
    """A parser that notes what it looks for at the end of its text."""

    unfinished = True

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.expected = Expected()

    def _ends_here(self) -> bool:
        if self.token.kind is END:
            self.expected.reached = True
            return True
        return False

    def _note(self, words: Iterable[str]) -> None:
        phrase = " ".join(words)
        if phrase and phrase.replace(" ", "").replace("_", "").isalpha():
            self.expected.words[phrase] = None

    def at(self, *words: str) -> bool:
        for i, word in enumerate(words):
            token = self.token if i == 0 else self.peek(i)
            if token.kind is END:
                self.expected.reached = True
                self._note(words[i:])
                return False
            if token.upper != word:
                return False
        return True

    def at_any(self, *words: str) -> bool:
        if self._ends_here():
            for word in words:
                self._note((word,))
        return super().at_any(*words)

    def match_any(self, *words: str) -> str | None:
        if self._ends_here():
            for word in words:
                self._note((word,))
        return super().match_any(*words)

    def expect(self, *words: str) -> Token:
        for i, word in enumerate(words):
            if self._ends_here():
                self._note(words[i:])
                raise _Break
            if self.token.upper != word:
                self.fail(word)
            self.advance()
        return self.previous

    def at_name(self) -> bool:
        self._ends_here()
        return super().at_name()

    def identifier(self, what: str = "a name", *, reserved: bool = False) -> exp.Identifier:
        if self._ends_here():
            self.expected.names.add(what)
        return super().identifier(what, reserved=reserved)

    def string(self, what: str = "a text in single quotes") -> Token:
        if self._ends_here():
            self.expected.text = True
        return super().string(what)

    def offered(self, words: Callable[[], Iterable[str]]) -> None:
        if self._ends_here():
            for word in sorted(words()):
                if word == "NAME":
                    self.expected.names.add("a name")
                elif word == "STRING":
                    self.expected.text = True
                elif word not in _UTILITY_TERMINALS:
                    self._note((word,))

    def _units(self) -> None:
        for unit in _UNITS:
            self._note((unit,))

    def fail(self, *expected: str, hint: str | None = None) -> NoReturn:
        if self._ends_here():
            for what in expected:
                match what:
                    case "an expression":
                        self.expected.expression = True
                    case "a type":
                        self.expected.type = True
                    case "a statement" | "a query or INSERT to explain":
                        for word in STARTERS:
                            self._note((word,))
                    case _ if what.startswith("a unit"):
                        self._units()
                    case _ if what == what.upper():
                        self._note((what,))
                    case _:
                        pass
        super().fail(*expected, hint=hint)


def expected_after(text: str) -> Expected:
    """What may follow a text that holds the beginning of one statement (complete ones before it are skipped)."""
    try:
        recorder = _Recorder(text)
    except SqlEngineError:
        return Expected()
    try:
        for _ in recorder.script():
            pass
        if recorder.previous.upper == ";" or not recorder.tokens[:-1]:
            recorder.expected = Expected(dict.fromkeys(STARTERS), reached=True)
    except (SqlEngineError, _Break, RecursionError):
        pass
    return recorder.expected
