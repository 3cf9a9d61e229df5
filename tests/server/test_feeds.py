"""Feeds: whoever begins anywhere has the contents in the end, and is told when it cannot."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import sqlengine.server.feeds as feeds_module
from runtime.core.changelog import ChangelogBatch
from runtime.core.wakeup import Wakeup
from sqlengine import TableEnvironment
from sqlengine.server.feeds import Behind, Feeds, Start


def _fold(held: Counter[tuple[Any, ...]], batch: ChangelogBatch) -> None:
    rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
    for row, sign in zip(rows, batch.signs().tolist(), strict=True):
        held[row] += sign


def _rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


class _Reader:
    """A subscriber, and what it has folded."""

    def __init__(self, environment: TableEnvironment, start: Start, held: Counter[tuple[Any, ...]]) -> None:
        self.follower = start.follower
        self.held = held
        self.seen = start.epoch
        if start.rows is not None:
            self.held = _rows(start.rows.rows())

    def read(self) -> None:
        entries, complete = self.follower.take()
        for entry in entries:
            assert entry.epoch > self.seen
            self.seen = entry.epoch
            _fold(self.held, entry.batch)
        assert complete >= self.seen


@pytest.mark.parametrize("name", ["t", "v"])
def test_folds_to_the_contents(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds_module, "MOST_BYTES", 25_000)
    monkeypatch.setattr(feeds_module, "_READ_BYTES", 12_000)
    chance = random.Random(name)
    with TableEnvironment.create() as environment:
        session = environment.session
        environment.execute_sql("CREATE TABLE t (id INT, g STRING, PRIMARY KEY (id) NOT ENFORCED)")
        environment.execute_sql("CREATE MATERIALIZED VIEW v AS SELECT g, COUNT(*) AS n FROM t GROUP BY g")
        feeds = Feeds(session.database)
        readers: list[_Reader] = []
        too_late = went_on = 0
        for _ in range(120):
            kind = chance.random()
            if kind < 0.5:
                values = ", ".join(f"({chance.randrange(12)}, '{chance.choice('abc')}')" for _ in range(3))
                environment.execute_sql(f"INSERT INTO t VALUES {values}")
            elif kind < 0.6:
                environment.execute_sql(f"DELETE FROM t WHERE id = {chance.randrange(12)}")
            elif kind < 0.7 or not readers:
                with session.alone():
                    table = next(m for path, m in session.memory.items() if path.name == name)
                    start = feeds.start(table, Wakeup(), snapshot=True, after=None)
                readers.append(_Reader(environment, start, Counter()))
            elif kind < 0.85:
                # A connection is lost, and the client goes on behind the last epoch that it has seen.
                lost = chance.choice(readers)
                readers.remove(lost)
                lost.follower.close()
                try:
                    with session.alone():
                        start = feeds.start(table, Wakeup(), snapshot=False, after=lost.seen)
                except Behind as behind:
                    assert behind.since > lost.seen
                    too_late += 1
                    continue
                went_on += 1
                readers.append(_Reader(environment, Start(start.follower, None, lost.seen), lost.held))
            else:
                reader = chance.choice(readers)
                try:
                    reader.read()
                except Behind:
                    readers.remove(reader)
                    too_late += 1
                    continue
                contents = environment.execute_sql(f"SELECT * FROM {name}").to_arrow()
                assert +reader.held == _rows(contents) and min(reader.held.values(), default=0) >= 0
        assert too_late and went_on


def test_what_all_have_read_is_kept_up_to_a_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds_module, "MOST_BYTES", 50_000)
    monkeypatch.setattr(feeds_module, "_READ_BYTES", 20_000)
    with TableEnvironment.create() as environment:
        environment.execute_sql("CREATE TABLE t (id INT)")
        feeds, session = Feeds(environment.session.database), environment.session
        with session.alone():
            (table,) = session.memory.values()
            quick, slow = (feeds.start(table, Wakeup(), snapshot=False, after=None).follower for _ in range(2))

        def kept(epochs: int, *readers: Any) -> int:
            for i in range(epochs):
                environment.execute_sql(f"INSERT INTO t VALUES ({i})")
                for reader in readers:
                    reader.take()
            ((_, _, _, _, batches),) = feeds.held()
            return len(batches)

        # Epochs of one row are counted with what holds them.
        assert kept(60, quick, slow) == kept(20, quick, slow) == 20_000 // (1024 + 512 + 4)
        # So much that one has not read is kept, and no more.
        assert kept(30, quick) == 30
        assert kept(10, quick) == 20_000 // (1024 + 512 + 4)
        with pytest.raises(Behind):
            slow.take()
