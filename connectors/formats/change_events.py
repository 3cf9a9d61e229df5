"""What formats of change events share: JSON objects, each of which says how rows of a table have changed.

A format says which fields its events have, what they mean, and how they are written (`EventShape`). Reading is by block:
lines to columns, events to rows before and after, both to changes; an update's two rows stand one after the other.
Writing: `+I` and `+U` are rows that are new, `-U` and `-D` rows that are gone, as in Flink.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.event_metadata import EventField, by_key, event_values, with_fields
from connectors.formats.held import check_held
from connectors.formats.json import JSON_OPTIONS
from connectors.formats.json_decoder import decode_lines
from connectors.formats.json_encoder import JsonSpelling, object_text
from connectors.formats.json_values import parse_line
from connectors.formats.lines_out import block_of_lines
from connectors.formats.records import BadMask, Lines, MalformedRecord, shown_bytes
from connectors.formats.text_values import TextRules
from runtime.core.changelog import DELETE, INSERT, RETRACT, UPDATE_BEFORE, ChangelogBatch, ChangelogMode
from runtime.core.schema import Schema
from runtime.core.types import DataType, row
from runtime.spi.format import Decoded

__all__ = [
    "EVENT_OPTIONS",
    "UNKNOWN",
    "ChangeEventFormat",
    "EventDecoder",
    "EventRows",
    "EventShape",
    "EventDocuments",
    "changes_of_rows",
    "coded",
    "completed",
    "null_fields",
]

EVENT_OPTIONS = tuple(o for o in JSON_OPTIONS if o.key != "fail-on-missing-field")
"""Options of every such format."""
_BY_KEY = ChangelogMode(update_after=True, delete=True, key_only_deletes=True)
UNKNOWN = "unknown operation"


@dataclass(frozen=True, slots=True)
class EventRows:
    """The rows that events speak of.

    Attributes:
        event: of which event each is, int64 (n,), ascending.
        kinds: INSERT, UPDATE_AFTER or DELETE of each, int8 (n,).
        before, after: the columns of the rows before and after, each of length n; what is not needed may be anything.
        wrong: why events are malformed, each with a mask over the events; no rows may be of these.
    """

    event: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int8]
    before: Sequence[pa.Array]
    after: Sequence[pa.Array]
    wrong: Mapping[str, BadMask] = field(default_factory=dict)


class EventDocuments(Protocol):
    """The events that were read, as documents of JSON."""

    def __call__(self, events: npt.NDArray[np.int64]) -> Iterator[Mapping[str, Any] | None]:
        """Each of these; None for one in which nothing is `null`."""
        ...


class EventShape(Protocol):
    """What events of a format are."""

    @property
    def metadata(self) -> Mapping[str, EventField]:
        """What they tell beside rows, by Flink's names."""
        ...

    def fields(self, image: DataType) -> Schema:
        """The fields of an event that are read. `image`: the row type of the table."""
        ...

    def rows(self, events: pa.RecordBatch, documents: EventDocuments) -> EventRows:
        """The rows of events with these fields, behind which others may stand."""
        ...

    def written(self, image: pa.Array, gone: pa.Array) -> pa.Array:
        """The text of events. `image`: a row each, as JSON; `gone`: whether it is gone, otherwise it is new."""
        ...


class ChangeEventFormat:
    """A format of change events, one a line."""

    line_based = True

    def __init__(
        self, name: str, shape: EventShape, timestamps: str, ignore_parse_errors: bool, spelling: JsonSpelling
    ) -> None:
        self.name = name
        self.ignore_parse_errors = ignore_parse_errors
        self._shape = shape
        self._timestamps = timestamps
        self._spelling = spelling
        self._told: tuple[tuple[str, str], ...] = ()
        self._key: tuple[str, ...] | None = None

    @property
    def metadata(self) -> Mapping[str, EventField]:
        """See `CarriesMetadata`."""
        return self._shape.metadata

    def with_metadata(self, columns: Sequence[tuple[str, str]], key: Sequence[str] | None) -> ChangeEventFormat:
        """See `CarriesMetadata`."""
        made = copy(self)
        made._told = tuple(columns)
        made._key = None if key is None else tuple(key)
        return made

    @property
    def changelog_mode(self) -> ChangelogMode:
        return RETRACT if self._key is None else _BY_KEY

    def decoder(self, schema: Schema, time_zone: str) -> EventDecoder:
        check_held(f"format '{self.name}'", schema)
        told = {column: self._shape.metadata[key] for column, key in self._told if schema.index_of(column) >= 0}
        return EventDecoder(schema, TextRules(time_zone, self._timestamps), self._shape, told, self._key)

    def encoder(self, schema: Schema, time_zone: str) -> EventEncoder:
        check_held(f"format '{self.name}'", schema)
        return EventEncoder(schema, self._spelling, self._shape)


