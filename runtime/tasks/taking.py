"""What tasks have written for sinks, and what came to the driver in between, in one order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.local.dataflow import Vertex
from runtime.tasks.shipping import loads
from runtime.tasks.sinks import RowWriter, adopt, sink_of
from runtime.tasks.task import Record
from runtime.tasks.wire import decode

__all__ = ["take_written"]


def take_written(
    vertices: Sequence[Vertex],
    writers: Mapping[int, Sequence[RowWriter]],
    written: Sequence[Record],
    outputs: dict[int, list[Record]],
) -> None:
    """What tasks have written for sinks, in the order of tasks. Of `outputs`, the changes that came to the driver, by
    operator, it takes those that lie between: of insertions that were divided as they came."""
    by_sink: dict[int, list[Record]] = {}
    for record in sorted(written, key=lambda r: r.partition):
        by_sink.setdefault(record.number, []).append(record)
    for number, these in writers.items():
        vertex, sinks = vertices[number], [w.sink for w in these]
        if number not in outputs or not vertex.node.mode.is_append_only or not any(s in by_sink for s in sinks):
            continue
        if all(sink_of(vertices[s]).takes_pieces for s in sinks):
            pieces = outputs.pop(number)
            for sink in sinks:
                by_sink.setdefault(sink, []).extend(pieces)
                by_sink[sink].sort(key=lambda r: r.partition)
    for sink, records in by_sink.items():
        for record in records:
            if record.kind == "written":
                adopt(vertices[sink], *loads(record.payload))
            else:
                batch = decode(record.payload)
                sink_of(vertices[sink]).write_piece(batch)
                vertices[sink].rows_in += len(batch)
