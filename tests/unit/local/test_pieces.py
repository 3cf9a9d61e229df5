"""Output that is larger than a batch goes to the sink batch by batch; a sink that lags holds back the sources."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from runtime.core.changelog import APPEND, RETRACT, ChangelogBatch, ChangelogMode
from runtime.core.clock import SystemClock
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import BIGINT
from runtime.expr.library import builtin_functions
from runtime.expr.nodes import InputRef
from runtime.local.dataflow import Dataflow, SourceInput
from runtime.local.job import Job
from runtime.local.job_settings import JobSettings
from runtime.local.rejected import RejectedRows
from runtime.plan.nodes import (
    AggregateSpec,
    CalcExec,
    GroupAggregateExec,
    HashJoinExec,
    JoinKind,
    PhysicalNode,
    SinkExec,
    SourceExec,
    UnionExec,
)
from runtime.spi.reader import ReadContext
from runtime.spi.sink import Delivery
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

ROW = Schema.of(("k", BIGINT), ("n", BIGINT))
PAIR = Schema.of(("k", BIGINT), ("n", BIGINT), ("k0", BIGINT), ("n0", BIGINT))
COUNTED = Schema.of(("k", BIGINT), ("rows", BIGINT))


class Writer:
    """Remembers the rows of each write and each end of an epoch (`flush`); waits at the gate before it writes."""

    def __init__(self, gate: threading.Event) -> None:
        self.events: list[int | str] = []
        self.batches: list[ChangelogBatch] = []
        self.entered = threading.Event()
        self.alive = 0
        self._gate = gate

    def write(self, batch: ChangelogBatch) -> None:
        self.entered.set()
        self._gate.wait()
        self.events.append(len(batch))
        self.batches.append(batch)

    def flush(self, epoch: int) -> None:
        self.events.append("flush")

    def prepare(self) -> None: ...
    def publish(self, committable: Any) -> None: ...
    def recover(self, committables: Sequence[Any]) -> None: ...
    def discard(self, committable: Any) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


@dataclass(eq=False)
class Sink:
    schema: Schema
    gate: threading.Event = field(default_factory=threading.Event)
    primary_key: tuple[str, ...] = ()
    delivery: Delivery = "at-least-once"

    def __post_init__(self) -> None:
        self.writer = Writer(self.gate)

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        return requested

    def open_writer(self, job: str) -> Writer:
        return self.writer

    def describe(self) -> dict[str, Any]:
        return {}


@dataclass(eq=False)
class Numbers:
    """A source of the numbers below `end`; `taken` is how many were read."""

    end: int
    bounded: bool = True
    schema: Schema = ROW
    changelog_mode: ChangelogMode = APPEND
    taken: int = 0

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        return [Split("all")]

    def open(self, split: Split, context: ReadContext) -> Numbers:
        return self

    def describe(self) -> dict[str, Any]:
        return {}

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        numbers = list(range(self.taken, min(self.taken + max_rows, self.end)))
        self.taken += len(numbers)
        return rows([(0, n) for n in numbers])

    @property
    def finished(self) -> bool:
        return self.taken >= self.end

    def position(self) -> Any:
        return self.taken

    def seek(self, position: Any) -> None:
        self.taken = position

    def close(self) -> None: ...


def rows(found: Sequence[tuple[int, int]]) -> ChangelogBatch:
    columns = [pa.array([row[i] for row in found], pa.int64()) for i in range(2)]
    return ChangelogBatch.of(columns, ROW)


def source(name: str) -> SourceExec:
    return SourceExec(Numbers(0), name, ROW, APPEND)


def join(left: PhysicalNode, right: PhysicalNode) -> HashJoinExec:
    return HashJoinExec(left, right, JoinKind.INNER, (0,), (0,), (False,), None, None, None, PAIR, APPEND)


def dataflow(*roots: PhysicalNode, piece: int) -> Dataflow:
    settings = Options({"sqlengine.batch.max-rows": str(piece)})
    rejected = RejectedRows().for_job("job", "UTC")
    return Dataflow(roots, settings, builtin_functions(), "UTC", rejected, checked=True)


def test_one_key_that_matches_many_rows_is_written_batch_by_batch() -> None:
    left, right, sink = source("left"), source("right"), Sink(PAIR)
    sink.gate.set()
    joined = join(left, right)
    kept = CalcExec(joined, None, tuple(InputRef(i, BIGINT) for i in range(4)), PAIR, APPEND)
    flow = dataflow(SinkExec(kept, sink, "sink", (), "ERROR", PAIR, APPEND), piece=100)
    flow.step({right: SourceInput(rows([(1, n) for n in range(1000)]))}, 0)
    assert sink.writer.events == ["flush"]
    flow.step({left: SourceInput(rows([(1, n) for n in range(7)]))}, 0)
    *written, end = sink.writer.events[1:]
    assert end == "flush"
    assert sum(int(count) for count in written) == 7000
    assert max(int(count) for count in written) <= 100
    pairs = {
        (n, m) for b in sink.writer.batches for n, m in zip(*(b.column(i).to_pylist() for i in (1, 3)), strict=True)
    }
    assert pairs == {(n, m) for n in range(7) for m in range(1000)}
    flow.abort()


def test_no_more_than_two_batches_are_there_at_once() -> None:
    """The join makes a batch when the one before has been written: counted as the sink sees them."""
    left, right, sink = source("left"), source("right"), Sink(PAIR)
    sink.gate.set()
    joined = join(left, right)
    flow = dataflow(SinkExec(joined, sink, "sink", (), "ERROR", PAIR, APPEND), piece=100)
    made: list[int] = []
    operator = next(v.operator for v in flow.vertices if v.node is joined)
    assert operator is not None
    pieces = operator.pieces

    def counted(inputs: Any, time: Any) -> Any:
        for piece in pieces(inputs, time):
            made.append(len(piece))
            assert len(made) - len(sink.writer.batches) <= 2
            yield piece

    operator.pieces = counted  # type: ignore[method-assign]
    flow.step({right: SourceInput(rows([(1, n) for n in range(1000)]))}, 0)
    flow.step({left: SourceInput(rows([(1, n) for n in range(7)]))}, 0)
    assert sum(made) == 7000
    flow.abort()


def test_operators_behind_a_join_take_its_output_in_parts_and_others_collect_it() -> None:
    left, right = source("left"), source("right")
    joined = join(left, right)
    calls = (AggregateSpec("COUNT", (), (), BIGINT),)
    counts = GroupAggregateExec(joined, (0,), calls, COUNTED, RETRACT)
    both = UnionExec((joined, joined), PAIR, APPEND)
    flow = dataflow(counts, both, piece=10)
    flow.step({right: SourceInput(rows([(1, n) for n in range(50)]))}, 0)
    counted, united = flow.step({left: SourceInput(rows([(1, n) for n in range(4)]))}, 0)
    assert counted is not None and united is not None
    assert len(united) == 400
    folded: dict[int, int] = {}
    for sign, count in zip(counted.signs().tolist(), counted.column(1).to_pylist(), strict=True):
        folded[count] = folded.get(count, 0) + sign
    assert {count for count, times in folded.items() if times} == {200}
    again = flow.step({left: SourceInput(rows([(1, 9)]))}, 0)
    assert [len(b) for b in again if b is not None] == [10, 100]
    flow.abort()


def settings(max_rows: int) -> JobSettings:
    options = Options({"sqlengine.epoch.max-rows": str(max_rows)})
    return JobSettings(options, builtin_functions(), "UTC", SystemClock(), RejectedRows())


def test_a_sink_that_lags_holds_back_the_source() -> None:
    """While the sink is busy with an epoch, no more is read than that epoch and, of a bounded source, the next."""
    for bounded in (True, False):
        numbers, sink = Numbers(1000, bounded), Sink(ROW)
        node = SourceExec(numbers, "numbers", ROW, APPEND)
        job = Job("job", [SinkExec(node, sink, "sink", (), "ERROR", ROW, APPEND)], settings(10))
        thread = threading.Thread(target=lambda job=job: [job.advance() for _ in range(3)])
        thread.start()
        assert sink.writer.entered.wait(60)
        assert numbers.taken <= (20 if bounded else 10)
        sink.gate.set()
        thread.join()
        assert sink.writer.events == [10, "flush"] * 3
        # What is read ahead is at most one epoch.
        job.cancel()
        job.close()
        assert numbers.taken <= (40 if bounded else 30)
