"""INSERT OVERWRITE of files: old rows stay until all new ones are there, whatever goes wrong in between."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from connector_tables import end, sink

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from runtime.spi.abilities import SupportsOverwrite
from runtime.spi.writer import AtomicWriter

SCHEMA = Schema.of(("id", INT), ("day", STRING))


def rows(*pairs: tuple[int, str]) -> ChangelogBatch:
    return ChangelogBatch.of([pa.array([p[0] for p in pairs], pa.int32()), pa.array([p[1] for p in pairs])], SCHEMA)


def table(folder: Path, *, partitioned: bool = True) -> Any:
    by = ("day",) if partitioned else ()
    return sink("filesystem", SCHEMA, {"path": str(folder), "format": "csv"}, partitioned_by=by)


def overwriting(
    folder: Path, job: str = "job", *, partitioned: bool = True, partition: dict[str, str] | None = None
) -> Any:
    made = table(folder, partitioned=partitioned)
    assert isinstance(made, SupportsOverwrite)
    writer = made.with_overwrite(partition or {}).open_writer(job)
    assert isinstance(writer, AtomicWriter)
    return writer


def add(folder: Path, batch: ChangelogBatch, *, partitioned: bool = True) -> None:
    writer = table(folder, partitioned=partitioned).open_writer("before")
    writer.write(batch)
    end(writer)


def visible(folder: Path) -> list[str]:
    """The lines of all files that a reader sees, with their folder."""
    files = [f for f in folder.rglob("*") if f.is_file() and not f.name.startswith(".")]
    return sorted(f"{f.parent.name}: {line}" for f in files for line in f.read_text().splitlines())


def hidden(folder: Path) -> list[Path]:
    return [f for f in folder.rglob(".*") if f.is_file()]


def test_what_a_checkpoint_prepared_is_held_until_all_rows_are_written(tmp_path: Path) -> None:
    add(tmp_path, rows((1, "mon"), (2, "tue")))
    writer = overwriting(tmp_path)
    writer.write(rows((10, "mon")))
    first = json.loads(json.dumps(writer.prepare()))
    writer.publish(first)
    assert visible(tmp_path) == ["day=mon: 1", "day=tue: 2"]
    writer.write(rows((11, "mon"), (30, "wed")))
    writer.complete()
    last = json.loads(json.dumps(writer.prepare()))
    writer.publish(last)
    after = ["day=mon: 10", "day=mon: 11", "day=tue: 2", "day=wed: 30"]
    assert visible(tmp_path) == after and not hidden(tmp_path)
    writer.publish(last)
    assert writer.prepare() is None and visible(tmp_path) == after


def test_a_job_that_goes_on_replaces_with_the_rows_of_both_runs(tmp_path: Path) -> None:
    add(tmp_path, rows((1, "mon")))
    killed = overwriting(tmp_path)
    killed.write(rows((10, "mon")))
    checkpoint = killed.prepare()
    killed.write(rows((99, "mon")))
    killed.prepare()
    again = overwriting(tmp_path)
    again.recover([checkpoint])
    assert visible(tmp_path) == ["day=mon: 1"]
    again.write(rows((11, "mon")))
    again.complete()
    end(again)
    assert visible(tmp_path) == ["day=mon: 10", "day=mon: 11"] and not hidden(tmp_path)


def test_a_job_killed_while_files_change_places_does_it_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path, rows((1, "mon")))
    killed = overwriting(tmp_path)
    killed.write(rows((10, "mon")))
    killed.complete()
    checkpoint = killed.prepare()
    (old,) = checkpoint["replaced"]
    os.rename(tmp_path / old, (tmp_path / old).with_name(".replaced-" + os.path.basename(old)))
    again = overwriting(tmp_path)
    again.recover([checkpoint])
    assert visible(tmp_path) == ["day=mon: 10"] and not hidden(tmp_path)


@pytest.mark.parametrize("failing", range(4))
def test_old_files_come_back_when_files_cannot_change_places(
    failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        add(tmp_path, rows((number, "mon")), partitioned=False)
    writer = overwriting(tmp_path, partitioned=False)
    writer.write(rows((10, "mon")))
    writer.complete()
    committable = writer.prepare()
    rename, calls = os.rename, iter(range(100))

    def broken(*args: Any) -> None:
        if next(calls) == failing:
            raise OSError(errno.EIO, "the disk fails")
        rename(*args)

    monkeypatch.setattr(os, "rename", broken)
    if failing == 3:
        writer.publish(committable)
        assert [line[-6:] for line in visible(tmp_path)] == ["10,mon"]
        return
    with pytest.raises(ConnectorError, match="E3112"):
        writer.publish(committable)
    writer.discard(committable)
    assert [line[-5:] for line in visible(tmp_path)] == ["0,mon", "1,mon"] and not hidden(tmp_path)


def test_a_partition_named_in_full_is_replaced_by_no_rows(tmp_path: Path) -> None:
    add(tmp_path, rows((1, "mon"), (2, "tue")))
    writer = overwriting(tmp_path, partition={"day": "tue"})
    writer.complete()
    end(writer)
    assert visible(tmp_path) == ["day=mon: 1"]


def test_a_job_that_is_stopped_before_its_end_replaces_nothing(tmp_path: Path) -> None:
    add(tmp_path, rows((1, "mon")))
    writer = overwriting(tmp_path)
    writer.write(rows((10, "mon")))
    writer.abort()
    writer.close()
    assert visible(tmp_path) == ["day=mon: 1"] and not hidden(tmp_path)
