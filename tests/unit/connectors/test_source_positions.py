"""Where the sources of a job go on: a job that is stopped at random and goes on from its positions reads the same rows
as one that is not; and what is said when it cannot."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from connector_tables import Change, changes_of, read_all, source
from contract_sources import SOURCES

from connectors.filesystem.text_reader import TextFileReader
from connectors.listing import Listing
from connectors.memory.table import MemoryTable
from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import SystemClock, VirtualClock
from runtime.core.errors import ConnectorError, FormatError, PlanningError
from runtime.core.schema import Schema
from runtime.core.types import INT
from runtime.local.rejected import RejectedRows
from runtime.local.source_inputs import SourceContext, SourceInputs
from runtime.plan.nodes import SourceExec
from runtime.spi.source import SourceTable

SCHEMA = Schema.of(("a", INT))


def inputs_of(table: SourceTable, position: Any = None, clock: Any = None, **more: Any) -> SourceInputs:
    node = SourceExec(schema=table.schema, name="t", table=table, mode=table.changelog_mode)
    context = SourceContext("UTC", "t", RejectedRows().for_job("job"))
    return SourceInputs(node, context, clock or SystemClock(), position, **more)


def stored(position: Any) -> Any:
    return json.loads(json.dumps(position))


def numbers(inputs: SourceInputs, rows: int = 1000) -> list[int]:
    batch = inputs.poll(rows).batch
    return [] if batch is None else batch.column(0).to_pylist()


def put(folder: Path, name: str, *rows: int) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("".join(f'{{"a": {n}}}\n' for n in rows))
    return path


def watched(folder: Path) -> SourceTable:
    return source("filesystem", SCHEMA, {"path": str(folder), "format": "json", "source.monitor-interval": "1 s"})


@pytest.mark.parametrize("make", SOURCES, ids=lambda m: m.__name__)
@pytest.mark.parametrize("seed", range(4))
def test_going_on_anywhere_gives_the_same_rows(
    make: Callable[[Path], SourceTable], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    block = rng.choice([16, 64, 200, 4 << 20])
    monkeypatch.setattr(TextFileReader.__init__, "__defaults__", (block,))
    table = make(tmp_path)
    whole = read_all(table)
    with ThreadPoolExecutor(1) as worker:
        for _ in range(6):
            found: list[Change] = []
            inputs = inputs_of(table)
            saved: tuple[Any, int] = (stored(inputs.position()), 0)
            restarts = 0
            while not inputs.finished:
                given = inputs.poll(rng.choice([0, 1, 1, 2, 3, 7, 50]))
                found += [] if given.batch is None else changes_of(given.batch)
                if rng.random() < 0.3:
                    inputs.read_ahead(rng.randrange(1, 9), worker)
                if rng.random() < 0.4:
                    saved = (stored(inputs.position()), len(found))
                if rng.random() < 0.3 and restarts < 12:
                    restarts += 1
                    inputs.close()
                    found = found[: saved[1]]
                    inputs = inputs_of(table, saved[0])
            inputs.close()
            assert found == whole
            assert inputs_of(table, stored(inputs.position())).finished


@pytest.mark.parametrize("make", SOURCES, ids=lambda m: m.__name__)
def test_a_position_is_of_what_was_returned_not_of_what_was_read_ahead(
    make: Callable[[Path], SourceTable], tmp_path: Path
) -> None:
    table = make(tmp_path)
    plain, ahead = inputs_of(table), inputs_of(table)
    with ThreadPoolExecutor(1) as worker:
        while not plain.finished:
            plain.poll(3)
            ahead.poll(3)
            ahead.read_ahead(3, worker)
            worker.submit(lambda: None).result()
            if "datagen" not in make.__name__:
                assert ahead.position() == plain.position()
    ahead.close()


def test_files_that_come_while_a_job_is_stopped_are_read(tmp_path: Path) -> None:
    for name in ("b", "c", "d"):
        put(tmp_path, name, ord(name), ord(name) + 100)
    first = inputs_of(watched(tmp_path))
    assert numbers(first, 3) == [98, 198, 99]
    position = stored(first.position())
    put(tmp_path, "a", 97)
    put(tmp_path, "e", 101)
    assert numbers(inputs_of(watched(tmp_path), position)) == [199, 100, 200, 97, 101]


def test_a_split_that_is_gone(tmp_path: Path) -> None:
    paths = [put(tmp_path, name, 1, 2) for name in "abc"]
    inputs = inputs_of(watched(tmp_path))
    inputs.poll(3)
    position = stored(inputs.position())
    paths[0].unlink()
    inputs_of(watched(tmp_path), position)
    for gone in (1, 2):
        paths[gone].rename(tmp_path / ".elsewhere")
        with pytest.raises(ConnectorError, match=f"E3107 t has no .*{'abc'[gone]} any more") as caught:
            inputs_of(watched(tmp_path), position)
        assert caught.value.hint is not None
        (tmp_path / ".elsewhere").rename(paths[gone])


@pytest.mark.parametrize("format_", ["json", "parquet"])
def test_a_file_that_has_changed(format_: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    rows = pa.table({"a": pa.array(range(9), pa.int32())})

    def write(count: int, later: int = 0) -> None:
        if format_ == "parquet":
            pq.write_table(rows.slice(0, count), path, row_group_size=2)
        else:
            path.write_text("".join(f'{{"a": {n}}}\n' for n in range(count)))
        os.utime(path, ns=(0, 1_700_000_000_000_000_000 + later))

    write(8)
    table = source("filesystem", SCHEMA, {"path": str(path), "format": format_})
    inputs = inputs_of(table)
    assert numbers(inputs, 3) == [0, 1, 2]
    position = stored(inputs.position())
    for count, later, said in ((7, 0, "shorter"), (9, 0, "longer"), (8, 1, "has been written since")):
        write(count, later)
        with pytest.raises(ConnectorError, match=f"E3105.*{said}"):
            inputs_of(source("filesystem", SCHEMA, {"path": str(path), "format": format_}), position)
    write(8)
    assert numbers(inputs_of(table, position)) == [3, 4, 5, 6, 7]


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextFileReader.__init__, "__defaults__", (1 << 14,))
    path = put(tmp_path, "x", *range(20_000))
    inputs = inputs_of(watched(tmp_path))
    assert numbers(inputs, 2) == [0, 1]
    os.truncate(path, 1 << 14)
    given = inputs.poll(100_000)
    assert given.refused is not None
    assert [r.reason for r in given.refused.rows] == ["a file that cannot be read, or not from there on (E3105)"]
    assert "shorter while it was read" in given.refused.rows[0].raw


def test_rejected_records_after_a_restart_are_those_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block is the same whoever reads it, so that nothing malformed is passed over as if it had been seen."""
    rng = random.Random(5)
    monkeypatch.setattr(TextFileReader.__init__, "__defaults__", (64,))
    lines = [f'{{"a": {n}}}' + " " * rng.randrange(30) for n in range(60)]
    for bad in (20, 41):
        lines[bad] = "bad" + " " * 20
    (tmp_path / "x").write_text("\n".join(lines))
    table = source("filesystem", SCHEMA, {"path": str(tmp_path), "format": "json"})
    inputs = inputs_of(table)
    while True:
        position = stored(inputs.position())
        resumed = inputs_of(table, position)
        with pytest.raises(FormatError, match="x:21: not JSON"):
            resumed.poll(1000)
        try:
            inputs.poll(1)
        except FormatError:
            break


