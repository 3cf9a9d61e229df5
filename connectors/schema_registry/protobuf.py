"""The format `protobuf-confluent`: messages of Protobuf, each with the id of its schema and the place of its type in there.

Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html, "Wire format".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np
import pyarrow as pa

from connectors.formats.proto_known import linked_texts
from connectors.formats.proto_model import BadSchema, Linked
from connectors.formats.proto_reading import Unresolved, zigzag
from connectors.formats.proto_types import check_proto, columns_of_message, proto_text_of
from connectors.formats.protobuf import DEFAULTS, IGNORE, MESSAGE, NULLS, ProtoDecoder, ProtoEncoder, no_files
from connectors.formats.records import shown_hex
from connectors.options import TableOptions
from connectors.schema_registry.client import NoSchema, RegisteredSchema, RegistryClient
from connectors.schema_registry.frames import FramedDecoder, Undecodable, frame
from connectors.schema_registry.options import PROPERTIES, REGISTRY_OPTIONS, SUBJECT, read_address, registers
from connectors.schema_registry.subject import OfSubject
from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import OptionError
from runtime.core.options import text_option
from runtime.core.schema import Schema
from runtime.kernels.proto_read_twin import Stop, read_varint
from runtime.kernels.proto_write_twin import varint
from runtime.spi.format import DecodedMessages, Payloads
from runtime.spi.reader import RejectedRow
from runtime.spi.registry import FormatFactory

__all__ = ["PROTOBUF_CONFLUENT", "columns_of_registered"]

_NAME = "protobuf-confluent"
SCHEMA = text_option(
    "schema",
    "",
    "the text of a .proto file: what is written, and what the numbers of fields mean in reading; else it follows from the columns",
)
_OPTIONS = (*REGISTRY_OPTIONS, SCHEMA, MESSAGE, IGNORE, DEFAULTS, NULLS)
_MOST_NESTED = 64


class ProtobufConfluentFormat(OfSubject):
    """Messages with the id of their schema in a registry.

    Args:
        text: the schema that the table names, or "".
        message: the name of the message that is written, or whose columns are told; "": the only one.
    """

    name = _NAME
    line_based = False
    changelog_mode: ChangelogMode = APPEND

    def __init__(
        self,
        client: RegistryClient,
        subject: str,
        text: str,
        message: str,
        *,
        ignore_parse_errors: bool,
        read_defaults: bool,
        null_text: str,
        registers: bool,
    ) -> None:
        super().__init__(client, subject, registers=registers)
        self.text = text
        self.message = message
        self.ignore_parse_errors = ignore_parse_errors
        self.read_defaults = read_defaults
        self.null_text = null_text

    def infer_columns(self) -> Schema:
        """The columns of the newest schema of the subject, or of that which the table names."""
        if self.text:
            return columns_of_message(linked_texts(self.text, {}).find(self.message))
        try:
            return columns_of_registered(self.newest(), self.message)
        except Undecodable as error:
            raise self.untold(error) from error

    def message_decoder(self, schema: Schema, wanted: Sequence[str], time_zone: str) -> FramedDecoder:
        check_proto(schema, _NAME)
        columns = Schema(tuple(schema[schema.index_of(n)] for n in wanted))
        return FramedDecoder(columns, lambda number: self.opened(number, columns))

    def opened(self, number: int, columns: Schema) -> _ByPlace:
        """What decodes messages of an id to some columns; raises Undecodable."""
        try:
            found = _linked(self.client.schema(number))
        except NoSchema as error:
            raise Undecodable(str(error)) from error
        chosen = linked_texts(self.text, {}).find(self.message) if self.text else None

        def decoder(place: tuple[int, ...]) -> ProtoDecoder:
            message = found.at(place)
            return ProtoDecoder(columns, chosen or message, self.read_defaults, lenient=True)

        return _ByPlace(columns, decoder)

    def message_encoder(self, schema: Schema, time_zone: str) -> _Encoder:
        check_proto(schema, _NAME)
        self.needed_subject()
        return _Encoder(self, schema)

    def decoder(self, schema: Schema, time_zone: str) -> NoReturn:
        """Raises UnsupportedError E1643: it is no format of files."""
        raise no_files(_NAME)

    def encoder(self, schema: Schema, time_zone: str) -> NoReturn:
        """Raises UnsupportedError E1643."""
        raise no_files(_NAME)


class _ByPlace:
    """Decodes messages behind their frames: the place of the type in its file comes first.

    Args:
        opened: what decodes messages of the type at a place; raises BadSchema or Unresolved.
    """

    def __init__(self, schema: Schema, opened: Callable[[tuple[int, ...]], ProtoDecoder]) -> None:
        self._schema = schema
        self._opened = opened
        self._decoders: dict[tuple[int, ...], ProtoDecoder | str] = {}

    def decode_messages(self, payloads: Payloads) -> DecodedMessages:
        places, sizes = _places(payloads)
        parts: list[tuple[ChangelogBatch, np.ndarray]] = []
        rejected: list[tuple[int, RejectedRow]] = []
        for place, chosen in places.items():
            decoder = self._decoder(place)
            if isinstance(decoder, str):
                rejected += [(i, RejectedRow(decoder, shown_hex(payloads.raw(i)))) for i in chosen.tolist()]
                continue
            given = payloads.take(chosen)
            found = decoder.decode_messages(Payloads(given.data, given.starts + sizes[chosen], given.ends))
            parts.append((found.batch, chosen[found.message_of_row]))
            rejected += [(int(chosen[i]), row) for i, row in found.rejected]
        rejected.sort(key=lambda pair: pair[0])
        if not parts:
            return DecodedMessages(ChangelogBatch.empty(self._schema), np.empty(0, np.int64), tuple(rejected))
        batch, of_row = ChangelogBatch.concat([b for b, _ in parts]), np.concatenate([n for _, n in parts])
        if len(parts) > 1:
            order = np.argsort(of_row, kind="stable")
            batch, of_row = batch.take(order), of_row[order]
        return DecodedMessages(batch, of_row, tuple(rejected))

    def _decoder(self, place: tuple[int, ...]) -> ProtoDecoder | str:
        if place not in self._decoders:
            if len(self._decoders) > 1000:
                self._decoders.clear()
            try:
                self._decoders[place] = self._opened(place)
            except (BadSchema, Unresolved) as error:
                self._decoders[place] = str(error)
        return self._decoders[place]


def _places(payloads: Payloads) -> tuple[dict[tuple[int, ...], np.ndarray], np.ndarray]:
    """The messages of each place, and how many bytes it takes in each. Nearly all are of the first type, which is one zero; the
    others are looked at one by one."""
    sizes = np.ones(len(payloads), np.int64)
    there = payloads.ends > payloads.starts
    first = np.zeros(len(payloads), bool)
    first[there] = payloads.data[payloads.starts[there]] == 0
    places: dict[tuple[int, ...], list[int]] = {}
    for i in np.flatnonzero(~first).tolist():
        place, sizes[i] = _place(payloads.raw(i))
        places.setdefault(place, []).append(i)
    found = {place: np.array(chosen, np.int64) for place, chosen in places.items()}
    if first.any():
        found[(0,)] = np.sort(np.concatenate([np.flatnonzero(first), found.get((0,), np.empty(0, np.int64))]))
    return found, sizes


def _place(message: bytes) -> tuple[tuple[int, ...], int]:
    """A place, and its size; empty for what is none."""
    try:
        count, at = read_varint(message, 0, len(message))
        if count & 1 or count >> 1 > _MOST_NESTED:
            return (), 0
        place: list[int] = []
        for _ in range(count >> 1):
            value, at = read_varint(message, at, len(message))
            place.append(value >> 1)
        return tuple(place), at
    except Stop:
        return (), 0


def _linked(schema: RegisteredSchema) -> Linked:
    """A schema of the registry; raises Undecodable."""
    if schema.kind != "PROTOBUF":
        raise Undecodable(f"it is one of {schema.kind}, not of Protobuf")
    try:
        return linked_texts(schema.text, dict(schema.references))
    except BadSchema as error:
        raise Undecodable(f"it is no schema of Protobuf: {error}") from error


def columns_of_registered(schema: RegisteredSchema, message: str = "") -> Schema:
    """The columns of a schema's message; without a name, of its first one. Raises Undecodable, UnsupportedError E1616."""
    found = _linked(schema)
    try:
        return columns_of_message(found.find(message) if message else found.at((0,)))
    except BadSchema as error:
        raise Undecodable(str(error)) from error


