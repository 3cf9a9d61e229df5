"""The format `debezium-json`: change events with the images before and after (https://debezium.io), as Flink 2.3 reads
and writes them.

Reading: `c` and `r` are `+I`, `u` is the pair `-U`, `+U`, `d` is `-D`. Writing: `+I` and `+U` become `c`, `-U` and `-D`
become `d`.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.change_events import EVENT_OPTIONS, ChangeEventFormat, EventDocuments, EventRows, coded
from connectors.formats.event_metadata import EventField
from connectors.formats.images import rows_of_images, written_images
from connectors.formats.json import IGNORE, read_spelling
from connectors.options import TableOptions
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER
from runtime.core.options import bool_option
from runtime.core.schema import Schema
from runtime.core.types import STRING, DataType, map_of, row, timestamp_ltz
from runtime.spi.registry import FormatFactory

__all__ = ["DEBEZIUM_JSON", "DEBEZIUM_KINDS"]

SCHEMA_INCLUDE = bool_option(
    "schema-include", False, "true or false: the event is in the field 'payload', beside its schema"
)
_OPTIONS = (SCHEMA_INCLUDE, *EVENT_OPTIONS)
DEBEZIUM_KINDS = {"c": INSERT, "r": INSERT, "u": UPDATE_AFTER, "d": DELETE}


class _Debezium:
    """Events of Debezium (`EventShape`). `wrapped`: in the field `payload`."""

    def __init__(self, wrapped: bool) -> None:
        self._wrapped = wrapped
        inside = ("payload",) if wrapped else ()
        time = timestamp_ltz(3)
        self.metadata: Mapping[str, EventField] = {
            "schema": EventField(STRING, ("schema",)),
            "ingestion-timestamp": EventField(time, (*inside, "ts_ms"), micros=1000),
            "source.timestamp": EventField(time, (*inside, "source", "ts_ms"), micros=1000),
            "source.database": EventField(STRING, (*inside, "source", "db"), lasting=True),
            "source.schema": EventField(STRING, (*inside, "source", "schema"), lasting=True),
            "source.table": EventField(STRING, (*inside, "source", "table"), lasting=True),
            "source.properties": EventField(map_of(STRING, STRING), (*inside, "source")),
        }

    def fields(self, image: DataType) -> Schema:
        event = (("before", image), ("after", image), ("op", STRING))
        return Schema.of(("payload", row(*event))) if self._wrapped else Schema.of(*event)

    def rows(self, events: pa.RecordBatch, documents: EventDocuments) -> EventRows:
        fields = events.column(0).flatten() if self._wrapped else events.columns
        before, after, op = fields[:3]
        return rows_of_images(before, after, coded(op, DEBEZIUM_KINDS))

    def written(self, image: pa.Array, gone: pa.Array) -> pa.Array:
        head, tail = ('{"schema":null,"payload":{', "}}") if self._wrapped else ("{", "}")
        operation = pc.if_else(gone, ',"op":"d"' + tail, ',"op":"c"' + tail)
        return pc.binary_join_element_wise(head, written_images(image, gone), operation, "")


def _create(options: Mapping[str, str]) -> ChangeEventFormat:
    read = TableOptions(options, "format 'debezium-json'", _OPTIONS, under="debezium-json.")
    standard, spelling = read_spelling(read)
    return ChangeEventFormat("debezium-json", _Debezium(read.get(SCHEMA_INCLUDE)), standard, read.get(IGNORE), spelling)


DEBEZIUM_JSON = FormatFactory(
    name="debezium-json",
    document="change events of Debezium: the row before and after",
    create=_create,
    options=_OPTIONS,
)
