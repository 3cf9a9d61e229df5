"""Rows that could not be used: late, malformed, NULL where forbidden. Counted, and kept up to a limit:
`system.rejected`."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import ConnectorError
from runtime.core.logs import Log, tell
from runtime.core.options import text_option
from runtime.core.schema import Schema
from runtime.core.types import STRING, timestamp
from runtime.core.wakeup import nobody
from runtime.expr.zones import instant_to_local
from runtime.operators.operator import Rejected
from runtime.spi.reader import RejectedRow, SkippedInput

__all__ = ["REJECTED_SCHEMA", "REJECTED_TABLE", "RejectedRows", "SourceContext"]

_log = Log("rejected")

REJECTED_SCHEMA = Schema.of(
    ("job", STRING),
    ("operator", STRING),
    ("reason", STRING),
    ("event_time", timestamp(3)),
    ("watermark", timestamp(3)),
    ("row", STRING),
    ("error", STRING),
)
"""Times are as a clock on the wall shows them: those of TIMESTAMP_LTZ columns in the session's time zone. `row` is the
row's columns as text, or the raw record where it could not be decoded. `error` is what a function of the user says of the
row, with the places in its code."""

REJECTED_TABLE = text_option(
    "sqlengine.rejected.table",
    "",
    'a table with a connector into which jobs also write the rows that they reject; "": system.rejected alone has them',
)
KEPT_ROWS = 10_000
KEPT_CHARACTERS = 16 << 20
"""What all kept rows may have together, about."""
_MOST_WHOLE = 32
"""So many times as much may wait at once where none may be lost: a reader may come to its end before it gives a row."""


class RejectedRows:
    """All rejected rows of an environment. Thread-safe.

    Args:
        limit: rows kept; the counts go on.
    """

    def __init__(self, *, limit: int = KEPT_ROWS) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._kept: list[tuple[str, pa.RecordBatch]] = []
        self._rows = 0
        self._bytes = 0
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """Rejected rows by (job, operator, reason)."""

        self.on_left_out: Callable[[str], object] = tell
        """Called with what was left out, such as a file: a sentence, each once."""
        self._left_out: set[str] = set()

    def leave_out(self, what: str) -> None:
        """Tell of a part of the input that is not read, unless it was told before."""
        with self._lock:
            if what in self._left_out or len(self._left_out) >= KEPT_ROWS:
                return
            self._left_out.add(what)
        self.on_left_out(f"warning: {what}")

    def for_job(self, job: str, time_zone: str = "UTC") -> JobRejections:
        return JobRejections(self, job, time_zone)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def room(self) -> int:
        """How many more rows are kept."""
        return max(self._limit - self._rows, 0) if self._bytes < KEPT_CHARACTERS else 0

    def count(self, job: str, operator: str, reason: str, rows: int) -> None:
        """Rejected rows that are not kept."""
        with self._lock:
            self._count(job, operator, reason, rows)

    def _count(self, job: str, operator: str, reason: str, rows: int) -> None:
        """The first rows of a reason are a warning, and so are those that make the number ten times as large."""
        before = self.counts[job, operator, reason]
        self.counts[job, operator, reason] = now = before + rows
        level = logging.WARNING if rows and (not before or len(str(now)) > len(str(before))) else logging.DEBUG
        text, facts = "%s: %d rows rejected by %s so far: %s", {"operator": operator, "reason": reason, "rows": now}
        _log.write(level, text, job, now, operator, reason, job=job, **facts)

    def keep(self, job: str, operator: str, reason: str, rows: pa.RecordBatch) -> None:
        """Keep rows with the columns of `REJECTED_SCHEMA`."""
        with self._lock:
            self._count(job, operator, reason, rows.num_rows)
            room = self.room
            if room > 0:
                batch = rows.slice(0, room)
                self._kept.append((job, batch))
                self._rows += batch.num_rows
                self._bytes += _size(batch)

    def rows(self) -> pa.Table:
        """What is kept, with the columns of `REJECTED_SCHEMA`."""
        with self._lock:
            return pa.Table.from_batches([batch for _, batch in self._kept], schema=REJECTED_SCHEMA.arrow)

    def of(self, job: str) -> tuple[list[tuple[str, str, int]], int]:
        """What a job has rejected: operator, reason and number of rows, and how many of them are kept."""
        with self._lock:
            counts = [(operator, reason, n) for (of, operator, reason), n in self.counts.items() if of == job]
            return counts, sum(batch.num_rows for of, batch in self._kept if of == job)

    def go_back(self, job: str, counts: Iterable[tuple[str, str, int]], kept: int) -> None:
        """A job has rejected so many rows, and all that it rejects comes again after its first `kept` kept ones."""
        with self._lock:
            self.counts = Counter({key: n for key, n in self.counts.items() if key[0] != job})
            self.counts.update({(job, operator, reason): n for operator, reason, n in counts})
            before, self._kept = self._kept, []
            for of, batch in before:
                if of == job:
                    batch = batch.slice(0, kept)
                    kept -= batch.num_rows
                if batch.num_rows:
                    self._kept.append((of, batch))
            self._rows = sum(batch.num_rows for _, batch in self._kept)
            self._bytes = sum(_size(batch) for _, batch in self._kept)


def rejected_rows(
    job: str,
    operator: str,
    reason: str,
    text: pa.Array,
    watermark: int | None,
    event_time: pa.Array | None,
    time_zone: str = "UTC",
    errors: pa.Array | None = None,
) -> pa.RecordBatch:
    """Rows given as text, with the columns of `REJECTED_SCHEMA`; `event_time` is a timestamp array of the same length,
    `watermark` in its terms."""
    count = len(text)
    kind = REJECTED_SCHEMA.arrow.types[3]
    local = event_time is None or event_time.type.tz is None
    times = pa.nulls(count, kind) if event_time is None else _wall(event_time, None if local else time_zone)
    marks = pa.nulls(count, kind)
    if watermark is not None and watermark not in (MIN_WATERMARK, MAX_WATERMARK):
        mark = pa.array(np.full(count, watermark * 1000), pa.int64()).cast(pa.timestamp("us"))
        marks = _wall(mark, None if local else time_zone)
    names = [pa.repeat(pa.scalar(value, pa.string()), count) for value in (job, operator, reason)]
    told = pa.nulls(count, pa.string()) if errors is None else errors
    return pa.RecordBatch.from_arrays([*names, times, marks, text, told], schema=REJECTED_SCHEMA.arrow)


@dataclass(frozen=True, slots=True)
class Refused:
    """Records that a source has refused: some of them, and how many more for each reason."""

    rows: tuple[RejectedRow, ...] = ()
    more: tuple[tuple[str, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rows)


class Refusals:
    """Collects what readers refuse until it is taken. However much it is, memory is bounded: what is more than is kept is
    counted, or, where all of it is wanted (`whole`), fails the job. Who reads stops in time when it `is_full`."""

    def __init__(self, *, whole: bool = False) -> None:
        self.whole = whole
        self._rows: list[RejectedRow] = []
        self._characters = 0
        self._more: Counter[str] = Counter()

    def add(self, rows: Sequence[RejectedRow], more: Iterable[tuple[str, int]] = ()) -> None:
        for row in rows:
            if self.whole or not self._beyond(1):
                self._rows.append(row)
                self._characters += len(row.raw)
            else:
                self._more[row.reason] += 1
        self._more.update(dict(more))
        if self.whole and self._beyond(_MOST_WHOLE):
            raise ConnectorError(
                f"a source has rejected {len(self._rows)} records one after another, more than an epoch may have",
                code="E3153",
                hint="is this its format? RESET 'sqlengine.rejected.table' to count what is more than system.rejected keeps",
            )

    @property
    def is_full(self) -> bool:
        """Whether what is read from now on should be part of a later epoch."""
        return self.whole and self._beyond(1)

    def _beyond(self, times: int) -> bool:
        return len(self._rows) >= times * KEPT_ROWS or self._characters >= times * KEPT_CHARACTERS

    def take(self) -> Refused:
        """What waits, which waits no more."""
        taken = Refused(tuple(self._rows), tuple(self._more.items()))
        self._rows, self._characters = [], 0
        self._more.clear()
        return taken


class JobRejections:
    """The rejected rows of one job, as operators and readers see them."""

    def __init__(self, rows: RejectedRows, job: str, time_zone: str) -> None:
        self._rows = rows
        self.job = job
        self.time_zone = time_zone
        self._all: Callable[[pa.RecordBatch], object] | None = None
        self._marks: list[tuple[int, int]] = [(0, 0)]
        """How many rows were kept at the end of epochs that were saved; one for each change of that number."""

    def keep_all(self, take: Callable[[pa.RecordBatch], object]) -> None:
        """From now on `take` is called with all rows that are rejected, with the columns of `REJECTED_SCHEMA`."""
        self._all = take

    def refusals(self) -> Refusals:
        """Where a source collects what it refuses."""
        return Refusals(whole=self._all is not None)

    def saved(self, epoch: int) -> list[tuple[str, str, int]]:
        """The figures at the end of an epoch, for a checkpoint: operator, reason, rows."""
        counts, kept = self._rows.of(self.job)
        if kept != self._marks[-1][1]:
            self._marks.append((epoch, kept))
        return counts

    def go_back(self, epoch: int, counts: Iterable[tuple[str, str, int]]) -> None:
        """The job goes on after an epoch at whose end these were the figures: what it rejected since comes again."""
        while self._marks[-1][0] > epoch:
            self._marks.pop()
        self._rows.go_back(self.job, counts, self._marks[-1][1])

    def reject(self, rejected: Rejected) -> None:
        operator, reason, rows, watermark, event_time, errors = rejected
        room = self._rows.room
        if self._all is None and rows.num_rows > room:
            # Only what can be kept is worth writing out.
            self._rows.count(self.job, operator, reason, rows.num_rows - room)
            rows, event_time = rows.slice(0, room), None if event_time is None else event_time.slice(0, room)
            errors = None if errors is None else errors.slice(0, room)
        if rows.num_rows:
            self._keep(operator, reason, _as_text(rows), watermark, event_time, errors)

    def _keep(
        self,
        operator: str,
        reason: str,
        text: pa.Array,
        watermark: int | None = None,
        event_time: pa.Array | None = None,
        errors: pa.Array | None = None,
    ) -> None:
        rows = rejected_rows(self.job, operator, reason, text, watermark, event_time, self.time_zone, errors)
        if self._all is not None:
            self._all(rows)
        self._rows.keep(self.job, operator, reason, rows)

    def reject_raw(self, source: str, refused: Refused) -> None:
        """Records that a source could not use, which come one by one: no more of them than are kept."""
        by_reason: dict[str, list[str]] = {}
        for row in refused.rows:
            by_reason.setdefault(row.reason, []).append(row.raw)
            if isinstance(row, SkippedInput):
                self._rows.leave_out(row.raw)
        for reason, texts in by_reason.items():
            self._keep(source, reason, pa.array(texts, pa.string()))
        for reason, count in refused.more:
            self._rows.count(self.job, source, reason, count)


def _size(batch: pa.RecordBatch) -> int:
    """The bytes of the texts of some rows."""
    return int(batch.column(5).nbytes + batch.column(6).nbytes)


def _wall(times: pa.Array, zone: str | None) -> pa.Array:
    """Times as a clock shows them: instants in `zone`, or (None) as they are."""
    plain = times.cast(pa.timestamp("us", times.type.tz), safe=False).cast(pa.int64())
    values = plain.fill_null(0).to_numpy(zero_copy_only=False)
    shown = values if zone is None else instant_to_local(values, zone, "us")
    mask = times.is_null().to_numpy(zero_copy_only=False)
    return pa.array(shown, pa.int64(), mask=mask).cast(REJECTED_SCHEMA.arrow.types[3])


def _as_text(rows: pa.RecordBatch) -> pa.Array:
    """Each row as `(a, b, NULL)`. Nested values and bytes, which Arrow cannot write out, cell by cell: of no more rows than
    are kept."""
    cells = []
    for column in rows.columns:
        if pa.types.is_nested(column.type):
            text = pa.array([str(v) for v in column], pa.string())
        elif pa.types.is_binary(column.type):
            text = pa.array([None if not v.is_valid else v.as_buffer().hex() for v in column], pa.string())
        elif pa.types.is_timestamp(column.type):
            text = pc.cast(_shortest(column), pa.string())
        else:
            text = pc.cast(column, pa.string())
        cells.append(pc.fill_null(text, "NULL"))
    if not cells:
        return pa.repeat(pa.scalar("()"), rows.num_rows)
    joined = pc.binary_join_element_wise(*cells, ", ")
    return pc.binary_join_element_wise(pa.scalar("("), joined, pa.scalar(")"), "")


def _shortest(times: pa.Array) -> pa.Array:
    """Times of milliseconds only, which event times are, with three digits of a second instead of six."""
    try:
        return times.cast(pa.timestamp("ms", times.type.tz))
    except pa.ArrowInvalid:
        return times


__all__ += ["JobRejections", "Refusals", "Refused", "rejected_rows"]


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What the readers of one source may ask of their job. Rows that they refuse wait in `refused` until the rows that
    were read with them are given to an epoch: what was read ahead and is dropped was not refused. `on_wake` is called by
    `wake`."""

    time_zone: str
    source: str
    rejections: JobRejections
    on_wake: Callable[[], None] = nobody
    refused: Refusals = field(default_factory=Refusals)

    def wake(self) -> None:
        self.on_wake()

    def reject(self, rows: Sequence[RejectedRow]) -> None:
        self.refused.add(rows)
