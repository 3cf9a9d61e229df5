"""Misspelt keywords: of a text that is not in the language, which word was meant.

Only what is proven is offered: a word near an unknown one takes its place, and the text is read again. When all of it is
in the language then, or much more of it, that word was meant. What other systems have is no misspelling (see `habits`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from runtime.core.errors import SqlEngineError, SqlSyntaxError
from runtime.core.likeness import edits
from sqlengine.parse import statements as grammar
from sqlengine.parse.habits import FOREIGN, TYPES
from sqlengine.parse.lexer import END, WORD, Token, scan
from sqlengine.parse.words import KEYWORDS

__all__ = ["misread_keyword", "point_out"]

_BEFORE = 10
"""So many words before the place of an error may be the misspelt one."""
_MOST_READ = 40
"""How often a text is read again."""
_OF_OTHERS = frozenset(
    (*FOREIGN, *TYPES, "ELIF", "ELSEIF", "ELSIF", "GLOB", "ILIKE", "ISNULL", "LEN", "MINUS", "NOTNULL", "QUALIFY", "REGEXP", "RLIKE", "TOP")
)  # fmt: skip
_FORMS = frozenset(("CAST", "CEIL", "EXTRACT", "FLOOR", "OVERLAY", "POSITION", "SUBSTRING", "TRIM", "TRY_CAST"))
"""Functions whose arguments have words between them."""
_MEANT = tuple(sorted((KEYWORDS | _FORMS) - {"ILIKE", "QUALIFY"}))


def point_out(text: str, error: SqlSyntaxError, parse: Callable[[str], object]) -> None:
    """Puts the word that was meant into the hint of an error of `parse`, where that is known."""
    meant = _meant(text, error, parse)
    if meant is not None:
        token, word = meant
        here = error.span is not None and error.span.start == token.start
        error.hint = f'did you mean "{word}"' + ("?" if here else f' where it says "{token.text}"?')


def misread_keyword(text: str) -> str | None:
    """A hint for a keyword that was misspelt and read as a name: `FROM a INNR JOIN b`, `SELECT DISTINC a`."""
    tokens = _tokens(text)
    for before, token, after in zip([None, *tokens], tokens, tokens[1:], strict=False):
        words: tuple[str, ...] = ()
        if after.upper == "JOIN":
            words = ("INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL")
        elif before is not None and before.upper == "SELECT":
            words = ("DISTINCT",)
        for word in _near(token, words):
            if _progress(text, token, word, grammar.parse_script) is None:
                return f'did you mean "{word}" where it says "{token.text}"?'
    return None


def _meant(text: str, error: SqlSyntaxError, parse: Callable[[str], object]) -> tuple[Token, str] | None:
    """The misspelt token of a text and the word that was meant; None when there is none, or nobody knows."""
    if error.span is None:
        return None
    tokens = _tokens(text)
    at = next((i for i, token in enumerate(tokens) if token.end > error.span.start), len(tokens) - 1)
    best: tuple[int, Token, str] | None = None
    reads = 0
    for index in range(at, max(at - _BEFORE, -1), -1):
        token = tokens[index]
        if token.upper == ";":
            break
        for word in _near(token, _MEANT):
            reads += 1
            if reads > _MOST_READ:
                break
            reached = _progress(text, token, word, parse)
            if reached is None:
                return token, word
            # Two tokens further: not merely the next place where nothing fits.
            if reached > error.span.end and (best is None or reached > best[0]):
                between = sum(error.span.end <= t.start < reached for t in tokens)
                best = (reached, token, word) if between >= 2 else best
    return None if best is None else best[1:]


def _near(token: Token, words: tuple[str, ...]) -> Iterator[str]:
    """Keywords that a token may be a misspelling of, the nearest first."""
    text = token.upper
    if token.kind is not WORD or len(text) < 2 or text in KEYWORDS or text in _OF_OTHERS:
        return
    most = 1 if len(text) < 7 else 2
    found = [(edits(text, word, most), word) for word in words if abs(len(word) - len(text)) <= most]
    for distance, word in sorted(found):
        if distance <= most and (len(text) > 2 or sorted(text) == sorted(word) or word.startswith(text)):
            yield word


def _progress(text: str, token: Token, word: str, parse: Callable[[str], object]) -> int | None:
    """How far the text with another word is read, as an offset in the text as it is; None when all of it is."""
    try:
        parse(text[: token.start] + word + text[token.end :])
    except SqlSyntaxError as error:
        shift = len(word) - (token.end - token.start)
        return 0 if error.span is None else error.span.start - (shift if error.span.start > token.start else 0)
    except SqlEngineError:
        return None
    except RecursionError:
        return 0
    return None


def _tokens(text: str) -> list[Token]:
    try:
        return [token for token in scan(text) if token.kind is not END]
    except SqlSyntaxError:
        return []
