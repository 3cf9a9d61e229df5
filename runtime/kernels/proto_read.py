"""Messages of Protobuf to columns, by a program (`proto_programs`).

The fields of a message come in any order and more than once, so a message is gone through once to note where they are, and then
each column takes what is its own. A column that is full stops the reading before the message that did not fit, gets more room,
and reading goes on. A message that is none leaves nothing behind.
Source: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels import proto_read_twin as twin
from runtime.kernels.column_filling import ColumnFilling
from runtime.kernels.native import kernel
from runtime.kernels.programs import NODE, Program
from runtime.kernels.proto_merge import merged

__all__ = ["read_messages", "reason_of"]

_proto_read = kernel("proto_read", "xiiiixIXIIII")

_NOTED = 4
_REASONS = {
    twin.SHORT: "it ends too early",
    twin.LONG_INTEGER: "an integer has more than ten bytes",
    twin.BAD_TAG: "a field has no number, or a kind that is none",
    twin.OUT_OF_RANGE: "a number is out of range",
    twin.NOT_TEXT: "not text in UTF-8",
    twin.TOO_DEEP: "nested too deeply",
    twin.TOO_MANY: "too many fields are not there",
    twin.MISSING: "it is required, and not there",
    twin.TOO_LARGE: "it is too large",
    twin.MERGE: "it comes in pieces, and one of them is malformed",
}


def read_messages(
    program: Program, data: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[list[pa.Array], np.ndarray]:
    """The columns of messages that each stand from a start to an end, without those that are malformed.

    Args:
        data: uint8. starts, ends: int64 (n,).

    Returns:
        The columns of `program.roots`, and of each message 0 or what `reason_of` explains, int64 (n,).
    """
    filling, state = _run(program, data, starts, ends)
    split = np.flatnonzero(state & 255 == twin.MERGE)
    if len(split):
        # Messages that are within others in pieces, which nobody writes but who joins bytes: they are put together first.
        whole = [merged(program, data[int(starts[i]) : int(ends[i])].tobytes()) for i in split.tolist()]
        lengths = np.array([len(one) for one in whole], np.int64)
        starts, ends = starts.copy(), ends.copy()
        ends[split] = len(data) + np.cumsum(lengths)
        starts[split] = ends[split] - lengths
        filling, state = _run(program, np.concatenate([data, np.frombuffer(b"".join(whole), np.uint8)]), starts, ends)
    return [filling.column(root) for root in program.roots], state


def reason_of(program: Program, state: int) -> str:
    """Why a message is malformed."""
    name, reason = program.names[state >> 8], _REASONS[state & 255]
    return f"{name}: {reason}" if name else reason


def _run(program: Program, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[ColumnFilling, np.ndarray]:
    filling = ColumnFilling(program.slots, len(starts), len(data))
    state, cursor = np.zeros(len(starts), np.int64), np.zeros(1, np.int64)
    saved = np.empty(3 * len(filling.table), np.int64)
    # The messages around one are of other nodes, so all of them together are enough.
    noted = np.empty(_NOTED * int(program.nodes[NODE - 1 :: NODE].sum()), np.int64)
    call = _proto_read or twin.read
    while True:
        table = filling.table.reshape(-1)
        given = (program.nodes, program.links, program.constants, table, filling.arena, saved, noted, state, cursor)
        call(data, starts, ends, *given)
        if not filling.is_full:
            return filling, state
        filling.grow()
