"""The format `json`: one object a line, options as in Flink 2.3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connectors.formats.held import check_held
from connectors.formats.json_decoder import JsonDecoder
from connectors.formats.json_encoder import JsonEncoder, JsonSpelling
from connectors.formats.text_values import ISO, SQL, TextRules
from connectors.options import TableOptions
from runtime.core.changelog import APPEND, ChangelogMode
from runtime.core.errors import OptionError
from runtime.core.options import bool_option, text_option
from runtime.core.schema import Schema
from runtime.spi.registry import FormatFactory

__all__ = ["IGNORE", "JSON", "JSON_OPTIONS", "JsonFormat", "read_spelling"]

WITH_OFFSET = "ISO-8601-WITH-OFFSET"

IGNORE = bool_option(
    "ignore-parse-errors",
    False,
    "true or false: malformed records are kept in system.rejected instead of failing the job",
)
FAIL_ON_MISSING = bool_option(
    "fail-on-missing-field", False, "true or false: a record without one of the columns is malformed"
)
TIMESTAMPS = text_option("timestamp-format.standard", SQL, "how timestamps are written", (SQL, ISO, WITH_OFFSET))
NULL_KEYS = text_option("map-null-key.mode", "FAIL", "how NULL keys of maps are written", ("FAIL", "DROP", "LITERAL"))
NULL_KEY = text_option("map-null-key.literal", "null", "the text written for a NULL key in the mode LITERAL")
PLAIN_DECIMALS = bool_option(
    "encode.decimal-as-plain-number", False, "accepted for compatibility; decimals are written plainly"
)
LEAVE_NULLS_OUT = bool_option(
    "encode.ignore-null-fields", False, "true or false: NULL columns are left out of the object"
)
PARSER = bool_option("decode.json-parser.enabled", True, "accepted for compatibility")
JSON_OPTIONS = (IGNORE, FAIL_ON_MISSING, TIMESTAMPS, NULL_KEYS, NULL_KEY, PLAIN_DECIMALS, LEAVE_NULLS_OUT, PARSER)


class JsonFormat:
    """JSON lines. Columns that a record lacks are NULL; fields that are no column are left out."""

    name = "json"
    line_based = True

    def __init__(
        self, timestamps: str, fail_on_missing: bool, ignore_parse_errors: bool, spelling: JsonSpelling
    ) -> None:
        self._timestamps = timestamps
        self._fail_on_missing = fail_on_missing
        self.ignore_parse_errors = ignore_parse_errors
        self._spelling = spelling

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    def decoder(self, schema: Schema, time_zone: str) -> JsonDecoder:
        check_held("format 'json'", schema)
        return JsonDecoder(schema, TextRules(time_zone, self._timestamps), self._fail_on_missing)

    def projecting_decoder(self, schema: Schema, wanted: Sequence[str], time_zone: str) -> JsonDecoder:
        return self.decoder(Schema(tuple(schema[schema.index_of(n)] for n in wanted)), time_zone)

    def encoder(self, schema: Schema, time_zone: str) -> JsonEncoder:
        check_held("format 'json'", schema)
        return JsonEncoder(schema, self._spelling)


def read_spelling(read: TableOptions) -> tuple[str, JsonSpelling]:
    """The standard of timestamps, for reading, and how to write."""
    standard = ISO if read.get(TIMESTAMPS).upper() != SQL else SQL
    spelling = JsonSpelling(
        "T" if standard == ISO else " ", read.get(NULL_KEYS).upper(), read.get(NULL_KEY), read.get(LEAVE_NULLS_OUT)
    )
    return standard, spelling


def _create(options: Mapping[str, str]) -> JsonFormat:
    read = TableOptions(options, "format 'json'", JSON_OPTIONS, under="json.")
    if read.get(FAIL_ON_MISSING) and read.get(IGNORE):
        raise OptionError(
            "format 'json' cannot both fail on missing fields and ignore parse errors",
            hint="set only one of 'json.fail-on-missing-field' and 'json.ignore-parse-errors'",
        )
    standard, spelling = read_spelling(read)
    return JsonFormat(standard, read.get(FAIL_ON_MISSING), read.get(IGNORE), spelling)


JSON = FormatFactory(name="json", document="JSON, one object a line", create=_create, options=JSON_OPTIONS)
