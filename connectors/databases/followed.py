"""A table of a database whose changes are read: its rows as they are, then what its log says."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.core.changelog import APPEND, KIND_NAMES, RETRACT, ChangelogBatch, ChangelogMode, Kinds
from runtime.core.errors import OptionError, did_you_mean
from runtime.core.schema import Schema
from runtime.core.types import DataType, TypeRoot
from runtime.spi.registry import TableRequest
from runtime.spi.source import Split
from runtime.spi.statistics import TableStatistics

__all__ = ["UNHELD", "FollowedTable", "beyond", "check_followed"]

_UPSERT = ChangelogMode(update_after=True, delete=True, key_only_deletes=True)
_AS_TEXT = "declare it as STRING, which holds every value as the database writes it"
UNHELD: dict[TypeRoot, str] = dict.fromkeys(
    (TypeRoot.MAP, TypeRoot.MULTISET, TypeRoot.ROW, TypeRoot.INTERVAL_MONTH, TypeRoot.INTERVAL_SECOND), _AS_TEXT
)
"""Types that no column of a database has, and what to do."""


_KINDS = pa.array(KIND_NAMES)


class FollowedOptions(Protocol):
    """What such a table is declared with. `upsert`: rows replace each other by key, and deletions have perhaps the key alone;
    `start`: where reading begins, 'snapshot' for the rows as they are and no more; `address`: of the database."""

    @property
    def upsert(self) -> bool: ...

    @property
    def start(self) -> str: ...

    @property
    def address(self) -> object: ...


@dataclass(frozen=True)
class FollowedTable:
    """A table, or several of the same columns.

    Attributes:
        physical: all of its columns that are declared.
        schema: those that are read, and metadata.
        key: the declared primary key.
        metadata: (column, metadata key).
    """

    name: str
    physical: Schema
    schema: Schema
    key: tuple[str, ...]
    metadata: tuple[tuple[str, str], ...]
    options: FollowedOptions

    connector: ClassVar[str]

    @property
    @abstractmethod
    def place(self) -> str:
        """The table there, for messages."""
        ...

    @property
    def bounded(self) -> bool:
        return self.options.start == "snapshot"

    @property
    def changelog_mode(self) -> ChangelogMode:
        if self.bounded:
            return APPEND
        return _UPSERT if self.options.upsert else RETRACT

    def describe(self) -> dict[str, Any]:
        database = str(self.options.address)
        return {
            "connector": self.connector,
            "table": self.place,
            "database": database,
            "columns": list(self.schema.names),
            "options": {
                "database": database,
                "table": self.place,
                "start": self.options.start,
                "changelog-mode": "upsert" if self.options.upsert else "all",
            },
        }

    def statistics(self) -> TableStatistics:
        return TableStatistics()

    def splits(self) -> list[Split]:
        return [Split("table")]

    def watch_splits(self, wake: Any) -> Any:
        return lambda: None  # there are no others

    def with_columns(self, names: Sequence[str]) -> Self:
        return replace(self, schema=self.schema.select(tuple(self.schema.index_of(n) for n in names)))

    def inner_schema(self, more: Sequence[str]) -> Schema:
        """The columns that the database is asked for: those that are read, the key, and some more."""
        names = [n for n in self.schema.names if self.physical.index_of(n) >= 0]
        names += [n for n in dict.fromkeys((*self.key, *more)) if n not in names]
        return Schema(tuple(self.physical[self.physical.index_of(n)] for n in names or self.physical.names[:1]))

    def batch(
        self,
        columns: Mapping[str, pa.Array],
        count: int,
        moments: npt.NDArray[np.int64] | None,
        kinds: Kinds | None,
        constants: Mapping[str, str],
    ) -> ChangelogBatch:
        """Rows with the columns of the schema. `moments`: when each was committed, in microseconds since 1970; None for a
        snapshot, whose rows are of 1970, as in Flink CDC. `constants`: metadata that is the same in all of them."""
        known = dict(self.metadata)
        given: list[pa.Array] = []
        for field in self.schema:
            key = known.get(field.name)
            if key is None:
                given.append(columns[field.name])
            elif key in constants:
                given.append(pa.repeat(pa.scalar(constants[key], field.type.arrow), count))
            elif key == "row_kind":
                given.append(
                    _KINDS.take(pa.array(np.zeros(count, np.int8) if kinds is None else kinds)).cast(field.type.arrow)
                )
            else:
                times = np.zeros(count, np.int64) if moments is None else moments // 1000 * 1000
                given.append(pa.array(times).cast(field.type.arrow))
        return ChangelogBatch.of(given, self.schema, kinds)


def check_followed(
    connector: str, request: TableRequest, metadata: Mapping[str, DataType], *, upsert: bool, bounded: bool
) -> None:
    """Raises OptionError for metadata that there is not, or not so, and for 'upsert' without a key."""
    for _, key in request.metadata:
        if key not in metadata:
            raise OptionError(f"connector '{connector}' has no metadata '{key}'", hint=did_you_mean(key, metadata))
        if key in ("op_ts", "row_kind") and not upsert and not bounded:
            raise OptionError(
                f"metadata '{key}' needs 'changelog-mode' = 'upsert'",
                hint="of an old row, which 'all' gives, too, it would be another than when the row was given",
            )
    if upsert and not request.primary_key:
        raise OptionError(
            f"{request.name} needs a PRIMARY KEY: 'changelog-mode' = 'upsert' gives rows by key",
            code="E1504",
            hint="declare PRIMARY KEY (..) NOT ENFORCED",
        )


def beyond(columns: Sequence[pa.Array], limits: Sequence[pa.Scalar]) -> npt.NDArray[np.bool_]:
    """Which keys are greater than one. `columns`: of the keys."""
    greater = np.zeros(len(columns[0]), dtype=bool)
    same = np.ones(len(columns[0]), dtype=bool)
    for column, limit in zip(columns, limits, strict=True):
        greater |= same & pc.fill_null(pc.greater(column, limit), False).to_numpy(zero_copy_only=False)
        same &= pc.fill_null(pc.equal(column, limit), False).to_numpy(zero_copy_only=False)
    return greater
