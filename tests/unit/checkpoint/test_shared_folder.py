"""A folder that several machines reach: nothing is written over, and what is there is whole."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from runtime.checkpoint.shared_folder import SharedFolder


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_file_is_made_once_by_whomever(tmp_path: Path) -> None:
    place, made, gate = SharedFolder(str(tmp_path / "shop")), [], threading.Barrier(8)

    def make(number: int) -> None:
        gate.wait()
        try:
            place.publish("log/1", str(number).encode())
            made.append(number)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and place.read("log/1").to_pybytes() == str(made[0]).encode()
    place.publish("log/1", str(made[0]).encode())
    assert names(tmp_path / "shop") == {"log/1"}
    assert os.stat(tmp_path / "shop" / "log" / "1").st_mode & 0o077 == 0


def test_files_are_replaced_copied_and_deleted(tmp_path: Path) -> None:
    place = SharedFolder(str(tmp_path))
    below = place.below("jobs").below("1")
    below.publish("a/b", b"one")
    place.copy("jobs/1/a/b", "jobs/2/a/b")
    place.copy("jobs/1/a/b", "jobs/2/a/b")
    below.replace("a/b", b"two")
    assert place.read("jobs/2/a/b").to_pybytes() == b"one" and below.read("a/b").to_pybytes() == b"two"
    assert place.names() == {"jobs", ".new"} and place.names("jobs") == {"1", "2"} and place.names("none") == set()
    assert place.files() == {"jobs/1/a/b": 3, "jobs/2/a/b": 3} and below.files() == {"a/b": 3}
    below.delete("a/b")
    below.delete("a/b")
    with pytest.raises(FileNotFoundError):
        place.copy("jobs/1/a/b", "x")
    # Of a process that has ended before its file had a name.
    (tmp_path / ".new" / "left").write_bytes(b"x")
    place.clear()
    assert names(tmp_path) == {"jobs/2/a/b"}


def test_a_file_system_without_links_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(old: str, new: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(OSError, match="has no hard links"):
        SharedFolder(str(tmp_path)).publish("a", b"x")
    assert names(tmp_path) == set()
