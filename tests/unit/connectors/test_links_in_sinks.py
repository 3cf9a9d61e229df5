"""A sink writes into folders of its own: a link in the place of a partition, or of its mark, is refused, and what it leads to
stays as it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from connector_tables import end, sink
from test_overwrite import SCHEMA, add, overwriting, rows, visible

from connectors.filesystem.sink import FileWriter
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING

MARKED = {"sink.partition-commit.policy.kind": "success-file"}


def partitioned(folder: Path, **options: str) -> Any:
    return sink("filesystem", SCHEMA, {"path": str(folder), "format": "csv", **options}, partitioned_by=("day",))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of somebody else, to which a partition of `tmp_path/t` leads."""
    (tmp_path / "t").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.csv").write_text("mine\n")
    (tmp_path / "t" / "day=mon").symlink_to(tmp_path / "mine")
    return tmp_path / "mine"


def check_refused(error: ConnectorError, outside: Path, code: str = "E3110") -> None:
    assert error.code == code and str(outside) in str(error) and error.hint
    assert [path.name for path in outside.iterdir()] == ["notes.csv"]
    assert (outside / "notes.csv").read_text() == "mine\n"


def test_rows_of_a_partition(tmp_path: Path, outside: Path) -> None:
    writer = partitioned(tmp_path / "t").open_writer("job")
    writer.write(rows((1, "tue")))
    with pytest.raises(ConnectorError) as caught:
        writer.write(rows((2, "mon")))
    writer.abort()
    writer.close()
    check_refused(caught.value, outside)


@pytest.mark.parametrize("target", ["nowhere", "t", "loop"])
def test_wherever_the_link_leads(tmp_path: Path, target: str) -> None:
    (tmp_path / "t").mkdir()
    link = tmp_path / "t" / "day=mon"
    link.symlink_to(link if target == "loop" else tmp_path / target)
    writer = partitioned(tmp_path / "t").open_writer("job")
    with pytest.raises(ConnectorError, match="is a link") as caught:
        writer.write(rows((2, "mon")))
    assert caught.value.code == "E3110"
    writer.abort()
    assert not (tmp_path / "nowhere").exists() and [p.name for p in (tmp_path / "t").iterdir()] == ["day=mon"]


def test_a_folder_above_a_partition(tmp_path: Path, outside: Path) -> None:
    schema = Schema.of(("id", INT), ("day", STRING), ("hour", INT))
    table = sink("filesystem", schema, {"path": str(tmp_path / "t"), "format": "csv"}, partitioned_by=("day", "hour"))
    values = [pa.array([1], pa.int32()), pa.array(["mon"]), pa.array([7], pa.int32())]
    with pytest.raises(ConnectorError) as caught:
        table.open_writer("job").write(ChangelogBatch.of(values, schema))
    check_refused(caught.value, outside)


def test_rows_that_a_task_writes(tmp_path: Path, outside: Path) -> None:
    writer = partitioned(tmp_path / "t").open_writer("job")
    assert isinstance(writer, FileWriter)
    task = writer.task_writer()
    assert task is not None
    with pytest.raises(ConnectorError) as caught:
        task.write(rows((2, "mon")))
    check_refused(caught.value, outside)


@pytest.mark.parametrize("partition", [{}, {"day": "mon"}])
def test_a_partition_that_is_overwritten(tmp_path: Path, outside: Path, partition: dict[str, str]) -> None:
    """With rows, and by its name alone."""
    writer = overwriting(tmp_path / "t", partition=partition)
    with pytest.raises(ConnectorError) as caught:
        if not partition:
            writer.write(rows((2, "mon")))
        writer.complete()
        writer.prepare()
    writer.abort()
    check_refused(caught.value, outside)


@pytest.mark.parametrize("kind", ["link", "nowhere", "fifo"])
def test_the_mark_of_a_partition(tmp_path: Path, kind: str) -> None:
    (tmp_path / "t" / "day=mon").mkdir(parents=True)
    mark = tmp_path / "t" / "day=mon" / "_SUCCESS"
    if kind == "fifo":
        os.mkfifo(mark)
    else:
        mark.symlink_to(tmp_path / "elsewhere")
    if kind == "link":
        (tmp_path / "elsewhere").write_text("mine")
    writer = partitioned(tmp_path / "t", **MARKED).open_writer("job")
    writer.write(rows((2, "mon")))
    writer.advance_time(1, (1 << 63) - 1)
    with pytest.raises(ConnectorError) as caught:
        writer.publish(writer.prepare())
    assert caught.value.code == "E3112" and str(mark) in str(caught.value)
    assert (tmp_path / "elsewhere").exists() == (kind == "link")


def test_the_folder_of_the_table_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "t").symlink_to(tmp_path / "real")
    add(tmp_path / "t", rows((1, "mon")))
    writer = overwriting(tmp_path / "t")
    writer.write(rows((2, "mon")))
    writer.complete()
    end(writer)
    assert visible(tmp_path / "real") == ["day=mon: 2"]
