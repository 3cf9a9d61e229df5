"""Text to tokens, by PostgreSQL's lexical rules.

Names without quotes are lower case, those in double quotes stay as they are. Comments in `/* .. */` nest. The operators of
`jsonb` are tokens, so a parameter is `$1` or `:name`, not `?`. Source: PostgreSQL's documentation, "Lexical Structure".
"""

from __future__ import annotations

import re
from decimal import Decimal

from runtime.core.errors import Span, SqlSyntaxError
from sqlengine.parse.lexer import END, NUMBER, OP, QUOTED, STRING, UNICODE, WORD, Token, unescaped

__all__ = ["scan"]

_PATTERN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>--[^\n]*)
    | (?P<block>/\*(?!\+))
    | (?P<unicode>[uU]&'(?:[^']|'')*')
    | (?P<escaped>[eE]'(?:[^'\\]|''|\\.)*')
    | (?P<binary>[xX]'(?:[^']|'')*')
    | (?P<word>[^\W\d][\w$]*)
    | (?P<string>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")*")
    | (?P<number>(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
    | (?P<op>::|/\*\+|->>|->|\#>>|\#>|\#-|@[>?@]|\^@|<@|\?\||\?&|\|\|/|\|/|\|\||&&|<<|<>|!?~\*|!~|[<>!]=|=>|[-+*/%()\[\]{},.;<>=?:|^$&~@\#])
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_PART = re.compile(r"/\*|\*/")
_MOST_DIGITS = 38


def scan(text: str, *, fold: bool = False, start: int = 0, end: int | None = None) -> list[Token]:
    """All tokens of a text, or of its part from `start` to `end`; the last one is END. Constants are never folded.

    Raises:
        SqlSyntaxError: a text, identifier, comment or hint is not closed, or a character belongs to nothing.
    """
    del fold
    tokens: list[Token] = []
    position, size = start, len(text) if end is None else end
    hint_start = -1
    while position < size:
        match = _PATTERN.match(text, position, size)
        if match is None:
            raise _unscannable(text, position)
        kind, end, written = match.lastgroup, match.end(), match.group()
        match kind:
            case "block":
                end = _comment_end(text, position, size)
            case "word":
                tokens.append(Token(WORD, written, written.lower(), written.upper(), position, end))
            case "op":
                if written == "/*+":
                    hint_start = position
                elif hint_start >= 0 and written == "*" and text.startswith("/", end):
                    written, end, hint_start = "*/", end + 1, -1
                tokens.append(Token(OP, written, written, written, position, end))
            case "string":
                tokens.append(Token(STRING, written, written[1:-1].replace("''", "'"), "", position, end))
            case "escaped":
                tokens.append(Token(STRING, written, unescaped(written[2:-1]), "", position, end))
            case "quoted":
                name = written[1:-1].replace('""', '"')
                if not name:
                    raise SqlSyntaxError("an identifier is empty", span=Span(position, end), text=text)
                tokens.append(Token(QUOTED, written, name, "", position, end))
            case "number":
                tokens.append(Token(NUMBER, _plain(written), written, "", position, end))
            case "dollar":
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
            case "unicode":
                tokens.append(Token(UNICODE, written, written[3:-1].replace("''", "'"), "", position, end))
            case "binary":
                raise SqlSyntaxError(
                    "bit strings are not supported",
                    span=Span(position, end),
                    hint=f"bytes are written as '\\x{written[2:-1]}'::bytea",
                    text=text,
                )
            case _:
                pass
        position = end
    if hint_start >= 0:
        raise SqlSyntaxError(
            "a hint is not closed", span=Span(hint_start, hint_start + 3), hint="close it with */", text=text
        )
    tokens.append(Token(END, "", "", "", size, size))
    return tokens


def _plain(number: str) -> str:
    """A number without exponent, as long as it has no more than 38 digits: `1e3` is numeric in PostgreSQL."""
    if "e" not in number.lower():
        return number
    plain = format(Decimal(number), "f")
    return plain if len(plain.replace(".", "").lstrip("0")) <= _MOST_DIGITS else number


def _comment_end(text: str, start: int, size: int) -> int:
    depth, position = 0, start
    while True:
        part = _COMMENT_PART.search(text, position, size)
        if part is None:
            raise SqlSyntaxError(
                "a comment is not closed", span=Span(start, start + 2), hint="close it with */", text=text
            )
        depth += 1 if part.group() == "/*" else -1
        position = part.end()
        if depth == 0:
            return position


def _unscannable(text: str, position: int) -> SqlSyntaxError:
    """The error for a place where no token starts."""
    rest = text[position:]
    span = Span(position, position + 1)
    if rest.startswith("'") or re.match(r"(?:[uU]&|[eExX])'", rest):
        return SqlSyntaxError("a text is not closed", span=span, hint="close it with a single quote", text=text)
    if rest.startswith('"'):
        return SqlSyntaxError("an identifier is not closed", span=span, hint='close it with "', text=text)
    hint = {"`": 'in the dialect postgres names are quoted as in "Name"'}
    return SqlSyntaxError(
        f"the character '{rest[0]}' does not belong here", span=span, text=text, hint=hint.get(rest[0])
    )
