"""Messages with rows of one table as changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors.postgres.cdc.cells import fits, texts_of, typed
from connectors.postgres.cdc.pgoutput import (
    DELETE,
    INSERT,
    NEW,
    UNCHANGED,
    UPDATE,
    WHOLE,
    Relation,
    Tuples,
    read_tuples,
)
from connectors.postgres.cdc.positions import lsn_text
from runtime.core import changelog
from runtime.core.errors import ConnectorError, did_you_mean
from runtime.core.schema import Schema

__all__ = ["ChangeDecoder", "Changes"]


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a table.

    Attributes:
        columns: of the schema.
        kinds: of each row.
        message: of which message each row is, ascending.
    """

    columns: list[pa.Array]
    kinds: changelog.Kinds
    message: npt.NDArray[np.int64]


class ChangeDecoder:
    """The changes of one table, as long as its columns are these.

    Args:
        table: its name, for messages.
        schema: the columns that are wanted.
        key: of these, those by which a row is known; empty when there are none.
        upsert: rows replace each other by key, and deletions have perhaps the key alone. Otherwise all rows are whole.
        relation: the table as it is now.
        lsn: where in the log it is so.
    Raises:
        ConnectorError: E3172 the table has not the columns, or other types.
    """

    def __init__(
        self, table: str, schema: Schema, key: Sequence[str], *, upsert: bool, relation: Relation, lsn: int
    ) -> None:
        self._table = table
        self._schema = schema
        self._key = [schema.index_of(name) for name in key]
        self._upsert = upsert
        self._count = len(relation.columns)
        there = {column.name: place for place, column in enumerate(relation.columns)}
        self._places: list[int] = []
        for field in schema:
            if field.name not in there:
                raise _changed(
                    f"{table} has no column {field.name} from {lsn_text(lsn)} of its log on",
                    did_you_mean(field.name, list(there)),
                )
            column = relation.columns[there[field.name]]
            if not fits(field.type, column.type):
                raise _changed(
                    f"column {field.name} of {table} has another type from {lsn_text(lsn)} of its log on: "
                    f"{field.type} does not hold type {column.type} of pg_type",
                    "",
                )
            self._places.append(there[field.name])

    def decode(self, messages: Sequence[bytes | memoryview], lsn: int) -> Changes:
        """The changes that messages say.

        Args:
            messages: insertions, updates and deletions of the table.
            lsn: behind which they are in the log, for messages.
        Raises:
            ConnectorError: E3164 a value that a column does not have; E3170 no such messages; E3172 rows are not whole.
        """
        kind, tuples = read_tuples(messages, self._count)
        first = np.searchsorted(tuples.message, np.arange(len(messages)))
        last = np.searchsorted(tuples.message, np.arange(len(messages)), "right") - 1
        old = np.where(tuples.role[first] == NEW, -1, first)
        new = np.where(kind == DELETE, -1, last)
        whole = (old >= 0) & (tuples.role[first] == WHOLE)
        if not self._upsert and (~whole & (kind != INSERT)).any():
            raise self._not_whole(lsn, "")
        columns = [
            typed(texts_of(tuples.data, tuples.columns[place]), field.type, f"{field.name} of {self._table}")
            for place, field in zip(self._places, self._schema, strict=True)
        ]
        moved = self._moved(columns, tuples, kind, old, new)
        drops = (kind == DELETE) | moved if self._upsert else old >= 0
        olds, news = np.flatnonzero(drops), np.flatnonzero(new >= 0)
        place = np.concatenate([olds * 2, news * 2 + 1])
        replaced = (kind == UPDATE) & ~moved
        kinds = np.concatenate(
            [
                np.where(replaced[olds], changelog.UPDATE_BEFORE, changelog.DELETE),
                np.where(replaced[news], changelog.UPDATE_AFTER, changelog.INSERT),
            ]
        ).astype(np.int8)
        order = np.argsort(place, kind="stable")
        given: list[pa.Array] = []
        for column, at, field in zip(columns, self._places, self._schema, strict=True):
            source = new[news]
            unchanged = tuples.columns[at].kind[source] == UNCHANGED
            if unchanged.any():
                if not whole[news][unchanged].all():
                    raise self._not_whole(lsn, field.name)
                source = np.where(unchanged, old[news], source)
            given.append(column.take(pa.array(np.concatenate([old[olds], source])[order])))
        return Changes(given, kinds[order], place[order] // 2)

    def _moved(
        self,
        columns: Sequence[pa.Array],
        tuples: Tuples,
        kind: npt.NDArray[np.uint8],
        old: npt.NDArray[np.int64],
        new: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Which messages are updates of the key: the row with the old one is gone, one with the new one is there."""
        moved = np.zeros(len(kind), dtype=bool)
        updates = np.flatnonzero((kind == UPDATE) & (old >= 0))
        if not len(updates) or not self._key:
            return moved
        before, after = pa.array(old[updates]), pa.array(new[updates])
        for at in self._key:
            same = tuples.columns[self._places[at]].kind[new[updates]] == UNCHANGED
            differs = pc.fill_null(pc.not_equal(columns[at].take(before), columns[at].take(after)), False)
            moved[updates] |= differs.to_numpy(zero_copy_only=False) & ~same
        return moved

    def _not_whole(self, lsn: int, column: str) -> ConnectorError:
        if column:
            what = f"the value of column {column} of {self._table} is large and has not changed, so PostgreSQL does not send it"
        else:
            what = f"PostgreSQL does not send the whole old row of {self._table}"
        return ConnectorError(
            f"{what} (behind {lsn_text(lsn)} of its log)",
            code="E3172",
            hint=f"ALTER TABLE {self._table} REPLICA IDENTITY FULL, and begin anew: this change stays as it is in the log"
            + ("" if column else "; or set 'changelog-mode' = 'upsert', for which the key is enough"),
        )


def _changed(message: str, hint: str | None) -> ConnectorError:
    return ConnectorError(
        message,
        code="E3172",
        hint=(f"{hint}; or " if hint else "") + "declare the table as it is now, and begin anew with --fresh",
    )
