"""Rows in columns: ADBC's driver reads and writes PostgreSQL's binary COPY as Arrow, without an object for a row."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from connectors.postgres.address import Address
from connectors.postgres.connection import SETTINGS, refused
from runtime.core.errors import ConnectorError

__all__ = ["BulkConnection"]

_BATCH_BYTES = 4 << 20
_STATE = re.compile(r"SQLSTATE: (\w{5})")
_OF_SERVER = "ERROR: "
"""Before what the server says, and the client does not."""
_NO_LIBRARY = "the driver for rows of PostgreSQL in columns is not installed"


def _library() -> Any:
    try:
        import adbc_driver_postgresql.dbapi as library
    except ImportError as error:
        raise ConnectorError(_NO_LIBRARY, code="E3160", hint="pip install 'sqlengine[postgres]'") from error
    return library


class BulkConnection:
    """A connection on which statements commit by themselves, unless BEGIN was said.

    Args:
        what: the table, for messages.
    Raises:
        ConnectorError: E3160 without the driver; E3161, E3162, E3163 and UnavailableError E3150 as `telling` says, from all
        methods.
    """

    def __init__(self, address: Address, what: str) -> None:
        self._address = address
        self.what = what
        self._library = _library()
        with self._told():
            self._connection = self._library.connect(_conninfo(address), autocommit=True)
            self._cursor = self._connection.cursor()
            self._cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": str(_BATCH_BYTES)})

    def run(self, statement: str) -> None:
        with self._told():
            self._cursor.execute(statement)

    def rows(self, query: str) -> Iterator[pa.RecordBatch]:
        """The answer, as it comes."""
        with self._told():
            self._cursor.execute(query)
            reader = self._cursor.fetch_record_batch()
        while True:
            with self._told():
                batch = next(reader, None)
            if batch is None:
                return
            if batch.num_rows:
                yield batch

    def asked(self, query: str, parameters: pa.RecordBatch | None = None) -> pa.Table:
        """A short answer. `parameters`: one row, the values of $1, $2, ..."""
        with self._told():
            self._cursor.execute(query, parameters)
            return self._cursor.fetch_arrow_table()

    def copy(self, table: str, rows: Iterable[pa.RecordBatch], schema: pa.Schema, database_schema: str | None) -> None:
        """Append rows to a table, whose columns have the types of Arrow's. Without a schema it is a temporary one."""
        reader = pa.RecordBatchReader.from_batches(schema, iter(rows))
        with self._told():
            self._cursor.adbc_ingest(
                table, reader, mode="append", db_schema_name=database_schema, temporary=database_schema is None
            )

    def cancel(self) -> None:
        """Ends what is being asked, from another thread."""
        self._connection.adbc_cancel()

    def close(self) -> None:
        for part in (self._cursor, self._connection):
            try:
                part.close()
            except (self._library.Error, RuntimeError):
                pass  # it is broken, which is why it is closed

    @contextmanager
    def _told(self) -> Generator[None]:
        try:
            yield
        except self._library.Error as error:
            details = {_said(k): _said(v) for k, v in error.details or []}
            state = "" if error.sqlstate in (None, "00000") else error.sqlstate
            primary, detail = details.get("PG_DIAG_MESSAGE_PRIMARY"), details.get("PG_DIAG_MESSAGE_DETAIL")
            raise self._refused(error, state, primary, detail) from error
        except (OSError, pa.ArrowException) as error:
            # Within an answer, errors are Arrow's, and have a text alone.
            state = found[1] if (found := _STATE.search(str(error))) else ""
            raise self._refused(error, state, None, None) from error

    def _refused(self, error: Exception, state: str, primary: str | None, detail: str | None) -> ConnectorError:
        text = str(error)
        if _OF_SERVER in text:
            text = text.partition(_OF_SERVER)[2].strip()
            state = state or "?"
        return refused(self._address, self.what, state, primary or text, detail)


def _said(part: str | bytes) -> str:
    return part.decode(errors="replace") if isinstance(part, bytes) else part


def _conninfo(address: Address) -> str:
    told = {**address.parameters(), "options": SETTINGS}
    return " ".join(f"{k}='{_escaped(str(v))}'" for k, v in told.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
