"""Statements about the connection: transactions, settings, cursors, COPY.

Each reader takes the tokens behind the first words, and gives what is to be done. `read` gives None for a statement that
is none of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.statements import Copying
from sqlengine.server.postgres.words import Reader

__all__ = [
    "Begin", "Close", "Command", "Commit", "CopyFrom", "CopyTo", "Deallocate", "Declare", "Discard", "Fetch",
    "Ignored", "Release", "Reset", "Rollback", "RollbackTo", "Savepoint", "Set", "Show", "read",
]  # fmt: skip


@dataclass(frozen=True)
class Begin:
    """BEGIN, START TRANSACTION."""

    tag: str


@dataclass(frozen=True)
class Commit:
    """COMMIT, END."""


@dataclass(frozen=True)
class Rollback:
    """ROLLBACK, ABORT."""


@dataclass(frozen=True)
class Savepoint:
    name: str


@dataclass(frozen=True)
class Release:
    name: str


@dataclass(frozen=True)
class RollbackTo:
    name: str


@dataclass(frozen=True)
class Set:
    """SET; `value` None is DEFAULT."""

    name: str
    value: str | None
    local: bool = False


@dataclass(frozen=True)
class Reset:
    """RESET; `name` None is ALL."""

    name: str | None


@dataclass(frozen=True)
class Show:
    """SHOW of a setting; `name` None is ALL."""

    name: str | None


@dataclass(frozen=True)
class Discard:
    everything: bool


@dataclass(frozen=True)
class Deallocate:
    """DEALLOCATE; `name` None is ALL."""

    name: str | None


@dataclass(frozen=True)
class Declare:
    """DECLARE name CURSOR FOR query; `offset`: where the query begins in the statement."""

    name: str
    query: str
    offset: int
    hold: bool


@dataclass(frozen=True)
class Fetch:
    """FETCH or MOVE; `count` None is ALL. `timeout`: seconds to wait for the first row of a subscription."""

    name: str
    count: int | None
    moves: bool
    timeout: str | None = None


@dataclass(frozen=True)
class Close:
    """CLOSE; `name` None is ALL."""

    name: str | None


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


@dataclass(frozen=True)
class Ignored:
    """A statement that means nothing here, and is accepted because clients send it."""

    tag: str
    notice: str | None = None


Command = (
    Begin | Commit | Rollback | Savepoint | Release | RollbackTo | Set | Reset | Show | Discard | Deallocate | Declare
    | Fetch | Close | CopyTo | CopyFrom | Ignored
)  # fmt: skip


def read(text: str, knows_setting: Callable[[str], bool]) -> Command | None:
    """What a statement about the connection asks for; None for every other statement.

    Args:
        knows_setting: whether a name is a setting of PostgreSQL; SHOW and SET of other names are the engine's.
    Raises PgError 42601 for one that begins as such and does not go on so.
    """
    reader = Reader(text)
    first = reader.peek()
    make = None if first is None or first.kind != "word" else _READERS.get(first.value)
    if make is None or first is None:
        return None
    reader.accept(first.value)
    found = make(reader, knows_setting)
    if found is not None:
        reader.end()
    return found


def _begin(reader: Reader, _: Callable[[str], bool]) -> Command | None:
    if reader.accept("epoch"):
        return None
    reader.accept_any("work", "transaction")
    _modes(reader)
    return Begin("BEGIN")


def _start(reader: Reader, _: Callable[[str], bool]) -> Command:
    reader.expect("transaction")
    _modes(reader)
    return Begin("START TRANSACTION")


def _modes(reader: Reader) -> None:
    """Epochs are serializable, whatever weaker isolation is asked for."""
    while not reader.ended:
        reader.accept(",")
        if reader.accept("isolation", "level"):
            if not (
                reader.accept("serializable")
                or reader.accept("repeatable", "read")
                or reader.accept("read", "committed")
                or reader.accept("read", "uncommitted")
            ):
                raise reader.unexpected("an isolation level")
        elif not (
            reader.accept("read", "only")
            or reader.accept("read", "write")
            or reader.accept("not", "deferrable")
            or reader.accept("deferrable")
        ):
            raise reader.unexpected("a transaction mode")


def _commit(reader: Reader, _: Callable[[str], bool]) -> Command | None:
    if reader.accept("epoch"):
        return None
    reader.accept_any("work", "transaction")
    reader.accept("and", "no", "chain")
    return Commit()


def _rollback(reader: Reader, _: Callable[[str], bool]) -> Command | None:
    if reader.accept("epoch"):
        return None
    reader.accept_any("work", "transaction")
    if reader.accept("to"):
        reader.accept("savepoint")
        return RollbackTo(reader.name())
    reader.accept("and", "no", "chain")
    return Rollback()


def _release(reader: Reader, _: Callable[[str], bool]) -> Command:
    reader.accept("savepoint")
    return Release(reader.name())


def _set(reader: Reader, knows_setting: Callable[[str], bool]) -> Command | None:
    if reader.accept("session", "characteristics", "as", "transaction"):
        _modes(reader)
        return Ignored("SET")
    scope = reader.accept_any("session", "local")
    if reader.accept("transaction"):
        _modes(reader)
        return Ignored("SET")
    if reader.accept("time", "zone"):
        word = "default" if reader.accept_any("local", "default") else reader.value()
        return Set("timezone", None if word == "default" else word, scope == "local")
    if reader.accept("names"):
        return Set("client_encoding", reader.value())
    if reader.accept("schema"):
        return Set("search_path", reader.value(), scope == "local")
    word = reader.peek()
    if word is None or word.kind not in ("word", "quoted"):
        return None
    name = _dotted(reader)
    if not (reader.accept("=") or reader.accept("to")) or not (knows_setting(name) or "." not in name):
        return None
    if reader.accept("default"):
        return Set(name, None, scope == "local")
    values = [reader.value()]
    while reader.accept(","):
        values.append(reader.value())
    return Set(name, ", ".join(values), scope == "local")


def _dotted(reader: Reader) -> str:
    name = reader.name()
    while reader.accept("."):
        name += "." + reader.name()
    return name


def _reset(reader: Reader, knows_setting: Callable[[str], bool]) -> Command | None:
    if reader.accept("all"):
        return Reset(None)
    word = reader.peek()
    if word is None or word.kind not in ("word", "quoted"):
        return None
    name = _dotted(reader)
    return Reset(name) if knows_setting(name) else None


def _show(reader: Reader, knows_setting: Callable[[str], bool]) -> Command | None:
    if reader.accept("all"):
        return Show(None)
    if reader.accept("time", "zone"):
        return Show("timezone")
    if reader.accept("transaction", "isolation", "level"):
        return Show("transaction_isolation")
    word = reader.peek()
    if word is None or word.kind not in ("word", "quoted"):
        return None
    name = _dotted(reader)
    return Show(name) if reader.ended and knows_setting(name) else None


def _discard(reader: Reader, _: Callable[[str], bool]) -> Command:
    word = reader.accept_any("all", "plans", "sequences", "temporary", "temp")
    if word is None:
        raise reader.unexpected("ALL")
    return Discard(word == "all")


def _deallocate(reader: Reader, _: Callable[[str], bool]) -> Command:
    reader.accept("prepare")
    return Deallocate(None if reader.accept("all") else reader.name())


def _declare(reader: Reader, _: Callable[[str], bool]) -> Command:
    name = reader.name()
    while word := reader.accept_any("binary", "insensitive", "asensitive", "no", "scroll"):
        if word == "binary":
            raise PgError("0A000", "binary cursors are not supported", hint="ask for binary results in the protocol")
    reader.expect("cursor")
    hold = reader.accept("with", "hold")
    reader.accept("without", "hold")
    reader.expect("for")
    query, offset = reader.rest()
    return Declare(name, query, offset, hold)


def _fetch(reader: Reader, _: Callable[[str], bool], moves: bool = False) -> Command:
    count: int | None = 1
    if reader.accept("all") or reader.accept("forward", "all"):
        count = None
    elif reader.accept_any("backward", "prior", "first", "last", "absolute", "relative"):
        raise PgError("55000", "cursor can only scan forward", hint="FETCH FORWARD n")
    else:
        reader.accept_any("next", "forward")
        word = reader.peek()
        if word is not None and word.kind == "number":
            count = int(reader.value())
    reader.accept_any("from", "in")
    name = reader.name()
    timeout = None
    if reader.accept("with"):
        reader.expect("(")
        reader.expect("timeout")
        reader.accept("=")
        timeout = reader.value()
        reader.expect(")")
    return Fetch(name, count, moves, timeout)


def _move(reader: Reader, knows: Callable[[str], bool]) -> Command:
    return _fetch(reader, knows, moves=True)


def _close(reader: Reader, _: Callable[[str], bool]) -> Command:
    return Close(None if reader.accept("all") else reader.name())


def _copy(reader: Reader, _: Callable[[str], bool]) -> Command:
    start = reader.peek()
    if start is not None and start.value == "(" and start.kind == "other":
        query = reader.parenthesized()
        reader.expect("to", "stdout")
        return CopyTo(query, start.end, _copy_options(reader))
    table = _path(reader)
    columns: tuple[str, ...] = ()
    if reader.accept("("):
        names = [reader.name()]
        while reader.accept(","):
            names.append(reader.name())
        reader.expect(")")
        columns = tuple(names)
    if reader.accept("from"):
        if not reader.accept("stdin"):
            raise PgError(
                "0A000", "COPY reads from STDIN only", hint="CREATE TABLE with 'connector' = 'filesystem' reads files"
            )
        return CopyFrom(table, columns, _copy_options(reader))
    reader.expect("to")
    if not reader.accept("stdout"):
        raise PgError("0A000", "COPY writes to STDOUT only", hint="INSERT INTO a table with 'connector' = 'filesystem'")
    chosen = ", ".join(map(_quoted, columns)) or "*"
    return CopyTo(f"SELECT {chosen} FROM {table}", 0, _copy_options(reader))


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


def _copy_options(reader: Reader) -> Copying:
    given: dict[str, str | bool] = {}
    reader.accept("with")
    if reader.accept("("):
        while True:
            key = reader.name()
            word = reader.peek()
            if word is not None and word.value == "(" and word.kind == "other":
                given[key] = reader.parenthesized()
            else:
                given[key] = (
                    True if word is not None and word.value in (",", ")") and word.kind == "other" else reader.value()
                )
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
        elif key := reader.accept_any("delimiter", "null", "quote"):
            reader.accept("as")
            given[key] = reader.value()
        else:
            raise reader.unexpected("an option of COPY")
    return _copying(given)


def _copying(given: dict[str, str | bool]) -> Copying:
    known = {"format", "delimiter", "null", "header", "quote", "encoding", "freeze"}
    for key in given:
        if key not in known:
            raise PgError("42601", f'option "{key}" not recognized', hint=f"they are: {', '.join(sorted(known))}")
    format_ = str(given.get("format", "text")).lower()
    if format_ not in ("text", "csv", "binary"):
        raise PgError("22023", f'COPY format "{format_}" not recognized', hint="it is text, csv or binary")
    csv = format_ == "csv"
    delimiter = str(given.get("delimiter", "," if csv else "\t"))
    if len(delimiter.encode()) != 1 or delimiter in "\r\n\\." or re.fullmatch("[a-z0-9]", delimiter):
        raise PgError("0A000", "COPY delimiter must be a single one-byte character, no letter, digit or line end")
    header = given.get("header", False)
    return Copying(
        format_,
        delimiter,
        str(given.get("null", "" if csv else "\\N")),
        str(given.get("quote", '"')),
        header is True or str(header).lower() in ("true", "on", "1", "match"),
    )


def _listen(reader: Reader, _: Callable[[str], bool]) -> Command:
    if not reader.accept("*"):
        reader.name()
    if reader.accept(","):
        reader.value()
    tag = reader.text.split(None, 1)[0].upper()
    notice = None if tag == "UNLISTEN" else "notifications are not sent; SUBSCRIBE TO a view tells its changes"
    return Ignored(tag, notice)


def _lock(reader: Reader, _: Callable[[str], bool]) -> Command:
    reader.rest()
    return Ignored(
        "LOCK TABLE", "statements take no locks: a transaction that conflicts with another one is told at COMMIT"
    )


def _vacuum(reader: Reader, _: Callable[[str], bool]) -> Command:
    reader.skip()
    return Ignored("VACUUM")


def _comment(reader: Reader, _: Callable[[str], bool]) -> Command | None:
    """Comments on tables, views and columns are the engine's."""
    reader.accept("on")
    if reader.accept_any("table", "view", "materialized", "column"):
        return None
    reader.skip()
    return Ignored("COMMENT", "the comment is not kept; those on tables, views and columns are")


_READERS: dict[str, Callable[[Reader, Callable[[str], bool]], Command | None]] = {
    "begin": _begin,
    "start": _start,
    "commit": _commit,
    "end": _commit,
    "rollback": _rollback,
    "abort": _rollback,
    "savepoint": lambda reader, _: Savepoint(reader.name()),
    "release": _release,
    "set": _set,
    "reset": _reset,
    "show": _show,
    "discard": _discard,
    "deallocate": _deallocate,
    "declare": _declare,
    "fetch": _fetch,
    "move": _move,
    "close": _close,
    "copy": _copy,
    "listen": _listen,
    "unlisten": _listen,
    "notify": _listen,
    "lock": _lock,
    "vacuum": _vacuum,
    "comment": _comment,
}
