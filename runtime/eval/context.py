"""What an evaluation knows of its surroundings: the batch's length, the session's time zone, the epoch's time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from runtime.core.clock import MIN_WATERMARK
from runtime.core.errors import ExpressionError, Span
from runtime.core.types import NULL, DataType

__all__ = ["BatchContext", "Chance", "RowFailures"]


class Chance:
    """Where random functions draw from: a new seed for every call.

    Args:
        of: what tells the calls of a piece of work apart from those of any other, for work that may be carried out
            again and must come to the same; without it seeds are the system's, and never the same.
    """

    __slots__ = ("_calls", "_of")

    def __init__(self, *of: int) -> None:
        self._of = of
        self._calls = 0

    def seed(self) -> int:
        """The seed of one call, 128 bits."""
        if not self._of:
            return int.from_bytes(os.urandom(16), "little")
        self._calls += 1
        return int.from_bytes(
            hashlib.blake2b(repr((*self._of, self._calls)).encode(), digest_size=16).digest(), "little"
        )


class _Time(Protocol):
    @property
    def chance(self) -> Chance | None: ...
    @property
    def previous_watermark(self) -> int: ...
    @property
    def processing_time(self) -> int: ...


class RowFailures:
    """Which rows have failed, and why. A row counts with the first of its errors.

    Args:
        rows: the length of the batch.
    """

    def __init__(self, rows: int) -> None:
        self.mask: np.ndarray[Any, np.dtype[np.bool_]] = np.zeros(rows, np.bool_)
        self.errors: dict[int, ExpressionError] = {}

    def note(
        self,
        positions: np.ndarray[Any, np.dtype[np.int64]],
        failed: Iterable[tuple[int, ExpressionError]],
        span: Span | None,
    ) -> None:
        """Rows of a part of the batch have failed: `positions` are those of the part's rows in the batch."""
        for index, error in failed:
            error.span = error.span or span
            row = int(positions[index])
            self.mask[row] = True
            self.errors.setdefault(row, error)


@dataclass(frozen=True, slots=True)
class BatchContext:
    """The `EvalContext` of one batch; times are milliseconds since the epoch, `watermark` None when there is none
    yet."""

    num_rows: int
    time_zone: str = "UTC"
    processing_time: int = 0
    watermark: int | None = None
    result_type: DataType = NULL
    arg_types: tuple[DataType, ...] = ()
    chance: Chance = field(default_factory=Chance)
    lenient: bool = False
    failures: RowFailures | None = None
    """Where rows are noted for which a function has failed; None: nothing is rejected."""
    failed: list[tuple[int, ExpressionError]] | None = None

    @staticmethod
    def at(time: _Time, num_rows: int, time_zone: str) -> BatchContext:
        """The context of an operator's step: `time` is the `EpochTime`; the watermark is that before the epoch."""
        watermark = None if time.previous_watermark == MIN_WATERMARK else time.previous_watermark
        return BatchContext(num_rows, time_zone, time.processing_time, watermark, chance=time.chance or Chance())

    def leniently(self) -> BatchContext:
        """The same surroundings, in which a point in time that is out of range is NULL."""
        return replace(self, lenient=True)

    @property
    def seed(self) -> int:
        """Another number for every call."""
        return self.chance.seed()

    def with_rows(self, num_rows: int) -> BatchContext:
        return self if num_rows == self.num_rows else replace(self, num_rows=num_rows)

    def rejecting(self, failures: RowFailures) -> BatchContext:
        """The same surroundings, in which rows may be rejected."""
        return replace(self, failures=failures)

    def of_other_rows(self, num_rows: int) -> BatchContext:
        """The same surroundings for what are no rows of the batch: nothing of them is rejected."""
        return replace(self, num_rows=num_rows, failures=None)

    def for_call(
        self,
        result_type: DataType,
        arg_types: tuple[DataType, ...],
        num_rows: int,
        failed: list[tuple[int, ExpressionError]] | None = None,
    ) -> BatchContext:
        """The same surroundings as one call sees them."""
        return BatchContext(
            num_rows,
            self.time_zone,
            self.processing_time,
            self.watermark,
            result_type,
            arg_types,
            self.chance,
            self.lenient,
            None,
            failed,
        )
