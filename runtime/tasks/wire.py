"""Changes on their way between driver and tasks: batches as bytes, and how they are divided among partitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.core.changelog import ChangelogBatch
from runtime.core.key_group import key_group, key_groups
from runtime.kernels.key_encoding import KeyEncoder
from runtime.tasks.layout import HERE, ONE, Division

__all__ = ["decode", "decode_rows", "divide", "encode", "encode_rows", "slices"]

_KIND = "$kind"
_END_BYTES = 8
"""What tells the end of an Arrow stream."""
_SLICE_ROWS = 8192
"""Fewer rows than this are not worth a second task."""


def encode_rows(rows: pa.RecordBatch) -> pa.Buffer:
    """Rows as an Arrow stream."""
    if any(pa.types.is_dictionary(field.type) for field in rows.schema):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_batch(rows)
        return sink.getvalue()
    # A buffer that grows is copied on its way.
    buffer = pa.allocate_buffer(rows.schema.serialize().size + pa.ipc.get_record_batch_size(rows) + _END_BYTES)
    with pa.ipc.new_stream(pa.FixedSizeBufferWriter(buffer), rows.schema) as writer:
        writer.write_batch(rows)
    return buffer


def decode_rows(data: bytes | pa.Buffer) -> pa.RecordBatch:
    return pa.ipc.open_stream(pa.py_buffer(data)).read_next_batch()


def encode(batch: ChangelogBatch) -> pa.Buffer:
    """Changes as an Arrow stream; row kinds are its last column, where there are any."""
    rows = batch.rows
    if batch.kinds is not None:
        schema = pa.schema([*rows.schema, pa.field(_KIND, pa.int8())])
        rows = pa.RecordBatch.from_arrays([*rows.columns, pa.array(batch.kinds)], schema=schema)
    return encode_rows(rows)


def decode(data: bytes | pa.Buffer) -> ChangelogBatch:
    rows = decode_rows(data)
    if not rows.num_columns or rows.schema.field(rows.num_columns - 1).name != _KIND:
        return ChangelogBatch(rows)
    kinds = rows.column(rows.num_columns - 1).to_numpy()
    return ChangelogBatch(rows.select(range(rows.num_columns - 1)), kinds)


def divide(batch: ChangelogBatch, division: Division, count: int, here: int | None) -> list[tuple[int, ChangelogBatch]]:
    """The changes for each of `count` partitions that gets any, in their order.

    Args:
        here: the partition where the changes are; None for the driver, which gives every partition a slice.
    """
    if division == ONE:
        return [(0, batch)]
    if division == HERE:
        return [(here, batch)] if here is not None else slices(batch, count)
    assert isinstance(division, tuple)
    if count == 1:
        return [(0, batch)]
    columns = [batch.column(k) for k in division]
    of = key_groups(count)
    groups = key_group(KeyEncoder([c.type for c in columns]).stable_hash(columns, len(batch)), of)
    # The first key group of task i is i * of // count.
    starts = np.arange(count) * of // count
    task = np.searchsorted(starts, groups, side="right") - 1
    order = np.argsort(task.astype(np.int16), kind="stable")
    bounds = np.searchsorted(task[order], np.arange(count + 1))
    filled = np.flatnonzero(np.diff(bounds))
    if len(filled) == 1:
        return [(int(filled[0]), batch)]
    ranged = batch.take(order)
    return [(int(i), ranged.slice(int(bounds[i]), int(bounds[i + 1] - bounds[i]))) for i in filled]


def slices(batch: ChangelogBatch, count: int) -> list[tuple[int, ChangelogBatch]]:
    """Parts of about equal size, one after another; few rows stay together."""
    parts = max(1, min(count, len(batch) // _SLICE_ROWS))
    bounds: Sequence[int] = [len(batch) * i // parts for i in range(parts + 1)]
    return [(i, batch.slice(bounds[i], bounds[i + 1] - bounds[i])) for i in range(parts)]
