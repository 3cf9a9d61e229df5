"""Byte strings by key in RocksDB, whole batches at a time: where state is that does not fit into memory.

The files are scratch: they belong to one run, are written without a log, and go away with it. What a job has to find
again after a crash is in its checkpoints.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import re
import shutil
import struct
import sys
import tempfile
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.core.errors import StateBackendError, UnsupportedError
from runtime.kernels.arrow_buffers import byte_spans

__all__ = ["RocksSettings", "RocksStore", "require_rocksdb"]

_PREFIX = "sqlengine-state-"
_SCANNED = 65_536
_BITS_OF_FILTER = 10
_DELETES_OF = 65_536
"""Of so many entries in order half must be deletes for a file to be compacted for their sake."""


_OWNER_ALONE = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, 0xFFFFFFFF) for tag, rights in ((0x01, 7), (0x04, 0), (0x20, 0))
)
"""An access list as Linux keeps it (posix_acl_xattr.h, version 2): all for the owner, nothing for group and others."""


@dataclass(frozen=True, slots=True)
class RocksSettings:
    """`folder`: below it each store makes its own, None is the system's folder for temporary files; sizes in bytes."""

    folder: str | None
    block_cache: int
    write_buffer: int


def require_rocksdb() -> None:
    """Raises UnsupportedError when the library is not installed."""
    if importlib.util.find_spec("rocksdict") is None:
        raise UnsupportedError(
            "the state backend 'rocksdb' needs the library rocksdict, which is not installed",
            hint="pip install 'sqlengine[rocksdb]', or SET 'state.backend.type' = 'memory'",
        )


