"""A table of state is read with the chain that its next save goes on from."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from runtime.checkpoint.local_storage import LocalStorage
from runtime.checkpoint.segments import SegmentReader, SegmentWriter
from runtime.checkpoint.storage import Damage
from runtime.checkpoint.table_chain import Piece, read_chain
from runtime.state.table import SLOT


def _read(folder: Path, *batches: pa.RecordBatch) -> tuple[list[tuple[int, object]], bool]:
    storage = LocalStorage(str(folder))
    writer = SegmentWriter(storage, "state", "abcdef012345")
    pieces = [Piece(writer.rows(b.schema, [b], b.nbytes), None) for b in batches]
    writer.close()
    rows, chain = read_chain(pieces, SegmentReader(storage))
    return [(r[SLOT], r["x"]) for r in rows.to_pylist()], chain is not None


def _rows(slots: list[int], values: pa.Array | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(slots, pa.int64()), values or pa.array(slots)], names=[SLOT, "x"])


def test_the_last_rows_fill_the_gaps(tmp_path: Path) -> None:
    steady = [i for i in range(40) if i not in (3, 4, 20)]
    found, goes_on = _read(tmp_path, _rows(steady), _rows([2, 45, 4], pa.array([-2, -45, -4])))
    # Of 39 rows none is at 3 and 20; 39 and 45 are beyond them; 2 and 4 were written later.
    assert goes_on and len(found) == 39
    target = {2: (2, -2), 3: (39, 39), 4: (4, -4), 20: (45, -45)}
    assert found == [target.get(i, (i, i)) for i in range(39)]


def test_many_rows_are_not_put_in_order(tmp_path: Path) -> None:
    found, goes_on = _read(tmp_path, _rows([5, 4, 3, 2, 1, 0]))
    assert not goes_on and sorted(found) == [(i, i) for i in range(6)]


def test_rows_of_other_columns_are_damage(tmp_path: Path) -> None:
    with pytest.raises(Damage):
        _read(tmp_path, _rows(list(range(20))), _rows([4, 5], pa.array([["a"], ["b"]])))
