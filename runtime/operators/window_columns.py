"""What window operators share: rows without a time, the columns that tell a window, and the clock as a watermark."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import MAX_WATERMARK
from runtime.core.schema import Schema
from runtime.kernels.arrow_buffers import null_mask
from runtime.operators.operator import EpochTime, OperatorContext
from runtime.operators.window_assign import instants, milliseconds, timestamps, wall_milliseconds, window_time_column
from runtime.plan.nodes import PhysicalNode, WindowProperty

__all__ = [
    "by_clock",
    "clock_time",
    "clock_watermark",
    "ends_as_times",
    "passed",
    "property_columns",
    "reject_null_times",
]


def clock_watermark(time: EpochTime) -> int:
    """The watermark of processing-time windows: a row may still come at this very millisecond, so only what ended
    before it is over. At the end of a bounded input everything is."""
    return MAX_WATERMARK if time.watermark == MAX_WATERMARK else time.processing_time - 1


def passed(time: EpochTime, proctime: bool) -> int:
    """The watermark against which rows are late: of event time that before the epoch, of processing time the clock."""
    return time.processing_time - 1 if proctime else time.previous_watermark


def by_clock(proctime: bool, source: PhysicalNode) -> bool:
    """Whether rows fall into the windows of now. A row that may be taken back leaves those of the time at which it came,
    which its column knows."""
    return proctime and source.mode.is_append_only


def clock_time(time: EpochTime, zone: str | None) -> int:
    """The processing time on the wall clock of the zone, milliseconds."""
    now = pa.array([time.processing_time], pa.timestamp("ms", tz="UTC"))
    return int(wall_milliseconds(now, zone)[0])


def reject_null_times(batch: ChangelogBatch, column: int, context: OperatorContext) -> ChangelogBatch:
    """The rows with a time; the others are rejected."""
    missing = null_mask(batch.column(column))
    if missing is None:
        return batch
    context.reject("NULL event time", batch.rows.filter(pa.array(missing)))
    return batch.filter(~missing)


def ends_as_times(ends: pa.Array, zone: str | None) -> pa.Array:
    """The ends of rows' windows (window_end, wall-clock times) as times of event: instants where windows follow the
    clock of a zone, so that whoever shows them beside a watermark shows both on that clock."""
    if zone is None:
        return ends
    return pa.array(instants(milliseconds(ends), zone), pa.timestamp("ms", tz="UTC"))


def property_columns(
    properties: Sequence[WindowProperty], schema: Schema, starts: np.ndarray, ends: np.ndarray, zone: str | None
) -> list[pa.Array]:
    """The window columns, which stand at the end of a schema, from wall-clock bounds."""
    columns: list[pa.Array] = []
    first = len(schema) - len(properties)
    for number, name in enumerate(properties):
        type_ = schema[first + number].type
        match name:
            case WindowProperty.START:
                columns.append(timestamps(starts, type_))
            case WindowProperty.END:
                columns.append(timestamps(ends, type_))
            case WindowProperty.TIME:
                columns.append(window_time_column(ends, type_, zone))
    return columns
