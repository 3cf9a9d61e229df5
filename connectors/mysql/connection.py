"""Connections to a server of MySQL or MariaDB, and its errors in our words.

PyMySQL connects, proves who asks, and runs statements. Long answers are taken from its socket as bytes, and become columns
(`wire`), because it would make an object of each cell.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from connectors.mysql.address import Address
from connectors.mysql.wire import LongPacket, Packets, batches
from runtime.core.errors import ConnectorError, UnavailableError

__all__ = ["Connection", "connected", "listed", "literal", "quoted", "telling"]

_SETTINGS = (
    "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO', lock_wait_timeout = 10, "
    "innodb_lock_wait_timeout = 10, net_write_timeout = 86400, sql_select_limit = DEFAULT, sql_safe_updates = 0"
)
"""Of each session, so that values mean the same whatever the server's own settings are. Whoever reads slowly is waited for."""
_PASSING = frozenset(
    {
        1040,
        1053,
        1077,
        1078,
        1079,
        1080,
        1158,
        1159,
        1160,
        1161,
        1203,
        1205,
        1213,
        1226,
        1317,
        1412,
        1927,
        1969,
        3024,
        4031,
    }
)
"""No room for more, a server that starts or stops, the network, locks, deadlocks, what was killed or took too long, a table
that was altered since the snapshot."""
_REFUSED = frozenset({1044, 1045, 1049, 1129, 1130, 1142, 1143, 1227, 1251, 1370, 1698, 2026, 2059, 3118, 3159, 4151})
_SHAPES = frozenset({1051, 1054, 1064, 1109, 1136, 1146, 1347, 1356, 1471})
_ROWS = frozenset(
    {1022, 1048, 1062, 1169, 1216, 1217, 1263, 1264, 1265, 1292, 1364, 1366, 1367, 1406, 1411, 1441, 1451, 1452, 1525,
     1557, 1586, 1644, 3140, 3819, 4025, 4079}
)  # fmt: skip
_CLIENT = (2000, 2999)
"""Errors of the client itself: no connection."""
_NO_LIBRARY = "the client of MySQL is not installed"
_BATCH_BYTES = 1 << 20
_CLEAR_TEXT = ("mysql_clear_password", "dialog")


def _library() -> Any:
    try:
        import pymysql
    except ImportError as error:
        raise ConnectorError(_NO_LIBRARY, code="E3160", hint="pip install 'sqlengine[mysql]'") from error
    return pymysql


@contextmanager
def telling(address: Address, what: str = "") -> Generator[None]:
    """Errors of the client as ConnectorError E3161 (refused), E3162 (a row that may not be), E3163 (a table or column that is
    not there or has another type), or UnavailableError E3150, what passes. `what`: the table, for messages."""
    library = _library()
    try:
        yield
    except library.err.Error as error:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        text = str(error.args[1] if len(error.args) > 1 else error)
        raise _told(address, what, code, text, error) from error
    except (EOFError, OSError) as error:
        raise _told(address, what, 2013, str(error) or "the connection was lost", error) from error
    except LongPacket as error:
        raise ConnectorError(f"{what}: the server sends a row of more than 1 GB", code="E3164") from error
    except RuntimeError as error:
        # What PyMySQL says when `cryptography` is missing.
        raise _told(address, what, 2059, str(error), error) from error


def _told(address: Address, what: str, code: int, text: str, error: BaseException) -> ConnectorError:
    first = text.splitlines()[0] if text else type(error).__name__
    message = f"{what + ': ' if what else ''}MySQL at {address}: {first}"
    if code in _REFUSED or "SSL" in text or "certificate" in text:
        return ConnectorError(
            message, code="E3161", hint="check the database, the user, what it may do, and 'ssl-mode'"
        )
    if code in _PASSING or code == 0 or _CLIENT[0] <= code <= _CLIENT[1]:
        return UnavailableError(message, hint="is the server there, and reachable from here?")
    if code in _ROWS:
        return ConnectorError(
            message, code="E3162", hint="nothing of its transaction was written: correct the row, or the table"
        )
    if code in _SHAPES:
        return ConnectorError(
            message, code="E3163", hint="has the table other columns than those that are declared here?"
        )
    return ConnectorError(message, code="E3161", hint="the message is the server's own")


