"""The columns of files that a table is declared over without naming any: `CREATE TABLE t WITH (..)`, `FROM 'flights.csv'`.

Files of columns say it themselves. Of text files a sample of the first one is looked at by DuckDB, which finds the dialect
of CSV, names and types; what it finds is tried on the sample with the format that will read the files, and a column whose
values that format does not take is a STRING. Folders named `column=value` are partitions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from connectors.filesystem.column_reader import refusing_damage
from connectors.filesystem.files import FileEntry, list_files
from connectors.filesystem.limits import ReadLimits
from connectors.filesystem.opening import bare_name, shown_path
from connectors.filesystem.orc_reader import open_orc
from connectors.filesystem.packing import COMPRESSION
from connectors.filesystem.parquet_reader import open_parquet
from connectors.filesystem.partition_names import partition_values
from connectors.filesystem.systems.choice import system_of
from connectors.filesystem.systems.seam import FileStatus, FileSystem
from connectors.filesystem.text_columns import csv_columns, json_columns
from connectors.filesystem.text_file import TextFile
from connectors.filesystem.unpacking import is_packed
from connectors.options import FORMAT, PATH
from runtime.core.errors import ConnectorError, FormatError, OptionError, UnsupportedError
from runtime.core.rooms import Room
from runtime.core.schema import Field, Schema
from runtime.core.types import BIGINT, DATE, INT, SMALLINT, STRING, DataType, decimal, from_arrow
from runtime.spi.catalog import ForeignTable
from runtime.spi.registry import TableRequest

if TYPE_CHECKING:
    import connectors.filesystem.avro_reader as _avro_reader
else:
    _avro_reader = Room("connectors.filesystem.avro_reader")

__all__ = ["infer_files"]

_ENDINGS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    ".csv": ("csv", {}),
    ".tsv": ("csv", {"csv.field-delimiter": "\\t"}),
    ".json": ("json", {}),
    ".jsonl": ("json", {}),
    ".ndjson": ("json", {}),
    ".parquet": ("parquet", {}),
    ".pq": ("parquet", {}),
    ".orc": ("orc", {}),
    ".avro": ("avro", {}),
    ".log": ("raw", {}),
    ".txt": ("raw", {}),
}
"""By the ending of a file's name its format, and the options that go with it."""
_UNSIGNED = {"uint8": SMALLINT, "uint16": INT, "uint32": BIGINT, "uint64": decimal(20, 0)}
_SAMPLE = 4 << 20
"""So many bytes of a text file are looked at."""
_NULL_FOLDER = "__DEFAULT_PARTITION__"


class _Found(NamedTuple):
    """The columns that files hold themselves, and the options by which they are read."""

    fields: tuple[Field, ...]
    options: Mapping[str, str]


def infer_files(request: TableRequest) -> ForeignTable:
    """The columns of the files of a table, its format where the option is missing, and what is particular to reading them.

    Raises:
        ConnectorError: E3101 there is no such file.
        OptionError: E1530 the format cannot be told from the name of the file; E1505 another scheme than `file`.
        FormatError: E3230 the columns cannot be told.
    """
    if not request.options.get(PATH.key):
        raise OptionError(
            "option 'path' is missing of connector 'filesystem'", hint="for example 'path' = 'flights.csv'"
        )
    system, path = system_of(request.options)
    entries = list_files(path, request.options.get("source.path.regex-pattern", ""), system=system)
    first = next((e for e in entries if e.size), None)
    if first is None:
        what = "is empty" if len(entries) == 1 else "has only empty files" if entries else "has no file"
        raise ConnectorError(
            f"{shown_path(path)} {what}, so that its columns cannot be told", code="E3101", hint="declare the columns"
        )
    format_name, implied = _format(request, entries)
    given = tuple(sorted({**implied, **request.options}.items()))
    found = _columns(format_name, system, first.path, system.status(first.path), given, request.time_zone)
    partitions = _partitions(path, system, entries, {f.name for f in found.fields})
    options = {**dict(given), FORMAT.key: format_name, **found.options}
    schema = Schema((*found.fields, *partitions))
    return ForeignTable(schema, options, partitioned_by=tuple(f.name for f in partitions))


