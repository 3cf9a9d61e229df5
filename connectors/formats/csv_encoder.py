"""Columns to CSV lines."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.csv_decoder import CsvDialect
from connectors.formats.lines_out import block_of_lines
from connectors.formats.row_kinds import require_append
from connectors.formats.value_text import value_text
from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot

__all__ = ["CsvEncoder"]


class CsvEncoder:
    """One record a line; the header line first when the dialect has one. NULL is the null literal, else nothing."""

    def __init__(self, schema: Schema, dialect: CsvDialect, time_zone: str) -> None:
        self._schema = schema
        self._dialect = dialect
        self._header_due = dialect.header

    def encode(self, batch: ChangelogBatch) -> bytes:
        require_append(batch, "csv")
        cells = [self._cell(c, f.type) for c, f in zip(batch.columns, self._schema, strict=True)]
        joined = cells[0] if len(cells) == 1 else pc.binary_join_element_wise(*cells, self._dialect.delimiter)
        lines = block_of_lines(joined)
        if self._header_due:
            self._header_due = False
            names = self._quoted(pa.array(list(self._schema.names), pa.string())).to_pylist()
            return (self._dialect.delimiter.join(names) + "\n").encode() + lines
        return lines

    def finish(self) -> bytes:
        return b""

    def _cell(self, values: pa.Array, type_: DataType) -> pa.Array:
        text = self._text(values, type_)
        if type_.is_character or type_.is_nested:
            text = self._quoted(text)
        return pc.fill_null(text, self._dialect.null_literal or "")

    def _text(self, values: pa.Array, type_: DataType) -> pa.Array:
        if type_.root is TypeRoot.ARRAY:
            elements = pc.fill_null(
                value_text(values.flatten(), type_.children[0], separator=" "), self._dialect.null_literal or ""
            )
            lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
            offsets = pa.array([0, *lengths.cumsum().tolist()], pa.int32())
            mask = pc.is_null(values) if values.null_count else None
            return pc.binary_join(
                pa.ListArray.from_arrays(offsets, elements, mask=mask), self._dialect.element_delimiter
            )
        if type_.root is TypeRoot.ROW:
            fields = [
                pc.fill_null(value_text(values.field(i), f.type, separator=" "), self._dialect.null_literal or "")
                for i, f in enumerate(type_.fields)
            ]
            joined = pc.binary_join_element_wise(*fields, self._dialect.element_delimiter)
            return pc.if_else(pc.is_valid(values), joined, pa.scalar(None, pa.string()))
        return value_text(values, type_, separator=" ")

    def _quoted(self, text: pa.Array) -> pa.Array:
        """Text in quotes where it holds a delimiter, a quote, a line end or blanks at its ends."""
        dialect = self._dialect
        if dialect.escape is not None:
            text = pc.replace_substring(text, dialect.escape, dialect.escape * 2)
        if dialect.quote is None:
            return text
        special = "".join(
            "\\" + c if c in "\\]^-[" else c
            for c in f"{dialect.delimiter}{dialect.quote}\n\r{dialect.element_delimiter}"
        )
        risky = pc.match_substring_regex(text, f"[{special}]|^\\s|\\s$")
        if dialect.null_literal is not None:
            risky = pc.or_(risky, pc.equal(text, dialect.null_literal))
        if not pc.any(risky).as_py():
            return text
        inside = pc.replace_substring(text, dialect.quote, (dialect.escape or dialect.quote) + dialect.quote)
        quoted = pc.binary_join_element_wise(pa.scalar(dialect.quote), inside, pa.scalar(dialect.quote), "")
        return pc.if_else(risky, quoted, text)
