"""What a cast yields: the values, and the rows at which it failed.

A cast rule never raises: it says which rows it could not convert, so that TRY_CAST can make NULLs of them, a cast of
an array can fail where one of its elements does, and CAST can name the first value that is at fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.types import DataType
from runtime.expr.columns import with_nulls

__all__ = ["Converted", "Convert", "convert_nothing", "failing"]

Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Converted:
    """`values` has the target's Arrow type and is NULL at failed rows; `failed` is None when no row failed."""

    values: pa.Array
    failed: Mask | None = None


Convert = Callable[[pa.Array, DataType, DataType, str], Converted]
"""A rule: the array, its SQL type, the target type, the session's time zone."""


def failing(values: pa.Array, failed: Mask) -> Converted:
    """Values of which some rows failed."""
    if not failed.any():
        return Converted(values)
    return Converted(with_nulls(values, failed), failed)


def convert_nothing(array: pa.Array, source: DataType, target: DataType, time_zone: str) -> Converted:
    """An untyped NULL as a NULL of any type."""
    return Converted(pa.nulls(len(array), target.arrow))