def _format(request: TableRequest, entries: Sequence[FileEntry]) -> tuple[str, Mapping[str, str]]:
    """The format of the files, and the options that go with the ending of their names."""
    named = request.options.get(FORMAT.key)
    found = {_ending(e.path): e for e in entries if e.size}
    known = [_ENDINGS[ending] for ending in found if ending in _ENDINGS]
    if named is not None:
        return named, known[0][1] if len(found) == 1 and known and known[0][0] == named else {}
    hint = "say it: 'format' = 'csv', 'json', 'parquet', 'orc', 'avro' or 'raw'"
    if len({format_name for format_name, _ in known}) > 1:
        one, other = list(found)[:2]
        raise OptionError(
            f"{request.options[PATH.key]} has files of several formats: {shown_path(found[one].path)} and"
            f" {shown_path(found[other].path)}",
            code="E1530",
            hint=f"name those that are meant, such as '*{one}'",
        )
    if len(known) < len(found):
        odd = next(e.path for ending, e in found.items() if ending not in _ENDINGS)
        raise OptionError(f"the format of {shown_path(odd)} cannot be told from its name", code="E1530", hint=hint)
    return known[0]


def _ending(path: str) -> str:
    name = bare_name(path)
    stem = os.path.splitext(name)[0] if is_packed(name) else name
    return os.path.splitext(stem)[1].lower()


@lru_cache(maxsize=64)
def _columns(
    format_name: str,
    system: FileSystem,
    path: str,
    version: FileStatus,
    options: tuple[tuple[str, str], ...],
    time_zone: str,
) -> _Found:
    """Looked at once for each `version` of a file: one statement asks more than once."""
    given = dict(options)
    match format_name:
        case "parquet":
            with refusing_damage(path), open_parquet(path, system) as file:
                return _Found(_of_arrow(list(file.schema_arrow), path), {})
        case "orc":
            with refusing_damage(path):
                return _Found(_of_arrow(list(open_orc(path, system).schema), path), {})
        case "avro":
            return _Found(_avro_reader.avro_columns(path, system).fields, {})
        case "raw":
            return _Found((Field("line", STRING),), {})
        case "csv" | "json":
            sample = _sample(path, system, given.get(COMPRESSION.key, "auto").lower())
            look = csv_columns if format_name == "csv" else json_columns
            try:
                return _Found(*look(sample, given, time_zone))
            except ValueError as error:
                raise FormatError(
                    f"the columns of {shown_path(path)} cannot be told: {error}",
                    code="E3230",
                    hint="declare the columns",
                ) from error
        case _:
            raise OptionError(
                f"the columns of files of format '{format_name}' cannot be told",
                code="E1530",
                hint="declare the columns; those of csv, json, parquet, orc and avro need not be declared",
            )


def _of_arrow(fields: Sequence[Any], path: str) -> tuple[Field, ...]:
    found: list[Field] = []
    for field in fields:
        try:
            found.append(Field(field.name, _UNSIGNED.get(str(field.type)) or from_arrow(field.type)))
        except UnsupportedError as error:
            error.message = f"column {field.name} of {shown_path(path)}: {error.message}"
            error.hint = error.hint or "declare the columns that are wanted"
            raise
    return tuple(found)


def _sample(path: str, system: FileSystem, packing: str) -> bytes:
    """Whole lines from the front of a file, unpacked."""
    file = TextFile(path, ReadLimits(), system, packing)
    try:
        data = file.read(_SAMPLE)
        while len(data) < _SAMPLE and not file.at_end:
            data += file.read(_SAMPLE - len(data))
        data = data.removeprefix(b"\xef\xbb\xbf")
        return data if file.at_end else data[: data.rfind(b"\n") + 1] or data
    finally:
        file.close()


def _partitions(path: str, system: FileSystem, entries: Sequence[FileEntry], stored: set[str]) -> tuple[Field, ...]:
    """The columns that the folders below the table's path name, in their order; none where not every file is in them."""
    base = path if system.is_folder(path) else ""
    folders = [os.path.relpath(os.path.dirname(e.path), base) for e in entries] if base else []
    values = [partition_values(folder) for folder in dict.fromkeys(folders)]
    if not values or not all(values):
        return ()
    names = [n for n in values[0] if n not in stored and all(n in found for found in values)]
    return tuple(Field(n, _value_type([found[n] for found in values if found[n] != _NULL_FOLDER])) for n in names)


def _value_type(values: Sequence[str]) -> DataType:
    if values and all(_is_count(v) for v in values):
        return BIGINT
    return DATE if values and all(_is_date(v) for v in values) else STRING


def _is_count(text: str) -> bool:
    # 007 is a code, not a number.
    return text.isascii() and text.isdigit() and len(text) < 19 and str(int(text)) == text


def _is_date(text: str) -> bool:
    return len(text) == 10 and text[4] == text[7] == "-" and text.replace("-", "").isdigit()
