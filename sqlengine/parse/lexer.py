"""Text to tokens, by Flink's lexical rules.

One scan over the whole script, so that every token knows its place in it. A token is a word, a quoted identifier, a
text, a number, a binary literal, a punctuation mark, or (for the grammar) rows of constants; words are not sorted into
keywords and names here, because almost every keyword of the language is also a name somewhere.

Rules (Flink's, which are Calcite's with back-tick quoting): identifiers keep their case and are quoted with back-ticks
(doubled inside); texts stand in single quotes, doubled inside, without backslash escapes; `U&'\\0041'` [UESCAPE 'c'],
`E'\\n'`, `X'0aff'`, and PostgreSQL's `$$..$$` and `$tag$..$tag$`, in which nothing is escaped; comments are `--` to the
end of the line and `/* .. */`, which do not nest; `/*+` opens a hint that `*/` closes.
"""

from __future__ import annotations

import re

from runtime.core.errors import Span, SqlSyntaxError
from sqlengine.parse.constant_rows import comparison_chain, constant_list_end, constant_rows_end

__all__ = [
    "BINARY",
    "COMPARISONS",
    "CONSTANTS",
    "END",
    "NUMBER",
    "OP",
    "QUOTED",
    "STRING",
    "UNICODE",
    "WORD",
    "Token",
    "scan",
    "unescaped",
]

WORD = "word"
QUOTED = "quoted identifier"
STRING = "string"
UNICODE = "unicode string"
NUMBER = "number"
BINARY = "binary"
OP = "operator"
CONSTANTS = "rows of constants"
COMPARISONS = "comparisons with constants"
END = "end"


class Token:
    """One token: `kind`; `text` as written; `value` the decoded content; `upper` for comparing words; `start`, `end`.

    `upper` is empty for all but words and operators, so that a text or a quoted name never looks like a keyword.
    """

    __slots__ = ("end", "kind", "start", "text", "upper", "value")

    def __init__(self, kind: str, text: str, value: str, upper: str, start: int, end: int) -> None:
        self.kind = kind
        self.text = text
        self.value = value
        self.upper = upper
        self.start = start
        self.end = end

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)

    def __repr__(self) -> str:
        return f"{self.kind}:{self.text}"


