"""Rows as inserts.

ClickHouse has no transactions: an insert is whole or not there, for each partition by itself. So each insert has a name, made of the
sink, the number of its commit, its place in it, and what it holds; a MergeTree with a window of deduplication knows the names of its
newest parts, and leaves out what is there already. Whoever goes on writes a commit that was cut short again.

Rows of a key replace each other in a ReplacingMergeTree by themselves, so that it needs no window; its column of versions gets the
number of the commit, counted from the moment at which the sink began for the first time (microseconds since 1970), so that no older
one is newer. A row that is deleted has 1 in the column of deletes.

The table `sqlengine_commits` has the number of the newest whole commit of each run of a sink. The run with the highest turn is the
writer; an older one knows by that that it is not the writer any more.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from connectors.clickhouse.columns import quoted, text_literal, wired
from connectors.clickhouse.described import COMMITS, Relation, described
from connectors.databases.newest import newest_by_key
from runtime.core.changelog import DELETE, INSERT, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import ConnectorError, FencedError

if TYPE_CHECKING:
    from connectors.clickhouse.table import ClickHouseTable

__all__ = ["ClickHouseCommits", "ClickHouseRows"]

_MOST_PARTITIONS = 100
_BYTES = 32 << 20
"""Of an insert, about."""


class ClickHouseRows:
    """Writes rows at once (`TransactionWriter`)."""

    def __init__(self, table: ClickHouseTable) -> None:
        self._table = table
        self._relation: Relation | None = None
        self._newest = 0

    def write(self, batches: Sequence[ChangelogBatch]) -> None:
        self._newest = max(self._newest + 1, time.time_ns() // 1000)
        self._write(batches, uuid.uuid4().hex, self._newest)

    def close(self) -> None:
        """Connections are the process's."""

    @property
    def relation(self) -> Relation:
        """Raises ConnectorError E3163 for a table that cannot be written as it is declared."""
        if self._relation is None:
            found = described(self._table.server, *self._table.names)
            _check(self._table, found)
            self._relation = found
        return self._relation

    def _write(self, batches: Iterable[ChangelogBatch], name: str, version: int, most: int | None = None) -> None:
        """All rows. `name`: of the inserts; `version`: of rows by key; `most`: so many inserts are known afterwards."""
        for number, rows in enumerate(self._inserts(batches, version)):
            if most is not None and number >= most:
                raise ConnectorError(
                    f"a commit of {self._table.place()} has more than {most} inserts, of which the table knows afterwards "
                    "whether they are there",
                    code="E3162",
                    hint="checkpoint more often, or raise 'sink.batch-size', or the table's deduplication window",
                )
            self._insert(rows, f"{name}-{number}")

    def _insert(self, rows: pa.RecordBatch, name: str) -> None:
        """One insert."""
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, rows.schema) as stream:
            stream.write_batch(rows)
        body = buffer.getvalue().to_pybytes()
        settings = {"insert_deduplicate": "1", "throw_on_max_partitions_per_insert_block": "1"}
        settings["max_partitions_per_insert_block"] = str(_MOST_PARTITIONS)
        settings["insert_deduplication_token"] = f"{name}-{hashlib.blake2b(body, digest_size=8).hexdigest()}"
        names = ", ".join(map(quoted, rows.schema.names))
        self._table.server.insert(
            f"INSERT INTO {self.relation.sql} ({names}) FORMAT ArrowStream", body, settings, self._table.place()
        )

    def _inserts(self, batches: Iterable[ChangelogBatch], version: int) -> Iterator[pa.RecordBatch]:
        """Rows as they are sent, an insert in each."""
        table = self._table
        if not table.primary_key or table.sign:
            for batch in _parts(batches, table.batch):
                yield self._sent(batch.rows, self._signs(batch))
            return
        found = newest_by_key([batch.decoded() for batch in batches], table.primary_key)
        if found is None:
            return
        for rows, deleted in zip(found, (0, 1), strict=True):
            for at in range(0, len(rows), table.batch):
                yield self._sent(rows.slice(at, table.batch), self._marks(version, deleted))

    def _signs(self, batch: ChangelogBatch) -> Mapping[str, pa.Scalar | pa.Array]:
        table, kinds = self._table, batch.kinds_or_inserts()
        taken = (kinds == DELETE) | (kinds == UPDATE_BEFORE)
        if table.sign:
            return {table.sign: pa.array(np.where(taken, -1, 1).astype(np.int8))}
        if taken.any() or (kinds != INSERT).any():
            raise ConnectorError(
                f"{table.place()} takes rows that are added alone", code="E3162", hint="declare its PRIMARY KEY"
            )
        return {}

    def _marks(self, version: int, deleted: int) -> Mapping[str, pa.Scalar | pa.Array]:
        """What rows by key have beside their columns."""
        names = self.relation.arguments
        own = names[:1] if names and names[0] not in self._table.schema.names else []
        if deleted and (len(names) < 2 or not own):
            raise ConnectorError(
                f"a row of {self._table.place()} is deleted, and {self.relation.full} knows no deletes, or not of which version",
                code="E3162",
                hint="make it ENGINE = ReplacingMergeTree(version, is_deleted), of columns UInt64 and UInt8, and declare neither",
            )
        marks = dict.fromkeys(own, pa.scalar(version, pa.uint64()))
        return marks | dict.fromkeys(names[1:], pa.scalar(deleted, pa.uint8()))

    def _sent(self, rows: pa.RecordBatch, more: Mapping[str, pa.Scalar | pa.Array]) -> pa.RecordBatch:
        table = self._table
        fields = {f.name: f for f in table.schema}
        columns = {
            name: wired(column, fields[name], self.relation.column(name), table.place())
            for name, column in zip(rows.schema.names, rows.columns, strict=True)
        }
        for name, value in more.items():
            columns[name] = pa.repeat(value, len(rows)) if isinstance(value, pa.Scalar) else value
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _parts(batches: Iterable[ChangelogBatch], size: int) -> Iterator[ChangelogBatch]:
    """Changes in parts of so many, or of so many bytes; small ones together. The same changes are cut in the same way."""
    waiting: list[ChangelogBatch] = []
    count = octets = 0
    for batch in batches:
        if not len(batch):
            continue
        waiting.append(batch.decoded())
        count, octets = count + len(batch), octets + waiting[-1].rows.nbytes
        if count < size and octets < _BYTES:
            continue
        whole = ChangelogBatch.concat(waiting)
        step = max(1, min(size, count * _BYTES // max(1, octets)))
        yield from (whole.slice(at, step) for at in range(0, count, step))
        waiting, count, octets = [], 0, 0
    if waiting:
        yield ChangelogBatch.concat(waiting)


def _check(table: ClickHouseTable, relation: Relation) -> None:
    """Raises ConnectorError E3163 where rows of a table cannot be written there."""
    for field in table.schema:
        column = relation.column(field.name)
        if not column.takes(field.type) or column.default in ("MATERIALIZED", "ALIAS"):
            raise _unfit(
                f"column {field.name} of {table.place()} is {column.declared} {column.default}".rstrip()
                + f" there, into which {field.type} is not written",
                f"declare it as {column.type}",
            )
    if table.sign:
        if relation.kind != "CollapsingMergeTree" or relation.arguments[:1] != [table.sign]:
            raise _unfit(
                f"{table.place()} is {relation.full} there, without the sign {table.sign}",
                f"make it ENGINE = CollapsingMergeTree({table.sign}), or leave 'sink.sign-column' out",
            )
        return
    if not table.primary_key:
        if relation.kind == "CollapsingMergeTree":
            raise _unfit(f"{table.place()} wants a sign with each row", "set 'sink.sign-column'")
        return
    if relation.kind != "ReplacingMergeTree":
        raise _unfit(
            f"rows of a key do not replace each other in {table.place()}, which is {relation.engine} there",
            "make it ENGINE = ReplacingMergeTree(version, is_deleted), or leave PRIMARY KEY out",
        )
    if sorted(relation.sorted_by) != sorted(table.primary_key):
        raise _unfit(
            f"rows of {table.place()} replace each other by ({', '.join(relation.sorted_by)}) there, and not by the "
            f"PRIMARY KEY ({', '.join(table.primary_key)})",
            "declare the sorting key as the PRIMARY KEY",
        )
    for place, name in enumerate(relation.arguments):
        own = name in table.schema.names
        if (own and place == 1) or (not own and relation.column(name).bare != ("UInt64", "UInt8")[place]):
            raise _unfit(
                f"the column {name} of {table.place()} is the engine's, and is written with each row",
                "make the version UInt64, or declare it and fill it yourself; the column of deletes is not declared",
            )


def _unfit(message: str, hint: str) -> ConnectorError:
    return ConnectorError(message, code="E3163", hint=hint)


class ClickHouseCommits(ClickHouseRows):
    """`EpochCommits`: see the module."""

    def __init__(self, table: ClickHouseTable, job: str) -> None:
        super().__init__(table)
        database, name = table.names
        self._id = hashlib.sha256(f"{name}\0{job}".encode()).hexdigest()[:32]
        self._run = uuid.uuid4().hex
        self._turn = 0
        self._base = 0
        self._commits = f"{quoted(database)}.{quoted(COMMITS)}"

    def last(self) -> int:
        server = self._table.server
        self._most_inserts()
        server.run(
            f"CREATE TABLE IF NOT EXISTS {self._commits} (sink String, run String, turn UInt64, base UInt64, number UInt64, "
            "name String) ENGINE = ReplacingMergeTree(number) ORDER BY (sink, run)"
        )
        (known,) = self._asked(
            "toUnixTimestamp64Micro(now64(6)) AS now, max(number) AS number, max(turn) AS turn, max(base) AS base"
        )
        self._base = int(known["base"] or 0) or int(known["now"])
        self._turn = int(known["turn"] or 0) + 1
        number = int(known["number"] or 0)
        self._keep(number)
        return number

    def commit(self, number: int, batches: Iterable[ChangelogBatch]) -> None:
        self._must_be_mine()
        self._write_rows(number, batches)
        self._must_be_mine()
        self._keep(number)

    def _write_rows(self, number: int, batches: Iterable[ChangelogBatch]) -> None:
        self._write(batches, f"{self._id}-{number}", self._base + number, self._most_inserts())

    def _most_inserts(self) -> int | None:
        """How many inserts of a commit the table knows; None where what comes twice is once. Raises ConnectorError E3163."""
        if self._table.primary_key and not self._table.sign:
            _ = self.relation
            return None
        window = self.relation.window if self.relation.kind.endswith("MergeTree") else 0
        most = window // (_MOST_PARTITIONS if self.relation.partitions else 1)
        if most < 1:
            raise _unfit(
                f"{self._table.place()} does not know which inserts it has: its deduplication window is {window}",
                "ALTER TABLE .. MODIFY SETTING non_replicated_deduplication_window = 10000 (of a MergeTree; 100 for each "
                "insert of a commit where it has partitions), or 'sink.delivery-guarantee' = 'at-least-once'",
            )
        return most

    def _keep(self, number: int) -> None:
        """The commit is whole."""
        values = f"{text_literal(self._id)}, {text_literal(self._run)}, {self._turn}, {self._base}, {number}"
        self._table.server.run(f"INSERT INTO {self._commits} SELECT {values}, {text_literal(self._table.name)}")

    def _must_be_mine(self) -> None:
        (found,) = self._asked("argMax(run, (turn, run)) AS run")
        if found["run"].decode() != self._run:
            raise FencedError(
                f"another run of the job that writes {self._table.place()} has taken the place of this one",
                hint="end one of them",
            )

    def _asked(self, what: str) -> list[dict[str, Any]]:
        query = f"SELECT {what} FROM {self._commits} WHERE sink = {text_literal(self._id)}"
        return self._table.server.asked(query, self._commits)
