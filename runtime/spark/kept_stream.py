"""A streaming DataFrame that a job can go on with: its micro-batches are kept until a checkpoint is behind them.

    <folder>/rows          its micro-batches, by number (`EpochLog`)
    <folder>/spark-<name>  the checkpoint of Spark's query, by the name of that log

Spark computes a micro-batch that was not done again, with the same rows; one that is kept already is not kept twice. Its
tasks write the rows, and the job reads them a part at a time. A position is `{"log": name, "epoch": micro-batches given,
"row": rows given of the next}`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

from runtime.checkpoint.storage import below
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.core.strict_json import counts_of
from runtime.spark.chunks import into_files
from runtime.spark.epoch_log import EpochLog, put_part, write_part
from runtime.spark.frame_readers import RowsOf
from runtime.spark.session import is_remote, reached

__all__ = ["KeptStream"]

_WAITING_BATCHES = 4
_WAIT_SECONDS = 0.02


class KeptStream:
    """Reads it. A job that does not go on from a position begins anew, with an empty folder.

    Args:
        source: a `FrameSource`.
        folder: belongs to this table alone, and to one job: a path, or a URI that pyarrow and Spark know.
    """

    def __init__(self, source: Any, rows: RowsOf, folder: str) -> None:
        self._source = source
        self._rows = rows
        self._folder = folder
        self._log: EpochLog | None = None
        self._query: Any = None
        self._epoch = 0
        self._row = 0
        self._reading: int | None = None
        """The micro-batch that is given now, `_parts`: what there is still of it, `_part`: what is given of that, `_before`:
        the rows of the parts before."""
        self._parts: Iterator[pa.RecordBatch] = iter(())
        self._part: ChangelogBatch | None = None
        self._before = 0
        self._in_tasks = True
        self._saved: int | None = None
        self._closed = False

    def seek(self, position: Any) -> None:
        self._epoch, self._row = counts_of(position, "epoch", "row")
        log = EpochLog(below(self._folder, "rows"))
        if log.name != position["log"]:
            raise ConnectorError(
                f"{self._source.name} is a streaming DataFrame whose rows are not in {self._folder}",
                code="E3108",
                hint="declare it with the folder that it had before, or start anew with --fresh",
            )
        self._log = log

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        if max_rows <= 0:
            return None
        log = self._started()
        while True:
            if self._reading is None:
                waiting = log.epochs(self._epoch, log.latest())
                if not waiting:
                    failure = self._query.exception() if not self._query.isActive else None
                    if failure is not None:
                        raise reached(failure) from failure
                    return None
                self._reading, self._parts = waiting[0], log.parts(waiting[0])
            while self._part is None or self._row >= self._before + len(self._part):
                self._before += 0 if self._part is None else len(self._part)
                rows = next(self._parts, None)
                if rows is None:
                    break
                self._part = self._rows.batch(pa.Table.from_batches([rows]))
            else:
                start = self._row - self._before
                found = self._part.slice(start, min(max_rows, len(self._part) - start))
                self._row += len(found)
                return found
            self._epoch, self._row, self._before = self._reading, 0, 0
            self._reading, self._part = None, None

    def _started(self) -> EpochLog:
        if self._log is None:
            self._log = EpochLog(below(self._folder, "rows")).begin_anew()
        if self._query is None:
            # What a run has left that was killed before a micro-batch was whole.
            self._log.remove_staged()
            writer = self._source.selected().writeStream.foreachBatch(self._keep)
            place = below(self._folder.partition("?")[0], f"spark-{self._log.name}")
            self._query = writer.option("checkpointLocation", place).start()
        return self._log

    def _keep(self, frame: Any, number: int) -> None:
        """A micro-batch of Spark; it waits while some are not taken."""
        log = self._log
        assert log is not None
        while not self._closed and len(log.epochs(self._epoch, log.latest())) >= _WAITING_BATCHES:
            time.sleep(_WAIT_SECONDS)
        if self._closed:
            raise InterruptedError("the job has ended")
        if number + 1 > log.latest():
            names = self._written(frame, log)
            if names:
                log.show(log.stage_parts(number + 1, names))

    def _written(self, frame: Any, log: EpochLog) -> list[str]:
        """The rows of a micro-batch in parts: by Spark's tasks, where these see the folder as this process does."""
        if self._in_tasks and not is_remote(frame.sparkSession):
            names = [chunk.name for chunk in into_files(frame, log.folder, put_part)]
            if log.has_parts(names):
                return names
            self._in_tasks = False
        return [write_part(log.folder, rows) for rows in frame.toArrow().to_batches() if rows.num_rows]

    def checkpoint_complete(self, position: Any) -> None:
        """A checkpoint holds a position. What lies before the one of the checkpoint before is not needed again."""
        if self._log is not None and self._saved is not None:
            self._log.forget(self._saved)
        self._saved = int(position["epoch"])

    @property
    def finished(self) -> bool:
        return False

    def position(self) -> Any:
        if self._log is None:
            self._started()
        assert self._log is not None
        return {"log": self._log.name, "epoch": self._epoch, "row": self._row}

    def close(self) -> None:
        self._closed = True
        if self._query is not None:
            with suppress(Exception):
                self._query.stop()
