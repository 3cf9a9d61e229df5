"""What a statement gives back: rows, folded contents, or the changes as they come."""

from __future__ import annotations

import contextlib
import html
import importlib
import sys
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from runtime.core.attended import attended, attended_items
from runtime.core.changelog import KIND_NAMES, ChangelogBatch
from runtime.core.errors import SqlEngineError, SqlEngineWarning, UnsupportedError
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.types import STRING
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.key_encoding import KeyEncoder
from runtime.local.job import Job
from runtime.plan.nodes import SortSpec
from sqlengine.results.following import Listener, Turns
from sqlengine.results.render import render_result, table_text
from sqlengine.results.stopped import QUERY_STOPPED
from sqlengine.terminal.colours import Paint
from sqlengine.values.rows import Finished, Row, python_values

if TYPE_CHECKING:
    import runtime.kernels.sort as _sort
    import runtime.spark.frame as _frame
    import sqlengine.results.async_items as _async_items
    import sqlengine.results.job_client as _job_client
    import sqlengine.results.live_table as _notebook
    from sqlengine.results.async_items import AsyncItems
    from sqlengine.results.job_client import JobClient
    from sqlengine.results.live_table import LiveTable
else:
    _sort = Room("runtime.kernels.sort")
    _async_items = Room("sqlengine.results.async_items")
    _frame = Room("runtime.spark.frame")
    _job_client = Room("sqlengine.results.job_client")
    _notebook = Room("sqlengine.results.live_table")

Locate = Callable[[SqlEngineError], SqlEngineError]
__all__ = ["AsyncRows", "Locate", "Result", "ResultKind", "RowIterator", "SqlEngineWarning", "fold", "sorted_positions"]


