"""Rows of an outer join that can match nothing: they pass with NULLs for the other sides and are not kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.kernels.cancel import consolidate
from runtime.kernels.key_encoding import KeyEncoder

__all__ = ["padded"]


def padded(rows: ChangelogBatch, schema: Schema, *, before: bool = False) -> ChangelogBatch:
    """The rows as the output of this schema shows them: NULLs in the columns behind theirs, or before them. Changes that
    cancel are left out."""
    if rows.kinds is not None:
        keep, net = consolidate(KeyEncoder(rows.rows.schema.types, exact=True).encode(rows.columns), rows.signs())
        rows = ChangelogBatch.signed(
            rows.rows.take(pa.array(np.repeat(keep, np.abs(net)))), np.repeat(np.sign(net), np.abs(net))
        )
    columns = list(rows.columns)
    missing = len(schema) - len(columns)
    rest = schema.types[:missing] if before else schema.types[len(columns) :]
    nulls = [pa.nulls(len(rows), t.arrow) for t in rest]
    return ChangelogBatch.of(nulls + columns if before else columns + nulls, schema, rows.kinds)
