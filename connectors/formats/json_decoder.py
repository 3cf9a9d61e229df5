"""JSON lines to columns.

Plain objects over flat columns are read by a kernel in C, which leaves all others alone (`runtime/kernels/json_read`). A
block of these is read by Arrow's JSON reader, every column under the Arrow type in which it can be read without loss (text for
dates, times, timestamps and bytes), then cast as columns. When Arrow refuses a block, the columns it names are read
differently (numbers in quotes); if that does not help, the block is halved until every record that Arrow cannot take
stands alone: those few are decoded one by one with the full rules (`json_values`), and the ones that have no meaning
are rejected with their line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from connectors.formats.json_convert import convert
from connectors.formats.json_maps import read_map_columns
from connectors.formats.json_plain import read_plain
from connectors.formats.json_values import NotAValue, json_value, parse_line
from connectors.formats.records import (
    Lines,
    MalformedRecord,
    in_runs,
    shown_bytes,
    too_long,
    valid_utf8,
)
from connectors.formats.text_values import TextRules
from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from runtime.spi.format import Decoded

__all__ = ["JsonBlock", "JsonDecoder", "decode_lines"]

_BLOCK = 1 << 20
_FEW = 16
"""So few records are decoded one by one sooner than by another try of the columnar path."""
_CHANGED = re.compile(r"Column\((?P<path>/.*)\) changed from (?P<wanted>\w+) to (?P<found>\w+)")
_ZEROS = b"." + b"0" * 30
_TINY = re.compile(rb"[eE]-0*(?:[4-9][0-9]|[0-9]{3,})\s*[,}\]]")
_NOT_HELD = (pa.ArrowException, ValueError, TypeError, OverflowError)
_TEXT = pa.string()
_WIDE = pa.decimal256(76, 38)
_AS_IS = frozenset(
    {
        TypeRoot.CHAR,
        TypeRoot.VARCHAR,
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.INTERVAL_MONTH,
    }
)


@dataclass(frozen=True, slots=True)
class JsonBlock:
    """Decoded lines. `line_of_row`: for every row the index of its line among the lines given, ascending."""

    rows: pa.RecordBatch
    line_of_row: np.ndarray
    rejected: tuple[MalformedRecord, ...]

    def rows_before_rejected(self, lines: Lines) -> int:
        """How many rows come before the first record that was rejected. `lines`: those that were given."""
        if not self.rejected:
            return self.rows.num_rows
        return int(np.searchsorted(lines.numbers[self.line_of_row], self.rejected[0].line))


class JsonDecoder:
    """JSON lines, one object each (a top-level array gives a row per element).

    `fail_on_missing`: a record that lacks a column is malformed.
    """

    def __init__(self, schema: Schema, rules: TextRules, fail_on_missing: bool = False) -> None:
        self._schema = schema
        self._rules = rules
        self._fail_on_missing = fail_on_missing
        self._most: int | None = None

    def limit_records(self, most: int) -> None:
        """Lines of more bytes are malformed."""
        self._most = most

    def decode_plain(
        self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray
    ) -> tuple[ChangelogBatch, np.ndarray] | None:
        """See `DecodesPlain`."""
        if self._fail_on_missing:
            return None
        found = read_plain(self._schema, self._rules, data, starts, ends)
        return None if found is None else (ChangelogBatch(found[0]), found[1])

    def decode(self, data: bytes, final: bool) -> Decoded:
        consumed = len(data) if final else data.rfind(b"\n") + 1
        lines = Lines.of(data[:consumed])
        block = decode_lines(lines, self._schema, self._rules, self._fail_on_missing, self._most)
        return Decoded(ChangelogBatch(block.rows), block.rejected, consumed, block.rows_before_rejected(lines))


def decode_lines(
    lines: Lines, schema: Schema, rules: TextRules, fail_on_missing: bool = False, most: int | None = None
) -> JsonBlock:
    """The records of the lines as columns of the schema. `most`: longer lines, in bytes, are malformed."""
    reading = _Reading(schema, rules, fail_on_missing)
    lines, indices = reading.without_long_ones(lines, most)
    if not fail_on_missing and len(lines):
        lines, indices = reading.without_plain_ones(lines, indices)
    in_runs(
        len(lines),
        lambda begin, end: reading.together(lines.slice(begin, end), indices[begin:end]),
        lambda begin, end: reading.one_by_one(lines.slice(begin, end), indices[begin:end]),
        _FEW,
    )
    return reading.result()


class _Reading:
    """One block on its way to columns: pieces in the order of the lines."""

    def __init__(self, schema: Schema, rules: TextRules, fail_on_missing: bool) -> None:
        self._schema = schema
        self._rules = rules
        self._fail_on_missing = fail_on_missing
        self._maps = [f for f in schema if _holds_map(f.type)]
        self._flat = Schema(tuple(f for f in schema if not _holds_map(f.type)))
        self._decimals = any(_holds_decimal(f.type) for f in schema)
        self._pieces: list[pa.RecordBatch] = []
        self._line_of_row: list[np.ndarray] = []
        self._rejected: list[MalformedRecord] = []

    def result(self) -> JsonBlock:
        self._rejected.sort(key=lambda r: r.line)
        if not self._pieces:
            return JsonBlock(_empty(self._schema), np.zeros(0, np.int64), tuple(self._rejected))
        rows = self._pieces[0] if len(self._pieces) == 1 else pa.concat_batches(self._pieces)
        owners = np.concatenate(self._line_of_row)
        if (np.diff(owners) < 0).any():
            order = np.argsort(owners, kind="stable")
            rows, owners = rows.take(pa.array(order)), owners[order]
        return JsonBlock(rows, owners, tuple(self._rejected))

    def without_long_ones(self, lines: Lines, most: int | None) -> tuple[Lines, np.ndarray]:
        """The lines that are not over the limit, and the index of each."""
        widths = lines.ends - lines.starts
        if most is None or not len(lines) or int(widths.max()) <= most:
            return lines, np.arange(len(lines))
        for index in np.flatnonzero(widths > most).tolist():
            self._reject(lines, index, too_long(most))
        kept = np.flatnonzero(widths <= most)
        return Lines.joined([lines.raw(i) for i in kept.tolist()], lines.numbers[kept]), kept

    def without_plain_ones(self, lines: Lines, indices: np.ndarray) -> tuple[Lines, np.ndarray]:
        """Decode the lines that are plain objects over flat columns, in C; gives the others."""
        octets = np.frombuffer(lines.data, dtype=np.uint8)
        found = read_plain(self._schema, self._rules, octets, lines.starts, lines.ends)
        if found is None:
            return lines, indices
        batch, left = found
        self._pieces.append(batch)
        self._line_of_row.append(indices[~left])
        others = np.flatnonzero(left)
        return Lines.joined([lines.raw(i) for i in others.tolist()], lines.numbers[others]), indices[others]

    def _reject(self, lines: Lines, index: int, reason: str) -> None:
        self._rejected.append(MalformedRecord(reason, shown_bytes(lines.raw(index)), int(lines.numbers[index])))

    def together(self, lines: Lines, indices: np.ndarray) -> bool:
        """Decode lines by columns; false when Arrow refuses them. `indices`: of each among all lines."""
        read = None if self._fail_on_missing else self._columnar(lines)
        if read is None:
            return False
        self._pieces.append(read)
        self._line_of_row.append(indices)
        return True

    def _columnar(self, lines: Lines) -> pa.RecordBatch | None:
        """All lines at once, None when a line is not one object or a cell is not of its type."""
        octets = np.frombuffer(lines.data, dtype=np.uint8)
        # Arrow would take several objects in a line and objects over several lines, and crashes on a bare `null`.
        if not ((octets[lines.starts] == ord("{")).all() and (octets[lines.ends - 1] == ord("}")).all()):
            return None
        block = lines.block()
        if not valid_utf8(block) or (self._decimals and _holds_tiny_number(block)):
            return None
        columns: dict[str, pa.Array] = {}
        table = _read(block, int((lines.ends - lines.starts).max()), self._flat)
        if table is None or table.num_rows != len(lines):
            return None
        for index, field in enumerate(self._flat):
            cells, bad = convert(_single(table.column(index)), field.type, self._rules)
            if bad is not None:
                return None
            columns[field.name] = cells
        if self._maps:
            read = read_map_columns(lines.array(), self._maps, self._rules)
            if read is None:
                return None
            columns.update(read)
        return pa.RecordBatch.from_arrays([columns[f.name] for f in self._schema], names=list(self._schema.names))

    def one_by_one(self, lines: Lines, indices: np.ndarray) -> None:
        """Decode each line under the full rules."""
        rows: list[list[object]] = []
        owners: list[int] = []
        for index in range(len(lines)):
            try:
                document = parse_line(lines.raw(index).decode("utf-8"))
                found = [self._record(r) for r in (document if isinstance(document, list) else [document])]
            except NotAValue as error:
                self._reject(lines, index, str(error))
            except UnicodeDecodeError:
                self._reject(lines, index, "not text in UTF-8")
            except RecursionError:
                # Arrow goes deeper where nobody wants the value.
                if not self.together(lines.slice(index, index + 1), indices[index : index + 1]):
                    self._reject(lines, index, "nested too deeply")
            except (ValueError, ArithmeticError):
                self._reject(lines, index, "not JSON")
            else:
                rows += found
                owners += [index] * len(found)
        self._append(lines, indices, rows, owners)

    def _append(self, lines: Lines, indices: np.ndarray, rows: list[list[object]], owners: list[int]) -> None:
        """Rows of values as columns; the line of one that Arrow cannot hold after all is rejected."""
        if not rows:
            return
        try:
            arrays = [
                pa.array(column, f.type.arrow) for column, f in zip(zip(*rows, strict=True), self._schema, strict=True)
            ]
        except _NOT_HELD:
            bad = {owner: why for row, owner in zip(rows, owners, strict=True) if (why := self._not_held(row))}
            if not bad:
                raise
            for index, reason in bad.items():
                self._reject(lines, index, reason)
            kept = [number for number, owner in enumerate(owners) if owner not in bad]
            self._append(lines, indices, [rows[n] for n in kept], [owners[n] for n in kept])
            return
        self._pieces.append(pa.RecordBatch.from_arrays(arrays, names=list(self._schema.names)))
        self._line_of_row.append(indices[np.array(owners, dtype=np.int64)])

    def _not_held(self, row: list[object]) -> str | None:
        for value, field in zip(row, self._schema, strict=True):
            try:
                pa.array([value], field.type.arrow)
            except _NOT_HELD:
                return f"column {field.name} is not {field.type}".replace(" NOT NULL", "")
        return None

    def _record(self, record: object) -> list[object]:
        if not isinstance(record, Mapping):
            raise NotAValue("not a JSON object")
        if self._fail_on_missing:
            missing = [f.name for f in self._schema if f.name not in record]
            if missing:
                raise NotAValue(f"column {missing[0]} is missing")
        return [json_value(record.get(f.name), f.type, self._rules, f.name) for f in self._schema]


def _empty(schema: Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type.arrow) for f in schema], names=list(schema.names))


def _holds_tiny_number(block: bytes) -> bool:
    """Whether there may be a number with so many digits behind the point that Arrow reads memory that is not its own."""
    if _ZEROS in block:
        return True
    return (b"e-" in block or b"E-" in block) and _TINY.search(block) is not None


def _holds_decimal(type_: DataType) -> bool:
    if type_.root is TypeRoot.DECIMAL:
        return True
    return any(_holds_decimal(c) for c in type_.children) or any(_holds_decimal(f.type) for f in type_.fields)


def _holds_map(type_: DataType) -> bool:
    if type_.root in (TypeRoot.MAP, TypeRoot.MULTISET):
        return True
    return any(_holds_map(c) for c in type_.children) or any(_holds_map(f.type) for f in type_.fields)


# --- reading by Arrow
# -----------------------------------------------------------------------------------------------------------


def _reading_type(type_: DataType, path: str, changed: Mapping[str, pa.DataType], wide: bool) -> pa.DataType:
    """The Arrow type under which a column is read: text where Arrow's own parsing follows other rules."""
    if path in changed:
        return changed[path]
    match type_.root:
        case TypeRoot.ARRAY:
            return pa.list_(_reading_type(type_.children[0], path + "/[]", changed, wide))
        case TypeRoot.ROW:
            return pa.struct(
                [pa.field(f.name, _reading_type(f.type, f"{path}/{f.name}", changed, wide)) for f in type_.fields]
            )
        case TypeRoot.DECIMAL:
            # Arrow does not check the precision when it reads, but when it casts.
            return _WIDE if wide else pa.decimal128(38, type_.scale)
        case root if root in _AS_IS:
            return type_.arrow
        case TypeRoot.INTERVAL_SECOND:
            return pa.int64()
        case _:
            return _TEXT


