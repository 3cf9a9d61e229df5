"""The contract of sinks over all connectors that can be written, and what sinks promise."""

from __future__ import annotations

import errno
import os
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from connector_tables import REGISTRY, read_all, rows_of, sink, source

from connectors.memory.sink import MemorySink
from connectors.memory.table import MemoryTable
from runtime.core.changelog import APPEND, DELETE, INSERT, UPDATE_AFTER, ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from runtime.expr.function import FunctionRegistry
from runtime.local.rejected import RejectedRows
from runtime.operators.operator import EpochTime, OperatorContext
from runtime.operators.sink import SinkOperator
from runtime.plan.nodes import SinkExec, ValuesExec
from sqlengine.testing.connectors.jobs import Faults, JobOfEpochs, SinkCase

SCHEMA = Schema.of(("a", INT), ("p", STRING))
Rows = list[tuple[int, str]]


def batch(rows: Rows, kinds: list[int] | None = None) -> ChangelogBatch:
    columns = [pa.array([r[0] for r in rows], pa.int32()), pa.array([r[1] for r in rows], pa.string())]
    return ChangelogBatch.of(columns, SCHEMA, None if kinds is None else np.array(kinds, dtype=np.int8))


def appended(rng: random.Random, table: Any, visible: Callable[[], list[Any]]) -> SinkCase:
    """Rows that are only inserted, some epochs empty."""
    epochs: list[Rows] = []
    for _ in range(rng.randrange(4, 14)):
        begin = sum(map(len, epochs))
        epochs.append([(begin + i, f"p{rng.randrange(3)}") for i in range(rng.choice([0, 1, 3, 20]))])
    return SinkCase(
        table, visible, [batch(e) for e in epochs], lambda n: sorted(row for epoch in epochs[:n] for row in epoch)
    )


def files(format_: str, *partitions: str, **options: str) -> Callable[[random.Random, Path], SinkCase]:
    def make(rng: random.Random, folder: Path) -> SinkCase:
        given = {"path": str(folder / "out"), "format": format_, "sink.rolling-policy.file-size": "60b", **options}
        written = sink("filesystem", SCHEMA, given, partitioned_by=partitions)
        read = source("filesystem", SCHEMA, given, partitioned_by=partitions)

        def visible() -> list[Any]:
            return sorted(rows_of(read)) if (folder / "out").is_dir() else []

        return appended(rng, written, _anew(read, visible))

    make.__name__ = f"{format_}_{'_'.join(partitions)}{'_commit' if options else ''}"
    return make


def _anew(read: Any, visible: Callable[[], list[Any]]) -> Callable[[], list[Any]]:
    def look() -> list[Any]:
        read.__dict__.pop("_listed", None)  # what was listed before
        return visible()

    return look


def events(rng: random.Random, folder: Path) -> SinkCase:
    given = {"path": str(folder / "out"), "format": "debezium-json"}
    read = source("filesystem", SCHEMA, given)
    case = appended(rng, sink("filesystem", SCHEMA, given), list)

    def visible() -> list[Any]:
        return sorted(row for _, row in read_all(read)) if (folder / "out").is_dir() else []

    return SinkCase(case.table, _anew(read, visible), case.epochs, case.expected)


def memory_at_the_end(rng: random.Random, folder: Path) -> SinkCase:
    table = MemoryTable("m", SCHEMA)

    def visible() -> list[Any]:
        return sorted(tuple(r.values()) for r in table.contents().to_pylist())

    return appended(rng, MemorySink(table, live=False), visible)


CASES = (
    files("json"),
    files("csv"),
    files("parquet"),
    files("orc"),
    files("json", "p"),
    files("json", "p", **{"sink.partition-commit.policy.kind": "success-file"}),
    events,
    memory_at_the_end,
)


