"""The format `debezium-json`: change events with the images before and after (https://debezium.io), as Flink 2.3 reads
and writes them.

Reading: `c` and `r` are `+I`, `u` is the pair `-U`, `+U`, `d` is `-D`. Writing: `+I` and `+U` become `c`, `-U` and `-D`
become `d`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.held import check_held
from connectors.formats.json import IGNORE, JSON_OPTIONS, read_spelling
from connectors.formats.json_decoder import decode_lines
from connectors.formats.json_encoder import JsonSpelling, object_text
from connectors.formats.lines_out import block_of_lines
from connectors.formats.records import Lines, MalformedRecord, shown_bytes
from connectors.formats.text_values import TextRules
from connectors.options import TableOptions
from runtime.core.changelog import DELETE, INSERT, RETRACT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch, ChangelogMode
from runtime.core.options import bool_option
from runtime.core.schema import Schema
from runtime.core.types import STRING, row
from runtime.spi.format import Decoded
from runtime.spi.registry import FormatFactory

__all__ = ["DEBEZIUM_JSON", "DebeziumFormat"]

SCHEMA_INCLUDE = bool_option(
    "schema-include", False, "true or false: the event is in the field 'payload', beside its schema"
)
_OPTIONS = (SCHEMA_INCLUDE, *(o for o in JSON_OPTIONS if o.key != "fail-on-missing-field"))


class DebeziumFormat:
    """Change events, one a line."""

    name = "debezium-json"
    line_based = True

    def __init__(
        self, timestamps: str, schema_include: bool, ignore_parse_errors: bool, spelling: JsonSpelling
    ) -> None:
        self._timestamps = timestamps
        self._schema_include = schema_include
        self.ignore_parse_errors = ignore_parse_errors
        self._spelling = spelling

    @property
    def changelog_mode(self) -> ChangelogMode:
        return RETRACT

    def decoder(self, schema: Schema, time_zone: str) -> DebeziumDecoder:
        check_held("format 'debezium-json'", schema)
        return DebeziumDecoder(schema, TextRules(time_zone, self._timestamps), self._schema_include)

    def encoder(self, schema: Schema, time_zone: str) -> DebeziumEncoder:
        check_held("format 'debezium-json'", schema)
        return DebeziumEncoder(schema, self._spelling, self._schema_include)


class DebeziumDecoder:
    """Events to changes; an update's two rows stand one after the other.

    All columns of a row are needed: of two updates of a row the projections may be equal, but the row kinds stay right.
    """

    def __init__(self, schema: Schema, rules: TextRules, schema_include: bool) -> None:
        self._schema = schema
        self._rules = rules
        image = row(*((f.name, f.type) for f in schema))
        event = (("before", image), ("after", image), ("op", STRING))
        self._events = Schema.of(("payload", row(*event))) if schema_include else Schema.of(*event)
        self._wrapped = schema_include
        self._most: int | None = None

    def limit_records(self, most: int) -> None:
        """Lines of more bytes are malformed."""
        self._most = most

    def decode(self, data: bytes, final: bool) -> Decoded:
        consumed = len(data) if final else data.rfind(b"\n") + 1
        lines = Lines.of(data[:consumed])
        block = decode_lines(lines, self._events, self._rules, most=self._most)
        before, after, op = block.rows.column(0).flatten() if self._wrapped else block.rows.columns
        changes, events, wrong = self._changes(before, after, op)
        rejected = list(block.rejected)
        for index, reason in wrong:
            line = int(block.line_of_row[index])
            rejected.append(MalformedRecord(reason, shown_bytes(lines.raw(line)), int(lines.numbers[line])))
        rejected.sort(key=lambda r: r.line)
        whole = len(changes)
        if rejected:
            whole = int(np.searchsorted(lines.numbers[block.line_of_row[events]], rejected[0].line))
        return Decoded(changes, tuple(rejected), consumed, whole)

    def _changes(
        self, before: pa.Array, after: pa.Array, op: pa.Array
    ) -> tuple[ChangelogBatch, np.ndarray, list[tuple[int, str]]]:
        """The changes of the events, of which event each is, and those that are none: their index and why."""
        count = len(op)
        code = pc.fill_null(pc.index_in(op, value_set=pa.array(["c", "r", "u", "d"])), 4).to_numpy(zero_copy_only=False)
        had = pc.is_valid(before).to_numpy(zero_copy_only=False)
        has = pc.is_valid(after).to_numpy(zero_copy_only=False)
        insert, update, delete = code <= 1, code == 2, code == 3
        unusable = {
            "unknown operation": code == 4,
            "event without its row after the change": (insert | update) & ~has,
            "event without its row before the change (PostgreSQL: REPLICA IDENTITY FULL)": (update | delete) & ~had,
        }
        usable = ~np.logical_or.reduce(list(unusable.values()))
        wrong = [(int(i), reason) for reason, mask in unusable.items() for i in np.flatnonzero(mask)]
        olds = np.flatnonzero((update | delete) & usable)
        news = np.flatnonzero((insert | update) & usable)
        place = np.concatenate([olds * 2, news * 2 + 1])
        kinds = np.concatenate(
            [np.where(update[olds], UPDATE_BEFORE, DELETE), np.where(update[news], UPDATE_AFTER, INSERT)]
        ).astype(np.int8)
        order = np.argsort(place, kind="stable")
        source = pa.array(np.concatenate([olds, news + count])[order])
        columns = [
            pa.concat_arrays([b, a]).take(source) for b, a in zip(before.flatten(), after.flatten(), strict=True)
        ]
        return ChangelogBatch.of(columns, self._schema, kinds[order]), place[order] // 2, wrong


class DebeziumEncoder:
    """Changes to events, one a line."""

    def __init__(self, schema: Schema, spelling: JsonSpelling, schema_include: bool) -> None:
        self._schema = schema
        self._spelling = spelling
        self._wrapped = schema_include

    def encode(self, batch: ChangelogBatch) -> bytes:
        image = object_text(batch.columns, self._schema.names, self._schema.types, self._spelling)
        gone = pa.array(batch.signs() < 0)
        head, tail = ('{"schema":null,"payload":', "}") if self._wrapped else ("", "")
        before = pc.if_else(gone, image, "null")
        after = pc.if_else(gone, "null", image)
        op = pc.if_else(gone, '"d"', '"c"')
        parts = [head + '{"before":', before, ',"after":', after, ',"op":', op, "}" + tail]
        return block_of_lines(pc.binary_join_element_wise(*parts, ""))

    def finish(self) -> bytes:
        return b""


def _create(options: Mapping[str, str]) -> DebeziumFormat:
    read = TableOptions(options, "format 'debezium-json'", _OPTIONS, under="debezium-json.")
    standard, spelling = read_spelling(read)
    return DebeziumFormat(standard, read.get(SCHEMA_INCLUDE), read.get(IGNORE), spelling)


DEBEZIUM_JSON = FormatFactory(
    name="debezium-json",
    document="change events of Debezium: the row before and after",
    create=_create,
    options=_OPTIONS,
)
