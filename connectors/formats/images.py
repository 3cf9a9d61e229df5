"""Change events with both images of a row: what Debezium and Oracle GoldenGate have in common."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.change_events import UNKNOWN, EventRows
from runtime.core.changelog import DELETE, INSERT

__all__ = ["rows_of_images", "written_images"]


def rows_of_images(before: pa.Array, after: pa.Array, kinds: npt.NDArray[np.int8]) -> EventRows:
    """The rows of events, one each. `kinds`: INSERT, UPDATE_AFTER, DELETE, or -1 for any other operation."""
    had = pc.is_valid(before).to_numpy(zero_copy_only=False)
    has = pc.is_valid(after).to_numpy(zero_copy_only=False)
    wrong = {
        UNKNOWN: kinds < 0,
        "event without its row after the change": (kinds >= 0) & (kinds != DELETE) & ~has,
        "event without its row before the change (PostgreSQL: REPLICA IDENTITY FULL)": (kinds > INSERT) & ~had,
    }
    event = np.flatnonzero(~np.logical_or.reduce(list(wrong.values())))
    taken = pa.array(event)
    olds, news = before.take(taken).flatten(), after.take(taken).flatten()
    return EventRows(event, kinds[event], olds, news, wrong)


def written_images(image: pa.Array, gone: pa.Array) -> pa.Array:
    """The fields `before` and `after` of events, as JSON without braces."""
    before, after = pc.if_else(gone, image, "null"), pc.if_else(gone, "null", image)
    return pc.binary_join_element_wise('"before":', before, ',"after":', after, "")
