"""The log of a database: what was settled is read again, an epoch is there whole or not at all, damage is told."""

from __future__ import annotations

import os
import random
import struct
import threading
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from runtime.checkpoint.keys import NO_KEYS, Keys
from runtime.checkpoint.local_storage import LocalStorage, _LocalFile
from runtime.checkpoint.storage import Damage
from runtime.core.errors import DatabaseError
from sqlengine.database.folder.log import Log, read_log
from sqlengine.database.folder.log_end import LogEnd
from sqlengine.database.folder.log_files import log_files
from tests.faults.disk import Disk, Killed, fault_from

KEY = Keys((b"k" * 16,), unsigned=False)


def opened(folder: Path, synchronous: str = "full", keys: Keys = NO_KEYS, after: int = 0) -> tuple[Log, list[bytes]]:
    """The log of a folder, and the epochs that it had."""
    storage = LocalStorage(str(folder))
    end = LogEnd(after)
    found = [b"|".join(b.to_pybytes() for b in e.bodies) for e in read_log(storage, "db", after, keys, end)]
    return Log(storage, "db", 1, keys, synchronous, end), found


def read(folder: Path, keys: Keys = NO_KEYS, after: int = 0) -> list[bytes]:
    storage = LocalStorage(str(folder))
    return [b"|".join(b.to_pybytes() for b in e.bodies) for e in read_log(storage, "db", after, keys, LogEnd(after))]


@pytest.mark.parametrize("keys", [NO_KEYS, KEY], ids=["no key", "key"])
def test_epochs_are_read_again(tmp_path: Path, keys: Keys) -> None:
    log, _ = opened(tmp_path, keys=keys)
    log.append([[b"a", b"b"]])
    log.append([[b"c"], [b"d"]])
    log.settle()
    assert log.begin_file() == 3
    log.settle(log.append([[b"e"]]))
    log.close()
    again, found = opened(tmp_path, keys=keys)
    assert found == [b"ab", b"c|d", b"e"]
    again.settle(again.append([[b"f"]]))
    again.close()
    assert read(tmp_path, keys) == [b"ab", b"c|d", b"e", b"f"]
    assert read(tmp_path, keys, after=2) == [b"e", b"f"]
    assert [first for first, _ in log_files(LocalStorage(str(tmp_path)))] == [1, 3]
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.rglob("*"))


def test_a_log_cut_at_any_byte_has_whole_epochs_and_goes_on(tmp_path: Path) -> None:
    log, _ = opened(tmp_path / "whole")
    ends = []
    for number in range(4):
        log.append([[b"x" * number], [b"y"]])
        log.settle()
        ends.append(log.written)
    log.close()
    ((_, path),) = log_files(LocalStorage(str(tmp_path / "whole")))
    whole = (tmp_path / "whole" / path).read_bytes()
    opening = len(whole) - ends[-1] if ends[-1] < len(whole) else 0
    for size in range(len(whole) + 1):
        folder = tmp_path / str(size)
        (folder / "log").mkdir(parents=True)
        (folder / path).write_bytes(whole[:size])
        log, found = opened(folder)
        assert len(found) == sum(opening + end <= size for end in ends)
        assert found == [b"x" * number + b"|y" for number in range(len(found))]
        log.settle(log.append([[b"new"]]))
        log.close()
        assert read(folder) == [*found, b"new"]


def test_other_bytes_in_the_middle_are_told(tmp_path: Path) -> None:
    log, _ = opened(tmp_path)
    for number in range(3):
        log.settle(log.append([[b"%d" % number * 50]]))
    log.close()
    ((_, path),) = log_files(LocalStorage(str(tmp_path)))
    whole = (tmp_path / path).read_bytes()
    last = whole.rindex(b"SQLf")
    for at in range(last):
        (tmp_path / path).write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        with pytest.raises(Damage):
            read(tmp_path)


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    log, _ = opened(tmp_path)
    for number in range(3):
        log.append([[b"%d" % number]])
        log.begin_file()
    log.close()
    (tmp_path / log_files(LocalStorage(str(tmp_path)))[1][1]).unlink()
    with pytest.raises(Damage, match="missing from the log|epoch 3 follows epoch 1"):
        read(tmp_path)
    assert read(tmp_path, after=2) == [b"2"]


def test_frames_of_another_key_or_database_are_refused(tmp_path: Path) -> None:
    log, _ = opened(tmp_path, keys=KEY)
    log.settle(log.append([[b"a"]]))
    log.close()
    with pytest.raises(Damage, match="not written with a key"):
        read(tmp_path, Keys((b"o" * 16,), unsigned=False))
    with pytest.raises(Damage, match="another database"):
        list(read_log(LocalStorage(str(tmp_path)), "other", 0, NO_KEYS, LogEnd(0)))


