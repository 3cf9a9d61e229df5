"""The log of a query's epochs that a stream of Spark reads: what is shown stays, what is not is never seen, and what is
damaged is told by name."""

from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path

import pyarrow as pa
import pytest

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import CheckpointError, ConnectorError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT
from runtime.spark.epoch_log import EpochLog, EpochLogSink, write_part
from runtime.spark.simulated import SimulatedCluster
from runtime.spi.registry import ConnectorFactory
from sqlengine.api.environment import TableEnvironment

SCHEMA = Schema.of(("n", BIGINT))


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"op": ["+I"] * len(numbers), "n": list(numbers)})


def log(tmp_path: Path, *epochs: int) -> EpochLog:
    made = EpochLog(str(tmp_path / "log"))
    for epoch in epochs:
        made.show(made.stage(epoch, rows(epoch, 10 * epoch)))
    return made


def file_of(tmp_path: Path, epoch: int, *, staged: bool = False) -> Path:
    (path,) = (tmp_path / "log").glob(f"{'.' if staged else ''}{epoch:012d}-*.arrow")
    return path


def changes(*numbers: int) -> ChangelogBatch:
    return ChangelogBatch.of([pa.array(numbers, pa.int64())], SCHEMA)


def test_epochs_are_shown_one_by_one(tmp_path: Path) -> None:
    made = log(tmp_path, 1, 2, 5)
    name = made.stage(7, rows(7))
    assert made.latest() == 5 and made.epochs(1, 9) == [2, 5]
    assert made.read(5).to_pylist() == rows(5, 50).to_pylist()
    again = EpochLog(made.folder)
    assert again.name == made.name and again.latest() == 5
    again.show(name)
    again.show(name)
    assert made.latest() == 7


def test_what_is_forgotten_is_gone_and_counts(tmp_path: Path) -> None:
    made = log(tmp_path, 1, 2, 3)
    name = file_of(tmp_path, 2).name
    made.forget(2)
    assert made.epochs(0, 9) == [3] and made.latest() == 3 and made.forgotten() == 2
    made.forget(1)
    assert made.forgotten() == 2
    made.forget(3)
    assert made.latest() == 3
    made.show(name)  # A job that goes on shows again what its checkpoint had prepared.
    assert made.epochs(0, 9) == []
    with pytest.raises(ConnectorError) as caught:
        made.read(2)
    assert caught.value.code == "E3113" and "epoch 2" in str(caught.value)


def test_what_was_prepared_and_is_gone_is_told(tmp_path: Path) -> None:
    made = log(tmp_path, 1)
    name = made.stage(2, rows(2))
    (tmp_path / "log" / f".{name}").unlink()
    with pytest.raises(ConnectorError) as caught:
        made.show(name)
    assert caught.value.code == "E3113"


def test_beginning_anew_gives_another_log(tmp_path: Path) -> None:
    made = log(tmp_path, 1, 2)
    name, other = made.name, made.begin_anew()
    assert other.name != name and other.latest() == 0
    assert [path.name for path in (tmp_path / "log").iterdir() if path.name != ".lock"] == ["log"]


def test_a_job_that_goes_on_publishes_what_it_prepared_and_no_more(tmp_path: Path) -> None:
    sink = EpochLogSink("q", SCHEMA, str(tmp_path / "log"))
    writer = sink.open_writer("job")
    for epoch in range(3):
        writer.write(changes(epoch))
        writer.flush(epoch)
        if epoch == 1:
            prepared = writer.prepare()
    assert len(prepared) == 2 and EpochLog(sink.folder).latest() == 0
    later = sink.open_writer("job")
    later.recover([prepared])
    shown = EpochLog(sink.folder)
    assert [shown.read(n)["n"].to_pylist() for n in shown.epochs(0, 9)] == [[0], [1]]
    assert not list((tmp_path / "log").glob(".*.arrow"))
    later.publish(prepared)
    assert shown.latest() == 2


@pytest.mark.parametrize(
    "prepared",
    [[0], [-1], ["1"], [None], [True], [[1]], ["../../x"], [1.0], ["../000000000001.arrow"], [".000000000001.arrow"]],
)
def test_what_cannot_have_been_prepared_is_refused(tmp_path: Path, prepared: list[object]) -> None:
    made = log(tmp_path, 1)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(ValueError):
        EpochLogSink("q", SCHEMA, made.folder).open_writer("job").recover([prepared])
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


