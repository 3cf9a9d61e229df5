"""A connection to a server, and what it answers: columns, rows as texts, tags, errors with the place in the statement."""

from __future__ import annotations

import re
import select
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runtime.core.errors import ConnectorError, OptionError, Span, SqlEngineError
from runtime.core.rooms import Room
from runtime.core.secrets import masked_text

if TYPE_CHECKING:
    import psycopg
else:
    psycopg = Room("psycopg")

__all__ = ["Answer", "Connection"]

LOST = "E3791"
ROWS_AT_ONCE = 10_000
_CODE = re.compile(r"\bCode (E\d{4})\b")
_WORD = re.compile(r'"[^"]*"|`[^`]*`|\'[^\']*\'|\w+|\S')


@dataclass(frozen=True, slots=True)
class Answer:
    """A part of what a statement answers.

    `names` and `types` (oids of PostgreSQL) come with each part of a table, `rows` as texts, None for NULL. `tag` is there
    when the table, or a statement without one, has ended: "SELECT 2", "INSERT 0 1". `text`: lines of COPY TO STDOUT.
    """

    names: tuple[str, ...] = ()
    types: tuple[int, ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()
    tag: str | None = None
    text: str = ""


class Connection:
    """Sends statements and reads answers as they come, so that a statement without an end can be read, and ended.

    Args:
        address: `postgresql://user:password@host:port/catalog`, with the options of libpq.
        note: how to say what the server notices.

    Raises ConnectorError E3790 when nobody answers there, or lets us in; OptionError E1500 without psycopg.
    """

    def __init__(self, address: str, note: Callable[[str], None]) -> None:
        self._address = address
        self._note = note
        self._connection = self._open()

    def _open(self) -> psycopg.Connection[Any]:
        try:
            opened = psycopg.connect(self._address, autocommit=True, application_name="sqlengine shell")
        except ImportError:
            raise OptionError(
                "a shell on a server needs psycopg, which is not installed",
                code="E1500",
                hint="pip install 'sqlengine[client]'",
            ) from None
        except psycopg.Error as error:
            raise ConnectorError(
                f"cannot connect: {_first_line(error)}",
                code="E3790",
                hint="`sqlengine serve` starts a server, and tells where it listens",
            ) from None
        opened.add_notice_handler(lambda notice: self._note(f"{notice.severity}: {notice.message_primary}".lower()))
        return opened

    @property
    def place(self) -> str:
        """Where it goes: `host:port`."""
        info = self._connection.info
        return f"{info.host}:{info.port}"

    def ask(self, statement: str) -> Generator[Answer]:
        """The answers to a statement, in parts of at most `ROWS_AT_ONCE` rows, each as soon as no more rows are there.

        Raises the server's error, whose place is one in `statement`; ConnectorError E3791 when the connection is lost,
        after which the next statement opens another one. KeyboardInterrupt ends the statement at the server.
        """
        if self._connection.closed:
            self._connection = self._open()
        try:
            yield from self._answers(statement)
        except psycopg.Error as error:
            self._connection.close()
            raise ConnectorError(
                f"the connection was lost: {_first_line(error)}",
                code=LOST,
                hint="the next statement connects again; what was acknowledged is there",
            ) from None
        except (KeyboardInterrupt, GeneratorExit):
            self._end()
            raise

    def close(self) -> None:
        self._connection.close()

    def _answers(self, statement: str) -> Generator[Answer]:
        wire = self._connection.pgconn
        wire.send_query(statement.encode())
        wire.set_single_row_mode()
        status = psycopg.pq.ExecStatus
        held: list[tuple[str | None, ...]] = []
        names: tuple[str, ...] = ()
        types: tuple[int, ...] = ()
        failure: SqlEngineError | None = None
        while True:
            if wire.is_busy():
                if held:
                    yield Answer(names, types, tuple(held))
                    held = []
                self._wait()
                continue
            result = wire.get_result()
            if result is None:
                break
            if result.status in (status.SINGLE_TUPLE, status.TUPLES_OK):
                names = tuple((result.fname(i) or b"").decode() for i in range(result.nfields))
                types = tuple(result.ftype(i) for i in range(result.nfields))
                for row in range(result.ntuples):
                    held.append(tuple(_text(result.get_value(row, i)) for i in range(result.nfields)))
                if result.status == status.TUPLES_OK or len(held) >= ROWS_AT_ONCE:
                    tag = _text(result.command_status) if result.status == status.TUPLES_OK else None
                    yield Answer(names, types, tuple(held), tag)
                    held = []
            elif result.status == status.COPY_OUT:
                yield from self._copied()
            elif result.status == status.COPY_IN:
                wire.put_copy_end(b"this shell sends no rows")
            elif result.status == status.FATAL_ERROR:
                failure = _failure(result, statement)
            else:
                yield Answer(tag=_text(result.command_status) or "")
        if held:
            yield Answer(names, types, tuple(held))
        if failure is not None:
            raise failure

    def _copied(self) -> Generator[Answer]:
        wire = self._connection.pgconn
        while True:
            size, piece = wire.get_copy_data(1)
            if size > 0:
                yield Answer(text=bytes(piece).decode())
            elif size == 0:
                self._wait()
            else:
                return

    def _wait(self) -> None:
        wire = self._connection.pgconn
        select.select([wire.socket], [], [])
        wire.consume_input()

    def _end(self) -> None:
        """Ask the server to end the statement, and read what still comes."""
        wire = self._connection.pgconn
        try:
            self._connection.cancel_safe(timeout=5)
            while (result := wire.get_result()) is not None:
                if result.status in (psycopg.pq.ExecStatus.COPY_OUT, psycopg.pq.ExecStatus.COPY_IN):
                    raise psycopg.OperationalError("a COPY was cut off")
        except psycopg.Error:
            self._connection.close()


def _text(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "replace")


def _first_line(error: BaseException) -> str:
    return masked_text((str(error).strip().splitlines() or [type(error).__name__])[0])


def _failure(result: Any, statement: str) -> SqlEngineError:
    """The server's error: with our own code where it says one, else with that of SQL."""
    fields = psycopg.pq.DiagnosticField
    message = _text(result.error_field(fields.MESSAGE_PRIMARY)) or "the server has refused the statement"
    code = _CODE.search(_text(result.error_field(fields.MESSAGE_DETAIL)) or "")
    place = _text(result.error_field(fields.STATEMENT_POSITION))
    span = None
    if place is not None and place.isdecimal() and 0 < int(place) <= len(statement):
        word = _WORD.match(statement, int(place) - 1)
        span = Span(int(place) - 1, int(place) if word is None else word.end())
    return SqlEngineError(
        message,
        code=code[1] if code else _text(result.error_field(fields.SQLSTATE)) or LOST,
        span=span,
        text=statement if span is not None else None,
        hint=_text(result.error_field(fields.MESSAGE_HINT)),
    )
