"""The format `csv`: options as in Flink 2.3, and `csv.header` for files whose first line names the columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connectors.formats.csv_decoder import CsvDecoder, CsvDialect
from connectors.formats.csv_encoder import CsvEncoder
from connectors.formats.held import check_held
from connectors.options import TableOptions
from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.errors import OptionError, UnsupportedError
from runtime.core.options import bool_option, text_option
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from runtime.spi.registry import FormatFactory

__all__ = ["CSV", "CsvFormat"]

FIELD_DELIMITER = text_option("field-delimiter", ",", "one character between fields, such as ',' or '\\t'")
QUOTE = text_option("quote-character", '"', "the character around values that hold delimiters")
NO_QUOTE = bool_option("disable-quote-character", False, "true or false: values are never in quotes")
COMMENTS = bool_option("allow-comments", False, "true or false: lines that begin with '#' are left out")
IGNORE = bool_option(
    "ignore-parse-errors",
    False,
    "true or false: malformed records are kept in system.rejected instead of failing the job",
)
ELEMENTS = text_option("array-element-delimiter", ";", "the delimiter between elements of an ARRAY and fields of a ROW")
ESCAPE = text_option("escape-character", "", "the escape character")
NULL_LITERAL = text_option("null-literal", "", "the text that means NULL")
HEADER = bool_option("header", False, "true or false: the first line names the columns, and columns are found by name")
LINE_BREAKS = text_option(
    "line-breaks-in-values",
    "auto",
    "whether quoted values may span lines: 'always', 'never', or 'auto', which refuses values over more than 100 lines "
    "and over lines that look like records, because a quote was forgotten there",
    ("auto", "always", "never"),
)
SCIENTIFIC = bool_option(
    "write-bigdecimal-in-scientific-notation", True, "accepted for compatibility; decimals are written plainly"
)
TRIM = bool_option("trim-spaces", False, "accepted for compatibility; numbers are always trimmed")
_OPTIONS = (
    FIELD_DELIMITER,
    QUOTE,
    NO_QUOTE,
    COMMENTS,
    IGNORE,
    ELEMENTS,
    ESCAPE,
    NULL_LITERAL,
    HEADER,
    LINE_BREAKS,
    SCIENTIFIC,
    TRIM,
)


class CsvFormat:
    """Comma-separated values. Empty cells are NULL except in text and binary columns; `null-literal` is NULL in every
    column."""

    name = "csv"
    line_based = True

    def __init__(self, dialect: CsvDialect, ignore_parse_errors: bool) -> None:
        self.dialect = dialect
        self.ignore_parse_errors = ignore_parse_errors

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    def decoder(self, schema: Schema, time_zone: str) -> CsvDecoder:
        return self.projecting_decoder(schema, schema.names, time_zone)

    def projecting_decoder(self, schema: Schema, wanted: Sequence[str], time_zone: str) -> CsvDecoder:
        check_held("format 'csv'", schema)
        for field in schema:
            _check(field.name, field.type, False)
        return CsvDecoder(schema, wanted, self.dialect, time_zone)

    def encoder(self, schema: Schema, time_zone: str) -> CsvEncoder:
        check_held("format 'csv'", schema)
        for field in schema:
            _check(field.name, field.type, False)
        return CsvEncoder(schema, self.dialect, time_zone)


def _check(name: str, type_: DataType, nested: bool) -> None:
    if type_.root in (TypeRoot.MAP, TypeRoot.MULTISET) or (nested and type_.is_nested):
        raise UnsupportedError(
            f"format 'csv' cannot hold column {name} of type {type_}",
            code="E1616",
            hint="use the format 'json' or 'parquet' for such columns",
        )
    for child in (*type_.children, *(f.type for f in type_.fields)):
        _check(name, child, True)


def _create(options: Mapping[str, str]) -> CsvFormat:
    read = TableOptions(options, "format 'csv'", _OPTIONS, under="csv.")
    delimiter = _unescape(read.get(FIELD_DELIMITER))
    quote = None if read.get(NO_QUOTE) else read.get(QUOTE)
    if read.get(NO_QUOTE) and read.has(QUOTE):
        raise OptionError(
            "format 'csv' cannot have a quote character and have it disabled",
            hint="set only one of 'csv.quote-character' and 'csv.disable-quote-character'",
        )
    for key, value in (("field-delimiter", delimiter), ("quote-character", quote)):
        if value is not None and len(value.encode()) != 1:
            raise OptionError(
                f"option 'csv.{key}' must be a single character, not '{value}'",
                hint="write one ASCII character, '\\t' for a tab",
            )
    escape = read.get(ESCAPE)
    if len(escape.encode()) > 1:
        raise OptionError(f"option 'csv.escape-character' must be a single character, not '{escape}'")
    elements = read.get(ELEMENTS)
    if not elements:
        raise OptionError("option 'csv.array-element-delimiter' cannot be empty")
    literal = read.get(NULL_LITERAL) if read.has(NULL_LITERAL) else None
    dialect = CsvDialect(
        delimiter,
        quote,
        escape or None,
        read.get(COMMENTS),
        literal,
        elements,
        read.get(HEADER),
        read.get(LINE_BREAKS).lower(),
    )
    return CsvFormat(dialect, read.get(IGNORE))


def _unescape(text: str) -> str:
    return text.encode("utf-8").decode("unicode_escape") if text.startswith("\\") and len(text) > 1 else text


CSV = FormatFactory(name="csv", document="comma-separated values", create=_create, options=_OPTIONS)