DAMAGES = {
    "a cut": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "empty": lambda path: path.write_bytes(b""),
    "a flipped bit": lambda path: path.write_bytes(path.read_bytes()[:-30] + b"\x15" + path.read_bytes()[-29:]),
    "another epoch": lambda path: path.write_bytes(next(path.parent.glob("000000000001-*")).read_bytes()),
    "a file that does not end": lambda path: os.truncate(path, 1 << 40),
    "no Arrow": lambda path: path.write_bytes(b"x" * 500),
    "twice": lambda path: path.write_bytes(path.read_bytes() * 2),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a loop": lambda path: (path.unlink(), path.symlink_to(path)),
    "a link": lambda path: (path.rename(path.parent.parent / "same"), path.symlink_to(path.parent.parent / "same")),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_epoch_is_told_by_name(tmp_path: Path, kind: str) -> None:
    made = log(tmp_path, 1, 2)
    path = file_of(tmp_path, 2)
    DAMAGES[kind](path)
    with pytest.raises((CheckpointError, ConnectorError)) as caught:
        made.read(2)
    if kind == "a folder":
        assert caught.value.code == "E3113" and "epoch 2" in str(caught.value)
    else:
        assert caught.value.code == "E3402" and path.name in str(caught.value) and caught.value.hint
    assert made.read(1).to_pylist() == rows(1, 10).to_pylist()


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_epoch_is_not_shown(tmp_path: Path, kind: str) -> None:
    made = log(tmp_path, 1)
    name = made.stage(2, rows(2, 20))
    DAMAGES[kind](file_of(tmp_path, 2, staged=True))
    with pytest.raises(CheckpointError) as caught:
        made.show(name)
    assert caught.value.code == "E3402" and name in str(caught.value)
    assert made.latest() == 1 and not (tmp_path / "log" / name).exists()


@pytest.mark.parametrize("content", [b"", b"x", b"1.5", b"-3", b"\xff", b"9" * 100, "٣".encode()])
def test_what_was_forgotten_is_a_number(tmp_path: Path, content: bytes) -> None:
    made = log(tmp_path, 1)
    (tmp_path / "log" / "forgotten").write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        made.latest()
    assert caught.value.code == "E3402" and "forgotten" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"x" * 100])
def test_the_name_of_a_log_is_one(tmp_path: Path, content: bytes) -> None:
    made = log(tmp_path, 1)
    (tmp_path / "log" / "log").write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        _ = made.name
    assert caught.value.code == "E3402"


def test_two_files_of_an_epoch_are_told(tmp_path: Path) -> None:
    made = log(tmp_path, 1)
    made.show(made.stage(1, rows(3)))
    with pytest.raises(CheckpointError, match="two files") as caught:
        made.epochs(0, 9)
    assert caught.value.code == "E3402"


def test_what_an_older_version_wrote_is_read(tmp_path: Path) -> None:
    made = log(tmp_path, 1, 2)
    file_of(tmp_path, 1).rename(tmp_path / "log" / "000000000001.arrow")
    file_of(tmp_path, 2).rename(tmp_path / "log" / ".000000000002.arrow")
    again = EpochLog(made.folder)
    assert again.read(1).to_pylist() == rows(1, 10).to_pylist()
    EpochLogSink("q", SCHEMA, made.folder).open_writer("job").recover([[1, 2]])
    assert again.read(2).to_pylist() == rows(2, 20).to_pylist()


