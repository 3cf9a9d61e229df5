"""Arrow streams of a stranger: what Arrow itself would find too late."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from runtime.checkpoint.arrow_streams import read_streams


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (pa.int64(), 1, b"column"),
        (pa.struct([("inner", pa.int64())]), {"inner": 1}, b"inner"),
        (pa.timestamp("ms", "Europe/Berlin"), 1, b"Europe/Berlin"),
    ],
)
def test_names_that_are_no_text_are_damage(type_: pa.DataType, value: Any, text: bytes) -> None:
    sink = pa.BufferOutputStream()
    schema = pa.schema([("column", type_)])
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch([pa.array([value], type_)], schema=schema))
    data = sink.getvalue().to_pybytes()
    assert len(list(read_streams(pa.py_buffer(data)))) == 1
    with pytest.raises(ValueError):
        list(read_streams(pa.py_buffer(data.replace(text, b"\xff" + text[1:]))))
