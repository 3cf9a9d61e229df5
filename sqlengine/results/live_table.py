"""Results in notebooks: rows as HTML, and results without an end as a table that follows them.

IPython is looked for only when something is shown.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from connectors.memory import MemoryTable
from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from sqlengine.results.following import Listener
from sqlengine.results.render import ends_of
from sqlengine.values.html import rows_html
from sqlengine.values.rows import python_values

__all__ = ["SHOWN_ROWS", "LiveTable", "batch_html", "show_live", "shows_in_place"]

SHOWN_ROWS = 50
UPDATE_SECONDS = 0.25


def batch_html(rows: pa.RecordBatch | pa.Table, schema: Schema, note: str = "") -> str:
    """The first and the last rows, how many are between, and how many there are."""
    first, last, left_out = ends_of(rows, SHOWN_ROWS)
    count = f"{rows.num_rows:,} row{'' if rows.num_rows == 1 else 's'}"
    cut = f", {SHOWN_ROWS} shown" if left_out else ""
    return rows_html(
        schema.names,
        [str(t) for t in schema.types],
        _cells(first, schema),
        ", ".join(filter(None, [count + cut, note])),
        _cells(last, schema),
        left_out,
    )


def _cells(rows: pa.RecordBatch | pa.Table, schema: Schema) -> list[tuple[Any, ...]]:
    columns = [
        python_values(c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c, f.type)
        for c, f in zip(rows.columns, schema, strict=True)
    ]
    return list(zip(*columns, strict=True))


class _Display(Protocol):
    """A place in a notebook whose contents can be replaced."""

    def update(self, shown: Any) -> None: ...


class _Followed(Protocol):
    """What a live table needs of a result."""

    @property
    def schema(self) -> Schema: ...

    def changes(self) -> Any: ...

    def cancel(self) -> None: ...


class LiveTable:
    """The contents of an answer that goes on changing, shown in one place and updated there: at most every
    `UPDATE_SECONDS`, and at the end.

    Args:
        display: where it is shown; `html` makes what it takes.
        clock: seconds, for how often it is updated.
    """

    def __init__(
        self,
        result: _Followed,
        display: _Display,
        html: Callable[[str], Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._schema = result.schema
        self._rows = MemoryTable("live", result.schema)
        self._display = display
        self._html = html
        self._clock = clock
        self._shown_at = -UPDATE_SECONDS
        self._epochs = 0
        self._listener: Listener[Any] = Listener(self._all(result), self._take, result.cancel)

    def _all(self, result: _Followed) -> Any:
        # The end is told, too, so that what was left out is shown.
        yield from result.changes()
        yield None

    def _take(self, batch: ChangelogBatch | None) -> None:
        if batch is not None:
            self._rows.apply(ChangelogBatch(batch.rows.rename_columns(list(self._schema.names)), batch.kinds))
            self._rows.publish()
            self._epochs += 1
        now = self._clock()
        if batch is None or now - self._shown_at >= UPDATE_SECONDS:
            self._shown_at = now
            state = "ended" if batch is None else "live"
            note = f"{state}, {self._epochs:,} change{'' if self._epochs == 1 else 's'} so far"
            self._display.update(self._html(batch_html(self._rows.contents(), self._schema, note)))

    def stop(self) -> None:
        """Stop the query; what is shown stays."""
        self._listener.stop()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end; raises what made it fail."""
        self._listener.join(timeout)


def shows_in_place() -> bool:
    """Whether what was shown can be replaced: a notebook does that, IPython in a terminal does not."""
    find = getattr(importlib.import_module("IPython"), "get_ipython", None)
    return find is None or type(find()).__name__ != "TerminalInteractiveShell"


def show_live(result: _Followed) -> LiveTable:
    """A live table at this place of the notebook."""
    display = importlib.import_module("IPython.display")
    empty = pa.table([pa.nulls(0, f.type.arrow) for f in result.schema], names=list(result.schema.names))
    first = display.HTML(batch_html(empty, result.schema, "waiting for rows"))
    handle = display.display(first, display_id=True)
    return LiveTable(result, handle, display.HTML)
