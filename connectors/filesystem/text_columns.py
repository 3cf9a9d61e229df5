"""Names and types of the columns of a text file, from a sample of it. DuckDB finds them; the format that will read the file
has the last word."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from connectors.formats.csv import CSV
from connectors.formats.json import JSON, TIMESTAMPS
from connectors.formats.projecting import projected_decoder
from connectors.formats.text_values import ISO
from runtime.core.errors import SqlEngineError
from runtime.core.schema import Field, Schema
from runtime.core.types import (
    BIGINT,
    DATE,
    DOUBLE,
    STRING,
    DataType,
    TypeRoot,
    array,
    decimal,
    from_arrow,
    row,
    timestamp,
    timestamp_ltz,
)
from runtime.spi.format import Format
from runtime.spi.registry import FormatFactory

__all__ = ["TextColumns", "csv_columns", "json_columns"]

_ROWS = 20_000
"""So many rows are looked at, at most."""
_MARKS = {"(empty)": ""}


class TextColumns(NamedTuple):
    """The columns, and the options of the table by which they are read."""

    fields: tuple[Field, ...]
    options: Mapping[str, str]


def csv_columns(sample: bytes, options: Mapping[str, str], time_zone: str) -> TextColumns:
    """Those of a file of CSV. `options`: what the table has already, which is kept.

    Raises:
        ValueError: it is no CSV, or its dialect has no options here.
    """
    given = {key.removeprefix("csv."): value for key, value in options.items() if key.startswith("csv.")}
    arguments, known = ["sample_size=-1"], list[Any]()
    delimiter = given.get("field-delimiter")
    for argument, value in (
        ("delim", "\t" if delimiter in ("\\t", "\t") else delimiter),
        ("quote", "" if given.get("disable-quote-character", "").lower() == "true" else given.get("quote-character")),
        ("escape", given.get("escape-character")),
        ("comment", "#" if given.get("allow-comments", "").lower() == "true" else ""),
    ):
        if value is not None:
            arguments.append(f"{argument}=?")
            known.append(value)
    if "header" in given:
        arguments.append(f"header={'true' if given['header'].lower() == 'true' else 'false'}")
    with _asked(sample) as (connection, path):
        found = connection.execute(
            "SELECT Delimiter, Quote, Escape, HasHeader, Columns FROM sniff_csv(?, skip=0, "
            + ", ".join(arguments)
            + ")",
            [path, *known],
        ).fetchall()
    delimiter, quote, escape, header, columns = found[0]
    dialect: dict[str, str] = {"header": "true" if header else "false"}
    if delimiter != ",":
        dialect["field-delimiter"] = "\\t" if delimiter == "\t" else delimiter
    if _MARKS.get(quote, quote) not in ("", '"'):
        dialect["quote-character"] = quote
    if _MARKS.get(escape, escape) not in ("", '"', quote):
        dialect["escape-character"] = escape
    dialect = {**dialect, **given}
    if header:
        _check_names(
            [column["name"] for column in columns], _header(sample, delimiter, _MARKS.get(quote, quote) or '"')
        )
    else:
        # Names that DuckDB makes count from 0 with as many digits as there are.
        columns = [{**column, "name": f"column{i}"} for i, column in enumerate(columns)]
    fields = [Field(column["name"], _csv_type(column["type"])) for column in columns]
    return TextColumns(
        _readable(CSV, dialect, fields, sample, time_zone)[0], {f"csv.{key}": value for key, value in dialect.items()}
    )


def json_columns(sample: bytes, options: Mapping[str, str], time_zone: str) -> TextColumns:
    """Those of a file of JSON, one object a line; see `csv_columns`."""
    given = {key.removeprefix("json."): value for key, value in options.items() if key.startswith("json.")}
    with _asked(sample) as (connection, path):
        query = "SELECT * FROM read_json(?, format='newline_delimited', records=true, sample_size=-1, maximum_sample_files=1)"
        schema = connection.sql(query + " LIMIT 0", params=[path]).to_arrow_table().schema
        described = connection.execute("DESCRIBE " + query, [path]).fetchall()
        keys = "SELECT DISTINCT unnest(json_keys(json)) FROM read_ndjson_objects(?)"
        written = {name for (name,) in connection.execute(keys, [path]).fetchall()}
    renamed = next((name for name in schema.names if name not in written), None)
    if renamed is not None:
        raise ValueError(f'two members have the name "{renamed.rpartition("_")[0]}", in letters of another case')
    fields = [
        # What is now a number, now a text has the type JSON there.
        Field(field.name, STRING if shown[1] == "JSON" else _json_type(field.type))
        for field, shown in zip(schema, described, strict=True)
    ]
    if TIMESTAMPS.key in given:
        return TextColumns(_readable(JSON, given, fields, sample, time_zone)[0], {})
    plain, left = _readable(JSON, given, fields, sample, time_zone)
    if left:
        iso, less = _readable(JSON, {**given, TIMESTAMPS.key: ISO}, fields, sample, time_zone)
        if less < left:
            return TextColumns(iso, {f"json.{TIMESTAMPS.key}": ISO})
    return TextColumns(plain, {})


def _header(sample: bytes, delimiter: str, quote: str) -> list[str]:
    """The first record, as the reader will find columns in it."""
    lines = sample[: 1 << 20].decode("utf-8", "replace").splitlines(keepends=True)
    reader = csv.reader(lines, delimiter=delimiter, quotechar=quote)
    return next(reader, [])


def _check_names(found: Sequence[str], written: Sequence[str]) -> None:
    """DuckDB gives names to columns that have none or one of another; no reader would find them."""
    twice = next((n for i, n in enumerate(written) if n in written[:i]), None)
    if twice:
        raise ValueError(f'two columns have the name "{twice}"')
    if list(found) != list(written) or not all(n.isprintable() and n.strip() for n in found):
        raise ValueError("its first line does not name each column")


@contextmanager
def _asked(sample: bytes) -> Generator[tuple[Any, str]]:
    """DuckDB, and the name of a file that holds the sample. What it refuses becomes ValueError."""
    folder = tempfile.mkdtemp(prefix="sqlengine-")
    path = os.path.join(folder, "sample")
    try:
        with open(path, "xb") as file:
            file.write(_first_rows(sample))
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
            yield connection, path
    except duckdb.Error as error:
        raise ValueError(_reason(str(error))) from error
    finally:
        os.unlink(path)
        os.rmdir(folder)


def _reason(text: str) -> str:
    """The first line of what DuckDB says, without the name of the sample."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = lines[0].split(": ", 1)[-1] if lines else "it is of another format"
    if "Duplicate name" in said:
        return "two members of an object have the same name, in letters of another case"
    return said if "sample" not in said and "json" not in said.lower() else "it is not one JSON object a line"


