"""Rows as records, at least once: a request may be taken in part, and what was not taken is sent again."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.message_rows import encoded_messages
from connectors.formats.value_text import value_text
from connectors.kinesis.address import client_of, telling
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, UnavailableError
from runtime.core.logs import connector_log
from runtime.core.retries import Retries, retried

if TYPE_CHECKING:
    from connectors.kinesis.table import KinesisTable

__all__ = ["KinesisRecords"]

_RETRIES = Retries(8, 0.1, 10.0, jitter=0.5)
_MOST_RECORD = 1 << 20
_MOST_REQUEST = 5 << 20
_LONGEST_KEY = 256


class KinesisRecords:
    """Sends rows (`TransactionWriter`)."""

    def __init__(self, table: KinesisTable) -> None:
        self._table = table
        self._fixed = uuid.uuid4().hex
        self._log = connector_log(__name__)

    def write(self, batches: Sequence[ChangelogBatch]) -> None:
        """All rows. Raises ConnectorError E3271, UnavailableError E3150."""
        for batch in batches:
            for records in self._requests(batch):
                waiting = [records]
                retried(lambda waiting=waiting: self._put(waiting), _RETRIES, UnavailableError, told=self._tried)

    def close(self) -> None:
        """The client is the process's."""

    def _put(self, waiting: list[list[dict[str, Any]]]) -> None:
        """Send what waits; what is not taken goes on to wait."""
        table = self._table
        client = client_of(table.address)
        with telling(table.address):
            answer = client.put_records(StreamARN=table.address.arn, Records=waiting[0])
        if not answer.get("FailedRecordCount"):
            return
        told = list(zip(waiting[0], answer["Records"], strict=True))
        waiting[0] = [record for record, done in told if done.get("ErrorCode")]
        error = next(done for _, done in told if done.get("ErrorCode"))
        raise UnavailableError(
            f"{table.place()} has not taken {len(waiting[0])} records: {error['ErrorCode']}: {error.get('ErrorMessage', '')}",
            hint="they are sent again; more shards take more",
        )

    def _requests(self, batch: ChangelogBatch) -> Iterator[list[dict[str, Any]]]:
        """Records for each request. The client takes them one by one, so this is a loop over records."""
        table = self._table
        messages = encoded_messages(table.format, table.value, batch.decoded(), table.time_zone)
        records: list[dict[str, Any]] = []
        size = 0
        for data, key in zip(messages.to_pylist(), self._keys(batch), strict=True):
            length = len(data or b"") + len(key.encode())
            if length > _MOST_RECORD:
                raise ConnectorError(
                    f"a record for {table.place()} has {length} bytes, {_MOST_RECORD} is the most",
                    code="E3271",
                    hint="leave columns out, or choose a shorter format",
                )
            if records and (size + length > _MOST_REQUEST or len(records) >= table.batch):
                yield records
                records, size = [], 0
            records.append({"Data": data or b"", "PartitionKey": key})
            size += length
        if records:
            yield records

    def _keys(self, batch: ChangelogBatch) -> list[str]:
        """The partition key of each row."""
        table = self._table
        if table.partitioner == "fixed":
            return [self._fixed] * len(batch)
        if not table.partitioned_by:
            return [uuid.uuid4().hex for _ in range(len(batch))]
        texts = [
            pc.fill_null(
                value_text(batch.column(place), table.value[place].type, separator=" ").cast(pa.string()), "null"
            )
            for place in (table.value.index_of(name) for name in table.partitioned_by)
        ]
        keys = pc.binary_join_element_wise(*texts, table.delimiter) if len(texts) > 1 else texts[0]
        cut = pc.utf8_slice_codeunits(keys, 0, _LONGEST_KEY)
        found: list[str] = pc.if_else(pc.equal(cut, ""), " ", cut).to_pylist()
        return found

    def _tried(self, error: Exception, seconds: float) -> None:
        self._log.failure(f"{self._table.place()} is written again in {seconds:.1f} s", error, logging.WARNING)
