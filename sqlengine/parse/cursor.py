"""A place in the tokens of a script, and how a grammar moves over them and complains.

The grammars of the language (types, expressions, relations, queries, definitions) are classes stacked on `Cursor`: each
method reads one construct from the current place and returns its tree. A method that finds something else raises
`SqlSyntaxError` at the token that does not fit, in the words of the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from sqlglot import exp

from runtime.core.errors import Span, SqlSyntaxError, did_you_mean
from runtime.core.rooms import Room
from sqlengine.parse.lexer import END, QUOTED, STRING, UNICODE, WORD, Token, decode_unicode, scan

if TYPE_CHECKING:
    import sqlengine.parse.habits as _habits
    from runtime.core.types import DataType
else:
    _habits = Room("sqlengine.parse.habits")

__all__ = ["RESERVED", "Cursor"]

_E = TypeVar("_E", bound=exp.Expr)

RESERVED = frozenset(
    (
        "ALL",
        "AND",
        "AS",
        "BETWEEN",
        "CASE",
        "CAST",
        "CREATE",
        "CROSS",
        "DISTINCT",
        "ELSE",
        "EXCEPT",
        "EXISTS",
        "FALSE",
        "FETCH",
        "FOR",
        "FROM",
        "FULL",
        "GROUP",
        "HAVING",
        "IN",
        "INNER",
        "INSERT",
        "INTERSECT",
        "INTO",
        "IS",
        "JOIN",
        "LATERAL",
        "LEFT",
        "LIKE",
        "LIMIT",
        "MATCH_RECOGNIZE",
        "MINUS",
        "NATURAL",
        "NOT",
        "NULL",
        "OFFSET",
        "ON",
        "OR",
        "ORDER",
        "OUTER",
        "OVERLAPS",
        "QUALIFY",
        "RIGHT",
        "SELECT",
        "SIMILAR",
        "TABLE",
        "TABLESAMPLE",
        "THEN",
        "TRUE",
        "TRY_CAST",
        "UNION",
        "UNKNOWN",
        "UNNEST",
        "USING",
        "VALUES",
        "WHEN",
        "WHERE",
        "WINDOW",
        "WITH",
    )
)
"""Words that are never a name unless quoted. Flink reserves several hundred; only those without which the grammar
would be ambiguous are reserved here, so every text that Flink takes is taken."""


class Cursor:
    """The tokens of a text and the current place in them."""

    scanner = staticmethod(scan)
    """Makes tokens of a text."""

    unfinished = False
    """Whether more is to follow the text: its last word is then not the name that it could be."""

    takes_default = False
    """Whether the word DEFAULT may be a value: within the query of an INSERT."""
    has_parameters = False
    """Whether a mark of a parameter was read."""
    parameter_types: list[DataType] | None = None
    """The types of parameters that PREPARE lists; None where it lists none."""

    def __init__(self, text: str, tokens: list[Token] | None = None, index: int = 0) -> None:
        self.text = text
        self.tokens = self.scanner(text, fold=True) if tokens is None else tokens
        self.index = index
        self.token = self.tokens[index]
        self.known_queries: dict[int, bool] = {}
        """For parentheses that were tried: whether they hold a query. Keeps nested ones from being tried again."""

    # Moving

    def advance(self) -> Token:
        """Step over the current token and return it; the end is never passed."""
        token = self.token
        if token.kind is not END:
            self.index += 1
            self.token = self.tokens[self.index]
        return token

    def back_to(self, index: int) -> None:
        self.index = index
        self.token = self.tokens[index]

    def unfold(self) -> None:
        """Read the token here, which stands for many, as those."""
        token = self.token
        self.tokens[self.index : self.index + 1] = self.scanner(self.text, start=token.start, end=token.end)[:-1]
        self.known_queries.clear()
        self.back_to(self.index)

    def peek(self, by: int = 1) -> Token:
        """The token `by` places ahead."""
        return self.tokens[min(self.index + by, len(self.tokens) - 1)]

    @property
    def previous(self) -> Token:
        return self.tokens[max(self.index - 1, 0)]

    # Matching

    def at(self, *words: str) -> bool:
        """Whether these words and marks stand here, in this order."""
        if self.token.upper != words[0]:
            return False
        return all(self.peek(i).upper == word for i, word in enumerate(words[1:], 1))

    def at_any(self, *words: str) -> bool:
        """Whether one of these words or marks stands here."""
        return self.token.upper in words

    def match(self, *words: str) -> bool:
        """Step over these words and marks if all of them stand here."""
        if not self.at(*words):
            return False
        for _ in words:
            self.advance()
        return True

    def match_any(self, *words: str) -> str | None:
        """Step over one of these words or marks and return which."""
        word = self.token.upper
        if word and word in words:
            self.advance()
            return word
        return None

    def expect(self, *words: str) -> Token:
        """Step over these words and marks; the last of them is returned."""
        for word in words:
            if self.token.upper != word:
                self.fail(word)
            self.advance()
        return self.previous

    def expect_any(self, *words: str) -> str:
        """Step over one of these words or marks and return which."""
        word = self.match_any(*words)
        if word is None:
            self.fail(*words)
        return word

    def offered(self, words: Callable[[], Iterable[str]]) -> None:
        """A grammar elsewhere would take these words here; whoever completes what is typed wants to know them."""

    # Names and texts

    def at_name(self) -> bool:
        """Whether a name can start here: a quoted identifier, or a word that is not reserved."""
        return self.token.kind is QUOTED or (self.token.kind is WORD and self.token.upper not in RESERVED)

    def at_alias(self) -> bool:
        """Whether a name can start here that has no AS before it."""
        clause = self.at("RETURNING") or self.at("MATCH_CONDITION", "(") or self.at_asof() or self.at_emission()
        return self.at_name() and not clause

    def at_asof(self) -> bool:
        """Whether an ASOF join stands here, and no alias of that name."""
        return any(self.at("ASOF", word) for word in ("JOIN", "INNER", "LEFT", "RIGHT", "FULL"))

    def at_emission(self) -> bool:
        """Whether a clause is here that says when the rows of groups are given."""
        return self.at("EMIT", "ON", "WINDOW", "CLOSE") or self.at("EMIT", "CHANGES")

    def identifier(self, what: str = "a name", *, reserved: bool = False) -> exp.Identifier:
        """One identifier; `reserved` takes any word, for places where nothing else can stand (after a dot)."""
        token = self.token
        if token.kind is not QUOTED and not (token.kind is WORD and (reserved or token.upper not in RESERVED)):
            if token.kind is WORD:
                self.fail(what, hint=f"{token.upper} is a reserved word; to use it as a name, write `{token.text}`")
            self.fail(what)
        self.advance()
        return self.place(exp.Identifier(this=token.value, quoted=token.kind is QUOTED), token)

    def string(self, what: str = "a text in single quotes") -> Token:
        """A text literal; its decoded content is the `value` of the token."""
        token = self.token
        if token.kind is UNICODE:
            self.advance()
            escape = self.string("the escape character in quotes").value if self.match("UESCAPE") else "\\"
            value = decode_unicode(token, escape, self.text)
            return Token(STRING, token.text, value, "", token.start, self.previous.end)
        if token.kind is not STRING:
            self.fail(what)
        return self.advance()

    # Places

    def place(self, tree: _E, start: Token | int, end: int | None = None) -> _E:
        """Note in a tree where it stands: from `start` up to the last token read."""
        meta = tree.meta
        meta["start"] = start if isinstance(start, int) else start.start
        meta["end"] = (self.previous.end if end is None else end) - 1
        return tree

    def span_from(self, start: Token | int) -> Span:
        """The span from `start` up to the last token read."""
        begin = start if isinstance(start, int) else start.start
        return Span(begin, max(begin, self.previous.end))

    def slice(self, span: Span) -> str:
        return self.text[span.start : span.end]

    # Complaints

    def fail(self, *expected: str, hint: str | None = None) -> NoReturn:
        """Raise the error for a token that does not fit; `expected` says what would."""
        token = self.token
        message = f"unexpected {describe(token)}"
        if expected:
            message += "; expected " + _alternatives(expected)
        hint = _habits.syntax_hint(self.tokens, self.index, expected, self.text) or hint or _misspelt(token, expected)
        raise SqlSyntaxError(message, span=_visible(token, self.text), hint=hint, text=self.text)

    def refuse(self, message: str, start: Token | Span | None = None, hint: str | None = None) -> NoReturn:
        """Raise an error about what was read since `start`, by default about the current token."""
        if start is None:
            span = _visible(self.token, self.text)
        else:
            span = start if isinstance(start, Span) else self.span_from(start)
        raise SqlSyntaxError(message, span=span, hint=hint, text=self.text)


def _misspelt(token: Token, expected: tuple[str, ...]) -> str | None:
    """Which of the expected words was meant, if one is near."""
    words = [word for word in expected if word.isupper() and word.isalpha()]
    near = did_you_mean(token.upper, words) if token.kind is WORD and words else None
    return near if near is not None and near.startswith("did you mean") else None


def describe(token: Token) -> str:
    """A token as it is named in a message."""
    if token.kind is END:
        return "end of input"
    return token.text if token.kind is STRING else f'"{token.text}"'


def _alternatives(expected: tuple[str, ...]) -> str:
    expected = tuple(word if any(c.isalnum() for c in word) else f'"{word}"' for word in expected)
    if len(expected) == 1:
        return expected[0]
    return ", ".join(expected[:-1]) + " or " + expected[-1]


def _visible(token: Token, text: str) -> Span:
    """The place of a token; the end of the text is shown at the last character that is not blank."""
    if token.kind is not END:
        return token.span
    end = len(text.rstrip())
    return Span(max(end - 1, 0), max(end, 1)) if text else Span(0, 0)
