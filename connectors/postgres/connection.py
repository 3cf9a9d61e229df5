"""psycopg's connections to a database, and its errors in our words."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString, cast

from connectors.postgres.address import Address
from runtime.core.errors import ConnectorError, UnavailableError

__all__ = ["SETTINGS", "answered", "connected", "literal", "quoted", "refused", "run", "telling"]

_PASSING = ("08", "40", "53", "55P03", "57P01", "57P02", "57P03", "57P05", "25P03")
"""States of SQL that pass: no connection, deadlocks and serialization, no room for more, locks, servers that start or stop."""
_REFUSED = ("28", "3D", "42501")
"""Who may not connect, and databases that are not there."""
_OF_ARRAYS, _MANY_DIMENSIONS = 'malformed array literal: "', "has arrays of more than one dimension"
_FOR_GOOD = (
    "no password supplied",
    "authentication failed",
    "does not exist",
    "not permitted",
    "certificate",
    "support SSL",
    "host name",
)
"""What the client says of a server that will not change its mind."""
_CONSTRAINTS = ("23", "22", "21000")
_SHAPES = ("42",)
_NOT_SENT = "?"
"""What psycopg itself refuses: a mistake of ours."""

SETTINGS = (
    "-c timezone=UTC -c datestyle=ISO -c intervalstyle=iso_8601 -c extra_float_digits=1 -c standard_conforming_strings=on "
    "-c bytea_output=hex -c search_path=pg_catalog"
)
"""Of each session, so that texts mean the same whatever the server's own settings are."""


def _library() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise ConnectorError(
            "the client of PostgreSQL is not installed", code="E3160", hint="pip install 'sqlengine[postgres]'"
        ) from error
    return psycopg


@contextmanager
def telling(address: Address, what: str = "") -> Generator[None]:
    """Errors of psycopg as ConnectorError E3161 (refused), E3162 (a row that may not be), E3163 (a table or column that is
    not there or has another type), or UnavailableError E3150, what passes. `what`: the table, for messages."""
    library = _library()
    try:
        yield
    except library.Error as error:
        raise _told(error, address, what) from error


def _told(error: Any, address: Address, what: str) -> ConnectorError:
    library = _library()
    lost = isinstance(error, library.OperationalError | library.InterfaceError)
    state = error.sqlstate or ("" if lost else _NOT_SENT)
    text = (error.diag.message_primary if error.sqlstate else None) or str(error).strip() or type(error).__name__
    return refused(address, what, state, text, error.diag.message_detail if error.sqlstate else None)


def refused(address: Address, what: str, state: str, text: str, detail: str | None) -> ConnectorError:
    """An error of the server, or of the client when it has no state of SQL, in our words."""
    first = text.splitlines()[0]
    where = f"{what}: " if what else ""
    message = f"{where}PostgreSQL at {address}: {first}"
    if first.startswith(_OF_ARRAYS) and _MANY_DIMENSIONS in first:
        told = first.removeprefix(_OF_ARRAYS).strip('"')
        return ConnectorError(f"{where}{told}", code="E3164", hint="read a view that has none")
    if state.startswith(_CONSTRAINTS):
        row = f" ({detail})" if detail else ""
        return ConnectorError(
            f"{message}{row}",
            code="E3162",
            hint="nothing of its transaction was written: correct the row, or the table",
        )
    if state.startswith(_REFUSED):
        return ConnectorError(message, code="E3161", hint="check the database, the user, and what it may do")
    if state.startswith(_SHAPES):
        return ConnectorError(
            message, code="E3163", hint="has the table other columns than those that are declared here?"
        )
    if not state and any(part in text for part in _FOR_GOOD):
        return ConnectorError(message, code="E3161", hint="check the options 'username', 'password' and 'ssl-mode'")
    if not state or state.startswith(_PASSING):
        return UnavailableError(message, hint="is the server there, and reachable from here?")
    return ConnectorError(message, code="E3161", hint="the message is PostgreSQL's own")


def connected(address: Address, *, autocommit: bool = True, **more: Any) -> Any:
    """A connection of psycopg that speaks UTC and reads texts as standard SQL does. Raises ConnectorError E3160 without the
    client, E3161 or UnavailableError E3150 when there is none."""
    library = _library()
    with telling(address):
        return library.connect(
            **address.parameters(),
            options=SETTINGS,
            autocommit=autocommit,
            **more,
        )


def run(connection: Any, query: str, arguments: Sequence[Any] = ()) -> Any:
    """A cursor with the answer. Names in the query are `quoted`, values are arguments."""
    return connection.execute(cast(LiteralString, query), list(arguments) or None)


def answered(address: Address, query: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The rows of a short answer: names, counts."""
    with telling(address), connected(address) as connection:
        return run(connection, query, arguments).fetchall()


def literal(value: str) -> str:
    """A text as PostgreSQL reads it."""
    return "'" + value.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """A name as PostgreSQL reads it."""
    return '"' + name.replace('"', '""') + '"'
