"""A table of a lake as a sink: what both kinds say of how rows get there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from connectors.lakes.staging import FileStaging
from connectors.options import TableOptions
from runtime.core.changelog import APPEND, ChangelogBatch, ChangelogMode
from runtime.core.errors import OptionError
from runtime.core.options import Option
from runtime.core.schema import Schema
from runtime.spi.registry import TableRequest
from runtime.spi.sink import Delivery
from runtime.spi.writer import TaskWriter

__all__ = ["LakeSink", "LakeTaskWriter", "is_keyed"]


@dataclass(frozen=True)
class LakeSink(ABC):
    """A table to write; a connector has the abstract method.

    Attributes:
        where: names the table, in messages and plans.
        upserts: rows take the place of those with their key.
        target: rows of so many bytes go into files at once.
        most: bytes of changes by key between two checkpoints.
        overwrites: rows take the place of all, or of those in their partitions, and in `partition`.
    """

    connector: ClassVar[str]

    name: str
    where: str
    schema: Schema
    primary_key: tuple[str, ...]
    upserts: bool
    target: int
    most: int
    overwrites: bool = field(default=False, kw_only=True)
    everything: bool = field(default=False, kw_only=True)
    partition: tuple[tuple[str, Any], ...] | None = field(default=None, compare=False, kw_only=True)

    @property
    def delivery(self) -> Delivery:
        return "exactly-once"

    @property
    def given_partition(self) -> dict[str, Any] | None:
        """The values of INSERT OVERWRITE .. PARTITION."""
        return dict(self.partition) if self.partition else None

    @abstractmethod
    def files(self, writer: TaskWriter | None = None) -> FileStaging[Any, Any]:
        """Where rows that are added wait, of the table as it is now. `writer`: writes them in a task."""

    def accepts(self, requested: ChangelogMode) -> ChangelogMode:
        if requested.is_append_only or not self.upserts:
            return APPEND
        return ChangelogMode(
            update_after=requested.update_after, delete=requested.delete, key_only_deletes=requested.delete
        )

    def with_overwrite(self, partition: Mapping[str, Any]) -> Self:
        # All rows are new ones: what has their keys goes with the rest.
        return replace(self, upserts=False, overwrites=True, partition=tuple(partition.items()) or None)

    def with_replacement(self) -> Self:
        return replace(self, upserts=False, overwrites=True, everything=True)

    def describe(self) -> dict[str, Any]:
        mode = {"overwrite": True} if self.overwrites else {"upsert": True} if self.upserts else {}
        return {"connector": self.connector, "table": self.where, **mode}


@dataclass(frozen=True)
class LakeTaskWriter:
    """Writes data files of a table in a task (`runtime.spi.writer.TaskWriter`): texts name them, as in a checkpoint."""

    sink: LakeSink

    def write(self, batch: ChangelogBatch) -> list[str]:
        staging = self.sink.files()
        try:
            staging.add(batch)
            return staging.take()
        except BaseException:
            staging.drop()
            raise


def is_keyed(request: TableRequest, options: TableOptions, upsert: Option[bool]) -> bool:
    """Whether rows take the place of those with their key. Raises OptionError for upserts without a key."""
    upserts = options.get(upsert) if options.has(upsert) else bool(request.primary_key)
    if upserts and not request.primary_key:
        raise OptionError(
            f"option '{upsert.key}' needs a PRIMARY KEY",
            code="E1504",
            hint="it says which row takes the place of which",
        )
    return upserts
