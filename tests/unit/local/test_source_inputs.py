"""Reading ahead changes when rows are read, never which epoch they come in, nor when a source counts as finished."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.clock import SystemClock
from runtime.core.errors import FormatError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT
from runtime.local import pace
from runtime.local.rejected import RejectedRows
from runtime.local.source_inputs import SourceContext, SourceInputs
from runtime.plan.nodes import SourceExec
from runtime.spi.reader import ReadContext, SourceReader
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

SCHEMA = Schema.of(("n", BIGINT))


@dataclass
class Reader:
    """Numbers from `start` on; fails at `bad`; waits at the gate before each read."""

    start: int
    end: int
    bad: int | None
    gate: threading.Event
    at_once: int
    closed: bool = False

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        self.gate.wait()
        assert not self.closed
        end = min(self.start + min(max_rows, self.at_once), self.end)
        if self.bad is not None and self.start <= self.bad < end:
            raise FormatError("a bad row")
        rows = pa.array(range(self.start, end), pa.int64())
        self.start = end
        return ChangelogBatch(pa.record_batch([rows], names=["n"]))

    @property
    def finished(self) -> bool:
        return self.start >= self.end

    def position(self) -> Any:
        return self.start

    def seek(self, position: Any) -> None:
        self.start = position

    def close(self) -> None:
        self.closed = True


@dataclass(eq=False)
class Numbers:
    """Two splits, 0 to 9 and 10 to 14."""

    bounded: bool = True
    bad: int | None = None
    at_once: int = 100
    gate: threading.Event = field(default_factory=threading.Event)
    readers: list[Reader] = field(default_factory=list)
    schema: Schema = SCHEMA
    changelog_mode: ChangelogMode = APPEND

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        return [Split("a", (0, 10)), Split("b", (10, 15))]

    def open(self, split: Split, context: ReadContext) -> SourceReader:
        self.readers.append(Reader(*split.where, self.bad, self.gate, self.at_once))
        return self.readers[-1]

    def describe(self) -> dict[str, Any]:
        return {}


def inputs_of(table: Numbers, position: Any = None) -> SourceInputs:
    node = SourceExec(schema=SCHEMA, name="numbers", table=table, mode=APPEND)
    context = SourceContext("UTC", "numbers", RejectedRows().for_job("job"))
    return SourceInputs(node, context, SystemClock(), position)


def drain(table: Numbers, worker: ThreadPoolExecutor | None) -> list[tuple[list[int], bool]]:
    inputs, seen = inputs_of(table), []
    while not inputs.finished:
        given = inputs.poll(4)
        if worker is not None:
            inputs.read_ahead(4, worker)
            worker.submit(lambda: None).result()
            assert inputs.finished == given.finished
        seen.append((given.batch.column(0).to_pylist() if given.batch is not None else [], given.finished))
    return seen


def test_epochs_are_the_same_whoever_reads() -> None:
    table = Numbers()
    table.gate.set()
    plain = drain(table, None)
    assert [rows for rows, _ in plain] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14]]
    assert [finished for _, finished in plain] == [False, False, False, True]
    with ThreadPoolExecutor(1) as worker:
        assert drain(table, worker) == plain


def test_an_epoch_ends_when_its_bytes_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "EPOCH_BYTES", 24)
    table = Numbers(at_once=2)
    table.gate.set()
    inputs, seen, again = inputs_of(table), [], []
    while not inputs.finished:
        begun_anew = inputs_of(table, inputs.position())
        for found, who in ((seen, inputs), (again, begun_anew)):
            batch = who.poll(100).batch
            assert batch is not None
            found.append(batch.column(0).to_pylist())
    # Each read gives 16 bytes, and the second one is the last. The next split is begun in the epoch after.
    assert seen == again == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14]]


def test_an_error_comes_with_the_epoch_that_it_is_in() -> None:
    table = Numbers(bad=6)
    table.gate.set()
    with ThreadPoolExecutor(1) as worker:
        inputs = inputs_of(table)
        assert inputs.poll(4).batch is not None
        inputs.read_ahead(4, worker)
        with pytest.raises(FormatError):
            inputs.poll(4)


def test_close_waits_for_what_is_being_read() -> None:
    table = Numbers(bad=6)
    table.gate.set()
    with ThreadPoolExecutor(1) as worker:
        inputs = inputs_of(table)
        inputs.poll(4)
        table.gate.clear()
        inputs.read_ahead(4, worker)
        closing = threading.Thread(target=inputs.close)
        closing.start()
        table.gate.set()
        closing.join()
        assert all(r.closed for r in table.readers)


def test_what_comes_in_real_time_is_not_read_ahead() -> None:
    table = Numbers(bounded=False)
    table.gate.set()
    with ThreadPoolExecutor(1) as worker:
        inputs = inputs_of(table)
        inputs.poll(4)
        assert not inputs.wants_read_ahead
        inputs.read_ahead(4, worker)
        assert table.readers[0].start == 4
