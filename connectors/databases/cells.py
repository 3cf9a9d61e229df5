"""Cells that stand somewhere in bytes, as columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["cut_out"]


def cut_out(
    data: bytes, start: npt.NDArray[np.int64], length: npt.NDArray[np.int64], missing: npt.NDArray[np.bool_]
) -> pa.LargeBinaryArray:
    """The bytes of each cell, one cell behind the other in `data`; NULL where one is missing."""
    count = len(start)
    # A cell that is missing is empty, at the end of the one before it.
    ends = np.maximum.accumulate(np.where(missing, 0, start + length))
    begins = np.where(missing, ends, start)
    places = np.empty(2 * count + 1, dtype=np.int64)
    places[0:-1:2], places[1::2], places[-1] = begins, ends, ends[-1] if count else 0
    cut = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), 2 * count, [None, pa.py_buffer(places), pa.py_buffer(data)]
    )
    return cut.take(pa.array(np.arange(count, dtype=np.int64) * 2, mask=missing if missing.any() else None))
