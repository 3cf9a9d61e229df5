"""DECLARE, FETCH, MOVE and CLOSE as a client writes them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.words import Reader

__all__ = ["Close", "Declare", "Fetch", "read_close", "read_declare", "read_fetch"]


@dataclass(frozen=True)
class Declare:
    """DECLARE name CURSOR FOR query; `offset`: where the query begins in the statement."""

    name: str
    query: str
    offset: int
    hold: bool
    scrolls: bool = False


@dataclass(frozen=True)
class Fetch:
    """FETCH or MOVE; `direction` and `count`: see `Cursor.fetch`. `timeout`: seconds to wait for the first row of a
    subscription."""

    name: str
    direction: str
    count: int | None
    moves: bool
    timeout: str | None = None


@dataclass(frozen=True)
class Close:
    """CLOSE; `name` None is ALL."""

    name: str | None


def read_declare(reader: Reader) -> Declare:
    """Behind DECLARE. Raises PgError 42601, and 0A000 for a binary cursor."""
    name = reader.name()
    scrolls = False
    while word := reader.accept_any("binary", "insensitive", "asensitive", "no", "scroll"):
        if word == "binary":
            raise PgError("0A000", "binary cursors are not supported", hint="ask for binary results in the protocol")
        if word == "no":
            reader.expect("scroll")
        scrolls = scrolls or word == "scroll"
    reader.expect("cursor")
    hold = reader.accept("with", "hold")
    reader.accept("without", "hold")
    reader.expect("for")
    query, offset = reader.rest()
    return Declare(name, query, offset, hold, scrolls)


def read_fetch(reader: Reader, *, moves: bool = False) -> Fetch:
    """Behind FETCH or MOVE. Raises PgError 42601."""
    direction, count = _direction(reader)
    reader.accept_any("from", "in")
    name = reader.name()
    timeout = None
    if reader.accept("with"):
        reader.expect("(")
        reader.expect("timeout")
        reader.accept("=")
        timeout = reader.value()
        reader.expect(")")
    return Fetch(name, direction, count, moves, timeout)


def _direction(reader: Reader) -> tuple[str, int | None]:
    match reader.accept_any("next", "prior", "first", "last", "absolute", "relative", "all", "forward", "backward"):
        case "prior":
            return "backward", 1
        case "first":
            return "absolute", 1
        case "last":
            return "absolute", -1
        case "all":
            return "forward", None
        case ("absolute" | "relative") as word:
            return word, _count(reader, needed=True)
        case ("forward" | "backward") as word:
            return word, None if reader.accept("all") else _count(reader)
        case "next":
            return "forward", 1
        case _:
            return "forward", _count(reader)


def _count(reader: Reader, *, needed: bool = False) -> int:
    """A number of rows; 1 where none is written."""
    word = reader.peek()
    if not needed and (word is None or (word.kind != "number" and word.value not in ("-", "+"))):
        return 1
    reader.accept("+")
    try:
        return int(reader.value())
    except ValueError:
        raise reader.unexpected("a whole number") from None


def read_close(reader: Reader) -> Close:
    """Behind CLOSE. Raises PgError 42601."""
    return Close(None if reader.accept("all") else reader.name())
