"""Checksums of any size and place are zlib's."""

from __future__ import annotations

import zlib

import numpy as np

from runtime.kernels.checksum import crc32


def test_checksums_are_those_of_zlib() -> None:
    rng = np.random.default_rng(1)
    whole = rng.integers(0, 256, 70_000, dtype=np.uint8)
    for size in (0, 1, 15, 63, 64, 4095, 4096, 4097, 4160, 69_993):
        for start in (0, 1, 7):
            data = whole[start : start + size].tobytes()
            for before in (b"", b"x", bytes(9), b"\xff" * 4):
                assert crc32(data, zlib.crc32(before)) == zlib.crc32(before + data)
    assert crc32(memoryview(whole)) == crc32(whole[30_000:], crc32(whole[:30_000])) == zlib.crc32(whole)
