"""Versions with the number of a commit in them: application transactions.

A version is made with one file of the log, which the store refuses when there is one of that number. Then all is looked at anew,
the number first; the library's own retries do not look, and are not used.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import RemoveAction

from connectors.delta.library import files_at, loaded, told
from connectors.delta.options import Place
from connectors.delta.staging import DELETED, Staged
from connectors.delta.types import text_of
from runtime.core.errors import UnavailableError

__all__ = ["DeltaCommits", "MergingCommits", "OverwritingCommits", "write"]

_TRIES = 100


def write(call: Callable[[], Any]) -> None:
    """Make a version: all or nothing."""
    call()


class DeltaCommits:
    """`EpochCommits` of one sink of one job. `partitions`: names of the columns by which the table is partitioned."""

    def __init__(self, place: Place, job: str, partitions: Sequence[str]) -> None:
        self._place = place
        self._job = f"sqlengine.{job}"
        self._partitions = list(partitions)

    def last(self) -> int:
        return self._last(loaded(self._place))

    def _last(self, table: DeltaTable) -> int:
        with told(self._place):
            return table.transaction_version(self._job) or 0

    def commit(self, number: int, batches: list[Staged]) -> None:
        for tried in range(_TRIES):
            table = loaded(self._place)
            if self._last(table) >= number:
                break
            mark = CommitProperties(max_commit_retries=0, app_transactions=[Transaction(self._job, number)])
            with told(self._place):
                try:
                    write(lambda table=table, mark=mark: self._write(table, batches, mark))
                    break
                except CommitFailedError:
                    pass
            time.sleep(random.random() * min(0.01 * 2 ** min(tried, 7), 1.0))
        else:
            raise UnavailableError(
                f"other writers of {self._place.path} were first {_TRIES} times",
                code="E3191",
                hint="let fewer of them write at once",
            )
        for staged in batches:
            if staged.leftover is not None:
                with suppress(Exception):
                    files_at(self._place).delete_file(staged.leftover)

    def _write(self, table: DeltaTable, batches: list[Staged], mark: CommitProperties) -> None:
        files = [file for staged in batches for file in staged.files]
        table.create_write_transaction(list(files), "append", table.schema(), self._partitions, commit_properties=mark)

    def close(self) -> None:
        """Nothing is open."""


class MergingCommits(DeltaCommits):
    """The same for changes by key."""

    def __init__(self, place: Place, job: str, partitions: Sequence[str], key: Sequence[str]) -> None:
        super().__init__(place, job, partitions)
        self._key = list(key)

    def _write(self, table: DeltaTable, batches: list[Staged], mark: CommitProperties) -> None:
        (staged,) = batches
        changes = staged.changes
        assert changes is not None
        changes = self._of_rows_that_are_there(table, changes)
        columns = {_quoted(n): f"s.{_quoted(n)}" for n in changes.column_names if n != DELETED}
        merge = table.merge(
            changes,
            " AND ".join(f"t.{_quoted(k)} = s.{_quoted(k)}" for k in self._key),
            source_alias="s",
            target_alias="t",
            streamed_exec=False,
            commit_properties=mark,
        )
        merge = merge.when_matched_delete(f"s.{_quoted(DELETED)}")
        merge = merge.when_matched_update(columns)
        merge.when_not_matched_insert(columns, predicate=f"NOT s.{_quoted(DELETED)}").execute()

    def _of_rows_that_are_there(self, table: DeltaTable, changes: pa.Table) -> pa.Table:
        """The changes without deletes of keys that no row has: with a change data feed the library writes rows of NULLs for
        those, or fails on them."""
        deletes = changes.filter(changes.column(DELETED))
        if not deletes.num_rows:
            return changes
        near = [f"{_quoted(k)} BETWEEN {low} AND {high}" for k, (low, high) in self._ends(deletes).items()]
        there = pa.RecordBatchReader.from_stream(
            table.scan(columns=self._key, predicate=" AND ".join(near) or None)
        ).read_all()
        wanted = deletes.select(self._key)
        found = wanted.append_column("", pa.array(np.arange(wanted.num_rows))).join(
            there.cast(wanted.schema), self._key, join_type="left semi"
        )
        stay = deletes.take(pa.array(np.sort(found.column("").to_numpy())))
        return pa.concat_tables([changes.filter(pc.invert(changes.column(DELETED))), stay])

    def _ends(self, rows: pa.Table) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for name in self._key:
            if pa.types.is_integer(rows.column(name).type):
                ends = pc.min_max(rows.column(name)).as_py()
                found[name] = ends["min"], ends["max"]
        return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class OverwritingCommits(DeltaCommits):
    """The same for rows that take the place of others: of the partitions that they are in and the `partition` that is named, or
    of all."""

    def __init__(
        self, place: Place, job: str, partitions: Sequence[str], everything: bool, partition: dict[str, Any] | None
    ) -> None:
        super().__init__(place, job, partitions)
        self._everything = everything or not partitions
        self._partition = None if partition is None else {k: text_of(v) for k, v in partition.items()}

    def _write(self, table: DeltaTable, batches: list[Staged], mark: CommitProperties) -> None:
        files = [file for staged in batches for file in staged.files]
        replaced = [dict(file.partition_values) for file in files]
        if self._partition is not None and set(self._partition) == set(self._partitions):
            replaced.append(self._partition)
        removed: list[RemoveAction] = []
        now = int(time.time() * 1000)
        actions = pa.table(table.get_add_actions(flatten=True))
        for row in actions.to_pylist():
            values = {name: text_of(row[f"partition.{name}"]) for name in self._partitions}
            if self._everything or values in replaced:
                removed.append(RemoveAction(row["path"], True, now, row["size_bytes"], values))
        table.create_write_transaction(
            [*files, *removed], "append", table.schema(), self._partitions, commit_properties=mark
        )
