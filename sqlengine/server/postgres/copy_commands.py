"""COPY as a client writes it, with its options, also those of PostgreSQL before 9.0.

Source: PostgreSQL 15, COPY.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.statements import Copying
from sqlengine.server.postgres.words import Reader

__all__ = ["CopyFrom", "CopyTo", "read_copy"]

_KNOWN = frozenset(
    ("format", "delimiter", "null", "header", "quote", "escape", "force_quote", "force_not_null", "force_null",
     "encoding", "freeze")
)  # fmt: skip
_OF_CSV = ("quote", "escape", "force_quote", "force_not_null", "force_null")
_Given = str | bool | tuple[str, ...]


@dataclass(frozen=True)
class CopyTo:
    """COPY .. TO STDOUT of a query."""

    query: str
    offset: int
    copying: Copying


@dataclass(frozen=True)
class CopyFrom:
    """COPY table FROM STDIN. `columns`: empty for all."""

    table: str
    columns: tuple[str, ...]
    copying: Copying


def read_copy(reader: Reader) -> CopyTo | CopyFrom:
    """Behind COPY. Raises PgError 42601, and 0A000 for files of the server."""
    start = reader.peek()
    if start is not None and start.value == "(" and start.kind == "other":
        query = reader.parenthesized()
        reader.expect("to", "stdout")
        return CopyTo(query, start.end, _options(reader, reads=False))
    table = _path(reader)
    columns = _names(reader) if reader.at("(") else ()
    if reader.accept("from"):
        if not reader.accept("stdin"):
            raise PgError(
                "0A000", "COPY reads from STDIN only", hint="CREATE TABLE with 'connector' = 'filesystem' reads files"
            )
        return CopyFrom(table, columns, _options(reader, reads=True))
    reader.expect("to")
    if not reader.accept("stdout"):
        raise PgError("0A000", "COPY writes to STDOUT only", hint="INSERT INTO a table with 'connector' = 'filesystem'")
    chosen = ", ".join(map(_quoted, columns)) or "*"
    return CopyTo(f"SELECT {chosen} FROM {table}", 0, _options(reader, reads=False))


def _names(reader: Reader) -> tuple[str, ...]:
    """Names in parentheses."""
    reader.expect("(")
    names = [reader.name()]
    while reader.accept(","):
        names.append(reader.name())
    reader.expect(")")
    return tuple(names)


def _path(reader: Reader) -> str:
    """A name of a table as the engine reads it."""
    parts = [reader.name()]
    while reader.accept("."):
        parts.append(reader.name())
    return ".".join(map(_quoted, parts))


def _quoted(name: str) -> str:
    """In quotes where it needs them, so that both dialects read it."""
    if re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        return name
    return '"' + name.replace('"', '""') + '"'


def _options(reader: Reader, *, reads: bool) -> Copying:
    given: dict[str, _Given] = {}
    reader.accept("with")
    if reader.accept("("):
        while True:
            key = reader.name()
            given[key] = _given(reader)
            if not reader.accept(","):
                break
        reader.expect(")")
    while not reader.ended:
        if reader.accept_any("binary"):
            given["format"] = "binary"
        elif reader.accept("csv"):
            given["format"] = "csv"
        elif reader.accept("header"):
            given["header"] = True
        elif key := reader.accept_any("delimiter", "null", "quote", "escape", "encoding"):
            reader.accept("as")
            given[key] = reader.value()
        elif reader.accept("force"):
            option = _forced(reader)
            given[option] = ("*",) if reader.accept("*") else _listed(reader)
        else:
            raise reader.unexpected("an option of COPY")
    return _copying(given, reads=reads)


def _forced(reader: Reader) -> str:
    if reader.accept("not"):
        reader.expect("null")
        return "force_not_null"
    word = reader.accept_any("quote", "null")
    if word is None:
        raise reader.unexpected("QUOTE, NULL or NOT NULL")
    return f"force_{word}"


def _listed(reader: Reader) -> tuple[str, ...]:
    names = [reader.name()]
    while reader.accept(","):
        names.append(reader.name())
    return tuple(names)


def _given(reader: Reader) -> _Given:
    """What stands behind the name of an option: a value, names, or nothing."""
    if reader.at("("):
        return _names(reader)
    if reader.accept("*"):
        return ("*",)
    return True if reader.at(",") or reader.at(")") else reader.value()


def _copying(given: dict[str, _Given], *, reads: bool) -> Copying:
    for key in given:
        if key not in _KNOWN:
            raise PgError("42601", f'option "{key}" not recognized', hint=f"they are: {', '.join(sorted(_KNOWN))}")
    format_ = _text(given, "format", "text").lower()
    if format_ not in ("text", "csv", "binary"):
        raise PgError("22023", f'COPY format "{format_}" not recognized', hint="it is text, csv or binary")
    csv = format_ == "csv"
    for key in _OF_CSV:
        if key in given and not csv:
            raise PgError("0A000", f"COPY {key.replace('_', ' ')} available only in CSV mode")
    if reads and "force_quote" in given:
        raise PgError("0A000", "COPY force quote only available using COPY TO")
    for key in ("force_not_null", "force_null"):
        if key in given and not reads:
            raise PgError("0A000", f"COPY {key.replace('_', ' ')} only available using COPY FROM")
    delimiter = _text(given, "delimiter", "," if csv else "\t")
    if len(delimiter.encode()) != 1 or delimiter in "\r\n\\." or re.fullmatch("[a-z0-9]", delimiter):
        raise PgError("0A000", "COPY delimiter must be a single one-byte character, no letter, digit or line end")
    quote = _text(given, "quote", '"')
    escape = _text(given, "escape", quote)
    for word, sign in (("quote", quote), ("escape", escape)):
        if csv and len(sign.encode()) != 1:
            raise PgError("0A000", f"COPY {word} must be a single one-byte character")
    encoding = _text(given, "encoding", "utf8")
    if encoding.upper().replace("-", "") not in ("UTF8", "UNICODE", "SQL_ASCII"):
        raise PgError("22023", f'argument to option "encoding" must be UTF8, not "{encoding}"')
    header = str(given.get("header", False)).lower()
    if header == "match" and not reads:
        raise PgError("0A000", 'cannot use "match" with HEADER in COPY TO')
    return Copying(
        format_,
        delimiter,
        _text(given, "null", "" if csv else "\\N"),
        quote,
        header in ("true", "on", "1", "match"),
        escape=escape,
        matches=header == "match",
        force_quote=_columns(given, "force_quote"),
        force_not_null=_columns(given, "force_not_null"),
        force_null=_columns(given, "force_null"),
    )


def _text(given: dict[str, _Given], key: str, otherwise: str) -> str:
    found = given.get(key, otherwise)
    if not isinstance(found, str):
        raise PgError("42601", f'option "{key}" needs a value')
    return found


def _columns(given: dict[str, _Given], key: str) -> Sequence[str]:
    found = given.get(key, ())
    if not isinstance(found, tuple):
        raise PgError("42601", f'argument to option "{key}" must be a list of column names')
    return found