def _read(block: bytes, longest: int, schema: Schema) -> pa.Table | None:
    """Arrow's reader, with columns read as text or wide numbers where a first try failed for that; None when it refuses
    the block."""
    changed: dict[str, pa.DataType] = {}
    wide = False
    if not len(schema):
        # Without a column to read, Arrow would give no rows: an unknown one is NULL everywhere.
        schema = Schema.of(("\0", DataType(TypeRoot.BOOLEAN)))
    options = pj.ReadOptions(block_size=min(max(_BLOCK, 2 * longest), len(block) + 1), use_threads=len(block) > _BLOCK)
    while True:
        types = pa.schema([pa.field(f.name, _reading_type(f.type, "/" + f.name, changed, wide)) for f in schema])
        try:
            table = pj.read_json(
                pa.BufferReader(block),
                options,
                pj.ParseOptions(explicit_schema=types, unexpected_field_behavior="ignore"),
            )
            return table.select(types.names)
        except pa.ArrowInvalid as error:
            matched = _CHANGED.search(str(error))
            if (
                matched is not None
                and matched["found"] == "string"
                and matched["wanted"] in ("number", "boolean")
                and matched["path"] not in changed
            ):
                changed[matched["path"]] = _TEXT
            elif "decimal" in str(error) and not wide:
                wide = True
            else:
                return None


def _single(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else pa.nulls(0, column.type)
    )
