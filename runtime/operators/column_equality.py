"""Whether rows of two lists of columns are the same: NULL equals NULL, NaN equals NaN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.kernels.arrow_buffers import fixed_values, is_bytes_like, is_fixed
from runtime.kernels.key_encoding import KeyEncoder

__all__ = ["equal_columns"]


def equal_columns(left: Sequence[pa.Array], right: Sequence[pa.Array], count: int) -> np.ndarray:
    """A bool per row, true where all columns are equal; `count` is the number of rows."""
    same = np.ones(count, np.bool_)
    for one, other in zip(left, right, strict=True):
        same &= _equal(one, other)
    return same


def _equal(left: pa.Array, right: pa.Array) -> np.ndarray:
    if is_fixed(left.type):
        a, b = fixed_values(left), fixed_values(right)
        if a.dtype.kind == "f":
            a, b = a.view(f"i{a.itemsize}"), b.view(f"i{b.itemsize}")
        same = a == b if a.ndim == 1 else (a == b).all(axis=1)
    elif is_bytes_like(left.type):
        same = pc.fill_null(pc.equal(left, right), False).to_numpy(zero_copy_only=False)
    else:
        words = KeyEncoder([left.type], exact=True).encode([pa.concat_arrays([left, right])])
        return (words[: len(left)] == words[len(left) :]).all(axis=1)
    if left.null_count == 0 and right.null_count == 0:
        return same
    left_null, right_null = (c.is_null().to_numpy(zero_copy_only=False) for c in (left, right))
    return np.where(left_null | right_null, left_null & right_null, same)
