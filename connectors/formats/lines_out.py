"""What encoders of lines share."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import PlanningError

__all__ = ["block_of_lines", "require_append"]


def block_of_lines(lines: pa.Array) -> bytes:
    """All lines, none NULL, each with its line end."""
    if not len(lines):
        return b""
    whole = pc.binary_join_element_wise(
        lines.cast(pa.large_string()), pa.scalar("\n", pa.large_string()), pa.scalar("", pa.large_string())
    )
    _, offsets, data = whole.buffers()
    ends = memoryview(offsets).cast("q")
    return bytes(memoryview(data)[ends[whole.offset] : ends[whole.offset + len(whole)]])


def require_append(batch: ChangelogBatch, format_name: str) -> None:
    """Raise PlanningError E1720 for updates and deletes, which the format has no place for."""
    if not batch.is_append_only:
        raise PlanningError(
            f"format '{format_name}' cannot carry updates and deletes",
            code="E1720",
            hint="use the format 'debezium-json', or a connector that takes updates",
        )
