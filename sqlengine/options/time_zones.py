"""Names of time zones as options give them."""

from __future__ import annotations

import functools
import re

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["time_zone_name"]

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


@functools.lru_cache(64)
def time_zone_name(text: str) -> str | None:
    """What Arrow calls a time zone that is written as a name (`Europe/Berlin`), an offset (`+02:00`, `GMT+2`) or
    `default` (UTC); None when it knows no such zone."""
    if text == "default":
        return "UTC"
    offset = _OFFSET.fullmatch(text)
    if offset is not None and int(offset[2]) <= 18 and int(offset[3] or 0) < 60:
        return f"{offset[1]}{int(offset[2]):02d}:{int(offset[3] or 0):02d}"
    try:
        pc.local_timestamp(pa.scalar(0, pa.timestamp("s", text)))
    except (pa.ArrowInvalid, ValueError):
        return None
    return text or None
