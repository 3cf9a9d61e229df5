"""Errors that a person can act on: a stable code, where, why, and what to do.

One tree for all four packages. `UserError` means the statement or its options are wrong, `ExternalError` that a
system outside failed (file, network, format), `InternalError` that an invariant of ours broke.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from runtime.core.likeness import did_you_mean
from runtime.core.secrets import masked_source, masked_text, without_values

__all__ = [
    "BindError",
    "CatalogError",
    "CheckpointError",
    "ConnectorError",
    "DatabaseError",
    "ExpressionError",
    "ExternalError",
    "FormatError",
    "InternalError",
    "MemoryLimitError",
    "OptionError",
    "PlanningError",
    "ProcessError",
    "Span",
    "SparkError",
    "SqlEngineError",
    "SqlEngineWarning",
    "SqlSyntaxError",
    "StateBackendError",
    "TypeMismatchError",
    "UnavailableError",
    "UnsupportedError",
    "UserError",
    "did_you_mean",
    "display_width",
    "pointing_at",
    "render",
    "code_and_text",
    "with_article",
    "without_traceback",
]


@dataclass(frozen=True, slots=True)
class Span:
    """A range of characters in a SQL text: `start` inclusive, `end` exclusive, both 0-based offsets."""

    start: int
    end: int

    def shift(self, by: int) -> Span:
        return Span(self.start + by, self.end + by)


class SqlEngineWarning(UserWarning):
    """A statement succeeded, with a side effect that the user should know about."""


class SqlEngineError(Exception):
    """Base of all errors of the engine.

    Args:
        message: what is wrong, in the words of the user (no class names, no plan text).
        code: stable, `E` and four digits; the class's own when not given.
        span: where in `text`, if there is a place.
        hint: what to do about it, one sentence.
        text: the SQL text that `span` points into; whoever knows the text fills it in later. The values of its secrets
            are masked in message and hint.

    `source` is the file that the text comes from, where there is one; whoever read the file fills it in. `trace`: the places
    in the user's own Python where an exception came through, the outermost first, a line each.
    """

    code = "E9000"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        span: Span | None = None,
        hint: str | None = None,
        text: str | None = None,
    ) -> None:
        message = masked_text(message)
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.span = span
        self.hint = None if hint is None else masked_text(hint)
        self._text: str | None = None
        self.text = text
        self.source: str | None = None
        self.trace: tuple[str, ...] = ()

    @property
    def text(self) -> str | None:
        return self._text

    @text.setter
    def text(self, text: str | None) -> None:
        self._text = text
        if text is not None:
            self.message = without_values(self.message, text)
            self.args = (self.message,)
            self.hint = None if self.hint is None else without_values(self.hint, text)

    def __str__(self) -> str:
        where = ""
        if self.span is not None and self.text is not None:
            line, column = position(self.text, self.span.start)
            where = f" at {line}:{column}"
        advice = f"; {self.hint}" if self.hint else ""
        return f"{self.code} {self.message}{where}{advice}"


class UserError(SqlEngineError):
    """The statement, its names, types or options are wrong."""

    code = "E1000"


class SqlSyntaxError(UserError):
    """The text is not in the language."""

    code = "E1100"


class BindError(UserError):
    """A name that does not exist or is ambiguous, or a clause in a place where it means nothing."""

    code = "E1200"


class TypeMismatchError(UserError):
    """An expression whose operand types do not fit."""

    code = "E1300"


class CatalogError(UserError):
    """A catalog object that is missing, exists already, or cannot be changed in this way."""

    code = "E1400"


class OptionError(UserError):
    """An unknown or malformed option, connector or format."""

    code = "E1500"


class UnsupportedError(UserError):
    """Correct SQL that cannot be run in this way; the hint says what would work."""

    code = "E1600"


class PlanningError(UserError):
    """No correct plan exists: for example an updating query into an append-only sink."""

    code = "E1700"


class NotInDuckDB(SqlEngineError):
    """DuckDB has failed where the engine's own operators may not: they answer the query instead, unless rows have been
    given already."""

    code = "E2001"


class ExpressionError(UserError):
    """A cast or function failed on a row and the query asks to fail (CAST, not TRY_CAST). `reason`: the same without what
    differs from row to row, where somebody counts rows by it."""

    code = "E2000"
    reason: str = ""


class ExternalError(SqlEngineError):
    """A system outside the engine failed."""

    code = "E3000"


class ConnectorError(ExternalError):
    """A source or sink cannot be opened, read or written."""

    code = "E3100"


class UnavailableError(ConnectorError):
    """The system behind a source or sink does not answer now, and may do so later: what was asked is asked again."""

    code = "E3150"


class FormatError(ExternalError):
    """Bytes that are not in the declared format."""

    code = "E3200"


class CheckpointError(ExternalError):
    """State cannot be saved, or not be restored."""

    code = "E3400"


class FencedError(CheckpointError):
    """Another run has taken the place of this one: what this one would show is shown by the other."""

    code = "E3413"


class StateBackendError(ExternalError):
    """State that is not in memory cannot be written or read."""

    code = "E3500"


class SparkError(ExternalError):
    """Spark cannot be started, or a job of it has failed."""

    code = "E3600"


class ProcessError(ExternalError):
    """Tasks cannot run in processes of this machine, or their processes end."""

    code = "E3900"


class StateQueryError(ExternalError):
    """State that somebody asks for from outside cannot be told (`sqlengine.state`)."""

    code = "E4100"
    request: str = ""
    """The request that has failed, where a server has told of it."""


class DatabaseError(ExternalError):
    """A database in a folder cannot be opened, read or written."""

    code = "E3700"


class AccessError(UserError):
    """Whoever has asked may not do this."""

    code = "E1800"


class MemoryLimitError(ExternalError):
    """The process has as much memory as it may take."""

    code = "E3800"


class InternalError(SqlEngineError):
    """An invariant of the engine broke: a bug of ours, never the user's fault."""

    code = "E9100"