def test_thousands_of_finished_files_are_named_shortly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(Listing.__init__, "__defaults__", (lambda: now,))
    count = 3000
    for n in range(count):
        put(tmp_path, f"part-{n:06d}-of-a-long-name.jsonl", n)
    inputs = inputs_of(watched(tmp_path))
    assert numbers(inputs, 2500) == list(range(2500))
    position = stored(inputs.position())
    assert len(json.dumps(position)) < 70_000 < 200_000 < sum(len(str(p)) for p in tmp_path.iterdir())
    resumed = inputs_of(watched(tmp_path), position)
    assert resumed.position() == position
    now = 2.0
    put(tmp_path, "a", -1)
    assert numbers(resumed, 5000) + numbers(resumed) == [*range(2500, count), -1]
    packs = stored(resumed.position())["finished"]["packs"]
    assert packs[:9] == position["finished"]["packs"]


def test_tables_in_memory_are_read_from_their_start_or_not_at_all() -> None:
    table = MemoryTable("m", SCHEMA)
    table.apply(ChangelogBatch.of([pa.array([1, 2], pa.int32())], SCHEMA, None))
    table.publish()
    for made in (table, table.snapshot()):
        inputs = inputs_of(made)
        begin = stored(inputs.position())
        assert numbers(inputs_of(made, begin)) == [1, 2]
        assert numbers(inputs, 1)[0] == 1
        with pytest.raises(PlanningError, match=r"E1711 m lives in memory"):
            inputs_of(made, stored(inputs.position()))


def test_slowed_sources_follow_the_clock() -> None:
    table = source("nexmark", Schema.of(("event_type", INT)), {"events.num": "1000"})
    clock = VirtualClock(5_000)
    inputs = inputs_of(table, clock=clock, rows_per_second=100)
    taken = 0
    for now, rows in ((5_000, 0), (5_009, 0), (5_010, 1), (5_025, 1), (6_000, 98), (6_000, 0), (9_000, 250)):
        clock.advance_to(now)
        given = inputs.poll(250)
        taken += rows
        assert (0 if given.batch is None else len(given.batch)) == rows
    assert not inputs.wants_read_ahead
    resumed = inputs_of(table, stored(inputs.position()), clock, rows_per_second=100)
    assert resumed.poll(250).batch is None
    clock.advance_to(20_000)
    assert len(numbers(resumed)) == 1000 - taken
    assert resumed.finished


def test_what_statements_change_is_never_slowed() -> None:
    table = MemoryTable("m", SCHEMA)
    table.apply(ChangelogBatch.of([pa.array([1, 2], pa.int32())], SCHEMA, None))
    table.publish()
    assert numbers(inputs_of(table, clock=VirtualClock(), rows_per_second=1)) == [1, 2]
