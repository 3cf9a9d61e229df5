"""What change events tell beside rows: when they were made, and of which table they are.

An old row has, like a new one, the values of the event that it stands in: not those with which it came. So values that
differ from event to event can only be had where rows replace each other by key: old rows are then left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors.formats.text_values import ANY, TextRules, parse_text
from runtime.core.changelog import DELETE, INSERT, UPDATE_BEFORE, ChangelogBatch
from runtime.core.schema import Field, Schema
from runtime.core.types import STRING, DataType, RowField, TypeRoot
from runtime.spi.format import Format

__all__ = ["CarriesMetadata", "EventField", "by_key", "event_values", "with_fields"]


@dataclass(frozen=True, slots=True)
class EventField:
    """A field of events.

    Attributes:
        type: of the column.
        path: where it is in an event.
        lasting: all events of a row have the same value.
        micros: of a time that is a number, how many microseconds its unit has.
    """

    type: DataType
    path: tuple[str, ...]
    lasting: bool = False
    micros: int = 0

    @property
    def read(self) -> DataType:
        """As what it is read."""
        if self.type.root is not TypeRoot.TIMESTAMP_LTZ:
            return self.type
        return DataType(TypeRoot.BIGINT) if self.micros else STRING


@runtime_checkable
class CarriesMetadata(Protocol):
    """A format of changes whose records tell more than rows."""

    @property
    def metadata(self) -> Mapping[str, EventField]:
        """What they tell, by Flink's names."""
        ...

    def with_metadata(self, columns: Sequence[tuple[str, str]], key: Sequence[str] | None) -> Format:
        """The format whose decoders have what is told in columns.

        Args:
            columns: (column, name of the metadata).
            key: rows replace each other by these columns, and old ones do not come; None: all come.
        """
        ...


def with_fields(events: Schema, fields: Iterable[EventField]) -> Schema:
    """The fields of events, and these behind them."""
    for field in fields:
        events = Schema(tuple(_added([(f.name, f.type) for f in events], field.path, field.read)))
    return events


def _added(there: list[tuple[str, DataType]], path: Sequence[str], type_: DataType) -> list[Field]:
    first, rest = path[0], path[1:]
    found = dict(there)
    if rest:
        inner = [(f.name, f.type) for f in found[first].fields] if first in found else []
        fields = tuple(RowField(f.name, f.type) for f in _added(inner, rest, type_))
        found[first] = DataType(TypeRoot.ROW, fields=fields)
    else:
        found.setdefault(first, type_)
    return [Field(name, t) for name, t in found.items()]


def event_values(events: pa.RecordBatch, field: EventField, rules: TextRules) -> pa.Array:
    """The values of a field, one for each event."""
    values = events.column(field.path[0])
    if field.path[1:]:
        values = pc.struct_field(values, list(field.path[1:]))
    if field.type.root is not TypeRoot.TIMESTAMP_LTZ:
        return values
    if field.micros:
        return pc.multiply(values, field.micros).cast(field.type.arrow)
    return parse_text(values, field.type, TextRules(rules.time_zone, ANY))[0]


def by_key(
    changes: ChangelogBatch, events: npt.NDArray[np.int64], key: Sequence[int]
) -> tuple[ChangelogBatch, npt.NDArray[np.int64]]:
    """Changes without the old rows of updates. Where an update changes the key, the old one is deleted.

    Args:
        changes: each old row stands before its new one.
        events: of which event each is.
        key: the columns.
    """
    kinds = changes.kinds_or_inserts()
    olds = np.flatnonzero(kinds == UPDATE_BEFORE)
    if not len(olds):
        return changes, events
    moved = np.zeros(len(olds), dtype=bool)
    for column in key:
        before, after = (changes.column(column).take(pa.array(at)) for at in (olds, olds + 1))
        same = pc.or_(pc.fill_null(pc.equal(before, after), False), pc.and_(pc.is_null(before), pc.is_null(after)))
        moved |= ~same.to_numpy(zero_copy_only=False)
    kinds = kinds.copy()
    kinds[olds[moved]] = DELETE
    kinds[olds[moved] + 1] = INSERT
    kept = np.ones(len(kinds), dtype=bool)
    kept[olds[~moved]] = False

    return ChangelogBatch(changes.rows, kinds).filter(kept), events[kept]
