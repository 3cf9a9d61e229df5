"""CSV to columns.

Arrow's reader, with the types that it reads by the right rules; if it refuses a block, all as text, cast column by
column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from connectors.formats.records import BadMask, MalformedRecord, rows_of_elements
from connectors.formats.text_values import ANY, TextRules, parse_text
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
_NEWLINE, _HASH = 10, 35


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The options of the format: see `connectors/formats/csv.py`. `quote` and `escape` are None when there is none."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    comments: bool = False
    null_literal: str | None = None
    element_delimiter: str = ";"
    header: bool = False


class CsvDecoder:
    """The records of one file. Without a header columns are by position in `schema`; with one, by name.

    Args:
        schema: all columns of the file's records (or, with a header, the columns known by name).
        wanted: the columns to give, by name.
    """

    def __init__(self, schema: Schema, wanted: Sequence[str], dialect: CsvDialect, time_zone: str) -> None:
        self._schema = schema
        self._wanted = Schema(tuple(schema[schema.index_of(n)] for n in wanted))
        self._dialect = dialect
        self._rules = TextRules(time_zone, ANY)
        self._names: list[str] | None = None if dialect.header else list(schema.names)

    def begin_at(self, head: bytes) -> None:
        """Read the header from the first bytes of the file, when decoding begins in the middle of it."""
        if self._names is None:
            self._take_header(head, True)

    def decode(self, data: bytes, final: bool) -> Decoded:
        consumed = len(data) if final else self._whole_records(data)
        block = data[:consumed]
        skipped = 0
        if self._names is None:
            used = self._take_header(block, final)
            skipped = block.count(b"\n", 0, used)
            block = block[used:]
        if self._names is None or not block or block.isspace():
            return Decoded(ChangelogBatch(self._empty()), (), consumed)
        numbers: np.ndarray | None = None
        if self._dialect.comments:
            block, numbers = _without_comments(block)
        rows, rejected = self._rows(block)
        return Decoded(
            ChangelogBatch(rows),
            tuple(
                MalformedRecord(r.reason, r.raw, skipped + (r.line if numbers is None else int(numbers[r.line])))
                for r in rejected
            ),
            consumed,
        )

    def _empty(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [pa.nulls(0, f.type.arrow) for f in self._wanted], names=list(self._wanted.names)
        )

    def _whole_records(self, data: bytes) -> int:
        """The bytes up to the last line end that is outside quotes."""
        last = data.rfind(b"\n") + 1
        quote = self._dialect.quote
        if quote is None or not last or data.find(quote.encode(), 0, last) < 0:
            return last
        if self._dialect.escape is None and data.count(quote.encode(), 0, last) % 2 == 0:
            return last
        outside = _record_ends(np.frombuffer(data, dtype=np.uint8), self._dialect)
        return int(outside[-1]) + 1 if len(outside) else 0

    def _take_header(self, block: bytes, final: bool) -> int:
        """Read the first line as names; gives how many bytes it took."""
        offset = 3 if block.startswith(b"\xef\xbb\xbf") else 0
        end = block.find(b"\n", offset)
        if end < 0 and not (final and block[offset:].strip()):
            return 0
        end = len(block) if end < 0 else end + 1
        line = block[offset:end]
        read = pcsv.read_csv(
            pa.BufferReader(line),
            pcsv.ReadOptions(autogenerate_column_names=True),
            self._parse(),
            pcsv.ConvertOptions(
                column_types={f"f{i}": pa.string() for i in range(line.count(self._dialect.delimiter.encode()) + 1)}
            ),
        )
        self._names = [str(c[0].as_py()).strip() for c in read.columns]
        missing = [f.name for f in self._wanted if f.name not in self._names]
        if missing:
            raise FormatError(
                f'the header has no column "{missing[0]}"',
                code="E3202",
                hint="the file has: " + ", ".join(f'"{n}"' for n in self._names),
            )
        return end

    def _parse(self, broken: list[MalformedRecord] | None = None) -> pcsv.ParseOptions:
        def skip(row: pcsv.InvalidRow) -> str:
            if broken is not None:
                number = (row.number or 1) - 1
                broken.append(
                    MalformedRecord(f"{row.actual_columns} fields instead of {row.expected_columns}", row.text, number)
                )
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

    def _rows(self, block: bytes) -> tuple[pa.RecordBatch, list[MalformedRecord]]:
        broken: list[MalformedRecord] = []
        # Arrow takes hexadecimal integers, the format does not.
        table = None if _has_hexadecimal(block) else self._read(block, broken, as_text=False)
        if table is not None:
            columns: list[pa.Array] = []
            wrong: BadMask | None = None
            for column, field in zip(table.columns, self._wanted, strict=True):
                cells, bad = self._convert(_single(column), field.type)
                if bad is not None:
                    wrong = bad
                    break
                columns.append(cells)
            if wrong is None and not broken:
                return pa.RecordBatch.from_arrays(columns, names=list(self._wanted.names)), []
        return self._rows_and_bad_ones(block)

    def _rows_and_bad_ones(self, block: bytes) -> tuple[pa.RecordBatch, list[MalformedRecord]]:
        """The block read as text, so that every cell that is no value is found; bad records are left out."""
        broken: list[MalformedRecord] = []
        table = self._read(block, broken, as_text=True)
        if table is None:
            return self._halves(block)
        columns: list[pa.Array] = []
        reasons: list[tuple[BadMask, str]] = []
        for column, field in zip(table.columns, self._wanted, strict=True):
            cells, bad = self._convert(_single(column), field.type)
            columns.append(cells)
            if bad is not None:
                reasons.append((bad, f"column {field.name} is not {field.type}".replace(" NOT NULL", "")))
        rows = pa.RecordBatch.from_arrays(columns, names=list(self._wanted.names))
        places = _RecordPlaces(block, self._dialect, [r.line for r in broken])
        broken = [MalformedRecord(r.reason, r.raw, places.line(r.line)) for r in broken]
        if not reasons:
            return rows, broken
        bad_rows = np.flatnonzero(np.logical_or.reduce([mask for mask, _ in reasons]))
        for row in bad_rows.tolist():
            line, text = places.of_row(row)
            broken.append(MalformedRecord(next(reason for mask, reason in reasons if mask[row]), text, line))
        keep = np.ones(rows.num_rows, dtype=bool)
        keep[bad_rows] = False
        broken.sort(key=lambda r: r.line)
        return rows.filter(pa.array(keep)), broken

    def _halves(self, block: bytes) -> tuple[pa.RecordBatch, list[MalformedRecord]]:
        """A block that Arrow refuses even as text (bytes that are no UTF-8): halved until such records stand alone."""
        ends = _record_ends(np.frombuffer(block, dtype=np.uint8), self._dialect)
        inner = ends[ends < len(block.rstrip(b"\r\n"))]
        if not len(inner):
            text = block.decode("utf-8", "replace")
            reason = "not CSV" if text.encode() == block else "not text in UTF-8"
            return self._empty(), [MalformedRecord(reason, text.rstrip("\r\n"), 0)]
        cut = int(inner[len(inner) // 2]) + 1
        parts = [part for part in (block[:cut], block[cut:]) if part]
        rows, rejected = zip(*((self._rows(p) if not p.isspace() else (self._empty(), [])) for p in parts), strict=True)
        line = block.count(b"\n", 0, cut)
        behind = [MalformedRecord(r.reason, r.raw, r.line + line) for r in rejected[-1]]
        return pa.concat_batches(rows), [*rejected[0], *behind]

    def _read(self, block: bytes, broken: list[MalformedRecord], *, as_text: bool) -> pa.Table | None:
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
            return values, None
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


def _record_ends(octets: npt.NDArray[np.uint8], dialect: CsvDialect) -> npt.NDArray[np.int64]:
    """The positions of the line feeds that are outside quotes."""
    ends = np.flatnonzero(octets == _NEWLINE)
    if dialect.quote is None:
        return ends
    quotes = octets == ord(dialect.quote)
    if dialect.escape is not None:
        # A quote behind an odd number of escape characters is an ordinary character.
        at = np.arange(len(octets))
        last_other = np.maximum.accumulate(np.where(octets == ord(dialect.escape), -1, at))
        run_before = np.concatenate([np.zeros(1, np.int64), (at - last_other)[:-1]])
        quotes &= run_before % 2 == 0
    return ends[np.searchsorted(np.flatnonzero(quotes), ends) % 2 == 0]


class _RecordPlaces:
    """Where the records of a block stand in its text, for messages."""

    def __init__(self, block: bytes, dialect: CsvDialect, broken: Sequence[int]) -> None:
        octets = np.frombuffer(block, dtype=np.uint8)
        ends = _record_ends(octets, dialect)
        starts = np.concatenate([np.zeros(1, np.int64), ends + 1])
        ends = np.concatenate([ends, np.array([len(block)], np.int64)])
        widths = ends - starts
        blank = (widths == 0) | ((widths == 1) & (octets[np.minimum(starts, len(octets) - 1)] == 13))
        used = ~blank
        self._starts, self._ends = starts[used], ends[used]
        whole = np.ones(len(self._starts), dtype=bool)
        whole[list(broken)] = False
        self._record_of_row = np.flatnonzero(whole)
        self._block = block

    def line(self, record: int) -> int:
        """The 0-based line on which a record begins."""
        return self._block.count(b"\n", 0, int(self._starts[record]))

    def of_row(self, row: int) -> tuple[int, str]:
        """The line and the text of a record that Arrow gave as a row."""
        record = int(self._record_of_row[row])
        text = self._block[int(self._starts[record]) : int(self._ends[record])].decode("utf-8", "replace")
        return self.line(record), text.rstrip("\r")


def _without_comments(block: bytes) -> tuple[bytes, np.ndarray]:
    """The block without the lines that begin with `#`, and the line number of each line that is left."""
    octets = np.frombuffer(block, dtype=np.uint8)
    starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(octets == _NEWLINE) + 1])
    starts = starts[starts < len(octets)]
    comment = octets[starts] == _HASH
    lengths = np.diff(np.concatenate([starts, np.array([len(octets)])]))
    kept = octets[np.repeat(~comment, lengths)].tobytes()
    return kept, np.append(np.flatnonzero(~comment), len(starts))


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
