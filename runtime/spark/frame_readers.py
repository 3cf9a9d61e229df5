"""Readers of DataFrames: of the chunks (`runtime/spark/chunks.py`) that Spark's tasks have made of them."""

from __future__ import annotations

import hashlib
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from queue import Empty, Full, Queue
from typing import Any

import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError, SparkError
from runtime.core.schema import Schema
from runtime.core.strict_json import as_count
from runtime.core.wakeup import nobody
from runtime.spark.chunks import Chunk, chunks_of, rows_of
from runtime.spark.session import reached
from runtime.spi.reader import ReadContext
from runtime.spi.source import EndingInserts, Split
from runtime.spi.statistics import TableStatistics
from runtime.tasks.versions import StateFolder

__all__ = ["FiledFrame", "FrameReader", "RowsOf", "StreamReader"]

_WAITING_CHUNKS = 4
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RowsOf:
    """How rows of Spark become those of a table. `convert`: gives them in the engine's Arrow types."""

    name: str
    schema: Schema
    convert: Callable[[pa.Table], pa.Table] = field(compare=False, repr=False)

    def batch(self, rows: pa.Table) -> ChangelogBatch:
        """As insertions."""
        found = self.convert(rows).combine_chunks()
        columns = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in found.columns]
        return ChangelogBatch.of(columns, self.schema)


class FrameReader:
    """Reads the rows of a batch DataFrame in their order.

    A position is `{"row": rows given, "rows": what identifies the chunks that they are from}`; in an older version the
    number alone. Whoever goes on from one computes the DataFrame again: rows that have changed or moved are told.

    Args:
        begin: gives the chunks, once; called when the first row is asked for.
        place: the folder of their files.
        end: gives back what `begin` has made.
    """

    def __init__(
        self, rows: RowsOf, begin: Callable[[], Iterator[Chunk]], place: str, end: Callable[[], None] = nobody
    ) -> None:
        self._rows = rows
        self._begin = begin
        self._place = place
        self._end = end
        self._chunks: Iterator[Chunk] | None = None
        self._chunk: Chunk | None = None
        self._loaded: ChangelogBatch | None = None
        self._at = 0
        """Rows given of the chunk; `_before`: of those before it, and `_line`: what identifies these."""
        self._before, self._line = 0, ""
        self._sought: tuple[int, str | None] = (0, "")
        self._over = False

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0 or self._over:
            return None
        if self._chunks is None:
            self._start()
        if self._chunk is None:
            return None
        if self._loaded is None:
            self._loaded = self._rows.batch(rows_of(self._chunk, self._place))
        part = self._loaded.slice(self._at, min(max_rows, self._chunk.rows - self._at))
        self._at += len(part)
        if self._at >= self._chunk.rows:
            self._advance()
        return part

    def _start(self) -> None:
        self._chunks = iter(self._begin())
        self._chunk = next(self._chunks, None)
        row, line = self._sought
        while self._chunk is not None and self._before + self._chunk.rows <= row:
            self._advance()
        self._at = row - self._before
        if (self._at and self._chunk is None) or (line is not None and self.position()["rows"] != line):
            # Not an error of a connector: another attempt would not help.
            raise SparkError(
                f"the DataFrame {self._rows.name} gives other rows than when the job began to read it, or in another order",
                code="E3108",
                hint="write it to files or a table, and read those; or start anew with --fresh",
            )
        self._over = self._chunk is None

    def _advance(self) -> None:
        assert self._chunks is not None and self._chunk is not None
        self._before, self._line = self._before + self._chunk.rows, _line(self._line, self._chunk)
        self._at, self._loaded = 0, None
        self._chunk = next(self._chunks, None)
        self._over = self._chunk is None

    @property
    def finished(self) -> bool:
        return self._over

    def position(self) -> Any:
        if self._chunks is None:
            row, line = self._sought
            return {"row": row, "rows": line} if line is not None else row
        line = _line(self._line, self._chunk) if self._at and self._chunk is not None else self._line
        return {"row": self._before + self._at, "rows": line}

    def seek(self, position: Any) -> None:
        self._sought = _sought(position)

    def close(self) -> None:
        self._chunks, self._chunk, self._loaded, self._over = iter(()), None, None, True
        self._end()


