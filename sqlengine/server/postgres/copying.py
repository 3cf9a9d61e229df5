"""Rows through COPY: out as lines or in binary, in from them.

Source: PostgreSQL 15, COPY, "File Formats". Whole batches are made and read at once; only what has escapes of the text
format, and the binary format on its way in, is read value by value.
"""

from __future__ import annotations

import csv
import io
import re
import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from runtime.kernels.framing import delimited, framed
from sqlengine.server.postgres.binary_values import in_binary
from sqlengine.server.postgres.messages import message
from sqlengine.server.postgres.parameter_values import from_wire
from sqlengine.server.postgres.sqlstate import PgError
from sqlengine.server.postgres.statements import Copying, Piece
from sqlengine.server.postgres.text_values import in_text
from sqlengine.server.postgres.types import Described

__all__ = [
    "BINARY_END",
    "BINARY_SIGNATURE",
    "CopyReader",
    "checked_columns",
    "copy_header",
    "copy_piece",
    "first_binary_piece",
]

BINARY_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
BINARY_END = b"\xff\xff"
_ESCAPED = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_MARK = re.compile(rb"^\\\.\r?$", re.MULTILINE)
_CHUNK = 4 * 1024 * 1024
"""So many bytes of lines are read at once."""


def checked_columns(given: Sequence[str], names: Sequence[str]) -> None:
    """Raise PgError 42P10 for columns of an option of COPY that are none of its columns."""
    for name in given:
        if name != "*" and name not in names:
            raise PgError("42P10", f'column "{name}" of an option is not copied by COPY')


def _are_meant(given: Sequence[str], name: str) -> bool:
    return name in given or "*" in given


def copy_header(columns: Sequence[Described], copying: Copying) -> bytes:
    """The line of names, without its end."""
    names = [column.name for column in columns]
    if copying.format == "csv":
        return copying.delimiter.join(_csv_field(name, copying) for name in names).encode()
    return copying.delimiter.join(names).encode()


def _csv_field(text: str, copying: Copying) -> str:
    if any(c in text for c in (copying.delimiter, copying.quote, "\n", "\r")):
        if copying.escape != copying.quote:
            text = text.replace(copying.escape, copying.escape * 2)
        return copying.quote + text.replace(copying.quote, copying.escape + copying.quote) + copying.quote
    return text


def first_binary_piece(piece: Piece, columns: Sequence[Described], copying: Copying) -> bytes:
    """The same for the first rows in binary: the signature stands in the message of the first row."""
    first = bytes(copy_piece([column.slice(0, 1) for column in piece], columns, copying, "UTC"))
    rest = copy_piece([column.slice(1) for column in piece], columns, copying, "UTC")
    return message(b"d", BINARY_SIGNATURE + first[5:]) + rest


def copy_piece(piece: Piece, columns: Sequence[Described], copying: Copying, time_zone: str) -> bytes | memoryview:
    """CopyData messages of some rows."""
    rows = len(piece[0]) if piece else 0
    if copying.format == "binary":
        return framed([in_binary(c, d.type) for c, d in zip(piece, columns, strict=True)], rows, b"d")
    texts = [in_text(c, d.type, time_zone).cast(pa.string()) for c, d in zip(piece, columns, strict=True)]
    if copying.format == "csv":
        made = [_csv_texts(t, copying, _are_meant(copying.force_quote, d.name)) for t, d in zip(texts, columns)]
    else:
        made = [_escaped_texts(text, copying) for text in texts]
    values = [text.cast(pa.binary()) for text in made]
    return delimited(values, rows, b"d", copying.delimiter.encode())


def _escaped_texts(texts: pa.Array, copying: Copying) -> pa.Array:
    found = _bytes_of(texts)
    for raw, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        if raw.encode() in found:
            texts = pc.replace_substring(texts, raw, escaped)
    if copying.delimiter != "\t" and copying.delimiter.encode() in found:
        texts = pc.replace_substring(texts, copying.delimiter, "\\" + copying.delimiter)
    return pc.fill_null(texts, copying.null)


