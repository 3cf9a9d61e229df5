"""Misspelt keywords: of a text that is not in the language, which word was meant.

Only what is proven is offered: a word near an unknown one takes its place, and the text is read again. When all of it is
in the language then, or much more of it, that word was meant. What other systems have is no misspelling (see `habits`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from runtime.core.errors import Span, SqlEngineError, SqlSyntaxError
from runtime.core.likeness import edits
from sqlengine.parse import statements as grammar
from sqlengine.parse.habits import FOREIGN, TYPES
from sqlengine.parse.lexer import END, WORD, Token, scan
from sqlengine.parse.words import KEYWORDS

__all__ = ["misread_keyword", "point_out"]

_BEFORE, _AFTER = 16, 2
"""So many words before and after the place of an error may be the misspelt one: `ON COFLICT` is refused at ON."""
_MOST_READ = 40
"""How often a text is read again."""
_OF_OTHERS = frozenset(
    (*FOREIGN, *TYPES, "ELIF", "ELSEIF", "ELSIF", "GLOB", "ILIKE", "ISNULL", "LEN", "MINUS", "NOTNULL", "QUALIFY", "REGEXP", "RLIKE", "TOP")
)  # fmt: skip
_FORMS = frozenset(("CAST", "CEIL", "EXTRACT", "FLOOR", "OVERLAY", "POSITION", "SUBSTRING", "TRIM", "TRY_CAST"))
"""Functions whose arguments have words between them."""
_WORDS_WITHIN = frozenset(
    ("ABSENT", "ARRAY", "ASYMMETRIC", "CONDITIONAL", "DEFAULT", "EMPTY", "ERROR", "JSON", "KEY", "OBJECT", "PASSING", "PLACING", "QUOTES",
     "RETURNING", "SCALAR", "SIMILAR", "SYMMETRIC", "UNCONDITIONAL", "UNIQUE", "UNKNOWN", "VALUE", "WRAPPER",
     "CHANGELOG_MODE", "ESTIMATED_COST", "JSON_EXECUTION_PLAN", "PLAN_ADVICE", "RESTORE", "STATE")
)  # fmt: skip
"""Words within such forms, in predicates, and after EXPLAIN."""
_MEANT = tuple(sorted((KEYWORDS | _FORMS | _WORDS_WITHIN) - {"ILIKE", "QUALIFY"}))
_VALUES = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "FALSE", "LOCALTIME", "LOCALTIMESTAMP", "NULL", "TRUE")
"""Keywords that are values: what is near them is read as a column."""
_CALLED = {
    "(": ("CUBE", "DESCRIPTOR", "EXISTS", "GROUPING", "MAP", "NOT", "ROLLUP", "ROW", "TABLE", "UNNEST"),
    "[": ("ARRAY", "MAP"),
}
"""Keywords before a bracket: what is near them is read as a function or column."""


def point_out(text: str, error: SqlSyntaxError, parse: Callable[[str], object]) -> None:
    """Puts the word that was meant into the hint of an error of `parse`, where that is known."""
    meant = _meant(text, error, parse)
    if meant is not None:
        token, word = meant
        here = error.span is not None and error.span.start == token.start
        error.hint = f'did you mean "{word}"' + ("?" if here else f' where it says "{token.text}"?')


def misread_keyword(text: str, span: Span | None) -> str | None:
    """A hint for a keyword that was misspelt and read as a name: `FROM a INNR JOIN b`, `SELECT DISTINC a`, `b = TREU`.
    `span`: the name that is not known."""
    tokens = _tokens(text)
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        words: tuple[str, ...] = ()
        if after is not None and after.upper == "JOIN":
            words = ("INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL")
        elif before is not None and before.upper == "SELECT":
            words = ("DISTINCT",)
        if span is not None and span.start <= token.start < span.end:
            values = _VALUES if span.start == token.start else ()
            words += _CALLED.get("" if after is None else after.text, values)
        for word in _near(token, words):
            if _progress(text, token, word, grammar.parse_script) is None:
                return f'did you mean "{word}" where it says "{token.text}"?'
    return None


def _meant(text: str, error: SqlSyntaxError, parse: Callable[[str], object]) -> tuple[Token, str] | None:
    """The misspelt token of a text and the word that was meant; None when there is none, or nobody knows."""
    tokens = _tokens(text)
    if error.span is None or not tokens:
        return None
    at = next((i for i, token in enumerate(tokens) if token.end > error.span.start), len(tokens) - 1)
    best: tuple[int, Token, str] | None = None
    reads = 0
    for index in (*range(at, min(at + 1 + _AFTER, len(tokens))), *range(at - 1, max(at - _BEFORE, -1), -1)):
        token = tokens[index]
        if token.upper == ";" and index < at:
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
    found = [
        (edits(text, word, most), _unlikely(text, word), word) for word in words if abs(len(word) - len(text)) <= most
    ]
    for distance, unlikely, word in sorted(found):
        if distance <= most and (len(text) > 2 or unlikely < _OTHER_LETTER):
            yield word


_OTHER_LETTER = 2


def _unlikely(text: str, word: str) -> int:
    """How unlikely it is that one was typed for the other, of those with as many slips: letters that are exchanged, a
    letter that is missing or too many, another letter."""
    if sorted(text) == sorted(word):
        return 0
    return _OTHER_LETTER if len(text) == len(word) else 1


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
