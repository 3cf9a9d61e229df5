"""Has DuckDB answer a query, in a thread of its own, so that whoever waits can be stopped."""

from __future__ import annotations

import os
import queue
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from runtime.core.cancellation import look
from runtime.eval.duckdb_plans.types import WRONG_OPTIMIZERS

__all__ = ["DuckDBFailed", "Inputs", "answers"]

_ROWS = 1 << 17
_AHEAD = 2
_LOOKS_SECONDS = 0.05
_LEAST_MEBIBYTES = 64


_lock = threading.Lock()
_kept: list[Any] = []


def _opened(memory: int) -> Any:
    """A connection of its own to the one DuckDB of this process: to begin one takes longer than most queries. Its memory
    is that of the newest query."""
    with _lock:
        if not _kept or _kept[0] != os.getpid():
            import duckdb

            folder = tempfile.TemporaryDirectory(prefix="sqlengine-batch-", ignore_cleanup_errors=True)
            processors = os.sched_getaffinity(0) if sys.platform == "linux" else range(os.cpu_count() or 1)
            settings: dict[str, Any] = {
                "threads": len(processors),
                "temp_directory": folder.name,
                "disabled_optimizers": WRONG_OPTIMIZERS,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
            _kept[:] = (os.getpid(), duckdb.connect(":memory:", config=settings), folder)
        cursor = _kept[1].cursor()
    cursor.execute(f"SET GLOBAL memory_limit = '{max(memory >> 20, _LEAST_MEBIBYTES)}MiB'")
    return cursor


class DuckDBFailed(Exception):
    """DuckDB cannot answer, or fails where Flink may not."""


class Inputs:
    """Rows that a query reads, by the names of their tables. Those that take more than `most_bytes` together wait in
    DuckDB's own tables, which it puts on disk when memory is short.

    Args: `memory`: the bytes that DuckDB may take before it goes to disk; `types`: of each table the types of its
    columns, as DuckDB names them.
    """

    def __init__(self, types: Mapping[str, Sequence[str]], memory: int, most_bytes: int) -> None:
        self._types = types
        self._memory = memory
        self._most = most_bytes
        self._waiting: dict[str, list[pa.RecordBatch]] = {name: [] for name in types}
        self._connection: Any = None
        self._away = False
        self._shown: set[str] = set()
        self.bytes = 0
        """What waits in memory."""
        self.rows = 0

    def add(self, name: str, rows: pa.RecordBatch) -> None:
        """More rows of a table."""
        self._waiting[name].append(rows)
        self.bytes += rows.nbytes
        self.rows += rows.num_rows
        if self.bytes > self._most:
            self._put_away()

    def contents(self, name: str) -> list[pa.RecordBatch]:
        """All rows of a table."""
        stored = self._connection.sql(f"SELECT * FROM {name}").to_arrow_table().to_batches() if self._away else []
        return [*stored, *self._waiting[name]]

    def _put_away(self) -> None:
        connection = self.connection()
        for name, batches in self._waiting.items():
            if not batches:
                continue
            connection.register("more", _table(batches))
            connection.execute(f"INSERT INTO {name} SELECT * FROM more")
            connection.unregister("more")
            batches.clear()
        self.bytes = 0
        self._away = True

    def connection(self) -> Any:
        """DuckDB with a table for each input, of the rows that wait there."""
        if self._connection is None:
            self._connection = _opened(self._memory)
            for name, types in self._types.items():
                columns = ", ".join(f"c{i} {type_}" for i, type_ in enumerate(types))
                self._connection.execute(f"CREATE TEMP TABLE {name} ({columns})")
        return self._connection

    def ready(self) -> Any:
        """DuckDB with all rows: where none were put away, those that wait in memory as they are."""
        connection = self.connection()
        if self._away:
            self._put_away()
        for name, batches in self._waiting.items():
            if batches and name not in self._shown:
                connection.execute(f"DROP TABLE {name}")
                connection.register(name, _table(batches))
                self._shown.add(name)
        return connection

    def close(self) -> None:
        """Give back memory and disk."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._away = False
        for batches in self._waiting.values():
            batches.clear()
        self.bytes = 0


def _table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """One table of batches, some of which may say that a column is never NULL where others do not."""
    names = [f"c{i}" for i in range(batches[0].num_columns)]
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(b.columns, names=names) for b in batches])


def answers(
    inputs: Inputs, text: str, tables: Mapping[str, pa.Table] = MappingProxyType({})
) -> Generator[pa.RecordBatch]:
    """The rows of a query over inputs and further tables, batch by batch, as they come. Raises DuckDBFailed, and Stopped when
    somebody asks to stop."""
    connection = inputs.ready()
    for name, table in tables.items():
        connection.register(name, table)
    found: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(_AHEAD)
    over = threading.Event()

    def give(item: pa.RecordBatch | BaseException | None) -> None:
        while not over.is_set():
            try:
                found.put(item, timeout=_LOOKS_SECONDS)
            except queue.Full:
                continue
            return

    def work() -> None:
        try:
            for batch in connection.sql(text).to_arrow_reader(_ROWS):
                give(batch)
                if over.is_set():
                    return
            give(None)
        except BaseException as error:
            give(error)

    worker = threading.Thread(target=work, name="duckdb", daemon=True)
    worker.start()
    try:
        while True:
            look()
            try:
                item = found.get(timeout=_LOOKS_SECONDS)
            except queue.Empty:
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise DuckDBFailed(str(item).splitlines()[0]) from item
            yield item
    finally:
        over.set()
        while worker.is_alive():
            connection.interrupt()
            worker.join(_LOOKS_SECONDS)