class _NoClearText:
    """Stands for a way to prove who asks that would send the password as it is."""

    def __init__(self, connection: Any) -> None:
        self._secure = connection._secure
        self._password = connection.password

    def authenticate(self, packet: Any) -> Any:
        raise _library().err.OperationalError(
            2059,
            "the server wants the password in clear text, which is not sent: SSL is needed with 'ssl-mode' = 'verify-full'",
        )


class Connection:
    """A connection on which statements commit by themselves, unless a transaction was begun. It speaks UTC and Unicode.

    Args:
        what: the table, for messages.
    Raises:
        ConnectorError: E3160 without the client; E3161, E3162, E3163 and UnavailableError E3150 as `telling` says, from all
        methods.
    """

    def __init__(self, address: Address, what: str = "") -> None:
        library = _library()
        self.address = address
        self.what = what
        refusing = {} if address.ssl_mode == "verify-full" else dict.fromkeys(_CLEAR_TEXT, _NoClearText)
        with telling(address, what):
            self._open: Any = library.connections.Connection(
                **address.parameters(),
                charset="utf8mb4",
                autocommit=True,
                program_name="sqlengine",
                auth_plugin_map=refusing,
                init_command=_SETTINGS,
                defer_connect=True,
            )
            if (tried := address.tried_tls()) is not None:
                # By itself PyMySQL would read all certificates of the system for a check that it does not make.
                self._open.ssl, self._open.ctx = True, tried
            self._open.connect()
            _keep_alive(self._open._sock)

    @property
    def raw(self) -> Any:
        """PyMySQL's own connection."""
        return self._open

    def run(self, statement: str) -> int:
        """How many rows it changed."""
        with telling(self.address, self.what):
            return self._open.query(statement)

    def asked(self, query: str) -> list[tuple[Any, ...]]:
        """A short answer, as objects of Python."""
        with telling(self.address, self.what), self._open.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def rows(self, query: str) -> Iterator[pa.RecordBatch]:
        """The answer as it comes, each cell as the bytes that the server sends."""
        with telling(self.address, self.what):
            self._open.query(query, unbuffered=True)
            result = self._open._result
            names = [str(i) for i in range(result.field_count)]
            # The rest of the answer is read here: PyMySQL must not look for it.
            result.unbuffered_active, result.connection = False, None
            stream = self._open._rfile
            yield from batches(Packets(stream.read1, stream.read), names, self._ended, _BATCH_BYTES)

    def _ended(self, packet: bytes) -> bool:
        if packet[:1] == b"\xff":
            self.fail(packet)
        return True

    def fail(self, packet: bytes) -> None:
        """Raises what a packet with an error says."""
        _library().err.raise_mysql_exception(packet)

    def cancel(self) -> None:
        """Ends what is being asked, from another thread: the connection is lost."""
        with contextlib.suppress(OSError, AttributeError):
            self._open._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        # Without a word to the server: it may be in the middle of an answer.
        with contextlib.suppress(Exception):
            self._open._force_close()


def _keep_alive(connected: Any) -> None:
    """A server that is gone without a word is noticed."""
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000)):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


@contextmanager
def connected(address: Address, what: str = "") -> Generator[Connection]:
    """A connection for a few questions."""
    connection = Connection(address, what)
    try:
        yield connection
    finally:
        connection.close()


def quoted(name: str) -> str:
    """A name as MySQL reads it."""
    return "`" + name.replace("`", "``") + "`"


def literal(value: str) -> str:
    """A text as sessions of these settings read it."""
    return "'" + value.replace("'", "''") + "'"


def listed(names: Sequence[str]) -> str:
    """Names, with commas."""
    return ", ".join(map(quoted, names))
