"""Columns to records of Avro, by a program (`avro_programs`)."""

from __future__ import annotations

import numpy as np

from runtime.kernels import avro_write_twin as twin
from runtime.kernels.native import kernel
from runtime.kernels.programs import Program
from runtime.kernels.written_columns import Unwritten, WrittenColumns

__all__ = ["write_records"]

_avro_write = kernel("avro_write", "xiiiXII")


def write_records(program: Program, columns: WrittenColumns, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of so many records, uint8, and where each of them ends, int64 (n,).

    Raises:
        Unwritten: a record that cannot be written.
    """
    table, given = columns.block()
    out = np.empty(len(given) + 16 * count + 64, np.uint8)
    ends, cursor = np.zeros(count, np.int64), np.zeros(2, np.int64)
    call = _avro_write or twin.write
    while True:
        row = call(given, program.nodes, program.links, table, out, ends, cursor)
        if cursor[1]:
            reason, node = int(cursor[1]) & 255, int(cursor[1]) >> 8
            raise Unwritten(row, program.names[node], reason == twin.UNDECLARED)
        if row == count:
            return out[: int(ends[-1]) if count else 0], ends
        more = np.empty(2 * len(out), np.uint8)
        used = int(ends[row - 1]) if row else 0
        more[:used] = out[:used]
        out = more
