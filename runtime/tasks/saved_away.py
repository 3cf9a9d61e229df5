"""What tasks are to write of one checkpoint, as the driver knows it: see `runtime.checkpoint.away.AwayState`."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from runtime.checkpoint.away import Known, Target, Written
from runtime.state.table import TableChanges
from runtime.tasks.saving import SavedPart, SavePart
from runtime.tasks.shipping import loads
from runtime.tasks.task import Record, raised

__all__ = ["SavedAway", "Share"]


class Share(NamedTuple):
    """The operators of one stage in one partition: the files of their version, and by operator how many of the last are not
    saved."""

    partition: int
    files: tuple[str, ...]
    since: Mapping[str, int]


class SavedAway:
    """See the module.

    Args:
        tasks: how many tasks each operator has, by name.
        figures: the tables of each operator that are a figure of all of it.
        run: has tasks write to a place, from the records of each partition on; in any thread.
        read: what files add up to for an operator, read by this process.
        released: is called once.
    """

    def __init__(
        self,
        shares: Sequence[Share],
        tasks: Mapping[str, int],
        figures: Mapping[str, frozenset[str]],
        partitions: int,
        run: Callable[[Target, Sequence[Sequence[Record]]], list[Record]],
        read: Callable[[str, Sequence[str]], tuple[TableChanges, ...]],
        released: Callable[[], None],
    ) -> None:
        self.tasks = tasks
        self._shares = shares
        self._figures = figures
        self._partitions = partitions
        self._run = run
        self._read = read
        self._released: Callable[[], None] | None = released

    def write(self, target: Target, known: Mapping[tuple[str, int, str], Known]) -> Written | None:
        held: dict[tuple[str, int], dict[tuple[str, str], Known]] = {}
        for (name, partition, table), found in known.items():
            held.setdefault((name, partition), {})[name, table] = found
        written = Written()
        parts: dict[int, list[SavePart]] = {}
        for share in self._shares:
            since: dict[str, int] = {}
            mine: dict[tuple[str, str], Known] = {}
            for name, count in share.since.items():
                before = held.get((name, share.partition), {})
                if count or not before:
                    since[name] = count or len(share.files)
                    mine.update({k: v for k, v in before.items() if k[1] not in self._figures[name]})
                else:
                    written.tables.update({(name, share.partition, table): v for (_, table), v in before.items()})
            if since:
                figures = {name: self._figures[name] for name in since}
                parts.setdefault(share.partition, []).append(SavePart(share.files, since, mine, figures))
        if not parts:
            return written
        given = [
            [Record("save", 0, partition, pickle.dumps(parts[partition], protocol=5))] if partition in parts else []
            for partition in range(self._partitions)
        ]
        records = self._run(target, given)
        errors = [record for record in records if record.kind == "error"]
        if errors:
            raise raised(errors)
        figures_of: dict[str, list[tuple[TableChanges, ...]]] = {n: [()] * count for n, count in self.tasks.items()}
        for record in records:
            saved: SavedPart = loads(record.payload)
            if saved.failed is not None:
                raise saved.failed
            if saved.unseen:
                return None
            written.tables.update({(name, record.partition, t): k for (name, t), k in saved.tables.items()})
            written.files.update(saved.files)
            for name, found in saved.figures.items():
                figures_of[name][record.partition] = found
        written.figures.update({name: tuple(found) for name, found in figures_of.items()})
        return written

    def changes(self, name: str, complete: bool) -> tuple[tuple[TableChanges, ...], ...]:
        found: list[tuple[TableChanges, ...]] = [()] * self.tasks[name]
        for share in self._shares:
            count = share.since.get(name)
            if count is None:
                continue
            if complete or count:
                files = share.files if complete else share.files[len(share.files) - count :]
                found[share.partition] = self._read(name, files)
            else:
                none = np.empty(0, np.int64)
                whole = self._read(name, share.files)
                found[share.partition] = tuple(TableChanges(c.table, c.rows.slice(0, 0), none, False) for c in whole)
        return tuple(found)

    def release(self) -> None:
        released, self._released = self._released, None
        if released is not None:
            released()