def _first_rows(sample: bytes) -> bytes:
    at = -1
    for _ in range(_ROWS):
        at = sample.find(b"\n", at + 1)
        if at < 0:
            return sample
    return sample[: at + 1]


def _csv_type(name: str) -> DataType:
    match name:
        case "BOOLEAN":
            return from_arrow(pa.bool_())
        case "BIGINT":
            return BIGINT
        case "DOUBLE":
            return DOUBLE
        case "DATE":
            return DATE
        case "TIME":
            return from_arrow(pa.time32("ms"))
        case "TIMESTAMP" | "TIMESTAMP_NS" | "TIMESTAMP_MS" | "TIMESTAMP_S":
            return timestamp(6)
        case "TIMESTAMP WITH TIME ZONE":
            return timestamp_ltz(6)
        case _:
            return STRING


def _json_type(type_: pa.DataType) -> DataType:
    if pa.types.is_list(type_):
        return array(_json_type(type_.value_type))
    if pa.types.is_struct(type_):
        return row(*((f.name, _json_type(f.type)) for f in type_))
    if pa.types.is_timestamp(type_):
        return timestamp(6) if type_.tz is None else timestamp_ltz(6)
    if pa.types.is_decimal(type_):
        return decimal(38, 0)
    if pa.types.is_uint64(type_):
        return decimal(20, 0)
    if pa.types.is_integer(type_):
        return BIGINT
    if pa.types.is_floating(type_):
        return DOUBLE
    if pa.types.is_boolean(type_) or pa.types.is_date(type_):
        return from_arrow(type_)
    if pa.types.is_time(type_):
        return from_arrow(pa.time32("ms"))
    return STRING


def _readable(
    factory: FormatFactory, options: Mapping[str, str], fields: Sequence[Field], sample: bytes, time_zone: str
) -> tuple[tuple[Field, ...], int]:
    """The columns as the format can read them, and how many of them are STRING for that. Times have the digits that the
    sample has: three, or six."""
    format_ = factory.create(options)
    found: list[Field] = []
    for index in range(len(fields)):
        found.append(_read_as(format_, fields, index, sample, time_zone))
    left = sum(kept.type != field.type and kept.type == STRING for kept, field in zip(found, fields, strict=True))
    return tuple(_shorter(format_, found, i, sample, time_zone) for i in range(len(found))), left


def _decoded(
    format_: Format, fields: Sequence[Field], index: int, field: Field, sample: bytes, time_zone: str
) -> pa.Array | None:
    """A column of the sample, read as a type; None where it cannot be."""
    others = [Field(f.name, STRING) for f in fields]
    others[index] = field
    try:
        decoder = projected_decoder(format_, Schema(tuple(others)), (field.name,), time_zone)
        decoded = decoder.decode(_first_rows(sample), True)
    except SqlEngineError:
        return None
    return None if decoded.rejected else decoded.batch.rows.column(0)


def _read_as(format_: Format, fields: Sequence[Field], index: int, sample: bytes, time_zone: str) -> Field:
    """A column under the first type that its values have for the format: the one that was found, the same with an offset of
    the zone, STRING."""
    field = fields[index]
    if field.type.root is TypeRoot.VARCHAR:
        return field
    # DuckDB takes whole numbers of both signs for more than a BIGINT.
    candidates = [_with_bigints(field.type), field.type]
    if field.type.root is TypeRoot.TIMESTAMP:
        candidates.append(timestamp_ltz(6))
    for type_ in dict.fromkeys(candidates):
        if _decoded(format_, fields, index, Field(field.name, type_), sample, time_zone) is not None:
            return Field(field.name, type_)
    return Field(field.name, STRING)


def _with_bigints(type_: DataType) -> DataType:
    """The type with a BIGINT for each number without a fraction."""
    if type_.root is TypeRoot.ARRAY:
        return array(_with_bigints(type_.children[0]))
    if type_.root is TypeRoot.ROW:
        return row(*((f.name, _with_bigints(f.type)) for f in type_.fields))
    return BIGINT if type_.root is TypeRoot.DECIMAL else type_


def _shorter(format_: Format, fields: Sequence[Field], index: int, sample: bytes, time_zone: str) -> Field:
    """A time of six digits with three, where no value has more: event time has three."""
    field = fields[index]
    if not field.type.is_timestamp:
        return field
    values = _decoded(format_, fields, index, field, sample, time_zone)
    if values is None:
        return field
    microseconds = values.drop_null().cast(pa.timestamp("us", field.type.arrow.tz)).cast(pa.int64()).to_numpy()
    return field if (microseconds % 1000).any() else Field(field.name, field.type.with_(precision=3))
