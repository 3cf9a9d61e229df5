"""Small files of a table made to larger ones: the bytes, or columns, that they hold, whatever the table declares of them.

    small files stay -> a hidden file has all that they hold -> they are hidden, it gets a name -> they are removed

When the process dies on the way, the next call shows the small files again, or removes them where the new one is there.

Text files are put one behind the other. Parquet and ORC files are read, and written with the columns that they have; only
those with the same columns go together. What cannot be put together without a doubt stays: packed files, a CSV file with
a quote that is open at its end, and the files of a job that may still go on from a checkpoint (its token is in the folder,
and its checkpoints are there), because it would look for them.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from connectors.filesystem.line_owner import owners
from connectors.filesystem.orc_reader import open_orc
from connectors.filesystem.parquet_reader import open_parquet
from connectors.filesystem.partition_names import refuse_links
from connectors.filesystem.staged_files import remove_file, sync_folder
from connectors.filesystem.systems.local import visible_files
from connectors.filesystem.unpacking import is_packed
from connectors.formats.csv import CsvFormat
from connectors.formats.orc import check_times
from runtime.core.errors import ConnectorError
from runtime.spi.abilities import CompactedFiles
from runtime.spi.format import Format

__all__ = ["compact_files"]

_LINE = re.compile(r"part-([0-9a-f]{1,40})-")
_SHOWN, _HIDDEN = "compacted-", ".compacting-"
_LEFT = re.compile(r"\.compacting-([0-9a-f]{12})(?:-(.+))?", re.DOTALL)
_ROWS = 1 << 20
_PIECE = 1 << 20


def compact_files(root: str, format_: Format, target: int) -> list[CompactedFiles]:
    """Put the files of each folder below `root` that are smaller than `target` bytes together, to about that size.

    Raises:
        ConnectorError: E3110 the folder cannot be listed or written, E3112 files cannot change places; then all are as
            they were. Errors of a Parquet or ORC file that cannot be read.
    """
    try:
        with _alone(root):
            return _compact_folders(root, format_, target)
    except OSError as error:
        raise ConnectorError(f"cannot compact {root}: {error.strerror}", code="E3110") from error


def _compact_folders(root: str, format_: Format, target: int) -> list[CompactedFiles]:
    _finish(root)
    busy = owners(root)
    folders: dict[str, list[str]] = {}
    for path in visible_files(root):
        folders.setdefault(os.path.dirname(path), []).append(path)
    done: list[CompactedFiles] = []
    for folder, paths in sorted(folders.items()):
        shown = os.path.relpath(folder, root)
        shown = "" if shown == "." else shown
        refuse_links(root, shown)
        done += _compact(folder, shown, paths, busy, format_, target)
    return done


@contextmanager
def _alone(root: str) -> Generator[None]:
    """Raises ConnectorError E3112 when somebody compacts the folder by now."""
    descriptor = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise ConnectorError(f"somebody compacts {root} now", code="E3112", hint="wait for that") from error
    try:
        yield
    finally:
        os.close(descriptor)


def _finish(root: str) -> None:
    """What a process has left that died while files changed places."""
    for at, _, names in os.walk(root):
        for name in names:
            left = _LEFT.fullmatch(name)
            if left is None:
                continue
            hidden = os.path.join(at, name)
            if left[2] is None or any(n.startswith(f"{_SHOWN}{left[1]}.") for n in names):
                remove_file(hidden)
            else:
                os.rename(hidden, os.path.join(at, left[2]))


def _compact(
    folder: str, shown: str, paths: Sequence[str], busy: set[str], format_: Format, target: int
) -> Iterator[CompactedFiles]:
    free = [p for p in paths if not ((line := _LINE.match(os.path.basename(p))) and line[1] in busy)]
    small: dict[object, list[tuple[str, int]]] = {}
    for path in free:
        size = os.stat(path).st_size
        if size < target and not os.path.islink(path) and not is_packed(path):
            kind = _kind(path, format_)
            if kind is not None:
                small.setdefault(kind, []).append((path, size))
    merged: list[str] = []
    made = 0
    for group in small.values():
        for batch in _batches(group, target):
            _replace(folder, batch, format_)
            merged += batch
            made += 1
    if merged or len(free) < len(paths):
        yield CompactedFiles(shown, len(paths), len(paths) - len(merged) + made, len(paths) - len(free))


def _kind(path: str, format_: Format) -> object:
    """Files of one kind may go together; None for one that stays by itself."""
    if format_.name == "parquet":
        with open_parquet(path) as file:
            if any(file.schema.column(i).physical_type == "INT96" for i in range(len(file.schema))):
                return None  # Arrow writes such times in another form, which has not all of them.
            return file.schema_arrow.to_string(show_schema_metadata=False)
    if format_.name == "orc":
        return open_orc(path).schema.to_string(show_schema_metadata=False)
    if isinstance(format_, CsvFormat):
        quote = format_.dialect.quote
        if quote is not None and _quotes(path, quote.encode()) % 2:
            return None
        if format_.dialect.header:
            with open(path, "rb") as file:
                return _without_bom(file.readline()).rstrip(b"\r\n")
    return format_.name


def _quotes(path: str, quote: bytes) -> int:
    with open(path, "rb") as file:
        return sum(piece.count(quote) for piece in iter(lambda: file.read(_PIECE), b""))


def _batches(files: Sequence[tuple[str, int]], target: int) -> Iterator[list[str]]:
    """At least two files each, of about so many bytes together."""
    batch: list[str] = []
    bytes_ = 0
    for path, size in files:
        if batch and bytes_ + size > target:
            if len(batch) > 1:
                yield batch
            batch, bytes_ = [], 0
        batch.append(path)
        bytes_ += size
    if len(batch) > 1:
        yield batch


def _replace(folder: str, paths: Sequence[str], format_: Format) -> None:
    """Files become one. When that fails they are as they were."""
    run = secrets.token_hex(6)
    hidden = os.path.join(folder, f"{_HIDDEN}{run}")
    final = os.path.join(folder, f"{_SHOWN}{run}{os.path.splitext(paths[0])[1] or '.data'}")
    away: list[tuple[str, str]] = []
    try:
        with open(hidden, "xb") as out:
            if format_.name in _WRITE:
                _WRITE[format_.name](out, paths)
            else:
                _write_text(out, paths, isinstance(format_, CsvFormat) and format_.dialect.header)
            out.flush()
            os.fsync(out.fileno())
        sync_folder(folder)
        for path in paths:
            gone = os.path.join(folder, f"{_HIDDEN}{run}-{os.path.basename(path)}")
            os.rename(path, gone)
            away.append((path, gone))
        os.rename(hidden, final)
    except BaseException as error:
        for path, gone in away:
            with suppress(OSError):
                os.rename(gone, path)
        with suppress(OSError):
            remove_file(hidden)
        if isinstance(error, OSError):
            message = f"cannot replace files of {folder}: {error.strerror}"
            raise ConnectorError(message, code="E3112", hint="the files are as they were") from error
        raise
    sync_folder(folder)
    for _, gone in away:
        with suppress(OSError):
            remove_file(gone)


def _write_text(out: BinaryIO, paths: Sequence[str], header: bool) -> None:
    """`header`: the first line of each file is that of the first one."""
    for number, path in enumerate(paths):
        last = b"\n"
        with open(path, "rb") as file:
            piece = _without_bom(file.readline())
            if header and number:
                piece = file.read(_PIECE)
            while piece:
                out.write(piece)
                last = piece[-1:]
                piece = file.read(_PIECE)
        if last != b"\n":
            out.write(b"\n")


def _without_bom(line: bytes) -> bytes:
    return line.removeprefix(b"\xef\xbb\xbf")


def _write_parquet(out: BinaryIO, paths: Sequence[str]) -> None:
    with open_parquet(paths[0]) as first:
        schema = first.schema_arrow.remove_metadata()
        groups = first.metadata
        codec = groups.row_group(0).column(0).compression if groups.num_row_groups and groups.num_columns else "SNAPPY"
    rows = 0
    codec = "none" if codec == "UNCOMPRESSED" else codec.lower()
    with pq.ParquetWriter(out, schema, compression=codec, write_page_checksum=True) as writer:
        waiting: list[pa.RecordBatch] = []
        for path in paths:
            with open_parquet(path) as file:
                for batch in file.iter_batches():
                    waiting.append(batch.replace_schema_metadata(None))
                    rows += len(batch)
                    if rows >= _ROWS:
                        writer.write_table(pa.Table.from_batches(waiting, schema), row_group_size=_ROWS)
                        waiting, rows = [], 0
        if rows:
            writer.write_table(pa.Table.from_batches(waiting, schema), row_group_size=_ROWS)


def _write_orc(out: BinaryIO, paths: Sequence[str]) -> None:
    codec = open_orc(paths[0]).compression
    with orc.ORCWriter(out, compression=codec) as writer:
        for path in paths:
            file = open_orc(path)
            for stripe in range(file.nstripes):
                rows = file.read_stripe(stripe)
                check_times(rows.schema.names, rows.columns)
                writer.write(pa.Table.from_batches([rows]))


_WRITE = {"parquet": _write_parquet, "orc": _write_orc}
