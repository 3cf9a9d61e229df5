"""Reads one ORC file, stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.orc as orc

from connectors.filesystem.column_reader import BATCH_ROWS, ColumnFileReader
from connectors.filesystem.opening import is_text, shown_path
from connectors.filesystem.orc_footer import stripes
from connectors.filesystem.systems.local import LOCAL
from connectors.filesystem.systems.seam import FileSystem
from runtime.core.errors import ConnectorError, FormatError
from runtime.expr.columns import from_numpy, integers_of, validity
from runtime.expr.zones import local_to_instant

__all__ = ["OrcFileReader", "open_orc"]

_FREE = 128 << 20
"""A stripe holds whole columns at once; so many bytes of one are read, however few it takes in the file."""


def open_orc(path: str, system: FileSystem = LOCAL) -> orc.ORCFile:
    """The file with its footer read; raises ConnectorError or FormatError with the path."""
    file, _ = system.open(path, in_order=False)
    try:
        if system.local and is_text(path):
            file.close()
            return orc.ORCFile(path)
        return orc.ORCFile(file)
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise ConnectorError(
                f"cannot read {shown_path(path)}: {error.strerror or error}",
                code="E3104",
                hint="check that the file exists and may be read",
            ) from error
        raise FormatError(
            f"{shown_path(path)} is not an ORC file: {error}", code="E3204", hint="check the option 'format'"
        ) from error


def _width(type_: pa.DataType) -> int:
    """The bytes that a value takes at the least."""
    if pa.types.is_struct(type_):
        return 1 + sum(_width(field.type) for field in type_)
    try:
        return max(1, type_.bit_width // 8)
    except ValueError:
        return 4


class OrcFileReader(ColumnFileReader):
    """Rows of one file, stripe by stripe (`ColumnFileReader`). The rows of a stripe are known when it is read; all
    stripes are read, because Arrow tells nothing of their statistics.

    ORC's timestamp is the time of a clock on the wall. Where the table has a TIMESTAMP_LTZ, as Spark and Hive write it
    so, it is what the clock shows in the session's time zone; of an hour that is there twice, the first.
    """

    def _open(self) -> None:
        self._file = open_orc(self._path, self._system)
        self._stripes = stripes(self._bytes, self._stamp.size)
        if len(self._stripes) != self._file.nstripes:
            raise ValueError("it has another number of stripes than it says")
        self._limits.check_rows(shown_path(self._path), self._stamp.size, sum(s.rows for s in self._stripes))

    def _names(self) -> Sequence[str]:
        return self._file.schema.names

    def _count(self) -> int:
        return int(self._file.nstripes)

    def _useful_groups(self) -> list[int]:
        return list(range(self._count()))

    def _rows_of(self, group: int) -> int:
        return self._stripes[group].rows

    def _begin_group(self, group: int, columns: list[str]) -> tuple[int, Iterator[pa.RecordBatch]]:
        path, stripe = shown_path(self._path), self._stripes[group]
        width = sum(_width(self._file.schema.field(name).type) for name in columns)
        self._limits.check(path, max(stripe.packed, _FREE // self._limits.ratio), stripe.rows * width)
        self._limits.check_page(path, f"stripe {group + 1}", stripe.rows * width)
        try:
            rows = self._file.read_stripe(group, columns)
        except pa.ArrowInvalid as error:
            if "out of range" not in str(error):
                raise
            raise FormatError(
                f"{shown_path(self._path)}: {error}", code="E3203", hint="times of ORC can be read from 1677 to 2262"
            ) from error
        rows = self._with_instants(rows)
        return rows.num_rows, (rows.slice(begin, BATCH_ROWS) for begin in range(0, max(1, rows.num_rows), BATCH_ROWS))

    def _with_instants(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        for name in rows.schema.names:
            wanted = self._wanted[self._wanted.index_of(name)].type.arrow
            column = rows.column(name)
            if (
                pa.types.is_timestamp(wanted)
                and wanted.tz
                and pa.types.is_timestamp(column.type)
                and not column.type.tz
            ):
                instants = local_to_instant(integers_of(column), self._time_zone, column.type.unit)
                made = from_numpy(instants, validity(column), pa.timestamp(column.type.unit, "UTC"))
                rows = rows.set_column(rows.schema.names.index(name), name, made)
        return rows
