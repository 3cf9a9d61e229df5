"""Tasks write and read the state of checkpoints; the driver names files. On a simulated cluster."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runtime.checkpoint.away import UnreadTask
from runtime.core.key_group import key_group, key_group_range, key_groups, tasks_with_keys_of
from runtime.local.checkpoints import Checkpoints
from runtime.local.job import Job
from runtime.spark.simulated import SimulatedCluster
from runtime.tasks import saving, task
from runtime.tasks.kept import Kept
from sqlengine.api.environment import TableEnvironment
from tests.spark.test_simulated import INSERTS, TABLES, published, run


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("whole")
    run(folder, None)
    return {table: published(folder, table) for table in ("joined", "counted", "totals")}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each checkpoint is there before the next epoch."""
    after = Checkpoints.after_epoch

    def settled(self: Checkpoints, job: Any) -> None:
        after(self, job)
        if self.in_progress:
            self._settle(job)

    monkeypatch.setattr(Checkpoints, "after_epoch", settled)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often the driver reads state: figures of one row, and anything else."""
    reads: Counter[str] = Counter()
    kept, saved = Kept.read, UnreadTask.__getitem__

    def read(self: Kept, *given: Any) -> Any:
        reads["files"] += 1
        return kept(self, *given)

    def get(self: UnreadTask, name: str) -> pa.RecordBatch:
        rows = saved(self, name)
        reads["figures" if rows.num_rows <= 1 and rows.num_columns == 2 else "rows"] += 1
        return rows

    monkeypatch.setattr(Kept, "read", read)
    monkeypatch.setattr(UnreadTask, "__getitem__", get)
    yield reads


@pytest.mark.parametrize(("seed", "retained"), [(0, "1"), (1, "2")])
def test_the_driver_reads_no_state(
    tmp_path: Path, expected: dict[str, list[str]], driver: Counter[str], seed: int, retained: str
) -> None:
    options: dict[str, Any] = {"execution.checkpointing.num-retained": retained}
    if seed:
        key = tmp_path / "key"
        key.write_text("ab" * 32)
        key.chmod(0o600)
        options["execution.checkpointing.key-file"] = str(key)
    run(tmp_path, SimulatedCluster(seed), until=5, **options, **{"parallelism.default": 3})
    run(tmp_path, SimulatedCluster(seed), until=9, **options, **{"parallelism.default": 5})
    job = run(tmp_path, SimulatedCluster(seed), **options, **{"parallelism.default": 5})
    assert job is not None and job.restored is not None
    assert set(driver) <= {"figures"}, driver
    assert {table: published(tmp_path, table) for table in expected} == expected
    # What attempts have left that did not count is gone with the checkpoints.
    folders = {p.parent for p in (tmp_path / "state").rglob("state-*")}
    named = {p for f in folders if (f / "manifest.json").exists() for p in named_by(f)}
    assert {p for f in folders for p in f.glob("state-*")} == named


def named_by(folder: Path) -> set[Path]:
    files = json.loads((folder / "manifest.json").read_text())["files"]
    return {(folder / name).resolve() for name, _ in files}


def read_by(folder: Path) -> set[Path]:
    """Not the copies."""
    manifest = json.loads((folder / "manifest.json").read_text())
    found: set[Path] = set()

    def look(value: Any) -> None:
        if isinstance(value, list) and len(value) == 5 and all(isinstance(n, int) for n in value):
            found.add((folder / manifest["files"][value[0]][0]).resolve())
        elif isinstance(value, list | dict):
            for entry in value.values() if isinstance(value, dict) else value:
                look(entry)

    look(manifest["operators"])
    return found


def newest(folder: Path) -> Path:
    found = (folder / "state").rglob("manifest.json")
    return max((p.parent for p in found), key=lambda p: int(p.name.rpartition("-")[2]))


@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_a_checkpoint_with_a_damaged_file_is_not_gone_on_from(
    tmp_path: Path, expected: dict[str, list[str]], how: str
) -> None:
    options: dict[str, Any] = {"execution.checkpointing.num-retained": "2", "parallelism.default": 2}
    run(tmp_path, SimulatedCluster(None), until=6, **options)
    checkpoint = newest(tmp_path)
    file = max(read_by(checkpoint), key=lambda p: p.stat().st_size)
    if how == "gone":
        file.unlink()
    else:
        data = file.read_bytes()
        file.write_bytes(data[:-9] + bytes(8) + data[-1:])
    job = run(tmp_path, SimulatedCluster(None), **options)
    assert job is not None and job.restored is not None
    assert job.restored.id < int(checkpoint.name.rpartition("-")[2])
    assert {table: published(tmp_path, table) for table in expected} == expected


def test_where_tasks_do_not_see_the_place_the_driver_reads_and_writes(
    tmp_path: Path,
    expected: dict[str, list[str]],
    driver: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A folder of this machine, while tasks run on others; they see it at times."""
    run(tmp_path, SimulatedCluster(1), until=3, **{"parallelism.default": 3})
    assert not driver["files"]
    monkeypatch.setattr(saving, "storage_at", lambda place, folder: Elsewhere())
    monkeypatch.setattr(task, "is_there", lambda place, file: False)
    run(tmp_path, SimulatedCluster(1), until=6, **{"parallelism.default": 2})
    assert driver["files"] and driver["rows"] and "the driver reads it" in caplog.text
    monkeypatch.undo()
    run(tmp_path, SimulatedCluster(1), **{"parallelism.default": 4})
    assert {table: published(tmp_path, table) for table in expected} == expected


