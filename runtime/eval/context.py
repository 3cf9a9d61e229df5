"""What an evaluation knows of its surroundings: the batch's length, the session's time zone, the epoch's time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from runtime.core.clock import MIN_WATERMARK
from runtime.core.types import NULL, DataType

__all__ = ["BatchContext"]


class _Time(Protocol):
    @property
    def epoch(self) -> int: ...
    @property
    def previous_watermark(self) -> int: ...
    @property
    def processing_time(self) -> int: ...


@dataclass(slots=True)
class _Draws:
    """How often random functions were called in this batch, so that two calls get two sequences."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class BatchContext:
    """The `EvalContext` of one batch; times are milliseconds since the epoch, `watermark` None when there is none
    yet."""

    num_rows: int
    time_zone: str = "UTC"
    processing_time: int = 0
    watermark: int | None = None
    seed: int = 0
    result_type: DataType = NULL
    arg_types: tuple[DataType, ...] = ()
    draws: _Draws = field(default_factory=_Draws)
    lenient: bool = False

    @staticmethod
    def at(time: _Time, num_rows: int, time_zone: str) -> BatchContext:
        """The context of an operator's step: `time` is the `EpochTime`; the watermark is that before the epoch."""
        watermark = None if time.previous_watermark == MIN_WATERMARK else time.previous_watermark
        return BatchContext(num_rows, time_zone, time.processing_time, watermark, time.epoch)

    def leniently(self) -> BatchContext:
        """The same surroundings, in which a point in time that is out of range is NULL."""
        return replace(self, lenient=True)

    @property
    def epoch_seed(self) -> int:
        """Another number in every epoch and for every call within it."""
        self.draws.count += 1
        return (self.seed * 1_000_003 + self.draws.count * 7_919) & 0x7FFF_FFFF_FFFF_FFFF

    def with_rows(self, num_rows: int) -> BatchContext:
        return self if num_rows == self.num_rows else replace(self, num_rows=num_rows)

    def for_call(self, result_type: DataType, arg_types: tuple[DataType, ...], num_rows: int) -> BatchContext:
        """The same surroundings as one call sees them."""
        return BatchContext(
            num_rows,
            self.time_zone,
            self.processing_time,
            self.watermark,
            self.seed,
            result_type,
            arg_types,
            self.draws,
            self.lenient,
        )
