"""Records of Avro to columns, by a program (`avro_programs`).

A column that is full stops the reading before the record that did not fit, gets more room, and reading goes on.
A record that is none leaves nothing behind. Source: Apache Avro 1.12, Specification, "Binary Encoding".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels import avro_read_twin as twin
from runtime.kernels.column_filling import ColumnFilling
from runtime.kernels.native import kernel
from runtime.kernels.programs import Program

__all__ = ["read_records", "read_stream", "reason_of"]

_avro_read = kernel("avro_read", "xiiiixIXIIIn")

_REASONS = {
    twin.SHORT: "it ends too early",
    twin.LONG_INTEGER: "an integer has more than 64 bits",
    twin.BAD_LENGTH: "a length is negative",
    twin.NO_BRANCH: "its union has no branch of this number",
    twin.OUT_OF_RANGE: "a number is out of range",
    twin.NOT_TEXT: "not text in UTF-8",
    twin.NOT_BOOLEAN: "a BOOLEAN is neither 0 nor 1",
    twin.TOO_MANY: "too many items without bytes",
    twin.TOO_DEEP: "nested too deeply",
    twin.BAD_DECIMAL: "a number has too many digits",
    twin.LEFT_OVER: "bytes follow the record",
    twin.TOO_LARGE: "it is too large",
    twin.UNREAD: "it comes behind a malformed record",
}


def read_records(
    program: Program, data: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> tuple[list[pa.Array], np.ndarray]:
    """The columns of records that each stand from a start to an end, without those that are malformed.

    Args:
        data: uint8. starts, ends: int64 (n,).

    Returns:
        The columns of `program.roots`, and of each record 0 or what `reason_of` explains, int64 (n,).
    """
    filling = _Filling(program, len(starts), len(data))
    state = filling.run(data, starts, ends, False)
    return filling.columns(), state


def read_stream(program: Program, data: np.ndarray, begin: int, count: int) -> tuple[list[pa.Array], np.ndarray, int]:
    """The columns of records that stand one behind the other, up to the first that is malformed.

    Args:
        data: uint8; from `begin` on there are `count` records.

    Returns:
        The columns, of each record 0 or what `reason_of` explains, int64 (n,), and where the byte behind the last is.
    """
    filling = _Filling(program, count, len(data))
    filling.cursor[1] = begin
    state = filling.run(data, np.array([begin]), np.array([len(data)]), True)
    return filling.columns(), state, int(filling.cursor[1])


def reason_of(program: Program, state: int) -> str:
    """Why a record is malformed."""
    name = program.names[state >> 8]
    if state & 255 == twin.REFUSED:
        return name
    reason = _REASONS[state & 255]
    return f"{name}: {reason}" if name else reason


class _Filling(ColumnFilling):
    """Columns that a program fills."""

    def __init__(self, program: Program, count: int, size: int) -> None:
        super().__init__(program.slots, count, size)
        self._program = program
        self._count = count
        self.cursor = np.zeros(2, np.int64)

    def run(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray, streamed: bool) -> np.ndarray:
        """Fills the columns; gives the state of each record."""
        state = np.full(self._count, twin.UNREAD, np.int64)
        saved = np.empty(3 * len(self.table), np.int64)
        program, call = self._program, _avro_read or twin.read
        while True:
            table = self.table.reshape(-1)
            given = (program.nodes, program.links, program.constants, table, self.arena, saved, state, self.cursor)
            call(data, starts, ends, *given, int(streamed))
            if not self.is_full:
                return state
            self.grow()

    def columns(self) -> list[pa.Array]:
        """The columns of the record."""
        return [self.column(root) for root in self._program.roots]