def _bytes_of(texts: pa.Array) -> bytes:
    """All characters of an array of texts: looking for one in them is much faster than replacing it in each."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return b""
    ends = np.frombuffer(offsets, dtype=np.int32)
    return bytes(memoryview(data)[int(ends[texts.offset]) : int(ends[texts.offset + len(texts)])])


def _csv_texts(texts: pa.Array, copying: Copying, always: bool) -> pa.Array:
    """In quotes where a value has a delimiter, a quote or a line end, or reads like NULL; `always`: all but NULL."""
    quote, escape = copying.quote, copying.escape
    escaped = texts if escape == quote else pc.replace_substring(texts, escape, escape * 2)
    quoted = pc.binary_join_element_wise(quote, pc.replace_substring(escaped, quote, escape + quote), quote, "")
    if not always:
        special = "[" + re.escape(copying.delimiter + quote) + "\r\n]"
        odd = pc.or_(pc.match_substring_regex(texts, special), pc.equal(texts, copying.null))
        odd = pc.or_(odd, pc.equal(texts, "\\."))
        quoted = pc.if_else(odd, quoted, texts)
    return pc.fill_null(quoted, copying.null)


class CopyReader:
    """Rows that a client sends in pieces of bytes, cut anywhere, as columns.

    Args:
        columns: those that each row has.
    """

    def __init__(self, columns: Sequence[Described], copying: Copying) -> None:
        self._columns = columns
        self._copying = copying
        self._buffer = bytearray()
        self._rows = 0
        self._header_due = copying.header
        self._signed = False
        self._ended = False

    def feed(self, data: bytes | None) -> list[pa.Array] | None:
        """The rows that are complete, as columns of texts (of values of Python in binary); None when there are too few
        to be worth it.

        Args:
            data: None for the end.
        Raises:
            PgError: 22P04 with the line of what is no row.
        """
        if data is not None:
            self._buffer += data
            if len(self._buffer) < _CHUNK:
                return None
        if self._copying.format == "binary":
            return self._binary(data is None)
        end = len(self._buffer) if data is None else self._whole_lines()
        lines = bytes(self._buffer[:end])
        del self._buffer[:end]
        return self._lines(lines)

    def _whole_lines(self) -> int:
        """Where the last complete line ends. A line end within quotes of CSV ends none."""
        if self._copying.format != "csv":
            return self._buffer.rfind(b"\n") + 1
        quote = self._copying.quote.encode()
        end = self._buffer.rfind(b"\n") + 1
        while end and self._buffer.count(quote, 0, end) % 2:
            end = self._buffer.rfind(b"\n", 0, end - 1) + 1
        return end

    def _lines(self, lines: bytes) -> list[pa.Array] | None:
        is_csv = self._copying.format == "csv"
        if self._header_due and lines:
            self._header_due = False
            header, _, lines = lines.partition(b"\n")
            if self._copying.matches:
                self._match(header.decode().removesuffix("\r"))
        lines = self._until_mark(lines, self._copying.quote.encode() if is_csv else None)
        if not lines:
            return None
        if not is_csv and b"\\" in lines.replace(self._copying.null.encode(), b""):
            return self._escaped(lines)
        found = self._plain(lines)
        return [self._forced(column, d.name) for column, d in zip(found, self._columns)] if is_csv else found

    def _match(self, header: str) -> None:
        """Raise PgError 22P04 for a header with other names than those of the columns."""
        copying = self._copying
        if copying.format == "csv":
            rows = csv.reader([header], delimiter=copying.delimiter, quotechar=copying.quote)
            names = next(rows, [])
        else:
            names = header.split(copying.delimiter)
        wanted = [column.name for column in self._columns]
        if len(names) != len(wanted):
            raise PgError("22P04", f"wrong number of fields in header line: got {len(names)}, expected {len(wanted)}")
        for number, (name, column) in enumerate(zip(names, wanted, strict=True), 1):
            if name != column:
                message = f'column name mismatch in header line field {number}: got "{name}", expected "{column}"'
                raise PgError("22P04", message)

    def _forced(self, texts: pa.Array, name: str) -> pa.Array:
        """The values of a column, of which options say what NULL is."""
        copying = self._copying
        if _are_meant(copying.force_not_null, name):
            texts = pc.fill_null(texts, copying.null)
        if _are_meant(copying.force_null, name):
            texts = pc.if_else(pc.equal(texts, copying.null), pa.scalar(None, pa.string()), texts)
        return texts

    def _until_mark(self, lines: bytes, quote: bytes | None) -> bytes:
        r"""A line `\.` ends the rows; one within quotes of CSV does not. (psql sends it also with CSV.)"""
        if self._ended:
            return b""
        for mark in _MARK.finditer(lines):
            if quote is None or lines.count(quote, 0, mark.start()) % 2 == 0:
                self._ended = True
                return lines[: mark.start()]
        return lines

    def _plain(self, lines: bytes) -> list[pa.Array]:
        copying = self._copying
        is_csv = copying.format == "csv"
        escape: str | bool = copying.escape if is_csv and copying.escape != copying.quote else False
        names = [str(i) for i in range(len(self._columns))]
        broken: list[pacsv.InvalidRow] = []
        if len(names) == 1 and not is_csv:
            texts = pa.array(lines.decode().removesuffix("\n").split("\n"), pa.string())
            self._rows += len(texts)
            return [pc.if_else(pc.equal(texts, copying.null), pa.scalar(None, pa.string()), texts)]
        try:
            table = pacsv.read_csv(
                io.BytesIO(lines),
                read_options=pacsv.ReadOptions(
                    use_threads=False, column_names=names, block_size=max(len(lines) + 1, 1024)
                ),
                parse_options=pacsv.ParseOptions(
                    delimiter=copying.delimiter,
                    quote_char=copying.quote if is_csv else False,
                    double_quote=is_csv and not escape,
                    escape_char=escape,
                    newlines_in_values=is_csv,
                    ignore_empty_lines=False,
                    invalid_row_handler=lambda row: broken.append(row) or "error",
                ),
                convert_options=pacsv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[copying.null],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            if broken:
                raise self._wrong(self._rows + (broken[0].number or 1), broken[0].actual_columns) from None
            raise PgError("22P04", f"COPY: {error}") from error
        self._rows += table.num_rows
        return [column.combine_chunks() for column in table.columns]

    def _escaped(self, lines: bytes) -> list[pa.Array]:
        rows: list[list[str | None]] = []
        for line in lines.decode().removesuffix("\n").split("\n"):
            self._rows += 1
            cells = _cells(line.removesuffix("\r"), self._copying.delimiter)
            if len(cells) != len(self._columns):
                raise self._wrong(self._rows, len(cells))
            rows.append([None if c == self._copying.null else _ESCAPED.sub(_unescaped, c) for c in cells])
        return [pa.array([row[i] for row in rows], pa.string()) for i in range(len(self._columns))]

    def _wrong(self, row: int, found: int) -> PgError:
        return PgError(
            "22P04", f"COPY, line {row}: {found} values for {len(self._columns)} columns", hint="no row was written"
        )

    def _binary(self, ended: bool) -> list[pa.Array] | None:
        if not self._signed:
            if len(self._buffer) < len(BINARY_SIGNATURE):
                if ended:
                    raise PgError("22P04", "COPY: the signature of the binary format is missing")
                return None
            if bytes(self._buffer[:11]) != BINARY_SIGNATURE[:11]:
                raise PgError("22P04", "COPY: the signature of the binary format is wrong")
            extension = int.from_bytes(self._buffer[15:19], "big")
            if len(self._buffer) < 19 + extension:
                return None
            del self._buffer[: 19 + extension]
            self._signed = True
        values: list[list[object]] = [[] for _ in self._columns]
        at, data = 0, bytes(self._buffer)
        while not self._ended and (end := _row_end(data, at)) is not None:
            (count,) = struct.unpack_from("!h", data, at)
            if count < 0:
                self._ended = True
                at = end
                break
            self._rows += 1
            if count != len(self._columns):
                raise self._wrong(self._rows, count)
            at += 2
            for number, column in enumerate(self._columns):
                (size,) = struct.unpack_from("!i", data, at)
                cell = None if size < 0 else data[at + 4 : at + 4 + size]
                at += 4 + max(size, 0)
                values[number].append(from_wire(number + 1, cell, True, column.type))
        del self._buffer[:at]
        if ended and self._buffer and not self._ended:
            raise PgError("22P04", "COPY: the data end within a row")
        return [pa.array(column) for column in values] if values and values[0] else None


def _cells(line: str, delimiter: str) -> list[str]:
    """The cells of a line; a delimiter behind a backslash is none."""
    cells, start, at = [], 0, 0
    while True:
        next_one = line.find(delimiter, at)
        if next_one < 0:
            cells.append(line[start:])
            return cells
        slashes = len(line[start:next_one]) - len(line[start:next_one].rstrip("\\"))
        if slashes % 2 == 0:
            cells.append(line[start:next_one])
            start = next_one + 1
        at = next_one + 1


def _unescaped(match: re.Match[str]) -> str:
    octal, hexadecimal, letter = match.groups()
    if octal is not None:
        return chr(int(octal, 8) & 0xFF)
    if hexadecimal is not None:
        return chr(int(hexadecimal, 16))
    return _LETTERS.get(letter, letter)


def _row_end(data: bytes, at: int) -> int | None:
    """Where a row of the binary format ends; None when it is not all there."""
    if at + 2 > len(data):
        return None
    (count,) = struct.unpack_from("!h", data, at)
    at += 2
    for _ in range(max(count, 0)):
        if at + 4 > len(data):
            return None
        (size,) = struct.unpack_from("!i", data, at)
        at += 4 + max(size, 0)
        if at > len(data):
            return None
    return at
