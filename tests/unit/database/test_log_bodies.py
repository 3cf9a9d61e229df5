"""What goes to the log: many rows without a copy, and what is read is what was written."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.changelog import ChangelogBatch
from sqlengine.database.folder.changes import EpochChanges, TableChanges, bodies_of, changes_of

T = ("c", "d", "t")


def written(*batches: ChangelogBatch) -> list[pa.Buffer]:
    bodies = bodies_of(EpochChanges({}, [TableChanges(T, False, list(batches))]))
    return [pa.py_buffer(b"".join(body)) for body in bodies]


@settings(deadline=None, max_examples=50)
@given(
    st.integers(0, 5000),
    st.integers(0, 5000),
    st.booleans(),
    st.lists(st.one_of(st.none(), st.text(max_size=20)), min_size=1, max_size=10),
)
def test_what_is_read_is_what_was_written(start: int, count: int, kinds: bool, texts: list[str | None]) -> None:
    size = start + count
    columns = {
        "a": pa.array(np.arange(size), mask=np.arange(size) % 3 == 0),
        "b": pa.array((texts * size)[:size], pa.string()),
        "c": pa.array([[i, None] for i in range(size)], pa.list_(pa.int32())),
        "d": pa.array([True, None, False] * size, pa.bool_()).slice(0, size),
    }
    rows = pa.record_batch(columns).slice(start, count)
    batch = ChangelogBatch(rows, np.arange(count, dtype=np.int8) % 4 if kinds else None)
    (body,) = written(batch)
    found = changes_of(body, "it").tables
    assert [table.storage for table in found] == [T] * bool(count)
    assert pa.Table.from_batches([b.rows for t in found for b in t.batches], rows.schema).to_batches() == (
        [rows] if count else []
    )
    if kinds and count:
        (read,) = found[0].batches
        assert read.kinds_or_inserts().tolist() == batch.kinds_or_inserts().tolist()


@pytest.mark.parametrize("offset", [0, 8192])
def test_columns_of_many_rows_are_not_copied(offset: int) -> None:
    rows = pa.record_batch({"a": np.arange(100_000), "b": np.random.default_rng(1).random(100_000)}).slice(offset)
    (body,) = bodies_of(EpochChanges({}, [TableChanges(T, False, [ChangelogBatch(rows)])]))
    places = {np.frombuffer(piece, np.uint8).ctypes.data for piece in body}
    for column in rows.columns:
        assert column.buffers()[1].address + 8 * offset in places