class _Encoder:
    def __init__(self, format_: ProtobufConfluentFormat, schema: Schema) -> None:
        self._format = format_
        self._text = format_.text or proto_text_of(schema, _NAME)
        found = linked_texts(self._text, {})
        message = found.find(format_.message if format_.text else "")
        self._place = _written(found.place_of(message))
        self._messages = ProtoEncoder(_NAME, schema, message, format_.null_text)

    def encode_messages(self, batch: ChangelogBatch) -> pa.Array:
        """Registers the schema before the first message."""
        number = self._format.registered("PROTOBUF", self._text)
        return self._messages.encode_messages(batch, frame(number) + self._place)


def _written(place: tuple[int, ...]) -> bytes:
    """A place before a message; that of the first type is shorter."""
    if place == (0,):
        return b"\x00"
    return b"".join(varint(zigzag(n)) for n in (len(place), *place))


def _create(options: Mapping[str, str]) -> ProtobufConfluentFormat:
    where = f"format '{_NAME}'"
    read = TableOptions(options, where, _OPTIONS, (f"{_NAME}.{PROPERTIES}",), under=f"{_NAME}.")
    properties = {k.removeprefix(PROPERTIES): v for k, v in options.items() if k.startswith(PROPERTIES)}
    text, message = read.get(SCHEMA), read.get(MESSAGE)
    if text:
        try:
            linked_texts(text, {}).find(message)
        except BadSchema as error:
            raise OptionError(
                f"option '{_NAME}.{SCHEMA.key}' cannot be used: {error}",
                hint=f"'{_NAME}.{MESSAGE.key}' names one of several messages; files that it takes in are those of google/protobuf",
            ) from error
    return ProtobufConfluentFormat(
        RegistryClient(read_address(read, properties, where)),
        read.get(SUBJECT),
        text,
        message,
        ignore_parse_errors=read.get(IGNORE),
        read_defaults=read.get(DEFAULTS),
        null_text=read.get(NULLS),
        registers=registers(properties),
    )


PROTOBUF_CONFLUENT = FormatFactory(
    name=_NAME,
    document="messages of Protobuf with the id of their schema in a registry",
    create=_create,
    options=_OPTIONS,
)
