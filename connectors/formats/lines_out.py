"""What encoders of lines share."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["block_of_lines"]


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