class Elsewhere:
    """A place of the same name on another machine."""

    def read(self, path: str, offset: int, length: int) -> pa.Buffer:
        raise FileNotFoundError(path)


def test_a_savepoint_is_written_by_tasks(tmp_path: Path, expected: dict[str, list[str]], driver: Counter[str]) -> None:
    run(tmp_path, SimulatedCluster(4), until=5, **{"parallelism.default": 3})
    config = {"execution.target": "spark", "execution.checkpointing.dir": str(tmp_path / "state")}
    with TableEnvironment.create({**config, "parallelism.default": "3", "sqlengine.epoch.max-rows": "100"}) as t_env:
        t_env.session.target.cluster = SimulatedCluster(4)
        t_env.execute_script(TABLES.format(out=tmp_path))
        made: list[Any] = []

        def on_epoch(job: Job) -> None:
            made.append(job.dataflow.epoch)
            if len(made) == 2:
                job.savepoint(str(tmp_path / "saved"), stop=True)

        def on_job(job: Job) -> None:
            job.on_epoch = on_epoch

        t_env.session.on_job = on_job
        t_env.execute_sql(INSERTS)
    assert set(driver) <= {"figures"}, driver
    (tmp_path / "state").rename(tmp_path / "before")
    run(tmp_path, None, **{"execution.state-recovery.path": str(tmp_path / "saved")})
    assert {table: published(tmp_path, table) for table in expected} == expected


@pytest.mark.parametrize("before", [1, 3, 16, 128, 150, 1024])
@pytest.mark.parametrize("after", [1, 2, 5, 128, 300, 1024])
def test_a_task_reads_what_may_hold_its_keys(before: int, after: int) -> None:
    hashes = np.random.default_rng(before).integers(0, 1 << 63, 20_000, np.uint64)

    def owners(tasks: int) -> np.ndarray:
        starts = [key_group_range(task, tasks).start for task in range(tasks)]
        return np.searchsorted(starts, key_group(hashes, key_groups(tasks)), side="right") - 1

    there, here = owners(before), owners(after)
    count = 0
    for mine in range(after):
        found = tasks_with_keys_of(key_group_range(mine, after), before)
        assert found == sorted(set(found)) and set(there[here == mine].tolist()) <= set(found)
        count += len(found)
    assert count <= 4 * max(before, after) + 2 * min(before, after)
