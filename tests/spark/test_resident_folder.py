"""The folder of residents' sockets: what comes from a socket is unpickled, so it is this user's alone."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from runtime.spark import resident


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Not in pytest's folder, because the name of a socket is short."""
    with tempfile.TemporaryDirectory(prefix="r-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setattr(resident, "_connections", {})
        yield Path(folder) / f"sqlengine-resident-{os.getuid()}"


@pytest.fixture
def ran_here(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Notes work that is done without a resident."""
    found: list[Any] = []
    monkeypatch.setattr(resident, "run_stage", lambda *work: found.append(work) or [])
    return found


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_it_is_made_for_this_user_alone(place: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        address = resident._address(3)
    finally:
        os.umask(before)
    assert Path(address).parent == place
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_one_that_was_open_is_closed(place: Path) -> None:
    place.mkdir()
    place.chmod(0o777)
    resident._address(0)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_whose_process_is_at_the_other_end_is_told_by_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = Pipe()
    with here, there:
        assert resident._is_own(here)
        somebody_else = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: somebody_else)
        assert not resident._is_own(here)


@pytest.mark.parametrize("kind", ["link", "file", "foreign"])
def test_one_of_somebody_else_is_not_used(
    place: Path, ran_here: list[Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "link":
        (place.parent / "elsewhere").mkdir()
        place.symlink_to(place.parent / "elsewhere")
    elif kind == "file":
        place.write_text("")
    else:
        place.mkdir(0o700)
        mine = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: mine + 1)
        place.rename(place.parent / f"sqlengine-resident-{mine + 1}")
    with pytest.raises(PermissionError, match="belongs to somebody else"):
        resident._address(0)
    assert resident.run_in_resident(4, "order", 1, 2, []) == []  # type: ignore[arg-type]
    assert ran_here == [("order", 1, 2, [])]


def test_a_socket_of_somebody_else_is_not_asked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was put there while the folder was open to all."""
    address = resident._address(0)
    with socket.socket(socket.AF_UNIX) as planted:
        planted.bind(address)
        planted.listen()
        assert resident._connected(address) is not None, "the test needs a socket that answers"
        resident._connections.clear()
        mine = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: mine + 1)
        with pytest.raises(PermissionError):
            resident._require_own(address)
        started: list[Any] = []

        def start(*command: Any, **more: Any) -> Any:
            started.append(command)
            raise OSError("not in this test")

        monkeypatch.setattr(resident.subprocess, "Popen", start)
        monkeypatch.setattr(resident, "_START_SECONDS", 0.1)
        assert resident._connected(address) is None
    assert started and not os.path.exists(address)


def test_other_executors_and_partitions_have_other_sockets(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resident._address(0) == resident._address(0)
    assert resident._address(0) != resident._address(1)
    before = resident._address(0)
    monkeypatch.setattr(os, "getppid", lambda: 4711)
    assert resident._address(0) != before
