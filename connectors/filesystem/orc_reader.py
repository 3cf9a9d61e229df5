"""Reads one ORC file, stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.orc as orc

from connectors.filesystem.column_reader import BATCH_ROWS, ColumnFileReader
from runtime.core.errors import ConnectorError, FormatError

__all__ = ["OrcFileReader", "open_orc", "orc_rows"]


def open_orc(path: str) -> orc.ORCFile:
    """The file with its footer read; raises ConnectorError or FormatError with the path."""
    try:
        with open(path, "rb") as file:
            file.read(1)
        return orc.ORCFile(path)
    except pa.ArrowException as error:
        raise FormatError(
            f"{path} is not an ORC file: {error}", code="E3204", hint="check the option 'format'"
        ) from error
    except OSError as error:
        if error.errno is None:
            raise FormatError(
                f"{path} is not an ORC file: {error}", code="E3204", hint="check the option 'format'"
            ) from error
        reason = error.strerror or str(error)
        raise ConnectorError(
            f"cannot read {path}: {reason}", code="E3104", hint="check that the file exists and may be read"
        ) from error


def orc_rows(path: str) -> int:
    """The number of rows, from the footer."""
    return int(open_orc(path).nrows)


class OrcFileReader(ColumnFileReader):
    """Rows of one file, stripe by stripe (`ColumnFileReader`). The rows of a stripe are known when it is read; all
    stripes are read, because Arrow tells nothing of their statistics."""

    def _open(self) -> None:
        self._file = open_orc(self._path)

    def _names(self) -> Sequence[str]:
        return self._file.schema.names

    def _count(self) -> int:
        return int(self._file.nstripes)

    def _useful_groups(self) -> list[int]:
        return list(range(self._count()))

    def _rows_of(self, group: int) -> int:
        return int(self._file.read_stripe(group, self._file.schema.names[:1]).num_rows)

    def _begin_group(self, group: int, columns: list[str]) -> tuple[int, Iterator[pa.RecordBatch]]:
        rows = self._file.read_stripe(group, columns)
        return rows.num_rows, (rows.slice(begin, BATCH_ROWS) for begin in range(0, max(1, rows.num_rows), BATCH_ROWS))
