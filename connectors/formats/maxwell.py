"""The format `maxwell-json`: change events of Maxwell (https://maxwells-daemon.io), as Flink 2.3 reads and writes them.

An event has the row after a change (before it, where it was deleted), and of an update the fields that changed as they were.
Reading: `insert` is `+I`, `update` is the pair `-U`, `+U`, `delete` is `-D`. Writing: `+I` and `+U` become `insert`, `-U`
and `-D` become `delete`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.change_events import (
    EVENT_OPTIONS,
    UNKNOWN,
    ChangeEventFormat,
    EventDocuments,
    EventRows,
    coded,
    completed,
    null_fields,
)
from connectors.formats.event_metadata import EventField
from connectors.formats.json import IGNORE, read_spelling
from connectors.options import TableOptions
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER
from runtime.core.schema import Schema
from runtime.core.types import STRING, DataType, array, timestamp_ltz
from runtime.spi.registry import FormatFactory

__all__ = ["MAXWELL_JSON"]

_KINDS = {"insert": INSERT, "update": UPDATE_AFTER, "delete": DELETE}

_METADATA: Mapping[str, EventField] = {
    "database": EventField(STRING, ("database",), lasting=True),
    "table": EventField(STRING, ("table",), lasting=True),
    "primary-key-columns": EventField(array(STRING), ("primary_key_columns",), lasting=True),
    # Maxwell counts seconds, which Flink takes for milliseconds.
    "ingestion-timestamp": EventField(timestamp_ltz(3), ("ts",), micros=1_000_000),
}


class _Maxwell:
    """Events of Maxwell (`EventShape`)."""

    @property
    def metadata(self) -> Mapping[str, EventField]:
        return _METADATA

    def fields(self, image: DataType) -> Schema:
        return Schema.of(("data", image), ("old", image), ("type", STRING))

    def rows(self, events: pa.RecordBatch, documents: EventDocuments) -> EventRows:
        data, old, type_ = events.columns[:3]
        kinds = coded(type_, _KINDS)
        update = kinds == UPDATE_AFTER
        wrong = {
            UNKNOWN: kinds < 0,
            "event without its row ('data')": (kinds >= 0) & pc.is_null(data).to_numpy(zero_copy_only=False),
            "update without what it changed ('old')": update & pc.is_null(old).to_numpy(zero_copy_only=False),
        }
        event = np.flatnonzero(~np.logical_or.reduce(list(wrong.values())))
        kinds, taken = kinds[event], pa.array(event)
        after = data.take(taken).flatten()
        updates = np.flatnonzero(kinds == UPDATE_AFTER)
        names = [field.name for field in old.type]
        found = null_fields(documents(event[updates]), "old", np.ones(len(updates), np.int64), names)
        nulls = [np.zeros(len(event), dtype=bool) for _ in names]
        for mask, there in zip(nulls, found, strict=True):
            mask[updates] = there
        # Before a deletion, the row is the one that it names.
        return EventRows(event, kinds, completed(old.take(taken).flatten(), after, nulls), after, wrong)

    def written(self, image: pa.Array, gone: pa.Array) -> pa.Array:
        return pc.binary_join_element_wise(
            '{"data":', image, pc.if_else(gone, ',"type":"delete"}', ',"type":"insert"}'), ""
        )


def _create(options: Mapping[str, str]) -> ChangeEventFormat:
    read = TableOptions(options, "format 'maxwell-json'", EVENT_OPTIONS, under="maxwell-json.")
    standard, spelling = read_spelling(read)
    return ChangeEventFormat("maxwell-json", _Maxwell(), standard, read.get(IGNORE), spelling)


MAXWELL_JSON = FormatFactory(
    name="maxwell-json",
    document="change events of Maxwell: the row, and what an update changed in it",
    create=_create,
    options=EVENT_OPTIONS,
)