@dataclass(frozen=True)
class FiledFrame(EndingInserts):
    """A batch DataFrame whose rows are in files: what tasks read of it."""

    rows: RowsOf
    place: str
    chunks: tuple[Chunk, ...]

    @property
    def schema(self) -> Schema:
        return self.rows.schema

    def statistics(self) -> TableStatistics:
        return TableStatistics(self._starts[-1], counted=True)

    def splits(self) -> list[Split]:
        return [Split("frame")]

    def open(self, split: Split, context: ReadContext) -> FrameReader:
        return FrameReader(self.rows, lambda: iter(self.chunks), self.place)

    def describe(self) -> dict[str, Any]:
        return {"connector": "spark", "name": self.rows.name}

    def position_after(self, split: Split, position: Any, rows: int) -> Any:
        row = (0 if position is None else _sought(position)[0]) + rows
        if row > self._starts[-1]:
            return None
        return {"row": row, "rows": self._lines[bisect_left(self._starts, row)]}

    @cached_property
    def _starts(self) -> Sequence[int]:
        """How many rows are before each chunk, and in all."""
        found = [0]
        for chunk in self.chunks:
            found.append(found[-1] + chunk.rows)
        return found

    @cached_property
    def _lines(self) -> Sequence[str]:
        """What identifies the chunks before each, and all."""
        found = [""]
        for chunk in self.chunks:
            found.append(_line(found[-1], chunk))
        return found


class StreamReader:
    """Follows a streaming DataFrame: a query of Spark hands its micro-batches over, and waits while a few chunks of them
    are not taken. What it reads begins anew with every job.

    Args:
        frame: the DataFrame.
        place: a folder for files that Spark's tasks see; "": there is none. `end` gives it back.
    """

    def __init__(self, rows: RowsOf, frame: Any, place: str, context: ReadContext, end: Callable[[], None]) -> None:
        self._rows = rows
        self._place = place
        self._end = end
        self._wake = context.wake
        self._waiting: Queue[Chunk] = Queue(_WAITING_CHUNKS)
        self._rest: ChangelogBatch | None = None
        self._given = 0
        self._closed = False
        self._checkpoint = tempfile.TemporaryDirectory(prefix="sqlengine-stream-", ignore_cleanup_errors=True)
        writer = frame.writeStream.foreachBatch(self._hand_over)
        self._query = writer.option("checkpointLocation", self._checkpoint.name).start()

    def _hand_over(self, frame: Any, number: int) -> None:
        if self._closed:
            return
        for chunk in chunks_of(frame, self._place):
            while not self._closed:
                with suppress(Full):
                    self._waiting.put(chunk, timeout=_LOOK_SECONDS)
                    self._wake()
                    break

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0:
            return None
        if self._rest is None:
            failure = self._query.exception() if not self._query.isActive else None
            if failure is not None:
                raise reached(failure) from failure
            try:
                chunk = self._waiting.get_nowait()
            except Empty:
                return None
            self._rest = self._rows.batch(rows_of(chunk, self._place))
            if not chunk.data:
                StateFolder(self._place).delete(chunk.name)
        part = self._rest.slice(0, min(max_rows, len(self._rest)))
        left = len(self._rest) - len(part)
        self._rest = self._rest.slice(len(part), left) if left else None
        self._given += len(part)
        return part if len(part) else None

    @property
    def finished(self) -> bool:
        return False

    def position(self) -> Any:
        return self._given

    def seek(self, position: Any) -> None:
        raise ConnectorError(
            f"{self._rows.name} is a streaming DataFrame, which cannot be read again from where a job stopped",
            code="E3108",
            hint="declare it with a folder to keep its rows in: create_temporary_view(..., checkpoint=...); "
            "or start anew with --fresh",
        )

    def close(self) -> None:
        self._closed = True
        with suppress(Exception):
            self._query.stop()
        self._checkpoint.cleanup()
        self._end()


def _line(before: str, chunk: Chunk) -> str:
    """What identifies chunks with another one behind them."""
    return hashlib.sha256(f"{before}+{chunk.digest}".encode()).hexdigest()


def _sought(position: Any) -> tuple[int, str | None]:
    """The rows given, and what identifies their chunks where that is known. Raises ValueError for what is no position."""
    if not isinstance(position, dict):
        return as_count(position), None
    line = position.get("rows")
    if not isinstance(line, str):
        raise ValueError(f"{str(position)[:40]!r} is no position")
    return as_count(position.get("row")), line
