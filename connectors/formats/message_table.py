"""Tables whose rows are the records of messages: what connectors of streams share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.formats.message_rows import MessageRows, check_format, is_message_format
from connectors.options import FORMAT, TableOptions, physical_part, table_format
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError, UnsupportedError
from runtime.core.schema import Schema
from runtime.spi.format import Format, Payloads
from runtime.spi.reader import RejectedRow
from runtime.spi.registry import TableRequest

__all__ = ["MessageTable", "RowsOfMessages", "format_prefixes", "message_format"]

_SHOWN = 160


class MessageTable(Protocol):
    """What is read.

    Attributes:
        schema: the columns to give; value: all that messages hold.
        metadata: (column, metadata key).
        most: a message of more bytes is malformed.
    """

    @property
    def schema(self) -> Schema: ...

    @property
    def value(self) -> Schema: ...

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def format(self) -> Format: ...

    @property
    def most(self) -> int: ...

    @property
    def time_zone(self) -> str: ...

    def place(self) -> str:
        """For messages and lineage."""
        ...


def format_prefixes(request: TableRequest) -> tuple[str, ...]:
    """What options of the format begin with, for `TableOptions`."""
    name = request.options.get(FORMAT.key, "")
    return (f"{name}.",) if name else ()


def message_format(request: TableRequest, options: TableOptions, *, writes: bool = False) -> Format:
    """The format of the option `format`. Raises OptionError, and UnsupportedError for one of files, or columns that it does not
    hold."""
    format_ = table_format(request, options.required(FORMAT))
    if not is_message_format(format_):
        raise UnsupportedError(
            f"format '{format_.name}' is one of files, not of messages",
            code="E1643",
            hint="use 'json', 'csv', 'avro' or 'debezium-json'",
        )
    check_format(format_, physical_part(request), request.time_zone, writes=writes)
    return format_


class RowsOfMessages:
    """Rows of messages, with what is known of a message beside its bytes."""

    def __init__(self, table: MessageTable) -> None:
        self._table = table
        stored = [n for n in table.schema.names if table.value.index_of(n) >= 0]
        self._wanted = tuple(stored) or table.value.names[:1]
        self._value = MessageRows.of(table.format, table.value, self._wanted, table.time_zone, table.most)

    def __call__(
        self, bodies: pa.Array, metadata: Callable[[str], pa.Array], called: Callable[[int], object]
    ) -> tuple[ChangelogBatch | None, list[RejectedRow]]:
        """The rows of messages, large_binary, and what is malformed, where the format ignores that.

        Args:
            metadata: gives a metadata column of these messages, of its Arrow type.
            called: gives what a message is called, by its number among these.

        Raises FormatError E3201 for a malformed message.
        """
        batch, rejected, _ = self.with_messages(bodies, metadata, called)
        return batch, rejected

    def with_messages(
        self, bodies: pa.Array, metadata: Callable[[str], pa.Array], called: Callable[[int], object]
    ) -> tuple[ChangelogBatch | None, list[RejectedRow], npt.NDArray[np.int64]]:
        """As a call, and of which message each row is, int64 (n,)."""
        table = self._table
        decoded = self._value.decode(Payloads.of(bodies))
        if decoded.rejected and not getattr(table.format, "ignore_parse_errors", False):
            number, row = decoded.rejected[0]
            raw = row.raw if len(row.raw) <= _SHOWN else row.raw[: _SHOWN - 3] + "..."
            raise FormatError(
                f"{table.place()}, message {called(number)}: {row.reason}: {raw}",
                code="E3201",
                hint=f"set '{table.format.name}.ignore-parse-errors' = 'true' on the table to keep such records in "
                "system.rejected and go on",
            )
        rejected = [row for _, row in decoded.rejected]
        if not len(decoded.batch):
            return None, rejected, decoded.message_of_row
        found = dict(zip(self._wanted, decoded.batch.columns, strict=True))
        for name, key in table.metadata:
            if table.schema.index_of(name) >= 0:
                found[name] = metadata(key).take(pa.array(decoded.message_of_row))
        columns = [found[name] for name in table.schema.names]
        return ChangelogBatch.of(columns, table.schema, decoded.batch.kinds), rejected, decoded.message_of_row
