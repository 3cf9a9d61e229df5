"""Whatever fails while a checkpoint is written, and wherever the process ends: the old state or the new one, entire.

Every operation of the disk, and of an object store, fails in turn.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from runtime.checkpoint import local_storage, table_chain
from runtime.checkpoint.store import CheckpointStore, read_savepoint, write_savepoint
from runtime.core.errors import CheckpointError
from tests.unit.checkpoint.faulty_disk import FaultyDisk, Killed
from tests.unit.checkpoint.job_states import RandomJob, seen
from tests.unit.checkpoint.object_store import MemoryObjects
from tests.unit.checkpoint.test_store import files_below, needed_files

# What a store does when it is no longer used fails as well.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

MODES = ("fails", "full", "broken", "killed", "power")
NEVER = 1 << 40
SLOTS = 12


@pytest.fixture(autouse=True)
def small_pieces_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_chain, "FAN", 2)
    monkeypatch.setattr(table_chain, "_SMALLEST_CLASS", 4)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FaultyDisk]:
    """Puts a disk in the place of the system's; `fails` with an operation that never comes is a healthy one."""

    def use(mode: str = "fails", at: int = NEVER, seed: int = 0) -> FaultyDisk:
        made = FaultyDisk(mode, at, seed)
        monkeypatch.setattr(local_storage, "os", made)
        return made

    return use


def each_operation(run: Callable[[int], int]) -> int:
    """Runs with the fault at operation 0, 1, .. until there are no more; `run`, which always does the same, gives how
    many there were."""
    at = 0
    while at < run(at):
        at += 1
    return at


def check(folder: Path, old: tuple[Any, ...] | None, new: tuple[Any, ...], succeeded: bool | None) -> None:
    """The newest checkpoint is the old state or the new one (which of them, if that is known), nothing is damaged."""
    restored = CheckpointStore(str(folder), "job", 2).latest()
    found = None if restored is None else seen(restored)
    assert found in ([new] if succeeded else [old] if succeeded is False else [old, new])
    assert restored is None or restored.problems == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("before", [0, 4])
def test_a_write_fails_at_each_operation(
    mode: str, before: int, tmp_path: Path, disk: Callable[..., FaultyDisk]
) -> None:
    def run(at: int) -> int:
        folder = tmp_path / str(at)
        disk()
        job = RandomJob(before + 1, SLOTS)
        store = CheckpointStore(str(folder), "job", 2)
        for _ in range(before):
            store.write(job.next())
        old = job.expected() if before else None
        state = job.next()
        new = job.expected()
        faulty = disk(mode, at, at)
        succeeded: bool | None
        try:
            store.write(state)
            succeeded = True
        except CheckpointError as error:
            succeeded = None if error.code == "E3408" else False
        except Killed:
            succeeded = None
        if mode == "power":
            faulty.lose()
        healthy = disk()
        check(folder, old, new, succeeded)
        if mode in ("killed", "power"):
            store = CheckpointStore(str(folder), "job", 2)
        # The job goes on, and what the failure left is cleared away.
        state = job.next(complete=True)
        store.write(state)
        check(folder, None, job.expected(), True)
        assert files_below(folder / "job") == needed_files(folder / "job")
        store.write(job.next())
        check(folder, None, job.expected(), True)
        assert healthy.count
        shutil.rmtree(folder)
        return faulty.count

    assert each_operation(run) >= 12


@pytest.mark.parametrize("mode", MODES)
def test_the_first_write_over_leftovers_fails_at_each_operation(
    mode: str, tmp_path: Path, disk: Callable[..., FaultyDisk]
) -> None:
    """Clearing away what a crash has left must not take what is needed, whenever it is cut short."""

    def run(at: int) -> int:
        folder = tmp_path / str(at)
        disk()
        job = RandomJob(5, SLOTS)
        store = CheckpointStore(str(folder), "job", 3)
        for _ in range(4):
            store.write(job.next())
        old = job.expected()
        disk("killed", 9)
        with pytest.raises(Killed):
            store.write(job.next())
        disk()
        state = job.next(complete=True)
        new = job.expected()
        faulty = disk(mode, at, at)
        store = CheckpointStore(str(folder), "job", 1)
        succeeded: bool | None
        try:
            store.write(state)
            succeeded = True
        except CheckpointError as error:
            succeeded = None if error.code == "E3408" else False
        except Killed:
            succeeded = None
        if mode == "power":
            faulty.lose()
        disk()
        check(folder, old, new, succeeded)
        shutil.rmtree(folder)
        return faulty.count

    assert each_operation(run) >= 20