def code_and_text(error: BaseException) -> tuple[str, str]:
    """The code of an error and what it says; what is none of ours is an internal error."""
    if isinstance(error, SqlEngineError):
        return error.code, error.message
    return InternalError.code, masked_text(f"{type(error).__name__}: {error}")


def without_traceback(error: BaseException) -> BaseException:
    """The same error for whoever keeps it: what the frames of a traceback hold is free when the error has been told."""
    kept = type(error).__new__(type(error), *error.args)
    kept.args = error.args
    kept.__dict__.update(error.__dict__)
    return kept


@contextmanager
def pointing_at(span: Span | None) -> Generator[None]:
    """Errors of a block that know no place of their own point at this one."""
    try:
        yield
    except SqlEngineError as error:
        error.span = error.span or span
        raise


def with_article(thing: object) -> str:
    """`an INT`, `a BIGINT`: a noun, or a type, with its indefinite article."""
    text = str(thing)
    return f"{'an' if text[:1].upper() in tuple('AEIOU') else 'a'} {text}"


def position(text: str, offset: int) -> tuple[int, int]:
    """The 1-based line and column of an offset."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def render(error: SqlEngineError, width: int | None = None) -> str:
    """The error formatted for people: message, the line of SQL with a caret below the place, where in
    the user's Python it came from, and hint. `width`:
    columns of the terminal, where the line of SQL is to fit into one of its own."""
    lines = [f"{error.code} {error.message}"]
    if error.span is not None and error.text is not None:
        line, column = position(error.text, error.span.start)
        lines.append(f"  at {error.source + ':' if error.source else ''}{line}:{column}")
        lines += _pointed_at(f"{line} | ", masked_source(error.text), error.span, width or 2 * _SHOWN)
    lines += [f"  {place}" for place in error.trace]
    if error.hint:
        lines.append(f"  hint: {error.hint}")
    return "\n".join(lines)


_BEFORE_CARET, _SHOWN = 80, 120
"""Of a long line so many characters before the place are shown, and so many in all."""


def _pointed_at(gutter: str, text: str, span: Span, width: int) -> list[str]:
    """The line of a place, cut where it is long, and carets below it, aligned as a terminal shows wide characters."""
    most = max(40, min(_SHOWN, width - len(gutter) - len("  ......")))
    before = min(_BEFORE_CARET, most - 20)
    begin = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.start)
    shown = text[begin : end if end >= 0 else len(text)].rstrip("\r")
    start = min(span.start - begin, len(shown))
    stop = max(start + 1, min(span.end - begin, len(shown)))
    left = start - before if start > most - 20 else 0
    head, marked, tail = (_printable(part) for part in (shown[left:start], shown[start:stop], shown[stop:]))
    prefix = "..." if left else ""
    room = max(20, most - display_width(head))
    whole = marked + tail
    carets = "^" * max(1, min(display_width(marked), room))
    return [
        f"  {gutter}{prefix}{head}{whole[:room]}{'...' if len(whole) > room else ''}",
        "  " + " " * (len(gutter) + len(prefix) + display_width(head)) + carets,
    ]


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text.replace("\t", "    "))


def display_width(text: str) -> int:
    """Columns that a text takes on a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
