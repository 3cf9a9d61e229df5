"""What stands behind `spark.readStream.format("sqlengine")`, without Spark: queries whose epochs go into a log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from runtime.checkpoint.object_storage import ObjectStorage
from runtime.checkpoint.storage import below
from runtime.core.errors import ConnectorError, OptionError, UnsupportedError
from runtime.spark import epoch_log
from runtime.spark.epoch_log import EpochLog
from sqlengine.spark_source import SparkQuery

SCRIPT = """CREATE TABLE t (k INT, v BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1000', 'seed' = '1',
'fields.k.min' = '0', 'fields.k.max' = '9', 'fields.v.kind' = 'sequence', 'fields.v.start' = '1', 'fields.v.end' = '1000')"""
QUERY = "SELECT k, COUNT(*) AS n, MAX(v) AS v FROM t GROUP BY k"


def options(folder: Path, **more: str) -> dict[str, str]:
    return {"query": QUERY, "script": SCRIPT, "checkpoint": str(folder), "sqlengine.epoch.max-rows": "100", **more}


def folded(log: EpochLog, until: int) -> set[tuple[int, int, int]]:
    """The rows that the changes up to an epoch leave."""
    found: set[tuple[int, int, int]] = set()
    for epoch in log.epochs(0, until):
        for op, *row in zip(*log.read(epoch).to_pydict().values(), strict=True):
            (found.add if op in ("+I", "+U") else found.remove)(tuple(row))
    return found


def test_each_epoch_adds_up_to_the_answer_so_far(tmp_path: Path) -> None:
    query = SparkQuery(options(tmp_path))
    following = query.follow()
    following.catch_up()
    log = following.log
    assert log.latest() == 10
    assert all(sum(n for _, n, _ in folded(log, epoch)) == 100 * epoch for epoch in (1, 4, 10))
    whole = pa.Table.from_batches(list(query.rows())).to_pylist()
    assert {(row["k"], row["n"], row["v"]) for row in whole} == folded(log, 10)
    assert {row["op"] for row in whole} == {"+I"}
    following.stop()


def test_what_was_shown_is_never_computed_again(tmp_path: Path) -> None:
    query = SparkQuery(options(tmp_path))
    following = query.follow()
    following.catch_up()
    following.stop()
    name, epochs = following.log.name, following.log.epochs(0, 99)
    before = [following.log.read(epoch) for epoch in epochs]
    following.log.forget(3)
    (Path(following.log.folder) / ".000000000099.arrow").write_bytes(b"of a run that was killed")
    again = query.follow()
    again.catch_up()
    again.check()
    again.stop()
    assert again.log.name == name
    assert again.log.epochs(0, 99) == epochs[3:]
    assert [again.log.read(epoch) for epoch in epochs[3:]] == before[3:]
    with pytest.raises(ConnectorError, match="epoch 2 "):
        again.log.read(2)
    shutil.rmtree(again.log.folder)
    assert EpochLog(again.log.folder).name != name


def test_options(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="'query'"):
        SparkQuery({})
    with pytest.raises(OptionError, match="no option 'querry'") as error:
        SparkQuery({"querry": QUERY})
    assert error.value.hint == 'did you mean "query"?'
    with pytest.raises(UnsupportedError, match="taken back"):
        SparkQuery(options(tmp_path, changelog="false")).follow()
    assert SparkQuery(options(tmp_path)).schema().names == ["op", "k", "n", "v"]


@pytest.mark.parametrize("kind", ["folder", "uri", "objects"])
def test_a_log_on_any_store(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "objects":
        system = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())

        def store(location: str, folder: str) -> ObjectStorage:
            assert (location, folder) == ("s3://bucket/q?region=x", "changes")
            return ObjectStorage(system, f"q/{folder}", location)

        monkeypatch.setattr(epoch_log, "storage_at", store)
    place = {"folder": str(tmp_path), "uri": tmp_path.as_uri(), "objects": "s3a://bucket/q?region=x"}[kind]
    log = EpochLog(below(place, "changes"))
    rows = [pa.RecordBatch.from_pydict({"op": ["+I"], "n": [n]}) for n in range(4)]
    names: dict[int, str] = {}
    for epoch in (1, 2, 4):
        log.stage(epoch, rows[0])
        names[epoch] = log.stage(epoch, rows[epoch - 1])  # After a crash.
    assert log.latest() == 0
    log.show(names[1])
    log.show(names[1])
    log.show(names[2])
    again = EpochLog(below(place, "changes"))
    assert (again.name, again.latest(), again.epochs(0, 9)) == (log.name, 2, [1, 2])
    assert again.read(2).equals(rows[1])
    again.remove_staged()
    with pytest.raises(ConnectorError, match="E3113 the changes of epoch 4 are gone"):
        again.show(names[4])
    again.forget(1)
    again.show(names[1])
    assert (log.forgotten(), log.latest(), log.epochs(0, 9)) == (1, 2, [2])
    with pytest.raises(ConnectorError, match="E3113 the changes of epoch 1 are not in"):
        log.read(1)
    name = log.name
    anew = log.begin_anew()
    assert anew.name != name
    assert (anew.latest(), anew.forgotten()) == (0, 0)
