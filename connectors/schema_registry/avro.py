"""The formats `avro-confluent` and `debezium-avro-confluent`: records of Avro, each with the id of its schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from connectors.formats.avro import IGNORE, LEGACY, AvroDecoder, AvroEncoder
from connectors.formats.avro_reading import Unresolved
from connectors.formats.avro_schema import AvroType, BadSchema, parse_schema, schema_text
from connectors.formats.avro_types import avro_of, check_avro, columns_of
from connectors.formats.avro_writing import encode_records
from connectors.formats.change_events import changes_of_rows, coded
from connectors.formats.debezium import DEBEZIUM_KINDS
from connectors.formats.images import rows_of_images
from connectors.formats.records import shown_hex
from connectors.options import TableOptions
from connectors.schema_registry.client import NoSchema, RegisteredSchema, RegistryClient
from connectors.schema_registry.frames import FramedDecoder, Undecodable, frame
from connectors.schema_registry.options import PROPERTIES, REGISTRY_OPTIONS, SUBJECT, read_address, registers
from connectors.schema_registry.subject import OfSubject
from runtime.core.changelog import APPEND, RETRACT, ChangelogBatch, ChangelogMode
from runtime.core.errors import FormatError, OptionError, UnsupportedError
from runtime.core.options import text_option
from runtime.core.schema import Schema
from runtime.core.types import STRING, row
from runtime.spi.format import DecodedMessages, Payloads
from runtime.spi.reader import RejectedRow
from runtime.spi.registry import FormatFactory

__all__ = ["AVRO_CONFLUENT", "DEBEZIUM_AVRO_CONFLUENT"]

SCHEMA = text_option(
    "schema", "", "the schema that is written, and what the columns mean in reading; else it follows from the columns"
)
_OPTIONS = (*REGISTRY_OPTIONS, SCHEMA, IGNORE, LEGACY)


class AvroConfluentFormat(OfSubject):
    """Records with the id of their schema in a registry. `chosen`: the schema that the table names."""

    line_based = False

    def __init__(
        self,
        name: str,
        client: RegistryClient,
        subject: str,
        chosen: AvroType | None,
        *,
        legacy: bool,
        ignore_parse_errors: bool,
        registers: bool,
    ) -> None:
        super().__init__(client, subject, registers=registers)
        self.name = name
        self.chosen = chosen
        self.legacy = legacy
        self.ignore_parse_errors = ignore_parse_errors

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    def infer_columns(self) -> Schema:
        """The columns of the newest schema of the subject, or of that which the table names."""
        return columns_of(self.chosen or self._newest())

    def _newest(self) -> AvroType:
        try:
            return _parsed(self.newest())
        except Undecodable as error:
            raise self.untold(error) from error

    def message_decoder(self, schema: Schema, wanted: Sequence[str], time_zone: str) -> FramedDecoder:
        check_avro(schema, self.name)
        columns = Schema(tuple(schema[schema.index_of(n)] for n in wanted))
        return FramedDecoder(columns, lambda number: self.opened(number, columns))

    def opened(self, number: int, columns: Schema) -> AvroDecoder:
        """What decodes records of an id to some columns; raises Undecodable."""
        try:
            return AvroDecoder(columns, _parsed(self.client.schema(number)), self.chosen)
        except (NoSchema, Unresolved) as error:
            raise Undecodable(str(error)) from error

    def message_encoder(self, schema: Schema, time_zone: str) -> _ConfluentEncoder:
        check_avro(schema, self.name)
        self.needed_subject()
        return _ConfluentEncoder(self, schema, self.chosen or avro_of(schema, self.legacy))

    def decoder(self, schema: Schema, time_zone: str) -> NoReturn:
        """Raises UnsupportedError E1643: files have their schema within."""
        raise self._no_files()

    def encoder(self, schema: Schema, time_zone: str) -> NoReturn:
        """Raises UnsupportedError E1643."""
        raise self._no_files()

    def _no_files(self) -> UnsupportedError:
        return UnsupportedError(
            f"format '{self.name}' is one of messages, not of files",
            code="E1643",
            hint="use the format 'avro' for files",
        )


class _ConfluentEncoder:
    def __init__(self, format_: AvroConfluentFormat, schema: Schema, written: AvroType) -> None:
        self._format = format_
        self._schema = schema
        self._written = written
        AvroEncoder(schema, written)

    def encode_messages(self, batch: ChangelogBatch) -> pa.Array:
        """Registers the schema before the first message."""
        prefix = frame(self._format.registered("AVRO", schema_text(self._written)))
        return encode_records(self._schema, batch.columns, self._written, len(batch), prefix)


class DebeziumAvroFormat(AvroConfluentFormat):
    """Change events of Debezium."""

    @property
    def changelog_mode(self) -> ChangelogMode:
        return RETRACT

    def infer_columns(self) -> Schema:
        envelope = self.chosen or self._newest()
        after = next((f.type for f in envelope.fields if f.name == "after"), None)
        images = [] if after is None else [t for t in (after, *after.branches) if t.kind == "record"]
        if not images:
            raise FormatError(f"the schema of {self.subject} is none of Debezium: it has no field after", code="E3230")
        return columns_of(images[0])

    def message_decoder(self, schema: Schema, wanted: Sequence[str], time_zone: str) -> Any:
        check_avro(schema, self.name)
        return _EventDecoder(schema, wanted, FramedDecoder(_events(schema), lambda n: self.opened(n, _events(schema))))

    def message_encoder(self, schema: Schema, time_zone: str) -> Any:
        check_avro(schema, self.name)
        self.needed_subject()
        return _EventEncoder(
            schema, _ConfluentEncoder(self, _events(schema), self.chosen or avro_of(_events(schema), self.legacy))
        )


def _events(schema: Schema) -> Schema:
    """The columns of events over rows of a table."""
    image = row(*((f.name, f.type) for f in schema))
    return Schema.of(("before", image), ("after", image), ("op", STRING))


class _EventDecoder:
    """Events to changes. All columns are decoded: of two images of a row the wanted ones may be equal."""

    def __init__(self, schema: Schema, wanted: Sequence[str], events: FramedDecoder) -> None:
        self._schema = schema
        self._wanted = [schema.index_of(n) for n in wanted]
        self._events = events

    def decode_messages(self, payloads: Payloads) -> DecodedMessages:
        found = self._events.decode_messages(payloads)
        before, after, op = found.batch.columns
        read = rows_of_images(before, after, coded(op, DEBEZIUM_KINDS))
        rejected = list(found.rejected)
        for reason, mask in read.wrong.items():
            for event in found.message_of_row[mask].tolist():
                rejected.append((event, RejectedRow(reason, shown_hex(payloads.raw(event)))))
        changes, event_of_row = changes_of_rows(read, self._schema)
        rejected.sort(key=lambda pair: pair[0])
        return DecodedMessages(changes.select(self._wanted), found.message_of_row[event_of_row], tuple(rejected))


class _EventEncoder:
    """Changes to events: what is gone is `d`, what is new is `c`, as in Flink."""

    def __init__(self, schema: Schema, events: _ConfluentEncoder) -> None:
        self._schema = schema
        self._events = events

    def encode_messages(self, batch: ChangelogBatch) -> pa.Array:
        gone = batch.signs() < 0
        image = row(*((f.name, f.type) for f in self._schema)).arrow
        before, after = (
            pa.Array.from_buffers(
                image, len(batch), [pa.py_buffer(np.packbits(there, bitorder="little"))], children=[*batch.columns]
            )
            for there in (gone, ~gone)
        )
        op = pa.array(np.where(gone, "d", "c"), pa.string())
        return self._events.encode_messages(ChangelogBatch.of([before, after, op], _events(self._schema)))


def _parsed(schema: RegisteredSchema) -> AvroType:
    """A schema of the registry; raises Undecodable."""
    if schema.kind != "AVRO":
        raise Undecodable(f"it is one of {schema.kind}, not of Avro")
    try:
        return parse_schema(schema.text, [text for _, text in schema.references])
    except BadSchema as error:
        raise Undecodable(f"it is no schema of Avro: {error}") from error


def _create(name: str, kind: type[AvroConfluentFormat], options: Mapping[str, str]) -> AvroConfluentFormat:
    where = f"format '{name}'"
    read = TableOptions(options, where, _OPTIONS, (f"{name}.{PROPERTIES}",), under=f"{name}.")
    properties = {k.removeprefix(PROPERTIES): v for k, v in options.items() if k.startswith(PROPERTIES)}
    address = read_address(read, properties, where)
    chosen = None
    if read.get(SCHEMA):
        try:
            chosen = parse_schema(read.get(SCHEMA))
        except BadSchema as error:
            raise OptionError(f"option '{name}.{SCHEMA.key}' is no schema of Avro: {error}") from error
    return kind(
        name,
        RegistryClient(address),
        read.get(SUBJECT),
        chosen,
        legacy=read.get(LEGACY),
        ignore_parse_errors=read.get(IGNORE),
        registers=registers(properties),
    )


AVRO_CONFLUENT = FormatFactory(
    name="avro-confluent",
    document="records of Avro with the id of their schema in a registry",
    create=lambda options: _create("avro-confluent", AvroConfluentFormat, options),
    options=_OPTIONS,
)
DEBEZIUM_AVRO_CONFLUENT = FormatFactory(
    name="debezium-avro-confluent",
    document="change events of Debezium as records of Avro, whose schema is in a registry",
    create=lambda options: _create("debezium-avro-confluent", DebeziumAvroFormat, options),
    options=_OPTIONS,
)
