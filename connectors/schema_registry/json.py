"""The format `json-confluent`: objects of JSON, each with the id of its schema in a registry. Flink has none like it.

An object says what it is, so reading does not ask the registry. Writing registers a schema that follows from the columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.json import JSON, JSON_OPTIONS, JsonFormat
from connectors.formats.message_rows import MessageRows, encoded_messages
from connectors.formats.records import shown_hex
from connectors.options import TableOptions
from connectors.schema_registry.client import RegistryClient
from connectors.schema_registry.frames import frame, schema_ids, without_frames
from connectors.schema_registry.json_schema import columns_of_json_schema, json_schema_text
from connectors.schema_registry.options import PROPERTIES, REGISTRY_OPTIONS, SUBJECT, read_address, registers
from connectors.schema_registry.subject import OfSubject
from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import UnsupportedError
from runtime.core.schema import Schema
from runtime.spi.format import DecodedMessages, Payloads
from runtime.spi.reader import RejectedRow
from runtime.spi.registry import FormatFactory

__all__ = ["JSON_CONFLUENT"]

_NAME = "json-confluent"
_OPTIONS = (*REGISTRY_OPTIONS, *JSON_OPTIONS)
_NO_LIMIT = 1 << 62


class JsonConfluentFormat(OfSubject):
    """Objects of JSON behind the id of a schema."""

    name = _NAME
    line_based = False
    changelog_mode: ChangelogMode = APPEND

    def __init__(self, client: RegistryClient, subject: str, json: JsonFormat, *, registers: bool) -> None:
        super().__init__(client, subject, registers=registers)
        self.json = json
        self.ignore_parse_errors = json.ignore_parse_errors

    def infer_columns(self) -> Schema:
        """The columns of the newest schema of the subject."""
        return columns_of_json_schema(self.newest().text)

    def message_decoder(self, schema: Schema, wanted: Sequence[str], time_zone: str) -> _Decoder:
        return _Decoder(MessageRows.of(self.json, schema, wanted, time_zone, _NO_LIMIT))

    def message_encoder(self, schema: Schema, time_zone: str) -> _Encoder:
        self.needed_subject()
        self.json.encoder(schema, time_zone)
        return _Encoder(self, schema, time_zone)

    def decoder(self, schema: Schema, time_zone: str) -> NoReturn:
        """Raises UnsupportedError E1643: it is no format of files."""
        raise UnsupportedError(f"format '{_NAME}' is one of messages, not of files", code="E1643", hint="use 'json'")

    def encoder(self, schema: Schema, time_zone: str) -> NoReturn:
        """Raises UnsupportedError E1643."""
        self.decoder(schema, time_zone)


class _Decoder:
    def __init__(self, rows: MessageRows) -> None:
        self._rows = rows

    def decode_messages(self, payloads: Payloads) -> DecodedMessages:
        ids = schema_ids(payloads)
        framed = np.flatnonzero(ids >= 0)
        found = self._rows.decode(without_frames(payloads.take(framed)))
        rejected = [(int(framed[i]), row) for i, row in found.rejected]
        for i in np.flatnonzero(ids < 0).tolist():
            reason = "no message of a schema registry: it does not begin with a zero and the id of a schema"
            rejected.append((i, RejectedRow(reason, shown_hex(payloads.raw(i)))))
        rejected.sort(key=lambda pair: pair[0])
        return DecodedMessages(found.batch, framed[found.message_of_row], tuple(rejected))


class _Encoder:
    def __init__(self, format_: JsonConfluentFormat, schema: Schema, time_zone: str) -> None:
        self._format = format_
        self._schema = schema
        self._time_zone = time_zone

    def encode_messages(self, batch: ChangelogBatch) -> pa.Array:
        """Registers the schema before the first message."""
        prefix = pa.scalar(frame(self._format.registered("JSON", json_schema_text(self._schema))), pa.large_binary())
        objects = encoded_messages(self._format.json, self._schema, batch, self._time_zone)
        return pc.binary_join_element_wise(prefix, objects, pa.scalar(b"", pa.large_binary()))


def _create(options: Mapping[str, str]) -> JsonConfluentFormat:
    where = f"format '{_NAME}'"
    read = TableOptions(options, where, _OPTIONS, (f"{_NAME}.{PROPERTIES}",), under=f"{_NAME}.")
    properties = {k.removeprefix(PROPERTIES): v for k, v in options.items() if k.startswith(PROPERTIES)}
    ours = {o.key for o in JSON_OPTIONS}
    json = JSON.create({k: v for k, v in options.items() if k in ours})
    assert isinstance(json, JsonFormat)
    client = RegistryClient(read_address(read, properties, where))
    return JsonConfluentFormat(client, read.get(SUBJECT), json, registers=registers(properties))


JSON_CONFLUENT = FormatFactory(
    name=_NAME, document="JSON with the id of its schema in a registry", create=_create, options=_OPTIONS
)
