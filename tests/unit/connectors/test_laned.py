"""Commits that tasks write and carry out, in lanes: `connectors.kit.laned`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connectors.kit.lane_files import LaneFiles, new_run
from connectors.kit.laned import Laned, LanedWriter, in_lanes
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError


def rows(*ids: int) -> pa.RecordBatch:
    keys = pa.array([str(i % 10).encode() for i in ids], pa.large_binary())
    return pa.RecordBatch.from_arrays([pa.array(ids, pa.int64()), keys], names=["id", "key"])


def ids_of(batch: pa.RecordBatch) -> list[int]:
    return batch.column(0).to_pylist()


def test_a_key_is_in_one_lane_and_in_order() -> None:
    given = rows(*range(1000))
    lanes = in_lanes(given, given.column("key"), 4)
    assert sorted(i for lane in lanes for i in ids_of(lane)) == list(range(1000))
    for lane in lanes:
        assert ids_of(lane) == sorted(ids_of(lane))
    of_keys = [set(lane.column("key").to_pylist()) for lane in lanes]
    assert sum(map(len, of_keys)) == 10
    without = in_lanes(given, None, 4)
    assert [lane.num_rows for lane in without] == [250] * 4
    nulls = in_lanes(given, pa.nulls(1000, pa.large_binary()), 4)
    assert [lane.num_rows for lane in nulls] == [250] * 4
    assert in_lanes(rows(), rows().column("key"), 3)[2].num_rows == 0


def test_files_tell_damage(tmp_path: Path) -> None:
    files, run = LaneFiles(str(tmp_path / "x")), new_run()
    assert not files.seen(run)
    files.mark(run)
    assert files.seen(run)
    name = files.put(run, [rows(1, 2), rows(), rows(3)])
    found = [files.read(name, lane) for lane in range(3)]
    assert [None if r is None else ids_of(r) for r in found] == [[1, 2], None, [3]]
    path = tmp_path / "x" / name
    whole = path.read_bytes()
    for at in (0, 50, 150, len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ConnectorError, match="E3113 .* (was|were) changed"):
            for lane in range(3):
                files.read(name, lane)
    path.unlink()
    with pytest.raises(ConnectorError, match="E3113 .* is not in .*see the folder of checkpoints"):
        files.read(name, 0)
    for wrong in ("../secret", f"{run}-0-{'0' * 64}.rows", f"{run}-999-{'0' * 64}.rows"):
        with pytest.raises(ConnectorError, match="E3113 .* no file of rows"):
            files.read(wrong, 0)
        with pytest.raises(ConnectorError, match="E3113"):
            files.delete([wrong])
    files.clear(but=[f"{run}.here"])
    assert files.seen(run)


class Broken(Exception):
    """The machine is gone."""


class System:
    """Takes lanes and commits; breaks where it is told to."""

    def __init__(self, folder: str) -> None:
        self.files = LaneFiles(folder)
        self.number = 0
        self.lanes: dict[int, list[int]] = {}
        self.marks: dict[int, tuple[int, tuple[str, ...]]] = {}
        self.alone: list[int] = []
        self.steps = 0
        self.breaks_at = -1

    def last(self) -> int:
        return self.number

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.breaks_at:
            raise Broken

    def commit(self, number: int, batches: Laned) -> None:
        for lane in range(batches.lanes):
            self.step()
            if self.marks.get(lane) != (number, batches.files):
                found = [self.files.read(name, lane) for name in batches.files]
                self.lanes.setdefault(lane, []).extend(i for r in found if r is not None for i in ids_of(r))
                self.marks[lane] = number, batches.files
        self.step()
        self.alone += [i for b in batches.batches for i in ids_of(b.rows)]
        self.number = number

    def close(self) -> None: ...


class Puts:
    """As a task writes."""

    def __init__(self, writer: LanedWriter) -> None:
        self.writer = writer

    def put(self, given: pa.RecordBatch) -> str:
        assert self.writer.files is not None
        return self.writer.files.put(self.writer.run, in_lanes(given, given.column("key"), 3))

    def write(self, batch: ChangelogBatch) -> str:
        return self.put(batch.rows)


def writing(system: System) -> tuple[LanedWriter, Puts]:
    writer = LanedWriter("t", ["id", "key"], system, folder=system.files.folder)
    puts = Puts(writer)
    writer.staged_by(puts)
    return writer, puts


def in_order(system: System) -> bool:
    """Whether the rows of each key are in order."""
    per_key: dict[int, list[int]] = {}
    for found in system.lanes.values():
        for i in found:
            per_key.setdefault(i % 10, []).append(i)
    return all(found == sorted(found) for found in per_key.values())


def test_what_the_driver_writes_in_between_stays_there(tmp_path: Path) -> None:
    system = System(str(tmp_path / "x"))
    writer, task = writing(system)
    writer.write(ChangelogBatch(rows(1, 2, 3)))
    first = json.loads(json.dumps(writer.prepare()))
    writer.publish(first)
    assert system.alone == [1, 2, 3] and not system.lanes, "few rows are one transaction"
    writer.write(ChangelogBatch(rows(*range(10, 20))))
    writer.adopt(task.write(ChangelogBatch(rows(*range(20, 200)))))
    writer.write(ChangelogBatch(rows(*range(200, 210))))
    task.write(ChangelogBatch(rows(999)))  # of an attempt that nobody heard of
    second = json.loads(json.dumps(writer.prepare()))
    writer.publish(second)
    assert sorted(i for found in system.lanes.values() for i in found) == list(range(10, 210))
    assert in_order(system) and system.alone == [1, 2, 3]
    again, _ = writing(system)
    again.recover([first, second])
    assert [name for name in (p.name for p in (tmp_path / "x").iterdir()) if name.endswith(".rows")] == []
    again.close()
    writer.close()
    assert list((tmp_path / "x").iterdir()) == []


def test_files_that_nobody_finds_are_told(tmp_path: Path) -> None:
    system = System(str(tmp_path / "x"))
    writer, task = writing(system)
    writer.adopt(task.write(ChangelogBatch(rows(*range(20)))))
    named = json.loads(json.dumps(writer.prepare()))
    for folder, message in (("", "names rows in files of its folder"), (str(tmp_path / "y"), "is not in")):
        system.files = LaneFiles(folder or str(tmp_path))
        other = LanedWriter("t", ["id", "key"], system, folder=folder)
        with pytest.raises(ConnectorError, match=f"E3113 .*{message}"):
            other.recover([named])
    assert system.number == 0


def runs(system: System, named: list[Any], given: Sequence[Sequence[int]]) -> Iterator[None]:
    """A run from its newest checkpoint on, an epoch after another."""
    writer, task = writing(system)
    writer.recover(named[-1:])
    for number in range(len(named), len(given)):
        ids = given[number]
        if number % 3:
            writer.adopt(task.write(ChangelogBatch(rows(*ids))))
        else:
            writer.write(ChangelogBatch(rows(*ids)))
        named.append(json.loads(json.dumps(writer.prepare())))
        writer.publish(named[-1])
        yield
    writer.close()


def test_each_row_is_there_once_wherever_it_breaks(tmp_path: Path) -> None:
    given = [list(range(n * 40, n * 40 + 40)) for n in range(5)]

    def whole(folder: Path, breaks: Callable[[System], None]) -> System:
        system = System(str(folder))
        breaks(system)
        named: list[Any] = []
        while len(named) < len(given) or system.number < len(given):
            try:
                for _ in runs(system, named, given):
                    pass
            except Broken:
                continue
        return system

    steps = whole(tmp_path / "whole", lambda system: None).steps
    for at in range(1, steps + 1):
        system = whole(tmp_path / str(at), lambda system, at=at: setattr(system, "breaks_at", at))
        found = [*system.alone, *(i for lane in system.lanes.values() for i in lane)]
        assert sorted(found) == list(range(200)), at
        assert in_order(system)
