"""The format `ogg-json`: change events of Oracle GoldenGate with the images before and after, as Flink 2.3 reads and
writes them.

Reading: `I` is `+I`, `U` is the pair `-U`, `+U`, `D` is `-D`. Writing: `+I` and `+U` become `I`, `-U` and `-D` become `D`.
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
from runtime.core.schema import Schema
from runtime.core.types import STRING, DataType, array, timestamp_ltz
from runtime.spi.registry import FormatFactory

__all__ = ["OGG_JSON"]

_KINDS = {"I": INSERT, "U": UPDATE_AFTER, "D": DELETE}

_METADATA: Mapping[str, EventField] = {
    "table": EventField(STRING, ("table",), lasting=True),
    "primary-keys": EventField(array(STRING), ("primary_keys",), lasting=True),
    "ingestion-timestamp": EventField(timestamp_ltz(6), ("current_ts",)),
    "event-timestamp": EventField(timestamp_ltz(6), ("op_ts",)),
}


class _Ogg:
    """Events of GoldenGate (`EventShape`)."""

    @property
    def metadata(self) -> Mapping[str, EventField]:
        return _METADATA

    def fields(self, image: DataType) -> Schema:
        return Schema.of(("before", image), ("after", image), ("op_type", STRING))

    def rows(self, events: pa.RecordBatch, documents: EventDocuments) -> EventRows:
        before, after, operation = events.columns[:3]
        return rows_of_images(before, after, coded(operation, _KINDS))

    def written(self, image: pa.Array, gone: pa.Array) -> pa.Array:
        operation = pc.if_else(gone, ',"op_type":"D"}', ',"op_type":"I"}')
        return pc.binary_join_element_wise("{", written_images(image, gone), operation, "")


def _create(options: Mapping[str, str]) -> ChangeEventFormat:
    read = TableOptions(options, "format 'ogg-json'", EVENT_OPTIONS, under="ogg-json.")
    standard, spelling = read_spelling(read)
    return ChangeEventFormat("ogg-json", _Ogg(), standard, read.get(IGNORE), spelling)


OGG_JSON = FormatFactory(
    name="ogg-json",
    document="change events of Oracle GoldenGate: the row before and after",
    create=_create,
    options=EVENT_OPTIONS,
)