class RocksStore:
    """A database of its own, with a column family for each table; opened when first written to.

    Keys and values are large_binary arrays. All methods take any number of keys, each at most once, and are fastest
    when keys that are neighbours come one after the other.

    Raises:
        StateBackendError: a file cannot be written or read.
    """

    def __init__(self, settings: RocksSettings) -> None:
        self._settings = settings
        self._folder: Path | None = None
        self._database: Any = None
        self._library: Any = None
        self._families: dict[str, tuple[Any, Any]] = {}

    def put(self, family: str, keys: pa.Array, values: pa.Array) -> None:
        """Writes a value for each key, over whatever was there."""
        with self._failing("written"):
            _, handle = self._family(family)
            batch = self._library.WriteBatch(raw_mode=True)
            # The library asks for one call a key: the loop is the interpreter's own. A batch takes its default column
            # family; the one given with a key is passed over.
            batch.set_default_column_family(handle)
            deque(map(batch.put, _as_bytes(keys), _as_bytes(values)), maxlen=0)
            self._database.write(batch)

    def delete(self, family: str, keys: pa.Array) -> None:
        """Forgets keys, which may be absent."""
        if self._database is None or not len(keys):
            return
        with self._failing("written"):
            _, handle = self._family(family)
            batch = self._library.WriteBatch(raw_mode=True)
            batch.set_default_column_family(handle)
            deque(map(batch.delete, _as_bytes(keys)), maxlen=0)
            self._database.write(batch)

    def get(self, family: str, keys: pa.Array) -> pa.Array:
        """The value of each key, NULL where there is none."""
        if self._database is None or not len(keys):
            return pa.nulls(len(keys), pa.large_binary())
        with self._failing("read"):
            table, _ = self._family(family)
            return pa.array(table.get(_as_bytes(keys)), pa.large_binary())

    def scan(self, family: str) -> Iterator[tuple[pa.Array, pa.Array]]:
        """All keys and values, in pieces. What is written meanwhile is not seen."""
        if self._database is None:
            return
        with self._failing("read"):
            table, _ = self._family(family)
            entries = table.items()
            while piece := list(itertools.islice(entries, _SCANNED)):
                keys, values = zip(*piece, strict=True)
                yield pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary())

    def first(self, family: str, start: bytes, most: int) -> pa.Array:
        """The keys from `start` on, ascending, so many at most."""
        if self._database is None:
            return pa.array([], pa.large_binary())
        with self._failing("read"):
            table, _ = self._family(family)
            return pa.array(list(itertools.islice(table.keys(from_key=start), most)), pa.large_binary())

    @property
    def disk_bytes(self) -> int:
        """How much its files take, including what is replaced but not yet reclaimed."""
        if self._folder is None:
            return 0
        total = 0
        with os.scandir(self._folder) as entries:
            for entry in entries:
                # RocksDB removes files beside the job.
                with contextlib.suppress(FileNotFoundError):
                    total += entry.stat().st_size
        return total

    def close(self) -> None:
        """Deletes all files."""
        database, folder = self._database, self._folder
        self._database = self._folder = None
        self._families.clear()
        if database is not None:
            database.close()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _family(self, name: str) -> tuple[Any, Any]:
        """A column family: the table that reads it, and its handle for batches. Makes what is missing."""
        database = self._database or self._open()
        found = self._families.get(name)
        if found is None:
            # The name of a table may be any text.
            family = f"table{len(self._families)}"
            table = database.create_column_family(family, self._options())
            found = self._families[name] = table, database.get_column_family_handle(family)
        return found

    def _open(self) -> Any:
        require_rocksdb()
        # Imported when the first state is written: most jobs never do, and should not wait for it.
        import rocksdict

        self._library = rocksdict
        parent = Path(self._settings.folder or tempfile.gettempdir())
        parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(parent)
        self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
        _make_private(self._folder)
        database = self._library.Rdict(str(self._folder), self._options())
        writing = self._library.WriteOptions()
        writing.disable_wal = True
        database.set_write_options(writing)
        self._database = database
        return database

    def _options(self) -> Any:
        rocks = self._library
        blocks = rocks.BlockBasedOptions()
        blocks.set_block_cache(rocks.Cache(self._settings.block_cache))
        blocks.set_bloom_filter(_BITS_OF_FILTER, False)
        # Keys of an epoch that are neighbours share a block of this size more often than one of the usual 4 KiB.
        blocks.set_block_size(16_384)
        blocks.set_format_version(5)
        blocks.set_data_block_index_type(rocks.DataBlockIndexType.binary_and_hash())
        options = rocks.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(blocks)
        options.set_compression_type(rocks.DBCompressionType.none())
        options.set_write_buffer_size(self._settings.write_buffer)
        options.set_optimize_filters_for_hits(True)
        options.set_keep_log_file_num(1)
        options.set_max_background_jobs(2)
        # Keys that leave are mostly new ones: files are put together late, and seldom. Filters keep reads off most of
        # them.
        options.set_level_zero_file_num_compaction_trigger(16)
        # But a file that mostly says what is gone gives back the room of that.
        options.add_compact_on_deletion_collector_factory(_DELETES_OF, _DELETES_OF // 2, 0.5)
        options.set_level_zero_slowdown_writes_trigger(64)
        options.set_level_zero_stop_writes_trigger(128)
        return options

    @contextlib.contextmanager
    def _failing(self, done: str) -> Generator[None]:
        try:
            yield
        except Exception as error:
            # The library raises plain exceptions for whatever RocksDB reports.
            if type(error) is Exception or isinstance(error, OSError):
                raise self._error(done, error) from error
            raise

    def _error(self, done: str, error: BaseException) -> StateBackendError:
        where = self._folder or self._settings.folder or tempfile.gettempdir()
        return StateBackendError(
            f"state cannot be {done} in {where}: {error}",
            hint="see that the disk has room, or name another folder with 'state.backend.rocksdb.localdir'",
        )


def _make_private(folder: Path) -> None:
    """Has all files that are made in a folder be this user's alone, whatever the umask. The library makes them, so it is
    said by the folder's default access list; where a file system has none, it is the folder that nobody else can enter."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setxattr(folder, "system.posix_acl_default", _OWNER_ALONE)


def _as_bytes(strings: pa.Array) -> list[bytes]:
    """The byte strings as the library takes them."""
    data, _, lengths = byte_spans(strings)
    width = int(lengths[0]) if len(lengths) else 0
    if width and (lengths == width).all():
        return np.ascontiguousarray(data).view(f"V{width}").tolist()
    return strings.to_pylist()


def _remove_leftovers(parent: Path) -> None:
    """Deletes what processes that are gone have left behind: one that was killed cannot."""
    for path in parent.glob(f"{_PREFIX}*"):
        found = re.fullmatch(rf"{_PREFIX}(\d+)-.*", path.name)
        if found is None:
            continue
        try:
            os.kill(int(found[1]), 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except PermissionError:
            continue