class Result:
    """The outcome of one statement.

    A query runs while its changes are read, by `collect`, `changes` or `to_arrow`, and they are read once; the rows of
    any other statement may be read again and again. A statement without rows gives one row `OK`.

    Args:
        schema: names and types of the columns; only the first `visible` are shown, those behind them serve `order`.
        batches: the changes, lazily.
        job: what runs, if something does.
        waiter: waits for a job in the background and raises what made it fail.
        stopper: ends what no job runs.
        summary: what a statement that writes has done, as a sentence for people.
    """

    def __init__(
        self,
        schema: Schema,
        batches: Iterable[ChangelogBatch],
        *,
        job: Job | None = None,
        is_query: bool = False,
        order: tuple[SortSpec, ...] = (),
        visible: int | None = None,
        waiter: Callable[[float | None], None] | None = None,
        stopper: Callable[[], None] | None = None,
        bounded: bool = True,
        append_only: bool = True,
        summary: str | None = None,
    ) -> None:
        self._full_schema = schema
        self._visible = len(schema) if visible is None else visible
        self._batches = batches if is_query or isinstance(batches, Finished) else list(batches)
        self._read_to_end = False
        self._reader: object = None
        """Who reads the rows of a query now."""
        self._begun: list[bool] = []
        """Not empty when somebody has begun to read."""
        self._kept_rows: pa.RecordBatch | None = None
        self._live: LiveTable | None = None
        self._waiter = waiter
        self._stopper = stopper
        self.job = job
        self.is_query = is_query
        if is_query and job is not None:
            weakref.finalize(self, _give_back, job, self._begun).atexit = False
        self.bounded = bounded  # Whether the changes, or the job, end by themselves.
        self.is_append_only = append_only
        self.order = order
        self.summary = summary
        self.rows_changed: int | None = None  # How many rows a statement has changed, where that is known at once.
        self.returns = False  # Whether its rows are those of RETURNING, which are shown beside the summary.
        self.warnings: tuple[str, ...] = ()
        """What else has happened that somebody should know, as sentences: a view that can no longer be kept."""
        self.locate: Locate = _as_it_is
        """Gives an error the text that its place points into."""
        self.attends: Callable[[], bool] = bool
        """Tells whether another thread may do the work while the main thread waits."""
        self.in_files: Callable[[Any, Locate], Any] | None = None
        """Gives the rows of a query as a DataFrame of a session without reading them, or None; has errors located."""
        self.keeps: object = None
        """What must live as long as the result: rows of Python that it reads."""
        self.time_zone = "UTC"  # In which TIMESTAMP_LTZ is shown.
        self.savepoint_folder: Callable[[], str] = str
        """Tells where savepoints go; nowhere is an empty text."""

    @staticmethod
    def ok(summary: str | None = None) -> Result:
        """The outcome of a statement without rows: one row, `OK`."""
        return Result.table(Schema.of(("result", STRING.not_null())), [["OK"]], summary=summary)

    @staticmethod
    def table(
        schema: Schema, columns: Sequence[Sequence[Any]], *, job: Job | None = None, summary: str | None = None
    ) -> Result:
        """A finished result from Python columns."""
        return Result(schema, Finished(schema, columns), job=job, summary=summary)

    @property
    def schema(self) -> Schema:
        """Names and types of the columns."""
        return self._full_schema.select(tuple(range(self._visible)))

    @property
    def is_sorted_at_end(self) -> bool:
        """Whether rows come sorted at the end: ORDER BY over bounded input."""
        return bool(self.order)

    def _read(self, reader: object = None) -> Iterator[ChangelogBatch]:
        if self._read_to_end or self._reader is not None:
            raise UnsupportedError(
                "the rows of this result have been read already"
                if self._read_to_end
                else "the rows of this result are being read already",
                code="E1612",
                hint="keep what you read, or run the statement again",
            )
        self._begun.append(True)
        if self.is_query:
            self._reader = reader or object()
        try:
            if isinstance(self._batches, Iterator) and self.attends():
                yield from attended_items(self._batches)
            else:
                yield from self._batches
        except SqlEngineError as error:
            raise self.locate(error) from error.__cause__
        finally:
            self._reader = None
        self._read_to_end = self.is_query

    def through(self, wrap: Callable[[Iterable[ChangelogBatch]], Iterator[ChangelogBatch]]) -> None:
        """Have the changes of a query that nobody has read pass something."""
        self._batches = wrap(self._batches)

    def changes(self) -> Iterator[ChangelogBatch]:
        """The changelog, one batch for each epoch with changes."""
        return self._changes()

    def _changes(self, reader: object = None) -> Iterator[ChangelogBatch]:
        if self.order or self._kept_rows is not None:
            rows = self.folded()
            if rows.num_rows:
                yield ChangelogBatch(rows)
            return
        for batch in self._read(reader):
            if len(batch):
                yield batch.select(range(self._visible)) if self._visible < len(self._full_schema) else batch

    def collect(self) -> RowIterator:
        """The changes as rows; `-U` and `-D` rows retract equal earlier rows. It is a context manager: leaving it stops
        the query."""
        reader = object()
        return RowIterator((row for rows in self._rows(reader) for row in rows), lambda: self._stop(reader))

    __iter__ = collect

    def rows(self) -> Generator[list[Row]]:
        """The changes as lists of rows, one list for each epoch: after each list the answer is consistent."""
        return self._rows()

    def _rows(self, reader: object = None) -> Generator[list[Row]]:
        names = self.schema.names
        types = self.schema.types
        for batch in self._changes(reader):
            columns = [python_values(column, type_) for column, type_ in zip(batch.columns, types, strict=True)]
            kinds = batch.kinds_or_inserts().tolist()
            yield [Row.of(values, KIND_NAMES[kind], names) for kind, *values in zip(kinds, *columns, strict=True)]

    def listen(self, call: Callable[[list[Row]], object]) -> Listener[list[Row]]:
        """Call a function with the changes of each epoch, in a separate thread.

        listener = t_env.from_path("clicks").execute().listen(print)
        ...
        listener.stop()
        """
        reader = object()
        return Listener(self._rows(reader), call, lambda: self._stop(reader))

    def rows_async(self) -> AsyncItems[list[Row]]:
        """`rows` for asyncio. Leaving the loop stops the query."""
        reader = object()
        return _async_items.AsyncItems(self._rows(reader), lambda: self._stop(reader))

    def __aiter__(self) -> AsyncRows:
        """`collect` for asyncio: `async for row in result`. Leaving the loop stops the query."""
        return AsyncRows(self.rows_async())

    def _stop(self, reader: object) -> None:
        """Somebody reads no more: the query ends, unless somebody else reads it."""
        if self._reader in (None, reader):
            self.cancel()

    def to_arrow(self) -> pa.Table:
        """The final rows, in the order of ORDER BY if there is one.

        Raises UnsupportedError E1613 when the input has no end, E1620 when the query was stopped: the rows are not
        complete.
        """
        return pa.Table.from_batches([self.folded()])

    def to_pandas(self) -> Any:
        """`to_arrow` as a pandas DataFrame; needs pandas."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """`to_arrow` as a polars DataFrame; needs polars (UnsupportedError E1624)."""
        try:
            polars = importlib.import_module("polars")
        except ImportError as error:
            raise UnsupportedError(
                "polars is not installed", code="E1624", hint="pip install polars, or use to_arrow()"
            ) from error
        return polars.from_arrow(self.to_arrow())

    def to_spark(self, session: Any = None) -> Any:
        """`to_arrow` as a DataFrame of PySpark, of a session, the active one, or a new one; needs pyspark. Many rows go from
        the tasks that compute them to those of Spark by files, which are there until the program ends."""
        in_files = None if self._begun or self._kept_rows is not None else self.in_files
        frame = None if in_files is None or self._begun.append(True) else in_files(session, self.locate)
        if frame is None:
            return _frame.frame_of(self.to_arrow(), session)
        self._read_to_end = True
        return frame

    def to_changelog(self) -> Iterator[pa.RecordBatch]:
        """The changes, a record batch for each epoch that changed something: a column `op` with the row kind (`+I`,
        `-U`, `+U`, `-D`) before the others."""
        names = ["op", *self.schema.names]
        kinds = pa.array(KIND_NAMES)
        for batch in self.changes():
            op = kinds.take(pa.array(batch.kinds_or_inserts()))
            yield pa.RecordBatch.from_arrays([op, *batch.columns], names=names)

    def folded(self) -> pa.RecordBatch:
        """`to_arrow` as one record batch."""
        if self._kept_rows is not None:
            return self._kept_rows
        if self.is_query and not self.bounded:
            raise UnsupportedError(
                "the input of this query has no end, so its final rows never come",
                code="E1613",
                hint="read the changes as they come: collect() or changes()",
            )
        batches = list(self._read())
        if self.is_query and self.job is not None and self.job.status == "CANCELED":
            raise UnsupportedError(
                "the query was stopped before its final rows were known",
                code=QUERY_STOPPED,
                hint="collect() and changes() give rows as they come",
            )
        return attended(lambda: self._whole(batches)) if self.attends() else self._whole(batches)

    def _whole(self, batches: Sequence[ChangelogBatch]) -> pa.RecordBatch:
        rows = fold(batches, self._full_schema)
        if self.order:
            rows = rows.take(pa.array(sorted_positions(rows, self.order)))
        return rows.select(list(range(self._visible)))

    def _repr_html_(self) -> str:
        """Its rows in a notebook: those of a query that ends are read, and kept for `to_arrow`. A statement's summary
        where it has one."""
        text = self._text_alone()
        if text is not None:
            return f"<pre>{html.escape(text)}</pre>"
        if self.is_query and self.bounded:
            self.keep()
        return _notebook.batch_html(self.folded(), self.schema)

    def keep(self) -> Result:
        """Read the rows of a query whose input ends, and keep them. Raises what `to_arrow` raises."""
        if self.is_query:
            self._kept_rows = self.folded()
        return self

    def _text_alone(self) -> str | None:
        """What a statement says that gives no rows: its summary, OK, a plan."""
        if self.is_query:
            return None
        if self.summary is None and self.schema.names == ("result",):
            return "\n".join(self.folded().column(0).to_pylist())
        return self.summary

    def _ipython_display_(self) -> None:
        """In a notebook: rows, or, for a query whose input has no end, a table that follows it until `cancel`. IPython in
        a terminal cannot replace what it has shown: there changes are printed as they come, until Ctrl-C."""
        if self.is_query and not self.bounded:
            if _notebook.shows_in_place():
                self._live = self._live or _notebook.show_live(self)
            else:
                with contextlib.suppress(KeyboardInterrupt):
                    self.print()
                self.cancel()
            return
        display = importlib.import_module("IPython.display").display
        shown = self._repr_html_()
        text = self._text_alone()
        if text is None:
            text = "".join(table_text(self.folded(), self.schema, self.time_zone, _notebook.SHOWN_ROWS)).rstrip("\n")
        display({"text/html": shown, "text/plain": text}, raw=True)

    def get_result_kind(self) -> ResultKind:
        """Whether there are rows to read."""
        return ResultKind.SUCCESS_WITH_CONTENT if self.is_query or self.summary is None else ResultKind.SUCCESS

    def get_table_schema(self) -> Schema:
        """The same as `schema`."""
        return self.schema

    def get_resolved_schema(self) -> Schema:
        """The same as `schema`."""
        return self.schema

    def wait(self, timeout: float | None = None, *, timeout_ms: int | None = None) -> Result:
        """Wait for the end of the statement; raises its error if it failed. A query's rows are read and dropped.

        Args:
            timeout: seconds to wait for a job in the background. Raises TimeoutError when it still runs then.
            timeout_ms: the same in milliseconds, as in PyFlink.
        """
        timeout = timeout if timeout_ms is None else timeout_ms / 1000
        try:
            if self._waiter is not None:
                self._waiter(timeout)
            elif not self._read_to_end:
                for _ in self._read():
                    pass
        except SqlEngineError as error:
            raise self.locate(error) from error.__cause__
        return self

    def print(self) -> None:
        """Print the rows as a table; of a query whose input has no end, the changes as they come, with their row
        kinds."""
        for piece in render_result(self, "table", Paint(sys.stdout)):
            print(piece, end="", flush=True)

    def get_job_client(self) -> JobClient | None:
        """The handle of the job (status, `cancel`, savepoints), or None if there is no job."""
        return None if self.job is None else _job_client.JobClient(self.job, self.savepoint_folder)

    @property
    def is_running(self) -> bool:
        """Whether the statement is still running."""
        if self.job is not None:
            return self.job.status in ("CREATED", "RUNNING")
        return self._stopper is not None and not self._read_to_end

    def cancel(self) -> None:
        """Stop after the current epoch: iteration ends, and sinks publish their rows. Harmless when nothing runs."""
        if self.job is not None:
            self.job.cancel()
            if self.is_query and not self.bounded and not self._begun:
                # Nobody iterates, so nobody else would give back what the job holds.
                self._batches = iter(())
                self.job.close()
        if self._stopper is not None:
            self._stopper()


class ResultKind(StrEnum):
    """What kind of outcome a statement has."""

    SUCCESS = "SUCCESS"
    SUCCESS_WITH_CONTENT = "SUCCESS_WITH_CONTENT"


class RowIterator(Iterator[Row]):
    """The rows of a result, one by one; `close`, or the end of a `with` block, stops the query. Safe to use from several
    threads: each row is given once."""

    def __init__(self, rows: Generator[Row], stop: Callable[[], None]) -> None:
        self._rows = Turns(rows, stop)

    def __next__(self) -> Row:
        row = self._rows.next(None)
        if row is None:
            raise StopIteration
        return row

    def next(self) -> Row:
        """The next row. Raises StopIteration when there is none."""
        return next(self)

    def close(self) -> None:
        """Stop the query; may be called from any thread. Harmless when called again."""
        self._rows.close()

    def __enter__(self) -> RowIterator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class AsyncRows:
    """The rows of a result, one by one, for asyncio; `aclose`, or the end of an `async with` block, stops the query."""

    def __init__(self, lists: AsyncItems[list[Row]]) -> None:
        self._lists = lists
        self._rows: Iterator[Row] = iter(())

    def __aiter__(self) -> AsyncRows:
        return self

    async def __anext__(self) -> Row:
        while True:
            for row in self._rows:
                return row
            self._rows = iter(await anext(self._lists))

    async def aclose(self) -> None:
        """Stop the query, and wait for its end."""
        self._rows = iter(())
        await self._lists.aclose()

    async def __aenter__(self) -> AsyncRows:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()


def _give_back(job: Job, begun: list[bool]) -> None:
    """A query that nobody has read, and nobody can read any more, holds nothing. (One that was begun is closed by its
    iterator.)"""
    if not begun:
        job.cancel()
        job.close()


def _as_it_is(error: SqlEngineError) -> SqlEngineError:
    return error


def fold(batches: Sequence[ChangelogBatch], schema: Schema) -> pa.RecordBatch:
    """What is left of a retract changelog: rows whose signs do not cancel, in order of arrival."""
    live = [b for b in batches if len(b)]
    if not live:
        return ChangelogBatch.empty(schema).rows
    whole = ChangelogBatch.concat(live)
    if whole.is_append_only:
        return whole.rows
    encoder = KeyEncoder([f.type.arrow for f in schema], [True] * len(schema), exact=True)
    words = encoder.encode(whole.columns)
    index = HashIndex(words.shape[1], max(16, len(words)))
    slots, _ = index.insert(words)
    signs = whole.signs().astype(np.int64)
    net = np.zeros(index.capacity, dtype=np.int64)
    np.add.at(net, slots, signs)
    # Of the insertions of a row the last `net` survive, as if each retraction had taken back the oldest one.
    inserted = np.flatnonzero(signs > 0)
    order = inserted[np.argsort(slots[inserted], kind="stable")]
    starts = (
        np.flatnonzero(np.r_[True, slots[order][1:] != slots[order][:-1]])
        if len(order)
        else np.zeros(0, dtype=np.int64)
    )
    counts = np.diff(np.r_[starts, len(order)])
    place_from_end = np.repeat(starts + counts, counts) - np.arange(len(order))
    kept = np.sort(order[place_from_end <= net[slots[order]]])
    return whole.rows.take(pa.array(kept))


def sorted_positions(rows: pa.RecordBatch, order: tuple[SortSpec, ...]) -> np.ndarray:
    """The positions of rows in an order."""
    columns = [rows.column(spec.index) for spec in order]
    return _sort.sort_indices(columns, [s.descending for s in order], [s.nulls_last for s in order])
