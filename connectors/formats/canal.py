"""The format `canal-json`: change events of Canal (https://github.com/alibaba/canal), as Flink 2.3 reads and writes them.

An event has any number of rows after a change (before it, where they were deleted), and of an update for each row the fields
that changed as they were. Reading: `INSERT` is `+I` for each row, `UPDATE` the pair `-U`, `+U`, `DELETE` is `-D`; `CREATE`
is no row. Writing: `+I` and `+U` become `INSERT`, `-U` and `-D` become `DELETE`, one row an event.

Unlike Flink, a field that only another row of the event has changed is the same before and after (Flink makes it NULL before).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
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
from runtime.core.errors import OptionError
from runtime.core.options import text_option
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING, DataType, array, map_of, timestamp_ltz
from runtime.spi.registry import FormatFactory

__all__ = ["CANAL_JSON"]

DATABASE = text_option("database.include", "", "a regular expression: events of other databases are left out")
TABLE = text_option("table.include", "", "a regular expression: events of other tables are left out")
_OPTIONS = (*EVENT_OPTIONS, DATABASE, TABLE)
_CREATE = 100
_KINDS = {"INSERT": INSERT, "UPDATE": UPDATE_AFTER, "DELETE": DELETE, "CREATE": _CREATE}

_METADATA: Mapping[str, EventField] = {
    "database": EventField(STRING, ("database",), lasting=True),
    "table": EventField(STRING, ("table",), lasting=True),
    "sql-type": EventField(map_of(STRING, INT), ("sqlType",)),
    "pk-names": EventField(array(STRING), ("pkNames",), lasting=True),
    "ingestion-timestamp": EventField(timestamp_ltz(3), ("ts",), micros=1000),
    "event-timestamp": EventField(timestamp_ltz(3), ("es",), micros=1000),
}


class _Canal:
    """Events of Canal (`EventShape`). `database`, `table`: expressions that the names of those that count match, None for
    all."""

    @property
    def metadata(self) -> Mapping[str, EventField]:
        return _METADATA

    def __init__(self, database: re.Pattern[str] | None, table: re.Pattern[str] | None) -> None:
        self._included = [(name, p) for name, p in (("database", database), ("table", table)) if p is not None]

    def fields(self, image: DataType) -> Schema:
        names = [(name, STRING) for name, _ in self._included]
        return Schema.of(("data", array(image)), ("old", array(image)), ("type", STRING), *names)

    def rows(self, events: pa.RecordBatch, documents: EventDocuments) -> EventRows:
        data, old, type_, *names = events.columns[: 3 + len(self._included)]
        kinds = coded(type_, _KINDS)
        counted = kinds != _CREATE
        for (_, pattern), column in zip(self._included, names, strict=True):
            counted &= _matches(column, pattern)
        there, counts = _counts(data)
        olds_there, old_counts = _counts(old)
        update = kinds == UPDATE_AFTER
        wrong = {
            UNKNOWN: counted & (kinds < 0),
            "event without its rows ('data')": counted & (kinds >= 0) & ~(there & _whole(data)),
            "update without what it changed in each row ('old')": counted
            & update
            & ~(olds_there & _whole(old) & (old_counts == counts)),
        }
        used = counted & ~np.logical_or.reduce(list(wrong.values()))
        event = np.flatnonzero(used)
        after = data.take(pa.array(event)).flatten().flatten()
        owners = np.repeat(event, counts[event])
        updates = np.flatnonzero(used & update)
        changed = old.take(pa.array(updates)).flatten()
        places = np.flatnonzero(update[owners])
        fields = list(old.type.value_type)
        nulls = null_fields(documents(updates), "old", counts[updates], [f.name for f in fields])
        rows = np.full(len(owners), -1, np.int64)
        rows[places] = np.arange(len(places))
        index = pa.array(rows, mask=rows < 0)
        masks = [_spread(mask, places, len(owners)) for mask in nulls]
        before = completed([c.take(index) for c in changed.flatten()], after, masks)
        return EventRows(owners, kinds[owners], before, after, wrong)

    def written(self, image: pa.Array, gone: pa.Array) -> pa.Array:
        return pc.binary_join_element_wise(
            '{"data":[', image, pc.if_else(gone, '],"type":"DELETE"}', '],"type":"INSERT"}'), ""
        )


def _spread(mask: npt.NDArray[np.bool_], places: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.bool_]:
    spread = np.zeros(count, dtype=bool)
    spread[places] = mask
    return spread


def _counts(lists: pa.Array) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Which lists there are, and how long each is."""
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return pc.is_valid(lists).to_numpy(zero_copy_only=False), counts


def _whole(lists: pa.Array) -> npt.NDArray[np.bool_]:
    """Which lists have no NULL in them."""
    whole = np.ones(len(lists), dtype=bool)
    missing = pc.is_null(lists.flatten()).to_numpy(zero_copy_only=False)
    whole[pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)[missing]] = False
    return whole


def _matches(names: pa.Array, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    """Which names match as a whole: of each name that there is once, since there are few."""
    coded_names = names.dictionary_encode()
    fits = [pattern.fullmatch(name) is not None for name in coded_names.dictionary.to_pylist()]
    found = pa.array([*fits, False]).take(pc.fill_null(coded_names.indices, len(fits)))
    return found.to_numpy(zero_copy_only=False)


def _create(options: Mapping[str, str]) -> ChangeEventFormat:
    read = TableOptions(options, "format 'canal-json'", _OPTIONS, under="canal-json.")
    standard, spelling = read_spelling(read)
    patterns: list[re.Pattern[str] | None] = []
    for option in (DATABASE, TABLE):
        text = read.get(option)
        try:
            patterns.append(re.compile(text) if text else None)
        except re.error as error:
            raise OptionError(
                f"option 'canal-json.{option.key}' is no regular expression: {error}",
                hint="such as 'orders|order_items'",
            ) from error
    return ChangeEventFormat("canal-json", _Canal(*patterns), standard, read.get(IGNORE), spelling)


CANAL_JSON = FormatFactory(
    name="canal-json",
    document="change events of Canal: rows, and what an update changed in them",
    create=_create,
    options=_OPTIONS,
)