_PATTERN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--[^\n]*|/\*(?!\+)(?:[^*]|\*(?!/))*\*/)
    | (?P<unicode>[uU]&'(?:[^']|'')*')
    | (?P<escaped>[eE]'(?:[^'\\]|''|\\.)*')
    | (?P<binary>[xX]'(?:[^']|'')*')
    | (?P<word>[^\W\d][\w$]*)
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
    | (?P<op>::|/\*\+|/(?!\*)|<>|!=|!?~\*|!~|<=|>=|=>|\|\||[-+*%()\[\]{},.;<>=?:|^$&~])
    """,
    re.VERBOSE | re.DOTALL,
)

_ESCAPE = re.compile(
    r"''|\\(?:(?P<plain>[bfnrt])|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|x(?P<x>[0-9a-fA-F]{1,2})"
    r"|o?(?P<o>[0-7]{1,3})|(?P<self>.))",
    re.DOTALL,
)
_PLAIN = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def scan(text: str, *, fold: bool = False, start: int = 0, end: int | None = None) -> list[Token]:
    """All tokens of a text, or of its part from `start` to `end`; the last one is END.

    `fold`: rows of constants behind VALUES, long lists of them behind IN, and long chains of comparisons of one name
    with them are one token.

    Raises:
        SqlSyntaxError: a text, identifier, comment or hint is not closed, or a character belongs to nothing.
    """
    tokens: list[Token] = []
    position, size = start, len(text) if end is None else end
    hint_start = -1
    match_at = _PATTERN.match
    while position < size:
        match = match_at(text, position, size)
        if match is None:
            raise _unscannable(text, position)
        kind = match.lastgroup
        end = match.end()
        written = match.group()
        if kind == "word":
            upper = written.upper()
            tokens.append(Token(WORD, written, written, upper, position, end))
            if fold and upper in _FOLDED:
                end = _fold(tokens, text, end)
        elif kind == "op":
            if written == "/*+":
                hint_start = position
            elif hint_start >= 0 and written == "*" and text.startswith("/", end):
                written, end, hint_start = "*/", end + 1, -1
            tokens.append(Token(OP, written, written, written, position, end))
        elif kind == "string":
            tokens.append(Token(STRING, written, written[1:-1].replace("''", "'"), "", position, end))
        elif kind == "number":
            tokens.append(Token(NUMBER, written, written, "", position, end))
        elif kind == "quoted":
            value = written[1:-1].replace("``", "`")
            if not value:
                raise SqlSyntaxError("an identifier is empty", span=Span(position, end), text=text)
            tokens.append(Token(QUOTED, written, value, "", position, end))
        elif kind == "escaped":
            tokens.append(Token(STRING, written, unescaped(written[2:-1]), "", position, end))
        elif kind == "dollar":
            close = text.find(written, end, size)
            if close < 0:
                raise SqlSyntaxError(
                    f"the text that begins with {written} is not closed",
                    span=Span(position, end),
                    hint=f"write {written} behind it, too",
                    text=text,
                )
            value, end = text[end:close], close + len(written)
            tokens.append(Token(STRING, text[position:end], value, "", position, end))
        elif kind == "unicode":
            tokens.append(Token(UNICODE, written, written[3:-1].replace("''", "'"), "", position, end))
        elif kind == "binary":
            digits = _hex_digits(written[2:-1], Span(position, end), text)
            tokens.append(Token(BINARY, written, digits, "", position, end))
        position = end
    if hint_start >= 0:
        raise SqlSyntaxError(
            "a hint is not closed", span=Span(hint_start, hint_start + 3), hint="close it with */", text=text
        )
    tokens.append(Token(END, "", "", "", size, size))
    return tokens


_FOLDED = {"VALUES": constant_rows_end, "IN": constant_list_end, "OR": None, "AND": None}
_BLANK = re.compile(r"\s*+")


def _fold(tokens: list[Token], text: str, position: int) -> int:
    """Takes the constants behind the last word as one token, if any stand there; gives the place behind what it took."""
    word = tokens[-1]
    if len(tokens) > 1 and tokens[-2].text == ".":
        return position
    blank = _BLANK.match(text, position)
    start = position if blank is None else blank.end()
    rows_end = _FOLDED[word.upper]
    if rows_end is None:
        return _fold_comparisons(tokens, text, position)
    end = rows_end(text, start) if text.startswith("(", start) else None
    if end is None:
        return position
    tokens.append(Token(CONSTANTS, text[start:end], "", "", start, end))
    return end


def _fold_comparisons(tokens: list[Token], text: str, position: int) -> int:
    """Takes comparisons of one name with many constants, behind an OR or AND: the name, and one token for the rest."""
    found = comparison_chain(text, position, tokens[-1].upper)
    if found is None:
        return position
    name, chain, end = found
    tokens += scan(text, start=name, end=chain)[:-1]
    tokens.append(Token(COMPARISONS, text[chain:end], "", "", chain, end))
    return end


def decode_unicode(token: Token, escape: str, text: str) -> str:
    """The content of a U&'..' literal: `\\XXXX` and `\\+XXXXXX` are code points, a doubled escape is itself."""
    mark = re.escape(escape)
    pattern = re.compile(rf"{mark}(?:(?P<own>{mark})|\+(?P<six>[0-9a-fA-F]{{6}})|(?P<four>[0-9a-fA-F]{{4}})|(?P<bad>))")

    def decode(match: re.Match[str]) -> str:
        if match.group("own"):
            return escape
        digits = match.group("six") or match.group("four")
        if not digits or int(digits, 16) > 0x10FFFF:
            raise SqlSyntaxError(
                "an escape in the Unicode text is not followed by four hexadecimal digits",
                span=token.span,
                hint=f"write {escape}263A, or {escape}{escape} for the character itself",
                text=text,
            )
        return chr(int(digits, 16))

    return pattern.sub(decode, token.value)


def unescaped(content: str) -> str:
    """What stands between the quotes of E'..', with its escapes resolved."""
    return _ESCAPE.sub(_unescape, content)


def _unescape(match: re.Match[str]) -> str:
    written = match.group()
    if written == "''":
        return "'"
    plain = match.group("plain")
    if plain:
        return _PLAIN[plain]
    for group, base in (("u", 16), ("U", 16), ("x", 16), ("o", 8)):
        digits = match.group(group)
        if digits:
            point = int(digits, base)
            return chr(point) if point <= 0x10FFFF else "\N{REPLACEMENT CHARACTER}"
    return match.group("self")


def _hex_digits(content: str, span: Span, text: str) -> str:
    digits = re.sub(r"\s|'", "", content).upper()
    if len(digits) % 2 or re.search(r"[^0-9A-F]", digits):
        raise SqlSyntaxError(
            "a binary literal must hold pairs of hexadecimal digits", span=span, hint="for example X'48656C'", text=text
        )
    return digits


def _unscannable(text: str, position: int) -> SqlSyntaxError:
    """The error for a place where no token starts."""
    rest = text[position:]
    span = Span(position, position + 1)
    if rest.startswith("'") or re.match(r"(?:[uU]&|[eExX])'", rest):
        hint = "close it with a single quote"
        if text[:position][-1:].isalnum():
            hint += "; a quote inside a text is written twice, as in 'it''s'"
        return SqlSyntaxError("a text is not closed", span=span, hint=hint, text=text)
    if rest.startswith("`"):
        return SqlSyntaxError("an identifier is not closed", span=span, hint="close it with a back-tick", text=text)
    if rest.startswith("/*"):
        span = Span(position, position + 2)
        return SqlSyntaxError("a comment is not closed", span=span, hint="close it with */", text=text)
    if rest.startswith('"'):
        return SqlSyntaxError(
            "double quotes mean nothing here",
            span=span,
            text=text,
            hint="identifiers stand in `back-ticks`, texts in 'single quotes'",
        )
    hint = {
        "#": "a comment begins with --",
        "\\": "commands with a backslash are for sqlengine shell, on a line of their own behind a semicolon",
    }
    return SqlSyntaxError(
        f"the character '{rest[0]}' does not belong here", span=span, text=text, hint=hint.get(rest[0])
    )
