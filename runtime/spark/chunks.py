"""The rows of a DataFrame in chunks: Arrow streams that Spark's own tasks put in files, of which a reader holds one at a time.

Only what is said of them comes to the driver. Where there is no folder that Spark's tasks and the reader both see (a job that
runs beside a session of a cluster), the driver collects the rows and cuts them. Chunks are in the order in which Spark would
collect their rows, and what identifies one is the SHA-256 of its bytes.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from runtime.spark import shipping
from runtime.spark.session import asked, is_remote
from runtime.tasks.versions import StateFolder

__all__ = ["Chunk", "chunks_of", "into_files", "is_here", "put", "rows_of"]

_ROWS = 65_536
_BYTES = 16 << 20
"""A chunk has at least one batch of Spark's, and no further one when it has so much."""
_TOLD = "part INT, number INT, rows BIGINT, name STRING"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows, one after another.

    Args:
        rows: how many; at least one.
        name: of the file, which ends with the SHA-256 of its bytes.
        data: its bytes, where there is no file.
    """

    rows: int
    name: str
    data: bytes = b""

    @property
    def digest(self) -> str:
        """What its rows are known by."""
        return self.name.rpartition(".")[2]


def is_here(frame: Any) -> bool:
    """Whether Spark computes a DataFrame on this machine."""
    session = frame.sparkSession
    # A session of Spark Connect does not say where.
    return not is_remote(session) and str(session.sparkContext.master).startswith("local")


def chunks_of(frame: Any, place: str) -> Iterator[Chunk]:
    """The chunks of a DataFrame: in files of a folder, or without one ("") as they come.

    Raises:
        SparkError: E3600 and others: Spark cannot compute it.
    """
    if place:
        return iter(into_files(frame, place))
    return _collected(frame)


def put(place: str, data: bytes) -> str:
    """In a task of Spark: a chunk becomes a file. Gives its name."""
    return StateFolder(place).write(f"frame-{uuid.uuid4().hex}", data)


def into_files(frame: Any, place: str, put: Callable[[str, bytes], str] = put) -> list[Chunk]:
    """Has Spark compute a DataFrame and put it in files of a `StateFolder`, or by what else puts bytes into a file of a
    place and gives its name.

    Raises:
        SparkError: E3600 and others: Spark cannot compute it.
    """
    told = asked(lambda: frame.mapInArrow(_work(place, put), _TOLD).toArrow())
    chunks = sorted(told.to_pylist(), key=lambda c: (c["part"], c["number"]))
    return [Chunk(c["rows"], c["name"]) for c in chunks]


def _collected(frame: Any) -> Iterator[Chunk]:
    """By the driver, all at once."""
    rows: pa.Table = asked(frame.toArrow)
    for start in range(0, rows.num_rows, _ROWS):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows.slice(start, _ROWS))
        data = sink.getvalue().to_pybytes()
        yield Chunk(min(_ROWS, rows.num_rows - start), hashlib.sha256(data).hexdigest(), data)


def rows_of(chunk: Chunk, place: str) -> pa.Table:
    """The rows of a chunk, in the Arrow types that Spark gives. Raises SparkError E3607 when its file is gone or damaged."""
    data = chunk.data or StateFolder(place).read(chunk.name)
    return pa.ipc.open_stream(pa.py_buffer(data)).read_all()


def _work(
    place: str, put: Callable[[str, bytes], str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What Spark's tasks do with the batches of a partition: put chunks in files, and give what is to be said of them."""
    found = shipping.attribute(f"{put.__module__}:{put.__name__}")
    most_rows, most_bytes = _ROWS, _BYTES

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark sends this by value.
        from pyspark import TaskContext

        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        held: list[pa.RecordBatch] = []
        number = 0

        def packed() -> pa.RecordBatch:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, held[0].schema) as writer:
                for batch in held:
                    writer.write_batch(batch)
            name = found()(place, sink.getvalue().to_pybytes())
            counts = [pa.array([part], pa.int32()), pa.array([number], pa.int32())]
            rows = pa.array([sum(batch.num_rows for batch in held)], pa.int64())
            return pa.RecordBatch.from_arrays(
                [*counts, rows, pa.array([name])], names=["part", "number", "rows", "name"]
            )

        for batch in batches:
            if not batch.num_rows:
                continue
            held.append(batch)
            if sum(b.num_rows for b in held) >= most_rows or sum(b.nbytes for b in held) >= most_bytes:
                yield packed()
                held, number = [], number + 1
        if held:
            yield packed()

    return work
