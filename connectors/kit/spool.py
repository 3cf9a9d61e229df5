"""Rows that a checkpoint holds, because the system that they go to cannot hide them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError

__all__ = ["Spool", "spooled"]

_PART = 1 << 20
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")


class Spool:
    """Rows as texts for a JSON value: parts of about a mebibyte as they are in memory, as streams of Arrow, compressed.

    Args:
        name: of the table, for messages.
        most: bytes of texts; more is an error, before memory ends.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._rows: list[ChangelogBatch] = []
        self._raw = 0
        self._texts: list[str] = []
        self._bytes = 0

    def add(self, batch: ChangelogBatch) -> None:
        """Raises ConnectorError E3151 when there are too many rows."""
        if not len(batch):
            return
        self._rows.append(batch.decoded())
        self._raw += batch.nbytes
        if self._raw >= _PART:
            self._pack()

    def take(self) -> list[str]:
        """The texts of all rows, for `spooled`; from now on there is none."""
        self._pack()
        texts, self._texts, self._bytes = self._texts, [], 0
        return texts

    @property
    def buffered(self) -> Sequence[ChangelogBatch]:
        """The rows that are not packed yet."""
        return tuple(self._rows)

    def _pack(self) -> None:
        if not self._rows:
            return
        text = _text(ChangelogBatch.concat(self._rows))
        self._rows, self._raw = [], 0
        self._texts.append(text)
        self._bytes += len(text)
        if self._bytes > self._most:
            raise ConnectorError(
                f"{self._name} has {self._bytes >> 20} MiB of rows that no checkpoint has taken, {self._most >> 20} MiB is the most",
                code="E3151",
                hint="take checkpoints more often ('execution.checkpointing.interval'), raise 'sink.spool.max-size', or write "
                "at least once",
            )


def _text(batch: ChangelogBatch) -> str:
    names = [str(i) for i in range(batch.rows.num_columns)]
    columns = [*batch.rows.columns]
    if batch.kinds is not None:
        names.append("kind")
        columns.append(pa.array(batch.kinds))
    rows = pa.RecordBatch.from_arrays(columns, names=names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as stream:
        stream.write_batch(rows)
    return base64.b64encode(sink.getvalue()).decode("ascii")


def spooled(texts: Iterable[str], names: Sequence[str]) -> Iterator[ChangelogBatch]:
    """The rows of a spool again, under these names of columns. Raises ConnectorError E3113 when they are damaged."""
    for text in texts:
        try:
            with pa.ipc.open_stream(base64.b64decode(text, validate=True)) as stream:
                batches = list(stream)
        except (ValueError, pa.ArrowException, OSError) as error:
            raise ConnectorError(f"rows that a checkpoint holds are damaged: {error}", code="E3113") from error
        for rows in batches:
            kinds = rows.column("kind").to_numpy().astype(np.int8) if "kind" in rows.schema.names else None
            yield ChangelogBatch(
                pa.RecordBatch.from_arrays([rows.column(str(i)) for i in range(len(names))], names=list(names)), kinds
            )
