"""Large files of a local folder, written past the system's cache: every byte arrives, whatever the disk does."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.checkpoint import local_storage
from runtime.checkpoint.local_storage import LocalStorage


class Stubborn:
    """`os` with a disk that takes only a part of what it is given, or refuses to go past the cache."""

    path = os.path

    def __init__(self, refuses: bool) -> None:
        self._refuses = refuses
        self._rng = np.random.default_rng(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, descriptor: int, view: memoryview) -> int:
        if self._refuses and len(view) > 4096:
            self._refuses = False
            raise OSError(errno.EINVAL, "not like this")
        return os.write(descriptor, view[: int(self._rng.integers(1, len(view) + 1))])


@pytest.mark.parametrize("system", [os, Stubborn(False), Stubborn(True)], ids=["system", "parts", "refused"])
def test_all_that_was_written_is_there(system: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_storage, "os", system)
    monkeypatch.setattr(local_storage, "_BUFFER_BYTES", 1 << 16)
    rng = np.random.default_rng(0)
    storage = LocalStorage(str(tmp_path))
    for number, sizes in enumerate(
        [
            (0,),
            (1 << 16,),
            (10, 70_000, 4096, 200_001),
            (70_000, 70_000, 5, 200_001, 4096),
            tuple(rng.integers(0, 99_999, 9)),
        ]
    ):
        written = [rng.integers(0, 256, size, dtype=np.uint8).tobytes() for size in sizes]
        file = storage.create(f"folder/{number}", large=True)
        for step, data in enumerate(written):
            memory = file.memory(len(data)) if step % 2 else None
            if memory is None:
                assert file.write(data) == len(data)
            else:
                np.frombuffer(memory, np.uint8)[:] = np.frombuffer(data, np.uint8)
                assert file.write(memory) == len(data)
        file.close()
        assert (tmp_path / "folder" / str(number)).read_bytes() == b"".join(written)


def test_a_disk_is_fast_when_it_has_shown_it() -> None:
    speed = local_storage._Speed()
    assert not speed.fast
    for _ in range(5):
        speed.note(8 << 20, 0.01)
    assert speed.fast
    for _ in range(20):
        speed.note(8 << 20, 1.0)
    assert not speed.fast
