"""Arrow constants for modules: made of buffers, because `pa.scalar` and `pa.array` import pandas where it is installed,
and nobody who only imports the engine shall wait for that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

__all__ = ["FALSE", "NO_TEXT", "TRUE", "integer", "text", "texts"]


def texts(values: Sequence[str]) -> pa.Array:
    """A STRING column."""
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(encoded), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(encoded))]
    )


def text(value: str) -> pa.Scalar:
    """A STRING."""
    return texts([value])[0]


def integer(value: int) -> pa.Scalar:
    """An INT."""
    return pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(np.int32(value).tobytes())])[0]


_BITS = pa.Array.from_buffers(pa.bool_(), 2, [None, pa.py_buffer(b"\x01")])
TRUE: pa.Scalar = _BITS[0]
FALSE: pa.Scalar = _BITS[1]
NO_TEXT: pa.Scalar = pa.nulls(1, pa.string())[0]
"""A STRING that is NULL."""
