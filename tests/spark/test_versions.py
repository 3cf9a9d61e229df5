"""Files of a state version: their names say what is in them, and nothing else is ever read."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.core.errors import SparkError
from runtime.tasks.versions import Lineage, StateFolder

DATA = b"what a task has written" * 100


def folder(tmp_path: Path) -> StateFolder:
    made = StateFolder(str(tmp_path / "versions" / "job"))
    made.make()
    return made


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_what_was_written_is_read_by_this_user_alone(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        place = folder(tmp_path)
        name = place.write("1-1.0-0-abc.state", DATA)
    finally:
        os.umask(before)
    assert place.read(name) == DATA and place.exists(name)
    path = tmp_path / "versions" / "job" / name
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == [name]
    place.delete(name)
    place.delete(name)
    assert not place.exists(name)
    place.remove()
    assert not path.parent.exists()


def test_a_name_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    """By a link that somebody has put there, either."""
    place = folder(tmp_path)
    name = place.write("program", DATA)
    (tmp_path / "versions" / "job" / name).unlink()
    (tmp_path / "versions" / "job" / (name + ".part")).symlink_to(tmp_path / "outside")
    with pytest.raises(FileExistsError):
        place.write("program", DATA)
    assert not (tmp_path / "outside").exists()


def _link(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)


def _replace_by(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


CHANGES: dict[str, Callable[[Path], object]] = {
    "a flipped bit": lambda path: path.write_bytes(b"W" + DATA[1:]),
    "a cut": lambda path: path.write_bytes(DATA[:-1]),
    "more": lambda path: path.write_bytes(DATA + b"\0"),
    "a file that does not end": lambda path: os.truncate(path, 1 << 40),
    "empty": lambda path: path.write_bytes(b""),
    "another file": lambda path: path.write_bytes(b"x" * len(DATA)),
    "gone": Path.unlink,
    "a folder": _replace_by(Path.mkdir),
    "a pipe": _replace_by(os.mkfifo),
    "a device": lambda path: _link(path, Path("/dev/zero")),
    "a loop": lambda path: _link(path, path),
    "a link to the same": lambda path: (
        (path.parent.parent / "same").write_bytes(DATA),
        _link(path, path.parent.parent / "same"),
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_anything_else_is_told_by_name(tmp_path: Path, kind: str) -> None:
    place = folder(tmp_path)
    name = place.write("1-1.0-0-abc.state", DATA)
    CHANGES[kind](tmp_path / "versions" / "job" / name)
    with pytest.raises(SparkError) as caught:
        place.read(name)
    assert caught.value.code == "E3607" and caught.value.hint
    assert name in str(caught.value) and place.place in str(caught.value)


def test_a_file_url_is_a_folder(tmp_path: Path) -> None:
    place = StateFolder(f"file://{tmp_path}/versions")
    place.make()
    name = place.write("base", DATA)
    assert place.read(name) == DATA
    assert stat.S_IMODE((tmp_path / "versions" / name).stat().st_mode) == 0o600


def test_a_version_is_known_by_its_last_file(tmp_path: Path) -> None:
    place = folder(tmp_path)
    first, second = place.write("a", b"one"), place.write("b", b"two")
    version = Lineage().then(first, 3, True).then(second, 3, False)
    assert version == Lineage((first, second), 3, 6) and version.token == second
    assert version.then(first, 3, True) == Lineage((first,), 3, 3)