class EventDecoder:
    """Events to changes.

    All columns of a row are needed: of two updates of a row the projections may be equal, but the row kinds stay right.
    """

    def __init__(
        self,
        schema: Schema,
        rules: TextRules,
        shape: EventShape,
        told: Mapping[str, EventField],
        key: Sequence[str] | None,
    ) -> None:
        self._schema = schema
        self._rules = rules
        self._shape = shape
        self._told = told
        self._key = None if key is None else [schema.index_of(name) for name in key]
        self._stored = Schema(tuple(f for f in schema if f.name not in told))
        image = row(*((f.name, f.type) for f in self._stored))
        self._events = with_fields(shape.fields(image), told.values())
        self._most: int | None = None

    def limit_records(self, most: int) -> None:
        """Lines of more bytes are malformed."""
        self._most = most

    def decode(self, data: bytes, final: bool) -> Decoded:
        consumed = len(data) if final else data.rfind(b"\n") + 1
        lines = Lines.of(data[:consumed])
        block = decode_lines(lines, self._events, self._rules, most=self._most)
        owners = block.line_of_row
        read = self._shape.rows(block.rows, lambda events: _documents(lines, owners, events))
        rejected = list(block.rejected)
        for reason, mask in read.wrong.items():
            for line in owners[mask].tolist():
                rejected.append(MalformedRecord(reason, shown_bytes(lines.raw(line)), int(lines.numbers[line])))
        rejected.sort(key=lambda r: r.line)
        changes, events = changes_of_rows(read, self._stored)
        if self._told:
            changes = self._with_told(changes, block.rows, events)
        if self._key is not None:
            changes, events = by_key(changes, events, self._key)
        numbers = lines.numbers[owners[events]]
        whole = int(np.searchsorted(numbers, rejected[0].line)) if rejected else len(changes)
        return Decoded(changes, tuple(rejected), consumed, whole, numbers)

    def _with_told(
        self, changes: ChangelogBatch, events: pa.RecordBatch, of_row: npt.NDArray[np.int64]
    ) -> ChangelogBatch:
        """Changes with what their events tell."""
        taken = pa.array(of_row)
        found = dict(zip(self._stored.names, changes.columns, strict=True))
        found |= {name: event_values(events, field, self._rules).take(taken) for name, field in self._told.items()}
        return ChangelogBatch.of([found[name] for name in self._schema.names], self._schema, changes.kinds)


def changes_of_rows(read: EventRows, schema: Schema) -> tuple[ChangelogBatch, npt.NDArray[np.int64]]:
    """The changes that rows before and after make, and of which event each is."""
    count = len(read.event)
    olds, news = np.flatnonzero(read.kinds != INSERT), np.flatnonzero(read.kinds != DELETE)
    place = np.concatenate([olds * 2, news * 2 + 1])
    old_kinds = np.where(read.kinds[olds] == DELETE, DELETE, UPDATE_BEFORE)
    kinds = np.concatenate([old_kinds, read.kinds[news]]).astype(np.int8)
    order = np.argsort(place, kind="stable")
    source = pa.array(np.concatenate([olds, news + count])[order])
    columns = [pa.concat_arrays([b, a]).take(source) for b, a in zip(read.before, read.after, strict=True)]
    return ChangelogBatch.of(columns, schema, kinds[order]), read.event[place[order] // 2]


class EventEncoder:
    """Changes to events, one a line."""

    def __init__(self, schema: Schema, spelling: JsonSpelling, shape: EventShape) -> None:
        self._schema = schema
        self._spelling = spelling
        self._shape = shape

    def encode(self, batch: ChangelogBatch) -> bytes:
        image = object_text(batch.columns, self._schema.names, self._schema.types, self._spelling)
        return block_of_lines(self._shape.written(image, pa.array(batch.signs() < 0)))

    def finish(self) -> bytes:
        return b""


def coded(words: pa.Array, codes: Mapping[str, int]) -> npt.NDArray[np.int8]:
    """The code of each word, -1 for a NULL and for any other."""
    found = pc.fill_null(pc.index_in(words, value_set=pa.array(list(codes), pa.string())), len(codes))
    return np.array([*codes.values(), -1], dtype=np.int8)[found.to_numpy(zero_copy_only=False)]


def _documents(
    lines: Lines, owners: npt.NDArray[np.int64], events: npt.NDArray[np.int64]
) -> Iterator[Mapping[str, Any] | None]:
    """`EventDocuments`: a loop over the events, of which those with a `null` are parsed. A line may hold a list of events."""
    firsts = np.searchsorted(owners, owners[events])
    for event, line, first in zip(events.tolist(), owners[events].tolist(), firsts.tolist(), strict=True):
        raw = lines.raw(line)
        if b"null" not in raw:
            yield None
        else:
            found = parse_line(raw.decode())
            yield found[event - first] if isinstance(found, list) else found


def null_fields(
    documents: Iterator[Mapping[str, Any] | None], path: str, counts: npt.NDArray[np.int64], names: Sequence[str]
) -> list[BadMask]:
    """Of objects that hold only the fields that changed: in which a field is there and `null`, a mask for each name.
    Columns of JSON cannot tell this from a field that is not there.

    Args:
        documents: the events.
        path: the field of an event with the object, or with a list of objects.
        counts: of objects in each event.
    """
    ends = np.cumsum(counts)
    masks = [np.zeros(int(counts.sum()), dtype=bool) for _ in names]
    for document, end, count in zip(documents, ends.tolist(), counts.tolist(), strict=True):
        if document is None:
            continue
        found = document[path]
        for at, one in enumerate(found if isinstance(found, list) else [found], end - count):
            for name, mask in zip(names, masks, strict=True):
                mask[at] = one.get(name, mask) is None
    return masks


def completed(before: Sequence[pa.Array], after: Sequence[pa.Array], nulls: Sequence[BadMask]) -> list[pa.Array]:
    """The columns of rows before a change that are given where they differ only. `nulls`: where NULL is given."""
    return [
        pc.if_else(pa.array(known), old, pc.coalesce(old, new))
        for old, new, known in zip(before, after, nulls, strict=True)
    ]