def test_a_process_that_lost_the_database_is_found_out(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    new = Log(storage, "db", 2, NO_KEYS, "full", LogEnd(0))
    new.append([[b"a"]])
    new.close()
    end = LogEnd(0)
    list(read_log(storage, "db", 0, NO_KEYS, end))
    old = Log(storage, "db", 1, NO_KEYS, "full", end)
    old.append([[b"b"]])
    old.close()
    with pytest.raises(Damage, match="no longer owned"):
        read(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlengine.database.folder.log.FORMAT", 99)
    log, _ = opened(tmp_path)
    log.close()
    monkeypatch.undo()
    with pytest.raises(DatabaseError, match="newer version") as error:
        read(tmp_path)
    assert error.value.code == "E3703"


@pytest.mark.parametrize("synchronous", ["full", "normal", "off"])
def test_many_threads_wait_for_few_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synchronous: str) -> None:
    log, _ = opened(tmp_path, synchronous)
    gate = threading.Barrier(8)
    syncs: list[int] = []
    sync = _LocalFile.sync

    def counted(file: _LocalFile) -> None:
        syncs.append(1)
        sync(file)

    monkeypatch.setattr(_LocalFile, "sync", counted)
    tickets: list[int] = []

    def write(number: int) -> None:
        for _ in range(25):
            gate.wait()
            tickets.append(log.append([[b"%d" % number]]))
            gate.wait()  # All have appended before the first one syncs.
            log.settle(tickets[-1])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert sorted(tickets) == list(range(1, 201))
    assert sorted(read(tmp_path)) == sorted(b"%d" % n for n in range(8) for _ in range(25))
    assert len(syncs) == 0 if synchronous != "full" else 25 <= len(syncs) <= 50


def test_a_log_that_could_not_be_written_takes_no_more(tmp_path: Path) -> None:
    os.makedirs(tmp_path / "db")
    failing = False
    disk = Disk(lambda number, kind, path: 28 * (failing and kind == "fsync"))
    with disk.installed():
        log, _ = opened(tmp_path / "db")
        log.settle(log.append([[b"a"]]))
        failing = True
        ticket = log.append([[b"b"]])
        with pytest.raises(DatabaseError, match="No space left") as error:
            log.settle(ticket)
        assert error.value.code == "E3704"
        failing = False
        for attempt in (lambda: log.append([[b"c"]]), lambda: log.settle(ticket), log.begin_file):
            with pytest.raises(DatabaseError):
                attempt()
    assert read(tmp_path / "db")[0] == b"a"


@pytest.mark.parametrize("seed", range(60))
def test_disk_faults(tmp_path: Path, seed: int) -> None:
    """Whatever operation fails, or kills the process: what was settled is there, the rest is a whole part of what was
    tried, in order."""
    rng = random.Random(seed)
    tried: list[bytes] = []
    settled = 0
    for _ in range(4):
        killed = rng.random() < 0.5
        disk = Disk(None, rng.randrange(60)) if killed else Disk(fault_from(rng, 60)[1])
        with disk.installed():
            try:
                log, found = opened(tmp_path, rng.choice(["full", "normal"]))
                # What was tried and never settled may be missing; it is not there later, either.
                assert found == tried[: len(found)] and len(found) >= settled
                del tried[len(found) :]
                settled = len(found)
                for _ in range(rng.randrange(1, 12)):
                    tried.append(b"%d" % rng.randrange(1 << 40))
                    log.append([[tried[-1][:3], tried[-1][3:]]])
                    if rng.random() < 0.7:
                        log.settle()
                        settled = len(tried)
                    if rng.random() < 0.2:
                        log.begin_file()
                        settled = len(tried)
                log.close()
                settled = len(tried)
            except (Killed, DatabaseError, OSError):
                pass
    found = read(tmp_path)
    assert found == tried[: len(found)] and len(found) >= settled


def test_lengths_are_not_believed(tmp_path: Path) -> None:
    """A head that claims more than there is, with a right checksum, takes no memory."""
    log, _ = opened(tmp_path)
    log.settle(log.append([[b"a"]]))
    log.close()
    ((_, path),) = log_files(LocalStorage(str(tmp_path)))
    head = struct.pack("<4sBxxxIQQQQI", b"SQLf", 1, 0, 2, 1 << 62, 0, 1, 0)
    with (tmp_path / path).open("ab") as file:
        file.write(head + struct.pack("<I", zlib.crc32(head)))
    before = pa.total_allocated_bytes()
    assert read(tmp_path) == [b"a"]
    assert pa.total_allocated_bytes() - before < 1 << 20