@pytest.mark.parametrize("make", CASES, ids=lambda m: m.__name__)
@pytest.mark.parametrize("failing", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_visible_is_what_the_checkpoint_holds(
    make: Callable[[random.Random, Path], SinkCase],
    failing: float,
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(seed)
    faults = Faults(monkeypatch, rng)
    case = make(rng, tmp_path)
    other = case.table.open_writer("another job")
    other.write(case.epochs[0] if len(case.epochs[0]) else batch([(-1, "q")]))
    faults.probability = failing
    JobOfEpochs(case, rng, faults).run()
    faults.probability = 0.0
    assert case.visible() == case.expected(len(case.epochs))
    hidden = [p for p in tmp_path.rglob(".*") if p.is_file()]
    assert len({p.name.split("-")[1] for p in hidden}) <= 1, "only the other job has hidden files"
    other_rows = Counter(case.visible())
    committable = other.prepare()
    other.publish(committable)
    assert Counter(case.visible()) > other_rows, "what another job had hidden is not touched"


def keyed(rng: random.Random) -> tuple[list[ChangelogBatch], dict[int, str]]:
    """Changes by key."""
    held: dict[int, str] = {}
    epochs: list[ChangelogBatch] = []
    for _ in range(10):
        rows: dict[int, tuple[str, int]] = {}
        for key in rng.sample(range(6), 3):
            if key in held and rng.random() < 0.3:
                rows[key] = (held.pop(key), DELETE)
            else:
                rows[key] = (f"v{rng.random()}", UPDATE_AFTER if key in held else INSERT)
                held[key] = rows[key][0]
        epochs.append(batch([(k, v) for k, (v, _) in rows.items()], [kind for _, kind in rows.values()]))
    return epochs, held


@pytest.mark.parametrize("seed", range(5))
def test_by_key_changes_that_come_twice_mean_the_same(seed: int) -> None:
    rng = random.Random(seed)
    epochs, held = keyed(rng)
    table = MemoryTable("m", SCHEMA, ["a"])
    live = MemorySink(table, live=True)
    assert live.delivery == "exactly-once"
    writer, saved = live.open_writer("job"), (0, None)
    at = 0
    while at < len(epochs):
        writer.write(epochs[at])
        writer.flush(at)
        at += 1
        if rng.random() < 0.3:
            saved = (at, writer.prepare())
        if rng.random() < 0.2:
            writer.abort()
            writer, at = live.open_writer("job"), saved[0]
            writer.recover([c for c in [saved[1]] if c is not None])
    assert dict(tuple(r.values()) for r in table.contents().to_pylist()) == held


def test_memory_of_another_process_is_gone() -> None:
    writer = MemorySink(MemoryTable("m", SCHEMA), live=True).open_writer("job")
    assert writer.prepare() is None
    writer.write(batch([(1, "x")]))
    writer.flush(0)
    committable = writer.prepare()
    with pytest.raises(ConnectorError, match="E3113 m lives in memory"):
        MemorySink(MemoryTable("m", SCHEMA), live=True).open_writer("job").recover([committable])


def test_what_sinks_promise() -> None:
    options = {"path": "x", "format": "json"}
    promised = {
        "filesystem": sink("filesystem", SCHEMA, options).delivery,
        "print": sink("print", SCHEMA, {}).delivery,
        "blackhole": sink("blackhole", SCHEMA, {}).delivery,
        "memory": MemorySink(MemoryTable("m", SCHEMA), live=True).delivery,
    }
    assert promised == {
        "filesystem": "exactly-once",
        "print": "at-least-once",
        "blackhole": "exactly-once",
        "memory": "at-least-once",
    }


def test_the_page_of_guarantees_says_what_sinks_promise(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "connectors" / "README.md").read_text(encoding="utf-8")
    table = page.split("## Guarantees")[1].split("\n## ")[0].split("<!--")[0]
    rows = re.findall(r"^\| (`[^|]*`) \|[^|]*\| ([^|]*) \|", table, re.MULTILINE)
    shown = {name: said for names, said in rows for name in re.findall(r"`([\w-]+)`", names)}
    broker = {"topic": "t", "properties.bootstrap.servers": "b:1"}
    formats = {"key.format": "json", "value.format": "json"}
    once = {"sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "x"}
    assert sink("kafka", SCHEMA, {**broker, "format": "json", **once}).delivery == "exactly-once"
    database = {"url": "postgresql://h/d", "table-name": "t"}
    lake = {"table-path": str(tmp_path / "lake")}
    promised = {
        "postgres": sink("postgres", SCHEMA, database),
        "mysql": sink("mysql", SCHEMA, {**database, "url": "mysql://h/d"}),
        "jdbc": sink("jdbc", SCHEMA, {**database, "url": "jdbc:postgresql://h/d"}),
        "sqlite": sink("sqlite", SCHEMA, {"path": "x.db", "table-name": "t"}),
        "mongodb": sink("mongodb", SCHEMA, {"uri": "mongodb://h", "database": "d", "collection": "c"}),
        "clickhouse": sink("clickhouse", SCHEMA, {"url": "http://h", "table-name": "t"}),
        "redis": sink("redis", SCHEMA, {"url": "redis://h", "stream": "s"}),
        "nats": sink("nats", SCHEMA, {"url": "nats://h", "stream": "s", "subject": "a", "format": "json"}),
        "delta": sink("delta", SCHEMA, lake),
        "iceberg": sink("iceberg", SCHEMA, {"catalog-type": "hadoop", "catalog-name": "c", "warehouse": str(tmp_path)}),
        "filesystem": sink("filesystem", SCHEMA, {"path": "x", "format": "json"}),
        "kafka": sink("kafka", SCHEMA, {**broker, "format": "json"}),
        "upsert-kafka": sink("upsert-kafka", SCHEMA, {**broker, **formats}, primary_key=("a",)),
        "elasticsearch-7": sink("elasticsearch-7", SCHEMA, {"hosts": "http://h", "index": "a"}),
        "opensearch": sink("opensearch", SCHEMA, {"hosts": "http://h", "index": "a"}),
        "rabbitmq": sink("rabbitmq", SCHEMA, {"url": "amqp://h", "queue": "q", "format": "json"}),
        "mqtt": sink("mqtt", SCHEMA, {"url": "mqtt://h", "topic": "t", "format": "json"}),
        "kinesis": sink(
            "kinesis", SCHEMA, {"stream.arn": "arn:aws:kinesis:eu-west-1:123456789012:stream/s", "format": "json"}
        ),
        "http": sink("http", SCHEMA, {"url": "https://h/", "format": "json"}),
        "print": sink("print", SCHEMA, {}),
        "blackhole": sink("blackhole", SCHEMA, {}),
    }
    assert {name: table.delivery.replace("-", " ") for name, table in promised.items()} == {
        name: shown[name] for name in promised
    }
    missing = [n for n in REGISTRY.connectors.names() if REGISTRY.connectors.get(n).sink and n not in promised]
    assert missing == ["memory"], "tell of a new sink's guarantee on the page"


def test_at_least_once_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    table = sink("print", SCHEMA, {})
    writer = table.open_writer("job")
    writer.write(batch([(1, "x")]))
    writer.flush(0)
    assert writer.prepare() is None
    writer.write(batch([(2, "y")]))
    writer.flush(1)
    again = table.open_writer("job")
    again.recover([])
    again.write(batch([(2, "y")]))
    again.flush(1)
    assert capsys.readouterr().out.splitlines() == ["+I[1, x]", "+I[2, y]", "+I[2, y]"]


def test_what_was_prepared_is_gone(tmp_path: Path) -> None:
    table = sink("filesystem", SCHEMA, {"path": str(tmp_path), "format": "json"})
    writer = table.open_writer("job")
    writer.write(batch([(1, "x")]))
    committable = writer.prepare()
    ((hidden, shown),) = committable["files"]
    assert os.listdir(tmp_path) == [hidden]
    writer.publish(committable)
    assert os.listdir(tmp_path) == [shown]
    table.open_writer("job").recover([committable])
    (tmp_path / shown).unlink()
    writer.publish(committable)
    with pytest.raises(ConnectorError, match="E3113 cannot publish") as caught:
        table.open_writer("job").recover([committable])
    assert caught.value.hint is not None


def test_jobs_without_checkpoints_take_back_what_they_cannot_publish_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = sink("filesystem", SCHEMA, {"path": str(tmp_path / "out"), "format": "json"}, partitioned_by=("p",))
    source_ = ValuesExec(schema=SCHEMA, rows=(), mode=APPEND)
    node = SinkExec(
        schema=SCHEMA, mode=APPEND, input=source_, table=table, name="t", not_null=(), not_null_enforcer="ERROR"
    )
    context = OperatorContext("s", Options(), FunctionRegistry(), "UTC", RejectedRows().for_job("j"), "j")
    for broken in range(1, 4):
        operator = SinkOperator(node, context)
        operator.step([batch([(1, "x"), (2, "y"), (3, "z")])], EpochTime(0, 0, 0, 0))
        renames = 0

        def rename(*paths: str, last: int = broken, call: Callable[..., None] = os.rename) -> None:
            nonlocal renames
            renames += 1
            if renames == last:
                raise OSError(errno.ENOSPC, "no space")
            call(*paths)

        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", rename)
            with pytest.raises(ConnectorError, match="E3112"):
                operator.finish()
        operator.abort()
        assert list(tmp_path.iterdir()) == []
    operator = SinkOperator(node, context)
    operator.step([batch([(1, "x")])], EpochTime(0, 0, 0, 0))
    operator.finish()
    operator.finish()
    assert rows_of(source("filesystem", SCHEMA, {"path": str(tmp_path), "format": "json"}, partitioned_by=("p",))) == [
        (1, "x")
    ]