def test_reading_fails_at_each_operation(tmp_path: Path, disk: Callable[..., FaultyDisk]) -> None:
    """What cannot be read now is no reason to use an older checkpoint: its epochs would be told twice."""
    disk()
    job = RandomJob(3, SLOTS)
    store = CheckpointStore(str(tmp_path), "job", 2)
    for _ in range(6):
        store.write(job.next())

    def run(at: int) -> int:
        faulty = disk("fails", at)
        try:
            restored = CheckpointStore(str(tmp_path), "job").latest()
            assert restored is not None and seen(restored) == job.expected()
        except CheckpointError as error:
            assert error.code == "E3406"
        return faulty.count

    assert each_operation(run) >= 8


@pytest.mark.parametrize("mode", MODES)
def test_clearing_fails_at_each_operation(mode: str, tmp_path: Path, disk: Callable[..., FaultyDisk]) -> None:
    def run(at: int) -> int:
        folder = tmp_path / str(at)
        disk()
        job = RandomJob(7, SLOTS)
        store = CheckpointStore(str(folder), "job", 3)
        for _ in range(4):
            store.write(job.next())
        faulty = disk(mode, at)
        try:
            store.clear()
            succeeded = True
        except (CheckpointError, Killed):
            succeeded = False
        disk()
        left = CheckpointStore(str(folder), "job").latest()
        assert left is None or (not succeeded and seen(left) == job.expected())
        shutil.rmtree(folder)
        return faulty.count

    assert each_operation(run) >= 8


@pytest.mark.parametrize("mode", MODES)
def test_a_savepoint_fails_at_each_operation(mode: str, tmp_path: Path, disk: Callable[..., FaultyDisk]) -> None:
    job = RandomJob(7, SLOTS)
    job.next()

    def run(at: int) -> int:
        path = str(tmp_path / str(at) / "sp")
        faulty = disk(mode, at)
        succeeded = False
        try:
            write_savepoint(path, job.again(), "job")
            succeeded = True
        except (CheckpointError, Killed):
            pass
        disk()
        try:
            assert seen(read_savepoint(path)) == job.expected()
        except CheckpointError as error:
            assert not succeeded and error.code == "E3404"
        return faulty.count

    assert each_operation(run) >= 10


@pytest.mark.parametrize("lasting", [False, True], ids=["one", "all that follow"])
def test_an_object_store_fails_at_each_operation(lasting: bool) -> None:
    def run(at: int) -> int:
        objects = MemoryObjects()
        system = fs.PyFileSystem(objects)
        job = RandomJob(5, SLOTS)
        store = CheckpointStore(system, "job", 2)
        for _ in range(5):
            store.write(job.next())
        old = job.expected()
        state = job.next()
        new = job.expected()
        start = objects.count
        objects.failing = range(start + at, NEVER if lasting else start + at + 1)
        succeeded: bool | None
        try:
            store.write(state)
            succeeded = True
        except CheckpointError as error:
            succeeded = None if error.code == "E3408" else False
        operations = objects.count - start
        objects.failing = None
        restored = CheckpointStore(system, "job").latest()
        assert restored is not None
        assert seen(restored) in ([new] if succeeded else [old] if succeeded is False else [old, new])
        # A part of a manifest may be there, for such a store shows what was not finished; it is told, and not used.
        assert all("checksum" in problem for problem in restored.problems)
        store.write(job.next(complete=True))
        restored = CheckpointStore(system, "job").latest()
        assert restored is not None and seen(restored) == job.expected() and restored.problems == []
        store.write(job.next())
        assert len([path for path in objects.objects if path.endswith("manifest.json")]) == 2
        return operations

    assert each_operation(run) >= 6


def test_a_killed_process_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    """The same with real processes and the real disk: they kill themselves at a random operation."""
    job = RandomJob(11, SLOTS)
    with_children = hasattr(os, "fork")
    if not with_children:
        pytest.skip("needs fork")
    CheckpointStore(str(tmp_path), "job", 2).write(job.next())
    states = [job.expected()]
    prepared = []
    for number in range(6):
        prepared.append(job.next(complete=number == 0))
        states.append(job.expected())
    for at in (0, 7, 15, 24, 40, 61, 90):
        child = os.fork()
        if child == 0:
            _write_until_killed(str(tmp_path), prepared, at)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        restored = CheckpointStore(str(tmp_path), "job").latest()
        assert restored is not None and seen(restored) in states and restored.problems == []


def _write_until_killed(folder: str, states: list[Any], at: int) -> None:
    """Never returns."""
    try:
        local_storage.os = _Killing(at)  # type: ignore[assignment]
        store = CheckpointStore(folder, "job", 2)
        for state in states * 5:
            store.write(state)
    finally:
        os._exit(1)


class _Killing:
    """`os`, in which the process dies at an operation."""

    path = os.path

    def __init__(self, at: int) -> None:
        self._left = at

    def __getattr__(self, name: str) -> Any:
        if name in ("open", "write", "fsync", "rename", "unlink"):
            self._left -= 1
            if self._left < 0:
                os.kill(os.getpid(), 9)
        return getattr(os, name)
