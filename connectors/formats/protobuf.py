"""The format `protobuf`: each message is one of Protobuf, of a schema that the table's options give (Flink 2.3 takes it from a
class of Java)."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa

from connectors.formats.proto_descriptors import parse_descriptors
from connectors.formats.proto_known import linked_texts
from connectors.formats.proto_maps import without_doubles
from connectors.formats.proto_model import BadSchema, ProtoMessage, linked
from connectors.formats.proto_reading import Unresolved, proto_program
from connectors.formats.proto_types import check_proto, columns_of_message
from connectors.formats.proto_writing import Unwritable, check_writable, encode_proto
from connectors.formats.records import shown_hex
from connectors.formats.row_kinds import require_append
from connectors.options import TableOptions
from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import OptionError, UnsupportedError
from runtime.core.options import bool_option, text_option
from runtime.core.schema import Schema
from runtime.kernels.proto_read import read_messages, reason_of
from runtime.spi.format import DecodedMessages, Payloads
from runtime.spi.reader import RejectedRow
from runtime.spi.registry import FormatFactory

__all__ = [
    "DEFAULTS",
    "IGNORE",
    "MESSAGE",
    "NULLS",
    "PROTOBUF",
    "ProtoDecoder",
    "ProtoEncoder",
    "ProtobufFormat",
    "no_files",
]

SCHEMA = text_option("schema", "", "the text of a .proto file")
FILE = text_option(
    "descriptor-file",
    "",
    "a file with the schema: .proto, or what `protoc --descriptor_set_out --include_imports` writes",
)
MESSAGE = text_option("message", "", "the name of the message, where the schema has several")
CLASS = text_option(
    "message-class-name", "", "accepted for compatibility: the last part of a Java class is the name of the message"
)
IGNORE = bool_option(
    "ignore-parse-errors",
    False,
    "true or false: malformed messages are kept in system.rejected instead of failing the job",
)
DEFAULTS = bool_option(
    "read-default-values", False, "true or false: fields that are not there are what they are by default, not NULL"
)
NULLS = text_option("write-null-string-literal", "", "what NULL is among texts in lists and maps, which have none")
_OPTIONS = (SCHEMA, FILE, MESSAGE, CLASS, IGNORE, DEFAULTS, NULLS)
_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class ProtoSource:
    """A schema as it was given: the text of a file, or a descriptor set; and the name of the message."""

    text: str
    descriptors: bytes
    name: str

    def message(self) -> ProtoMessage:
        """Raises BadSchema."""
        return _opened(self)


@functools.lru_cache(64)
def _opened(source: ProtoSource) -> ProtoMessage:
    found = linked(parse_descriptors(source.descriptors)) if source.descriptors else linked_texts(source.text, {})
    return found.find(source.name)


class ProtobufFormat:
    """Messages of one kind."""

    name = "protobuf"
    line_based = False

    def __init__(self, source: ProtoSource, *, ignore_parse_errors: bool, read_defaults: bool, null_text: str) -> None:
        self.source = source
        self.ignore_parse_errors = ignore_parse_errors
        self.read_defaults = read_defaults
        self.null_text = null_text

    @property
    def changelog_mode(self) -> ChangelogMode:
        return APPEND

    def infer_columns(self) -> Schema:
        """The columns of the message."""
        return columns_of_message(self.source.message())

    def message_decoder(self, schema: Schema, wanted: Sequence[str], time_zone: str) -> ProtoDecoder:
        check_proto(schema, self.name)
        columns = Schema(tuple(schema[schema.index_of(n)] for n in wanted))
        try:
            proto_program(self.source.message(), schema, defaults=self.read_defaults)
            return ProtoDecoder(columns, self.source.message(), self.read_defaults)
        except Unresolved as error:
            raise UnsupportedError(
                f"the schema of Protobuf does not give the columns: {error}", code="E1616"
            ) from error

    def message_encoder(self, schema: Schema, time_zone: str) -> ProtoEncoder:
        check_proto(schema, self.name)
        return ProtoEncoder(self.name, schema, self.source.message(), self.null_text)

    def decoder(self, schema: Schema, time_zone: str) -> NoReturn:
        """Raises UnsupportedError E1643: in a file nothing says where a message ends."""
        raise no_files(self.name)

    def encoder(self, schema: Schema, time_zone: str) -> NoReturn:
        """Raises UnsupportedError E1643."""
        raise no_files(self.name)


def no_files(name: str) -> UnsupportedError:
    """The error for a table of files."""
    return UnsupportedError(
        f"format '{name}' is one of messages, not of files", code="E1643", hint="use 'avro' or 'parquet' for files"
    )


class ProtoDecoder:
    """Messages to columns. `schema`: of the columns to give; `lenient`: one that may be NULL needs no field. Raises Unresolved."""

    def __init__(self, schema: Schema, message: ProtoMessage, read_defaults: bool, *, lenient: bool = False) -> None:
        self._schema = schema
        self._program = proto_program(message, schema, defaults=read_defaults, lenient=lenient)

    def decode_messages(self, payloads: Payloads) -> DecodedMessages:
        columns, state = read_messages(self._program, payloads.data, payloads.starts, payloads.ends)
        rejected = tuple(
            (i, RejectedRow(reason_of(self._program, int(state[i])), shown_hex(payloads.raw(i))))
            for i in np.flatnonzero(state).tolist()
        )
        columns = [without_doubles(column) for column in columns]
        return DecodedMessages(ChangelogBatch.of(columns, self._schema), np.flatnonzero(state == 0), rejected)


class ProtoEncoder:
    """Rows to messages. Raises UnsupportedError E1616 where the message does not hold the columns."""

    def __init__(self, name: str, schema: Schema, message: ProtoMessage, null_text: str) -> None:
        self._name = name
        self._schema = schema
        self._message = message
        self._null_text = null_text
        try:
            check_writable(schema, message)
        except Unwritable as error:
            raise UnsupportedError(
                f"the schema of Protobuf does not hold the columns: {error}", code="E1616"
            ) from error

    def encode_messages(self, batch: ChangelogBatch, prefix: bytes = b"") -> pa.Array:
        """Raises FormatError E3203 for a value that the schema does not hold, PlanningError E1720 for updates."""
        require_append(batch, self._name)
        return encode_proto(self._schema, batch.columns, self._message, len(batch), prefix, self._null_text)


def _source(read: TableOptions) -> ProtoSource:
    """The schema that options give. Raises OptionError."""
    given = [o for o in (SCHEMA, FILE) if read.has(o)]
    if len(given) != 1:
        raise OptionError(
            "format 'protobuf' needs the schema of its messages"
            if not given
            else "'protobuf.schema' and 'protobuf.descriptor-file' exclude each other",
            code="E1504",
            hint="set 'protobuf.schema' to the text of a .proto file, or 'protobuf.descriptor-file' to a file",
        )
    name = read.get(MESSAGE) or re.split(r"[.$]", read.get(CLASS))[-1]
    text, descriptors = read.get(SCHEMA), b""
    if read.has(FILE):
        path = Path(read.get(FILE))
        try:
            with path.open("rb") as file:
                found = file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise OptionError(f"option 'protobuf.{FILE.key}': {path} cannot be read: {error.strerror}") from error
        if len(found) > _MOST_BYTES:
            raise OptionError(f"option 'protobuf.{FILE.key}': {path} has more than {_MOST_BYTES} bytes")
        if path.suffix == ".proto":
            text = found.decode("utf-8", "replace")
        else:
            descriptors = found
    return ProtoSource(text, descriptors, name)


def _create(options: Mapping[str, str]) -> ProtobufFormat:
    read = TableOptions(options, "format 'protobuf'", _OPTIONS, under="protobuf.")
    source = _source(read)
    try:
        source.message()
    except BadSchema as error:
        raise OptionError(
            f"the schema of format 'protobuf' cannot be used: {error}",
            hint="files that it takes in are known when protoc writes a descriptor set with --include_imports; "
            "'protobuf.message' names one of several messages",
        ) from error
    return ProtobufFormat(
        source,
        ignore_parse_errors=read.get(IGNORE),
        read_defaults=read.get(DEFAULTS),
        null_text=read.get(NULLS),
    )


PROTOBUF = FormatFactory(
    name="protobuf", document="messages of Protobuf, of a schema that is given", create=_create, options=_OPTIONS
)