def test_files_of_other_names_are_no_epochs(tmp_path: Path) -> None:
    made = log(tmp_path, 1, 2)
    for name in (
        "3.arrow",
        "1x.arrow",
        "٣.arrow",
        "000000000009-1.arrow",
        "9" * 200 + ".arrow",
        "7.arrow.bak",
        "notes.txt",
    ):
        (tmp_path / "log" / name).write_bytes(b"x")
    assert made.latest() == 2 and made.epochs(0, 1 << 60) == [1, 2]


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_nobody_else_can_read_it(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        made = log(tmp_path, 1)
        made.stage(2, rows(2))
    finally:
        os.umask(before)
    for path in (tmp_path / "log").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_an_epoch_may_be_in_parts_that_tasks_have_written(tmp_path: Path) -> None:
    sink = EpochLogSink("q", SCHEMA, str(tmp_path / "log"))
    writer = sink.open_writer("job")
    away = pickle.loads(pickle.dumps(writer.task_writer()))
    shown = EpochLog(sink.folder)
    writer.write(changes(1))
    writer.adopt(away.write(changes(2, 3)))
    # Of an attempt that does not count.
    away.write(changes(9))
    writer.adopt(away.write(changes(4)))
    writer.write(changes(5))
    writer.flush(0)
    writer.write(changes(6))
    writer.flush(1)
    prepared = writer.prepare()
    assert shown.latest() == 0 and len(list((tmp_path / "log").glob("part-*"))) == 5
    writer.adopt(away.write(changes(7)))
    later = sink.open_writer("job")
    later.recover([prepared])
    assert [shown.read(n)["n"].to_pylist() for n in shown.epochs(0, 9)] == [[1, 2, 3, 4, 5], [6]]
    assert [len(rows) for rows in shown.parts(1)] == [1, 2, 1, 1]
    assert len(list((tmp_path / "log").glob("part-*"))) == 4
    shown.forget(1)
    assert not list((tmp_path / "log").glob("part-*"))
    later.publish(prepared)
    assert shown.latest() == 2
    writer.abort()


@pytest.mark.parametrize("how", ["gone", "cut", "other bytes"])
def test_a_part_that_is_damaged_is_told(tmp_path: Path, how: str) -> None:
    made = log(tmp_path)
    name = made.stage_parts(1, [write_part(made.folder, rows(1)), write_part(made.folder, rows(2))])
    part = max((tmp_path / "log").glob("part-*"))
    data = part.read_bytes()
    if how == "gone":
        part.unlink()
    else:
        part.write_bytes(data[:-1] if how == "cut" else data[:-1] + b"?")
    if how != "other bytes":
        with pytest.raises(ConnectorError, match="epoch 1 are gone"):
            made.show(name)
        return
    made.show(name)
    with pytest.raises(CheckpointError, match=f"{part.name} in .* holds other bytes"):
        made.read(1)


@pytest.mark.parametrize("named", ["../secret", "log", "000000000002-1-" + "0" * 64 + ".arrow", ""])
def test_an_epoch_names_parts_alone(tmp_path: Path, named: str) -> None:
    made = log(tmp_path)
    made_up = made.stage_parts(1, [named])
    with pytest.raises(CheckpointError, match="names other files than parts"):
        made.show(made_up)


def test_tasks_write_parts_of_a_job(tmp_path: Path) -> None:
    """Of changes, too: all of a row are in the parts of one task, in order."""
    options = {"execution.target": "spark", "parallelism.default": "3", "sqlengine.epoch.max-rows": "300"}
    options["sqlengine.spark.write-in-tasks.min-rows"] = "5"
    with TableEnvironment.create(options) as t_env:
        t_env.session.target.cluster = SimulatedCluster(2)
        factory = ConnectorFactory(
            name="log", document="a test", sink=lambda r: EpochLogSink(r.name, r.schema, str(tmp_path / "log"))
        )
        t_env.session.registry.connectors.add(factory)
        t_env.execute_script(
            """CREATE TABLE t (k INT, v BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1500', 'seed' = '1',
              'fields.k.min' = '0', 'fields.k.max' = '90', 'fields.v.kind' = 'sequence', 'fields.v.start' = '1', 'fields.v.end' = '1500');
            CREATE TABLE told (k INT, n BIGINT, v BIGINT) WITH ('connector' = 'log')"""
        )
        query = "SELECT k, COUNT(*) AS n, MAX(v) AS v FROM t GROUP BY k"
        t_env.execute_sql(f"INSERT INTO told {query}").wait()
        wanted = {tuple(row.values()) for row in t_env.execute_sql(query).folded().to_pylist()}
    made = EpochLog(str(tmp_path / "log"))
    found: dict[int, tuple[int, int]] = {}
    parts = 0
    for epoch in made.epochs(0, 99):
        parts += sum(1 for _ in made.parts(epoch))
        for op, k, n, v in zip(*made.read(epoch).to_pydict().values(), strict=True):
            if op in ("+I", "+U"):
                found[k] = n, v
            else:
                assert found.pop(k) == (n, v)
    assert parts > len(made.epochs(0, 99)) and {(k, *row) for k, row in found.items()} == wanted
