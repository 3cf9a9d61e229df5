"""Columns to messages of Protobuf, by a program (`proto_programs`)."""

from __future__ import annotations

import numpy as np

from runtime.kernels import proto_write_twin as twin
from runtime.kernels.native import kernel
from runtime.kernels.programs import Program
from runtime.kernels.written_columns import Unwritten, WrittenColumns

__all__ = ["write_messages"]

_proto_write = kernel("proto_write", "xiiixXII")


def write_messages(
    program: Program, columns: WrittenColumns, count: int, prefix: bytes
) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of so many messages, uint8, and where each of them begins and the last one ends, int64 (n + 1,).

    Args:
        prefix: what stands before each of them.

    Raises:
        Unwritten: a message that cannot be written.
    """
    table, given = columns.block()
    before = np.frombuffer(prefix, np.uint8)
    out = np.empty(len(given) + (16 + len(prefix)) * count + 64, np.uint8)
    used, cursor = np.zeros(count, np.int64), np.array([count, 0, 0], np.int64)
    call = _proto_write or twin.write
    while True:
        left = call(given, program.nodes, program.links, table, before, out, used, cursor)
        if cursor[2]:
            reason, node = int(cursor[2]) & 255, int(cursor[2]) >> 8
            raise Unwritten(left - 1, program.names[node], reason == twin.UNDECLARED)
        size = int(cursor[1])
        written = out[len(out) - size :]
        if left == 0:
            return written, np.append(size - used, size)
        more = np.empty(2 * len(out), np.uint8)
        more[len(more) - size :] = written
        out = more
