"""CRC-32 of many bytes."""

from __future__ import annotations

import zlib

import numpy as np

from runtime.kernels.native import kernel

__all__ = ["crc32"]

_crc32 = kernel("crc32", "xn")
_has_crc32 = kernel("has_crc32", "")
_FOLDS = _has_crc32 is not None and bool(_has_crc32())
_FEW_BYTES = 4096


def crc32(data: object, crc: int = 0) -> int:
    """The CRC-32 of bytes that come after others, whose CRC-32 is `crc`: `zlib.crc32`, which checks 4 GB/s, but 25 where
    the processor multiplies without carry.

    Args:
        data: anything with a buffer of contiguous bytes.
    """
    values = np.frombuffer(data, np.uint8)  # type: ignore[call-overload]
    if _crc32 is not None and _FOLDS and len(values) >= _FEW_BYTES:
        whole = len(values) & ~15
        return zlib.crc32(values[whole:], _crc32(values[:whole], crc))
    return zlib.crc32(values, crc)
