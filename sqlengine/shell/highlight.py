"""Colours of SQL while it is typed, from the tokens of our own scanner."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer

from sqlengine.parse.words import KEYWORDS

__all__ = ["SqlLexer", "fragments_of"]

_PARTS = re.compile(
    r"""
      (?P<comment>--[^\n]*|/\*(?!\+)(?:[^*]|\*(?!/))*(?:\*/)?)
    | (?P<hint>/\*\+|\*/)
    | (?P<string>(?:[uU]&|[eExX])?'(?:[^']|'')*'?)
    | (?P<dollar>\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z))
    | (?P<quoted>`(?:[^`]|``)*`?)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<command>(?:(?<=\n)|^)\\\S*)
    | (?P<op>[-+*/%<>=!|])
    """,
    re.VERBOSE | re.DOTALL,
)
"""As the parser scans, but what is not closed yet goes to the end: it is being typed."""


def fragments_of(text: str, functions: Collection[str] = ()) -> StyleAndTextTuples:
    """A text with the style of each part; `functions` are names in upper case that are coloured before a parenthesis."""
    found: StyleAndTextTuples = []
    at = 0
    for match in _PARTS.finditer(text):
        if match.start() > at:
            found.append(("", text[at : match.start()]))
        kind, part = match.lastgroup or "", match.group()
        kind = "string" if kind in ("dollar", "tag") else kind
        at = match.end()
        if kind == "word":
            upper = part.upper()
            if upper in functions and text[at : at + 20].lstrip().startswith("("):
                kind = "function"
            else:
                kind = "keyword" if upper in KEYWORDS else ""
        found.append((f"class:sql.{kind}" if kind else "", part))
    if at < len(text):
        found.append(("", text[at:]))
    return found


class SqlLexer(Lexer):
    """For prompt_toolkit. `functions` gives the names of functions, in upper case."""

    def __init__(self, functions: Callable[[], Collection[str]]) -> None:
        self._functions = functions
        self._lines = functools.lru_cache(8)(self._split)

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = self._lines(document.text)
        return lambda number: lines[number] if number < len(lines) else []

    def _split(self, text: str) -> list[StyleAndTextTuples]:
        lines: list[StyleAndTextTuples] = [[]]
        for style, part, *_ in fragments_of(text, self._functions()):
            for i, piece in enumerate(part.split("\n")):
                if i:
                    lines.append([])
                if piece:
                    lines[-1].append((style, piece))
        return lines
