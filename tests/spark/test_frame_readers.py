"""Readers over the chunks of a DataFrame, from any row on; no Spark is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runtime.checkpoint.storage import below
from runtime.core.errors import SparkError
from runtime.core.schema import Field, Schema
from runtime.core.types import from_arrow
from runtime.spark.chunks import Chunk
from runtime.spark.epoch_log import EpochLog, write_part
from runtime.spark.frame_readers import FiledFrame, FrameReader, RowsOf
from runtime.spark.kept_stream import KeptStream
from runtime.tasks.versions import StateFolder

SIZES = (3, 1, 4)
TOTAL = sum(SIZES)
ROWS = RowsOf("t", Schema((Field("id", from_arrow(pa.int64())),)), lambda rows: rows)


def data(first: int, count: int) -> bytes:
    rows = pa.record_batch({"id": pa.array(range(first, first + count), pa.int64())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()


@pytest.fixture
def filed(tmp_path: Any) -> FiledFrame:
    folder = StateFolder(str(tmp_path))
    chunks = [
        Chunk(count, folder.write(f"c{number}", data(sum(SIZES[:number]), count))) for number, count in enumerate(SIZES)
    ]
    return FiledFrame(ROWS, str(tmp_path), tuple(chunks))


def opened(filed: FiledFrame, position: Any = None) -> FrameReader:
    reader = filed.open(filed.splits()[0], None)  # type: ignore[arg-type]
    if position is not None:
        reader.seek(position)
    return reader


def given(reader: FrameReader, step: int) -> Iterator[int]:
    while not reader.finished:
        batch = reader.poll(step)
        yield from [] if batch is None else batch.column(0).to_pylist()


@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_reading_goes_on_at_any_row(filed: FiledFrame, step: int) -> None:
    assert list(given(opened(filed), step)) == list(range(TOTAL))
    for row in range(TOTAL + 1):
        reader, left = opened(filed), row
        while left:
            part = reader.poll(left)
            assert part is not None
            left -= len(part)
        position = reader.position()
        assert position["row"] == row
        assert filed.position_after(filed.splits()[0], None, row) == position
        for known in (position, row):
            assert list(given(opened(filed, known), step)) == list(range(row, TOTAL))
        # Also where nothing was read since.
        assert opened(filed, position).position() == position
    assert filed.position_after(filed.splits()[0], None, TOTAL + 1) is None


def test_other_rows_are_told(filed: FiledFrame, tmp_path: Any) -> None:
    position = filed.position_after(filed.splits()[0], None, 4)
    moved = FiledFrame(ROWS, filed.place, (filed.chunks[2], *filed.chunks[:2]))
    for wrong, at in ((moved, position), (FiledFrame(ROWS, filed.place, filed.chunks[:1]), 4)):
        with pytest.raises(SparkError, match="gives other rows") as told:
            opened(wrong, at).poll(1)
        assert told.value.code == "E3108"
    later = FiledFrame(
        ROWS, filed.place, (*filed.chunks[:2], Chunk(2, StateFolder(str(tmp_path)).write("d", data(70, 2))))
    )
    assert list(given(opened(later, position), 9)) == [70, 71]


@pytest.mark.parametrize("position", [-1, 1.5, "1", {"row": 1}, {"row": -1, "rows": ""}, {"row": 1, "rows": 2}, [1]])
def test_a_position_from_outside_is_checked(filed: FiledFrame, position: Any) -> None:
    with pytest.raises(ValueError, match="is no position"):
        opened(filed, position)


def test_a_kept_micro_batch_is_read_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Query:
        isActive = True

    log = EpochLog(below(str(tmp_path), "rows"))
    for epoch, parts in ((1, [[1, 2, 3], [4]]), (2, [[5, 6]]), (4, [[7], [8], [9]])):
        names = [write_part(log.folder, pa.record_batch({"id": pa.array(part, pa.int64())})) for part in parts]
        log.show(log.stage_parts(epoch, names))

    def opened(position: Any) -> KeptStream:
        made = KeptStream(None, ROWS, str(tmp_path))
        made.seek(position)
        made._query = Query()
        return made

    read: list[EpochLog] = []
    bytes_of = EpochLog._rows
    monkeypatch.setattr(EpochLog, "_rows", lambda self, name: (read.append(self), bytes_of(self, name))[1])
    stream = opened({"log": log.name, "epoch": 0, "row": 0})
    found: list[list[int]] = []
    positions = [stream.position()]
    while (batch := stream.poll(2)) is not None:
        found.append(batch.column(0).to_pylist())
        positions.append(stream.position())
    assert found == [[1, 2], [3], [4], [5, 6], [7], [8], [9]] and len(read) == 6
    for place, position in enumerate(positions):
        again, rest = opened(position), []
        while (batch := again.poll(9)) is not None:
            rest += batch.column(0).to_pylist()
        assert rest == [n for part in found[place:] for n in part], position
