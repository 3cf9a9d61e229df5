"""Who can read what RocksDB writes: nobody but the user, whatever the umask."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from runtime.state.rocksdb import RocksSettings, RocksStore


def filled(folder: Path) -> RocksStore:
    """A store with tables on disk."""
    store = RocksStore(RocksSettings(str(folder), 1 << 20, 1 << 16))
    for begin in range(0, 20_000, 5_000):
        keys = pa.array([b"%08d" % n for n in range(begin, begin + 5_000)], pa.large_binary())
        store.put("t", keys, pa.array([bytes(np.arange(20, dtype=np.uint8))] * 5_000, pa.large_binary()))
    return store


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_nobody_else_can_read_them(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        store = filled(tmp_path / "rocks")
    finally:
        os.umask(before)
    (folder,) = (tmp_path / "rocks").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".sst" for path in files)
    if sys.platform == "linux" and "system.posix_acl_default" in os.listxattr(folder):
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    store.close()
    assert not folder.exists()


def test_a_file_system_without_access_lists_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("Operation not supported")

    monkeypatch.setattr(os, "setxattr", refuse, raising=False)
    store = filled(tmp_path)
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    store.close()
