"""The connector `filesystem`: its options, and files as a source table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from connectors.filesystem.bad_files import lenient_reader
from connectors.filesystem.column_filters import ColumnFilter, filter_expression, take_filters
from connectors.filesystem.column_reader import ColumnFileReader
from connectors.filesystem.constant_columns import METADATA, FileColumns
from connectors.filesystem.files import FileEntry, list_files
from connectors.filesystem.footers import footer_statistics
from connectors.filesystem.limits import LIMIT_OPTIONS, ReadLimits, read_limits
from connectors.filesystem.opening import shown_path
from connectors.filesystem.orc_reader import OrcFileReader
from connectors.filesystem.overwrite import OverwritableFileSink
from connectors.filesystem.packing import COMPRESSION, read_packing
from connectors.filesystem.parquet_reader import ParquetFileReader
from connectors.filesystem.partition_names import value_of_folder
from connectors.filesystem.sink import FileSink
from connectors.filesystem.sink_options import SINK_OPTIONS, read_partition_commit, read_rolling_policy
from connectors.filesystem.stored_columns import columns_in_files
from connectors.filesystem.systems.choice import OTHER_PREFIXES, STORE_OPTIONS, system_of
from connectors.filesystem.systems.seam import FileSystem, WritableFiles
from connectors.filesystem.text_reader import TextFileReader
from connectors.formats.projecting import projected_decoder
from connectors.listing import Listing
from connectors.options import FORMAT, PATH, TableOptions, physical_part, table_format
from runtime.core.changelog import ChangelogMode
from runtime.core.errors import ConnectorError, OptionError, SqlEngineError, UnsupportedError
from runtime.core.options import bool_option, duration_option, int_option, text_option
from runtime.core.rooms import Room
from runtime.core.schema import Schema
from runtime.core.strict_json import as_count
from runtime.core.types import DataType, TypeRoot
from runtime.expr.nodes import Expr
from runtime.spi.abilities import AskedAggregate, StoredColumns
from runtime.spi.format import Format
from runtime.spi.reader import ReadContext, SourceReader
from runtime.spi.registry import ConnectorFactory, TableRequest
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

if TYPE_CHECKING:
    import connectors.filesystem.avro_reader as _avro_reader
    import connectors.filesystem.grouped_reader as _grouped_reader
    import connectors.filesystem.inference as _inference
    import connectors.filesystem.remote_reader as _remote_reader
    import connectors.filesystem.tail_reader as _tail_reader
    from connectors.kit.aggregates import Aggregation
else:
    _avro_reader = Room("connectors.filesystem.avro_reader")
    _grouped_reader = Room("connectors.filesystem.grouped_reader")
    _inference = Room("connectors.filesystem.inference")
    _remote_reader = Room("connectors.filesystem.remote_reader")
    _tail_reader = Room("connectors.filesystem.tail_reader")

__all__ = ["FILESYSTEM", "FileSource"]

MONITOR = duration_option(
    "source.monitor-interval", 0, "how often to look for new files, such as '10 s'; without it the source is bounded"
)
TAIL = bool_option(
    "source.tail",
    False,
    "true or false: rows that are appended to a file of text are read, too; needs 'source.monitor-interval'",
)
PATTERN = text_option("source.path.regex-pattern", "", "a regular expression that the whole path of a file must match")
STATISTICS = text_option(
    "source.report-statistics", "ALL", "whether the planner gets the statistics of rows and columns", ("ALL", "NONE")
)
BAD_FILES = text_option(
    "source.bad-files",
    "auto",
    "what to do with a file that cannot be read to its end: 'fail' fails the query, 'skip' records the file in "
    "system.rejected and reads the others, 'auto' skips in a watched folder only",
    ("auto", "fail", "skip"),
)
DEFAULT_PARTITION = text_option(
    "partition.default-name", "__DEFAULT_PARTITION__", "the folder name that stands for a NULL partition value"
)
SCAN_PARALLELISM = int_option("scan.parallelism", 1, "accepted for compatibility")
_OPTIONS = (
    PATH,
    FORMAT,
    COMPRESSION,
    MONITOR,
    TAIL,
    PATTERN,
    STATISTICS,
    BAD_FILES,
    *LIMIT_OPTIONS,
    DEFAULT_PARTITION,
    SCAN_PARALLELISM,
    *SINK_OPTIONS,
    *STORE_OPTIONS,
)

_BYTES_OF_A_TEXT_COLUMN = 12
"""A guess of what a cell takes in a text file, to estimate rows from bytes."""


_COLUMN_FILES: Mapping[str, type[ColumnFileReader]] = {"orc": OrcFileReader, "parquet": ParquetFileReader}
"""By format what reads a file of columns."""


@dataclass(frozen=True)
class FileSource:
    """Files of one format. Each file is a split; new files are found while the job runs when `monitor_interval`
    (milliseconds) is set. `lenient`: a file that cannot be read does not end the job."""

    name: str
    system: FileSystem
    path: str
    pattern: str
    data: Schema
    columns: FileColumns
    options: tuple[tuple[str, str], ...] = field(repr=False)
    time_zone: str
    monitor_interval: int
    report_statistics: bool
    lenient: bool
    limits: ReadLimits
    packing: str
    tail: bool
    format: Format = field(compare=False)

    @property
    def schema(self) -> Schema:
        return self.columns.schema

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.format.changelog_mode

    @property
    def bounded(self) -> bool:
        return self.monitor_interval == 0

    @property
    def distributed_reads(self) -> bool:
        """A file is there for whoever sees the folder."""
        return True

    def __getstate__(self) -> dict[str, Any]:
        """Without what it remembers of the folder."""
        return {key: value for key, value in self.__dict__.items() if key not in ("_listed", "_known")}

    def _list(self) -> list[FileEntry]:
        return self._files(may_be_missing=not self.bounded)

    def _files(self, may_be_missing: bool) -> list[FileEntry]:
        return list_files(
            self.path, self.pattern, self.columns.partitions, may_be_missing=may_be_missing, system=self.system
        )

    def statistics(self) -> TableStatistics:
        """Rows guessed from the size of the files; nothing when they cannot be listed now, or more may come: a plan must be
        the same when its job goes on later."""
        if not (self.report_statistics and self.bounded):
            return TableStatistics()
        try:
            size = sum(e.size for e in self._list())
        except ConnectorError:
            return TableStatistics()
        return TableStatistics(rows=size / (_BYTES_OF_A_TEXT_COLUMN * max(1, len(self.data))))

    def partitions(self) -> list[dict[str, str | None]]:
        """Those of the files that are there, as their folders name them."""
        found = dict.fromkeys(e.partition for e in self._files(may_be_missing=True) if e.partition)
        default = self.columns.default_partition
        return [{column: value_of_folder(written, default) for column, written in p} for p in found]

    def splits(self) -> list[Split]:
        """A split per file, by its path."""
        return [Split(e.path, e) for e in self._listing().entries()]

    def refresh_splits(self) -> None:
        self._listing().expire()

    def watch_splits(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Folders of one file system share a thread."""
        return self._listing().watch(("filesystem", self.system.group(self.path)), wake)

    def _listing(self) -> Listing[FileEntry]:
        listing = self.__dict__.get("_listed")
        if listing is None:
            listing = Listing(self._list, self.monitor_interval, glance=self._glance)
            object.__setattr__(self, "_listed", listing)
        return listing

    def _glance(self) -> object:
        names = self.system.names(self.path)
        return object() if names is None else names

    def open(self, split: Split, context: ReadContext) -> SourceReader:
        entry: FileEntry = split.where
        if self.system.local:
            return self._open_as_it_may_be(entry, context)
        return _remote_reader.RemoteReader(entry.path, lambda context: self._open_as_it_may_be(entry, context), context)

    def _open_as_it_may_be(self, entry: FileEntry, context: ReadContext) -> SourceReader:
        if self.lenient:
            return lenient_reader(entry, context, lambda: self._open(entry, context))
        return self._open(entry, context)

    def _open(self, entry: FileEntry, context: ReadContext) -> SourceReader:
        if entry.misplaced:
            raise ConnectorError(
                f"{shown_path(entry.path)} {entry.misplaced}",
                code="E3103",
                hint=f"the table is partitioned by {', '.join(self.columns.partitions)}: each file stands in folders "
                "named column=value",
            )
        return self.columns.complete(self._reader(entry, context), entry)

    def _reader(self, entry: FileEntry, context: ReadContext) -> SourceReader:
        """Of the columns that the file itself holds."""
        if self.format.name == "avro":
            chosen = Schema(tuple(self.data[self.data.index_of(n)] for n in self.columns.read))
            return _avro_reader.AvroFileReader(entry.path, chosen, self.limits, self.system)
        decoder = projected_decoder(self.format, self.data, self.columns.read, self.time_zone)
        if self.tail:
            return _tail_reader.TailReader(
                entry.path,
                decoder,
                self.format.name,
                context.reject,
                ignores=getattr(self.format, "ignore_parse_errors", False),
                interval=self.monitor_interval / 1000,
                limits=self.limits,
            )
        reject = context.reject if getattr(self.format, "ignore_parse_errors", False) else None
        return TextFileReader(
            entry.path, decoder, self.format.name, reject, limits=self.limits, system=self.system, packing=self.packing
        )

    def fingerprint(self, position: Any) -> list[int]:
        """See `SupportsChangeDetection`: size in bytes and time of modification in milliseconds."""
        stamp = position if self.system.local else position["at"]
        return [stamp["size"], stamp["modified"] // 1_000_000]

    def changed(self, split: Split, fingerprint: list[int]) -> tuple[str, list[int]] | None:
        """See `SupportsChangeDetection`. Raises ValueError for what is no fingerprint."""
        entry: FileEntry = split.where
        size, modified = map(as_count, fingerprint)
        now = [entry.size, entry.modified]
        if now == [size, modified]:
            return None
        path = shown_path(entry.path)
        if entry.size > size:
            what = f"has grown from {size} to {entry.size} bytes since it was read: what was added is not read"
        elif entry.size < size:
            what = f"has shrunk from {size} to {entry.size} bytes since it was read: it is not read again"
        else:
            what = "has been written since it was read: it is not read again"
        return f"{path} {what}", now

    def with_columns(self, names: Sequence[str]) -> FileSource:
        return replace(self, columns=self.columns.select(names))

    def describe(self) -> dict[str, Any]:
        options = self._reading()
        return {
            "connector": "filesystem",
            "path": self.path,
            "format": self.format.name,
            "columns": list(self.schema.names),
            **({"options": options} if options else {}),
        }

    def _reading(self) -> dict[str, str]:
        """The options that decide which rows are read, and how, and the time zone of texts that have none."""
        deciding = (
            PATTERN.key,
            COMPRESSION.key,
            TAIL.key,
            DEFAULT_PARTITION.key,
            BAD_FILES.key,
            *(option.key for option in LIMIT_OPTIONS),
        )
        found = {k: v for k, v in self.options if k in deciding or k.startswith(self.format.name + ".")}
        zoned = any(f.type.root is TypeRoot.TIMESTAMP_LTZ for f in self.schema)
        return {**found, "time zone": self.time_zone} if zoned else found

    def preserves_values(self, wide: DataType, narrow: DataType) -> bool:
        """Texts of numbers are rounded to a FLOAT or a DOUBLE, and what does not fit is left out where errors are
        ignored; all else is the same value."""
        if getattr(self.format, "ignore_parse_errors", False):
            return False
        return self.format.name in (*_COLUMN_FILES, "avro") or not wide.is_approximate


@dataclass(frozen=True)
class ColumnFileSource(FileSource):
    """Files of columns, Parquet or ORC: takes filters, and knows its rows from the footers."""

    filters: tuple[ColumnFilter, ...] = ()
    aggregation: Aggregation | None = None

    @property
    def schema(self) -> Schema:
        return self.columns.schema if self.aggregation is None else self.aggregation.schema

    def with_aggregates(self, group: Sequence[str], calls: Sequence[AskedAggregate]) -> ColumnFileSource | None:
        """Of Parquet, what footers say of all rows."""
        if self.format.name != "parquet" or self.lenient or self.filters or self.aggregation is not None:
            return None
        found = _grouped_reader.of_files(self.data, group, calls)
        return None if found is None else replace(self, columns=self.columns.select(()), aggregation=found)

    def aggregated(self) -> tuple[Sequence[str], Sequence[AskedAggregate]] | None:
        return None if self.aggregation is None else (self.aggregation.group, self.aggregation.calls)

    def with_filters(self, filters: Sequence[Expr]) -> tuple[ColumnFileSource, list[Expr]]:
        """Comparisons of stored columns with constants are taken and applied exactly."""
        if self.aggregation is not None:
            return self, list(filters)
        taken, left = take_filters(filters, self.schema, self.data.names)
        return replace(self, filters=(*self.filters, *taken)), left

    def pushed(self, schema: Schema) -> tuple[list[Expr], int | None]:
        return [filter_expression(taken, schema) for taken in self.filters], None

    def statistics(self) -> TableStatistics:
        """From the footers: of the rows as they are stored, filters left aside. Nothing when more files may come."""
        if not (self.report_statistics and self.bounded) or self.aggregation is not None:
            return TableStatistics()
        known: TableStatistics | None = self.__dict__.get("_known")
        if known is None:
            try:
                known = footer_statistics(self._list(), self.format.name, self.system)
            except SqlEngineError:
                return TableStatistics()
            object.__setattr__(self, "_known", known)
        return known

    def stored_columns(self) -> StoredColumns | None:
        """See `TellsStoredColumns`. Of partitioned tables, and columns of metadata, nothing is told."""
        if (
            self.format.name != "parquet"
            or self.lenient
            or self.aggregation
            or not (self.bounded and self.system.local)
        ):
            return None
        if self.schema.names != self.columns.read:
            return None
        try:
            entries = self._list()
        except SqlEngineError:
            return None
        return columns_in_files(entries, self._wanted()[1], self.filters, self.limits)

    def _wanted(self) -> tuple[Schema, Schema]:
        """The stored columns that are given, and with those that only filters need."""
        read = Schema(tuple(self.data[self.data.index_of(n)] for n in self.columns.read))
        only_filtered = dict.fromkeys(f.column for f in self.filters if read.index_of(f.column) < 0)
        return read, Schema((*read.fields, *(self.data[self.data.index_of(n)] for n in only_filtered)))

    def _open(self, entry: FileEntry, context: ReadContext) -> SourceReader:
        if self.aggregation is None or entry.misplaced:
            return super()._open(entry, context)
        rows = self.aggregation.rows
        return _grouped_reader.GroupedParquetReader(
            entry.path, rows, rows, (), self.time_zone, self.limits, self.system
        ).aggregating(self.aggregation)

    def _reader(self, entry: FileEntry, context: ReadContext) -> SourceReader:
        read, wanted = self._wanted()
        return _COLUMN_FILES[self.format.name](
            entry.path, read, wanted, self.filters, self.time_zone, self.limits, self.system
        )

    def describe(self) -> dict[str, Any]:
        described = super().describe()
        if self.aggregation is not None:
            described |= self.aggregation.describe()
        return {**described, "filters": [str(f) for f in self.filters]} if self.filters else described


def _read_options(request: TableRequest) -> tuple[TableOptions, FileSystem, str, Format]:
    format_name = request.options.get(FORMAT.key, "")
    options = TableOptions(
        request.options,
        "connector 'filesystem'",
        _OPTIONS,
        (*OTHER_PREFIXES, *((format_name + ".",) if format_name else ())),
    )
    options.required(PATH)
    system, path = system_of(request.options)
    return options, system, path, table_format(request, options.required(FORMAT))


def _read_tail(options: TableOptions, system: FileSystem, format_: Format) -> bool:
    """Raises OptionError where nothing can be appended."""
    if not options.get(TAIL):
        return False
    why = ""
    if not options.get(MONITOR):
        why = f"the table is not watched; set '{MONITOR.key}', such as '1 s'"
    elif not system.local:
        why = "only files of this machine can grow"
    elif format_.name in (*_COLUMN_FILES, "avro"):
        why = f"nothing can be appended to files of format '{format_.name}'"
    elif options.get(COMPRESSION).lower() not in ("auto", "none"):
        why = "what is appended to a compressed file cannot be read by itself"
    if why:
        raise OptionError(f"option '{TAIL.key}' cannot be 'true': {why}", hint="leave it out, or change the table")
    return True


def _source(request: TableRequest) -> FileSource:
    options, system, path, format_ = _read_options(request)
    physical = physical_part(request)
    unknown = [c for c in request.partitioned_by if physical.index_of(c) < 0]
    if unknown:
        raise OptionError(f"{request.name} is partitioned by '{unknown[0]}', which is no column of it")
    data = Schema(tuple(f for f in physical if f.name not in request.partitioned_by))
    columns = FileColumns.of(request, data, options.get(DEFAULT_PARTITION))
    # A format refuses columns that it cannot hold before anything is read.
    projected_decoder(format_, data, columns.read, request.time_zone)
    watched = options.get(MONITOR) > 0
    bad_files = options.get(BAD_FILES).lower()
    kind = ColumnFileSource if format_.name in _COLUMN_FILES else FileSource
    relevant: Mapping[str, str] = {
        k: v for k, v in request.options.items() if not k.startswith(("sink.", "partition.time"))
    }
    return kind(
        request.name,
        system,
        path,
        options.get(PATTERN),
        data,
        columns,
        tuple(sorted(relevant.items())),
        request.time_zone,
        options.get(MONITOR),
        options.get(STATISTICS).upper() != "NONE",
        watched if bad_files == "auto" else bad_files == "skip",
        read_limits(options),
        read_packing(options, format_),
        _read_tail(options, system, format_),
        format_,
    )


def _sink(request: TableRequest) -> FileSink:
    options, system, path, format_ = _read_options(request)
    if not isinstance(system, WritableFiles):
        raise UnsupportedError(
            f"connector 'filesystem' cannot write to {shown_path(path)}",
            code="E1601",
            hint="give a local path, or the address of an object store",
        )
    if re.search(r"[/\\\x00-\x1f]", options.get(DEFAULT_PARTITION)) or options.get(DEFAULT_PARTITION) == "":
        raise OptionError(
            f"option '{DEFAULT_PARTITION.key}' cannot be '{shown_path(options.get(DEFAULT_PARTITION))}'",
            hint="it is a part of the name of a folder",
        )
    if request.metadata:
        raise OptionError(
            f"connector 'filesystem' cannot write metadata column '{request.metadata[0][0]}'", hint="declare it VIRTUAL"
        )
    stored = [f for f in request.schema if f.name not in request.partitioned_by]
    if not stored:
        raise OptionError(f"{request.name} has no column that is stored in its files")
    sink = OverwritableFileSink(
        request.name,
        system,
        path,
        request.schema,
        request.primary_key,
        request.partitioned_by,
        options.get(DEFAULT_PARTITION),
        read_rolling_policy(options),
        read_partition_commit(options, request.partitioned_by),
        request.time_zone,
        format_,
        packing=read_packing(options, format_),
        format_options=tuple(sorted((k, v) for k, v in request.options.items() if k.startswith(format_.name + "."))),
    )
    # What the format cannot hold is told before a job begins.
    sink.encoder()
    return sink


FILESYSTEM = ConnectorFactory(
    name="filesystem",
    document="files here, in object stores and on servers: a file, a folder, a pattern; bounded, or watched for new files",
    source=_source,
    sink=_sink,
    metadata=METADATA,
    options=_OPTIONS,
    prefixes=OTHER_PREFIXES,
    infer=lambda request: _inference.infer_files(request),
)
