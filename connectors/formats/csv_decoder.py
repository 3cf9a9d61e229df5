"""CSV to columns.

The text is taken apart into records first (`csv_records`), so that Arrow's reader gets nothing else. It reads the types
whose rules it shares; if it refuses a block, it reads all as text, which is cast column by column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from connectors.formats.csv_records import CsvDialect, CsvRecords, field_texts, split_records
from connectors.formats.records import BadMask, MalformedRecord, in_runs, rows_of_elements, too_long, valid_utf8
from connectors.formats.text_values import ANY, TextRules, parse_text, within_years
from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import FormatError
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from runtime.spi.format import Decoded

__all__ = ["CsvDecoder", "CsvDialect"]

_BLOCK = 1 << 20
_DIRECT = frozenset(
    {
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.DATE,
        TypeRoot.BOOLEAN,
    }
)
_NUMBER, _TIME = rb"[-+0-9.eE \t]*+", rb"[-+0-9:.TZ \t]*+"
_LOOKS = {
    **dict.fromkeys((TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INT, TypeRoot.BIGINT, TypeRoot.DECIMAL), _NUMBER),
    **dict.fromkeys((TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ), _TIME),
    TypeRoot.BOOLEAN: rb"(?:[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])?",
}
"""By type what a value looks like, roughly; others may be any text."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
_SHOWN_NAMES = 50
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class CsvDecoder:
    """The records of one file. Without a header columns are by position in `schema`; with one, by name.

    Args:
        schema: all columns of the file's records (or, with a header, the columns known by name).
        wanted: the columns to give, by name.
    """

    splits_at_returns = True

    def __init__(self, schema: Schema, wanted: Sequence[str], dialect: CsvDialect, time_zone: str) -> None:
        self._schema = schema
        self._wanted = Schema(tuple(schema[schema.index_of(n)] for n in wanted))
        self._dialect = dialect
        self._rules = TextRules(time_zone, ANY)
        self._names: list[str] | None = None if dialect.header else list(schema.names)
        self._looks = self._looks_of(self._names or ())
        self._most: int | None = None

    def limit_records(self, most: int) -> None:
        """Records of more bytes are malformed."""
        self._most = most

    def begin_at(self, head: bytes) -> None:
        """Read the header from the first bytes of the file, when decoding begins in the middle of it."""
        if self._names is None:
            self._take_header(head, True)

    def decode_lines(self, data: bytes) -> Decoded:
        """Each line is one record or malformed."""
        return self._decode(data, True, True)

    def decode(self, data: bytes, final: bool) -> Decoded:
        """See `Decoder`."""
        return self._decode(data, final, False)

    def _decode(self, data: bytes, final: bool, by_line: bool) -> Decoded:
        used = skipped = 0
        if self._names is None:
            used = self._take_header(data, final)
            skipped = 1 if used else 0
        if self._names is None:
            return Decoded(ChangelogBatch(self._empty()), (), len(data) if final else 0)
        block = data[used:] if used else data
        records = split_records(block, self._dialect, self._looks, final, self._most, by_line)
        rows, malformed = self._rows(records)
        rejected = [*records.rejected, *malformed]
        if records.rejected and malformed:
            rejected.sort(key=lambda r: r.line)
        # Of the records before the first that is rejected each gave a row.
        whole = int(np.searchsorted(records.lines, rejected[0].line)) if rejected else rows.num_rows
        if skipped:
            rejected = [MalformedRecord(r.reason, r.raw, skipped + r.line) for r in rejected]
        return Decoded(ChangelogBatch(rows), tuple(rejected), used + records.used, whole)

    def _looks_of(self, names: Sequence[str]) -> list[bytes]:
        """What the values of a record look like. Of all columns that are declared, so that it does not depend on the query
        which lines are records."""
        known = {f.name: _LOOKS.get(f.type.root, b"") for f in self._schema}
        return [known.get(name, b"") for name in names]

    def _empty(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [pa.nulls(0, f.type.arrow) for f in self._wanted], names=list(self._wanted.names)
        )

    def _take_header(self, block: bytes, final: bool) -> int:
        """Read the first line as names; gives how many bytes it took."""
        offset = 3 if block.startswith(_BYTE_ORDER_MARK) else 0
        found = _LINE_END.search(block, offset)
        if found is not None and found.group() == b"\r" and found.end() == len(block) and not final:
            found = None  # It may be half of a line end.
        end, behind = (len(block), len(block)) if found is None else found.span()
        if self._most is not None and end - offset > self._most:
            raise FormatError(f"the header is {too_long(self._most)}", code="E3202")
        if found is None and not (final and block[offset:].strip()):
            return 0
        try:
            names = [name.strip() for name in field_texts(block[offset:end], self._dialect)]
        except UnicodeDecodeError as error:
            raise FormatError(
                "the header is not text in UTF-8", code="E3202", hint="the first line names the columns"
            ) from error
        for field in self._wanted:
            if names.count(field.name) != 1:
                there = ", ".join(f'"{n}"' for n in names[:_SHOWN_NAMES]) + (
                    ", ..." if len(names) > _SHOWN_NAMES else ""
                )
                how = "no" if field.name not in names else "more than one"
                raise FormatError(
                    f'the header has {how} column "{field.name}"', code="E3202", hint=f"the file has: {there}"
                )
        # Columns that nobody wants may have any name, also the same one.
        self._looks = self._looks_of(names)
        known = set(self._wanted.names)
        self._names = [name if name in known else f"\0{place}" for place, name in enumerate(names)]
        return behind

    def _parse(self, broken: list[tuple[int, str]]) -> pcsv.ParseOptions:
        def skip(row: pcsv.InvalidRow) -> str:
            broken.append(((row.number or 1) - 1, f"{row.actual_columns} fields instead of {row.expected_columns}"))
            return "skip"

        dialect = self._dialect
        return pcsv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            double_quote=True,
            escape_char=dialect.escape or False,
            newlines_in_values=dialect.quote is not None,
            ignore_empty_lines=True,
            invalid_row_handler=skip,
        )

    def _rows(self, records: CsvRecords) -> tuple[pa.RecordBatch, list[MalformedRecord]]:
        if not len(records):
            return self._empty(), []
        block = records.block()
        if not valid_utf8(block):
            return self._rows_of_text(records)
        broken: list[tuple[int, str]] = []
        # Arrow takes hexadecimal integers, the format does not.
        table = None if _has_hexadecimal(block) else self._read(block, broken, as_text=False)
        if table is not None and not broken and table.num_rows == len(records):
            columns: list[pa.Array] = []
            for column, field in zip(table.columns, self._wanted, strict=True):
                cells, bad = self._convert(_single(column), field.type)
                if bad is not None:
                    break
                columns.append(cells)
            else:
                return pa.RecordBatch.from_arrays(columns, names=list(self._wanted.names)), []
        return self._rows_and_bad_ones(records, block)

    def _rows_of_text(self, records: CsvRecords) -> tuple[pa.RecordBatch, list[MalformedRecord]]:
        """Without the records that are not in UTF-8."""
        text = np.fromiter((valid_utf8(records.raw(i)) for i in range(len(records))), dtype=bool, count=len(records))
        rows, rejected = self._rows(records.part(text))
        rejected += [records.malformed(i, "not text in UTF-8") for i in np.flatnonzero(~text).tolist()]
        rejected.sort(key=lambda r: r.line)
        return rows, rejected

    def _rows_and_bad_ones(self, records: CsvRecords, block: bytes) -> tuple[pa.RecordBatch, list[MalformedRecord]]:
        """The block read as text, so that every cell that is no value is found; bad records are left out."""
        broken: list[tuple[int, str]] = []
        table = self._read(block, broken, as_text=True)
        if table is None or table.num_rows + len(broken) != len(records):
            return self._in_runs(records)
        columns: list[pa.Array] = []
        reasons: list[tuple[BadMask, str]] = []
        for column, field in zip(table.columns, self._wanted, strict=True):
            cells, bad = self._convert(_single(column), field.type)
            columns.append(cells)
            if bad is not None:
                reasons.append((bad, f"column {field.name} is not {field.type}".replace(" NOT NULL", "")))
        rows = pa.RecordBatch.from_arrays(columns, names=list(self._wanted.names))
        rejected = [records.malformed(number, reason) for number, reason in broken]
        if not reasons:
            return rows, rejected
        whole = np.ones(len(records), dtype=bool)
        whole[[number for number, _ in broken]] = False
        record_of_row = np.flatnonzero(whole)
        bad_rows = np.flatnonzero(np.logical_or.reduce([mask for mask, _ in reasons]))
        for row in bad_rows.tolist():
            reason = next(reason for mask, reason in reasons if mask[row])
            rejected.append(records.malformed(int(record_of_row[row]), reason))
        keep = np.ones(rows.num_rows, dtype=bool)
        keep[bad_rows] = False
        rejected.sort(key=lambda r: r.line)
        return rows.filter(pa.array(keep)), rejected

    def _in_runs(self, records: CsvRecords) -> tuple[pa.RecordBatch, list[MalformedRecord]]:
        """Records that Arrow refuses even as text: as many at a time as it takes."""
        pieces: list[pa.RecordBatch] = [self._empty()]
        rejected: list[MalformedRecord] = []

        def whole(begin: int, end: int) -> bool:
            part = records.part(slice(begin, end))
            broken: list[tuple[int, str]] = []
            table = self._read(part.block(), broken, as_text=True)
            if table is None or table.num_rows + len(broken) != len(part):
                return False
            rows, bad = self._rows_and_bad_ones(part, part.block())
            pieces.append(rows)
            rejected.extend(bad)
            return True

        def singly(begin: int, end: int) -> None:
            for record in range(begin, end):
                if not whole(record, record + 1):
                    rejected.append(records.malformed(record, "not CSV"))

        in_runs(len(records), whole, singly, 2)
        return pa.concat_batches(pieces), rejected

    def _read(self, block: bytes, broken: list[tuple[int, str]], *, as_text: bool) -> pa.Table | None:
        assert self._names is not None
        types = {n: pa.string() for n in self._names}
        for field in self._wanted:
            types[field.name] = pa.string() if as_text else self._reading_type(field.type)
        literal = self._dialect.null_literal
        convert = pcsv.ConvertOptions(
            column_types=types,
            include_columns=list(self._wanted.names),
            null_values=["", *([literal] if literal else [])],
            true_values=["true", "True", "TRUE"],
            false_values=["false", "False", "FALSE"],
            strings_can_be_null=False,
            check_utf8=True,
            quoted_strings_can_be_null=True,
        )
        longest = _BLOCK if b"\n" in block[:_BLOCK] else len(block)
        # Rows are numbered for the handler of invalid ones only by a reader of one thread.
        options = pcsv.ReadOptions(
            column_names=self._names,
            block_size=max(longest, len(block) if as_text else _BLOCK) + 1,
            use_threads=not as_text and len(block) > _BLOCK,
        )
        try:
            return pcsv.read_csv(pa.BufferReader(block), options, self._parse(broken), convert)
        except pa.ArrowInvalid:
            return None

    def _reading_type(self, type_: DataType) -> pa.DataType:
        if type_.root in _DIRECT:
            return type_.arrow
        if type_.root is TypeRoot.TIMESTAMP and type_.precision >= 6:
            return type_.arrow
        return pa.string()

    def _convert(self, values: pa.Array, type_: DataType) -> tuple[pa.Array, BadMask | None]:
        if not pa.types.is_string(values.type):
            return within_years(values)
        literal = self._dialect.null_literal
        if literal is not None and not (literal == "" and type_.root is TypeRoot.ARRAY):
            values = pc.if_else(pc.equal(values, literal), pa.scalar(None, pa.string()), values)
        if type_.is_character:
            return values, None
        if type_.root is TypeRoot.ARRAY:
            return self._array(values, type_)
        if not type_.is_binary:
            values = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
        if type_.root is TypeRoot.ROW:
            return self._row(values, type_)
        if type_.root is TypeRoot.TIMESTAMP:
            # A date alone is midnight, as Arrow's own reading of the column has it.
            dated = pc.equal(pc.binary_length(values), 10)
            values = pc.if_else(dated, pc.binary_join_element_wise(values, " 00:00:00", ""), values)
        return parse_text(values, type_, self._rules)

    def _array(self, values: pa.Array, type_: DataType) -> tuple[pa.Array, BadMask | None]:
        # Nothing between two delimiters is an array without elements, as in Flink.
        none = pa.scalar([], pa.list_(pa.string()))
        parts = pc.if_else(pc.equal(values, ""), none, pc.split_pattern(values, self._dialect.element_delimiter))
        elements, bad = self._convert(parts.flatten(), type_.children[0])
        lengths = pc.fill_null(pc.list_value_length(parts), 0).to_numpy(zero_copy_only=False)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]).astype(np.int32)
        mask = pc.is_null(parts) if parts.null_count else None
        return pa.ListArray.from_arrays(pa.array(offsets), elements, type=type_.arrow, mask=mask), rows_of_elements(
            parts, bad
        )

    def _row(self, values: pa.Array, type_: DataType) -> tuple[pa.Array, BadMask | None]:
        """Fields joined by the element delimiter; a row with another number of fields is bad."""
        parts = pc.split_pattern(values, self._dialect.element_delimiter)
        lengths = pc.fill_null(pc.list_value_length(parts), len(type_.fields)).to_numpy(zero_copy_only=False)
        bad = lengths != len(type_.fields)
        usable = pc.if_else(pa.array(bad), pa.scalar(None, parts.type), parts)
        padding = pa.scalar([None] * len(type_.fields), parts.type)
        padded = pc.fill_null(usable, padding)
        children: list[pa.Array] = []
        for index, field in enumerate(type_.fields):
            cells, wrong = self._convert(pc.list_element(padded, index), field.type)
            children.append(cells)
            bad = bad if wrong is None else bad | wrong
        fields = [pa.field(f.name, f.type.arrow) for f in type_.fields]
        built = pa.StructArray.from_arrays(children, fields=fields, mask=pc.is_null(usable))
        return built, bad if bad.any() else None


def _has_hexadecimal(block: bytes) -> bool:
    """Whether `0x` or `0X` stands anywhere; by columns, as looking for two bytes in a text full of x is slow."""
    data = np.frombuffer(block, np.uint8)
    zeros = (data[:-1] == ord("0")).nonzero()[0]
    return bool(((data[1:][zeros] | 0x20) == ord("x")).any())


def _single(column: pa.ChunkedArray) -> pa.Array:
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else pa.nulls(0, column.type)
    )
