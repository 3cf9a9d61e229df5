"""Statements about the connection: transactions, settings, cursors (`cursor_commands`), COPY (`copy_commands`).

Each reader takes the tokens behind the first words, and gives what is to be done. `read` gives None for a statement that
is none of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlengine.server.postgres.copy_commands import CopyFrom, CopyTo, read_copy
from sqlengine.server.postgres.cursor_commands import Close, Declare, Fetch, read_close, read_declare, read_fetch
from sqlengine.server.postgres.notices import Notice, missing
from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.words import Reader

__all__ = [
    "Begin", "Command", "Commit", "Deallocate", "Discard", "Ignored", "Index", "Listen", "Notify", "Release", "Reset", "Rollback",
    "RollbackTo", "Savepoint", "Set", "SetModes", "Show", "Unlisten", "read",
]  # fmt: skip


@dataclass(frozen=True)
class Begin:
    """BEGIN, START TRANSACTION. `reads_only`: None where the setting says it."""

    tag: str
    reads_only: bool | None = None


@dataclass(frozen=True)
class SetModes:
    """SET TRANSACTION, or of all transactions that follow (`session`)."""

    session: bool
    reads_only: bool | None


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
    """DISCARD. `numbers`: also what sequences have given."""

    everything: bool
    numbers: bool


@dataclass(frozen=True)
class Deallocate:
    """DEALLOCATE; `name` None is ALL."""

    name: str | None


@dataclass(frozen=True)
class Listen:
    channel: str


@dataclass(frozen=True)
class Unlisten:
    """UNLISTEN; `channel` None is all."""

    channel: str | None


@dataclass(frozen=True)
class Notify:
    channel: str
    payload: str


@dataclass(frozen=True)
class Index:
    """CREATE INDEX on a relation: accepted because clients send it."""

    path: tuple[str, ...]


@dataclass(frozen=True)
class Ignored:
    """A statement that means nothing here, and is accepted because clients send it."""

    tag: str
    notice: str | Notice | None = None


Command = (
    Begin | SetModes | Commit | Rollback | Savepoint | Release | RollbackTo | Set | Reset | Show | Discard | Deallocate | Declare
    | Fetch | Close | CopyTo | CopyFrom | Index | Ignored | Listen | Unlisten | Notify
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
    return Begin("BEGIN", _modes(reader))


def _start(reader: Reader, _: Callable[[str], bool]) -> Command:
    reader.expect("transaction")
    return Begin("START TRANSACTION", _modes(reader))


def _modes(reader: Reader) -> bool | None:
    """Whether it only reads; None where nothing is said. Epochs are serializable, whatever weaker isolation is asked for."""
    reads_only = None
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
        elif reader.accept("read", "only"):
            reads_only = True
        elif reader.accept("read", "write"):
            reads_only = False
        elif not (reader.accept("not", "deferrable") or reader.accept("deferrable")):
            raise reader.unexpected("a transaction mode")
    return reads_only


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


def _set(reader: Reader, _: Callable[[str], bool]) -> Command | None:
    if reader.accept("session", "characteristics", "as", "transaction"):
        return SetModes(True, _modes(reader))
    scope = reader.accept_any("session", "local")
    if reader.accept("transaction"):
        return SetModes(False, _modes(reader))
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
    if not (reader.accept("=") or reader.accept("to")):
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
    return Discard(word == "all", word in ("all", "sequences"))


def _deallocate(reader: Reader, _: Callable[[str], bool]) -> Command:
    reader.accept("prepare")
    return Deallocate(None if reader.accept("all") else reader.name())


def _create(reader: Reader, _: Callable[[str], bool]) -> Command | None:
    """Indexes are made by themselves, for queries that need them."""
    unique = reader.accept("unique")
    if not reader.accept("index"):
        return None
    if unique:
        raise PgError(
            "0A000", "unique indexes are not supported", hint="ALTER TABLE .. ADD UNIQUE (..) makes a constraint"
        )
    reader.accept("concurrently")
    reader.accept("if", "not", "exists")
    if not reader.accept("on"):
        reader.name()
        reader.expect("on")
    reader.accept("only")
    parts = [reader.name()]
    while reader.accept("."):
        parts.append(reader.name())
    reader.skip()
    return Index(tuple(parts))


def _drop(reader: Reader, _: Callable[[str], bool]) -> Command | None:
    if not reader.accept("index"):
        return None
    reader.accept("concurrently")
    if_exists = reader.accept("if", "exists")
    name = _dotted(reader)
    while reader.accept(","):
        _dotted(reader)
    reader.accept_any("cascade", "restrict")
    if not if_exists:
        raise PgError("42704", f'index "{name}" does not exist', hint="indexes come and go by themselves")
    return Ignored("DROP INDEX", missing("index", name))


def _prepare(reader: Reader, _: Callable[[str], bool]) -> Command | None:
    """PREPARE of a statement is the engine's."""
    if reader.accept("transaction"):
        raise PgError("55000", "prepared transactions are disabled", hint="COMMIT ends a transaction in one phase")
    return None


def _channel(reader: Reader) -> str:
    """Names are cut where PostgreSQL cuts them."""
    return reader.name().encode()[:63].decode(errors="ignore")


def _unlisten(reader: Reader, _: Callable[[str], bool]) -> Command:
    return Unlisten(None if reader.accept("*") else _channel(reader))


def _notify(reader: Reader, _: Callable[[str], bool]) -> Command:
    channel, payload = _channel(reader), ""
    if reader.accept(","):
        word = reader.peek()
        if word is None or word.kind != "string":
            raise reader.unexpected("a text")
        payload = reader.value()
    return Notify(channel, payload)


def _lock(reader: Reader, _: Callable[[str], bool]) -> Command:
    reader.rest()
    return Ignored(
        "LOCK TABLE", "statements take no locks: a transaction that conflicts with another one is told at COMMIT"
    )


def _vacuum(reader: Reader, _: Callable[[str], bool]) -> Command:
    reader.skip()
    return Ignored("VACUUM")


def _analyze(reader: Reader, _: Callable[[str], bool]) -> Command | None:
    """ANALYZE TABLE is the engine's."""
    if reader.accept("table"):
        return None
    reader.skip()
    return Ignored("ANALYZE")


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
    "declare": lambda reader, _: read_declare(reader),
    "fetch": lambda reader, _: read_fetch(reader),
    "move": lambda reader, _: read_fetch(reader, moves=True),
    "close": lambda reader, _: read_close(reader),
    "copy": lambda reader, _: read_copy(reader),
    "listen": lambda reader, _: Listen(_channel(reader)),
    "unlisten": _unlisten,
    "notify": _notify,
    "lock": _lock,
    "create": _create,
    "drop": _drop,
    "prepare": _prepare,
    "vacuum": _vacuum,
    "analyze": _analyze,
    "checkpoint": lambda reader, _: Ignored("CHECKPOINT"),
    "comment": _comment,
}
