"""Texts of dates and times, as databases write them, as columns."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["moments", "times"]


def moments(texts: pa.Array, *, zoned: bool) -> pa.Array:
    """Texts such as `2020-01-31 12:00:00.5` as microseconds. `zoned`: they may have a zone, and are of UTC without."""
    if not zoned:
        return texts.cast(pa.timestamp("us"))
    with_zone = pc.match_substring_regex(texts, "(Z|[+-][0-9]{2}:?[0-9]{2})$")
    texts = pc.if_else(with_zone, texts, pc.binary_join_element_wise(texts, "Z", ""))
    return texts.cast(pa.timestamp("us", "UTC"))


def times(texts: pa.Array) -> pa.Array:
    """Times of a day, by way of moments of a day: what Arrow reads."""
    found = pc.binary_join_element_wise("1970-01-01", texts, " ").cast(pa.timestamp("us"))
    return found.cast(pa.int64()).cast(pa.time64("us"))
