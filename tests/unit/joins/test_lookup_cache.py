"""What lookups remember: whatever is remembered and forgotten, an answer is one that the table gave when the bounds allow it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from join_drive import at, batch_of, context, joined, leaf, rows_of

from runtime.core.changelog import APPEND, DELETE, INSERT, RETRACT, ChangelogBatch
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, STRING
from runtime.expr.nodes import InputRef
from runtime.kernels.recency import Recency
from runtime.operators.lookup_answers import AskedTable, asked_again
from runtime.operators.lookup_cache import PartialCache
from runtime.operators.lookup_join import LookupJoinOperator
from runtime.operators.lookup_whole import WholeCache, next_reload
from runtime.plan.nodes import JoinKind, LookupJoinExec
from runtime.plan.parts import CachedTable, PartialCaching, Reload, WholeTable
from runtime.spi.source import Split

KEYED = Schema.of(("k", STRING), ("v", BIGINT))
MINUTE = 60_000
DAY = 24 * 60 * MINUTE


class Outside:
    """A table outside: `contents` by key, and the keys that it was asked for."""

    def __init__(self, contents: dict[str, list[int]]) -> None:
        self.contents = contents
        self.asked: list[str] = []
        self.failing = 0

    @property
    def schema(self) -> Schema:
        return KEYED

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        if self.failing:
            self.failing -= 1
            raise ConnectorError("it is away")
        wanted = keys.column(0).to_pylist()
        self.asked += wanted
        found = [(i, k, v) for i, k in enumerate(wanted) for v in self.contents.get(k, [])]
        return pa.array([f[0] for f in found], pa.int64()), pa.RecordBatch.from_arrays(
            [pa.array([f[1] for f in found], pa.string()), pa.array([f[2] for f in found], pa.int64())],
            names=["k", "v"],
        )

    def describe(self) -> dict[str, object]:
        return {}


class Naive:
    """The cache as it is described, key by key."""

    def __init__(self, bounds: PartialCaching, contents: dict[str, list[int]]) -> None:
        self.bounds, self.contents = bounds, contents
        self.held: OrderedDict[str, tuple[int, int, list[int]]] = OrderedDict()
        self.hits = self.misses = 0

    def answer(self, keys: list[str], now: int) -> list[tuple[int, str, int]]:
        b, found = self.bounds, []
        for key, (written, used, _) in list(self.held.items()):
            old = b.after_write is not None and written + b.after_write <= now
            if old or (b.after_access is not None and used + b.after_access <= now):
                del self.held[key]
        for i, key in enumerate(keys):
            if key in self.held:
                self.hits += 1
                written, _, values = self.held[key]
                self.held[key] = (written, now, values)
            else:
                self.misses += 1
                values = list(self.contents.get(key, []))
                if values or b.missing:
                    self.held[key] = (now, now, values)
            if key in self.held:
                self.held.move_to_end(key)
            found += [(i, key, v) for v in values]
        while b.max_rows is not None and sum(max(1, len(v)) for _, _, v in self.held.values()) > b.max_rows:
            self.held.popitem(last=False)
        return found


BOUNDS = st.builds(
    PartialCaching,
    st.one_of(st.none(), st.integers(1, 8)),
    st.one_of(st.none(), st.integers(1, 9)),
    st.one_of(st.none(), st.integers(1, 9)),
    st.booleans(),
)
KEYS = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1, max_size=6)
EPOCH = st.tuples(
    KEYS, st.integers(0, 5), st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.integers(0, 9), max_size=3))
)


@given(BOUNDS, st.lists(EPOCH, max_size=12))
@settings(deadline=None, max_examples=150)
def test_a_partial_cache_is_the_naive_one(bounds: PartialCaching, epochs: list[tuple[list[str], int, dict]]) -> None:
    table, now = Outside({}), 1000
    cache, naive = PartialCache(bounds, AskedTable(table), [pa.string()], KEYED), Naive(bounds, table.contents)
    for keys, later, changes in epochs:
        now += later
        table.contents.update(changes)
        batch = pa.RecordBatch.from_arrays([pa.array(keys, pa.string())], names=["k"])
        positions, (ks, vs) = cache.answer(batch, len(keys), now)
        assert list(zip(positions.tolist(), ks.to_pylist(), vs.to_pylist(), strict=True)) == naive.answer(keys, now)
        assert (cache.figures.hits, cache.figures.misses) == (naive.hits, naive.misses)
        assert cache.figures.rows == sum(max(1, len(v)) for _, _, v in naive.held.values())
    assert len(table.asked) == naive.misses == cache.figures.loads


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 20), unique=True), st.lists(st.integers(0, 20), unique=True), st.integers(0, 9)
        )
    )
)
@settings(deadline=None)
def test_recency_is_the_order_of_last_uses(steps: list[tuple[list[int], list[int], int]]) -> None:
    recency, order = Recency(), []
    for used, gone, count in steps * 3:
        recency.use(np.array(used, np.int64))
        order = [s for s in order if s not in used] + used
        gone = [s for s in gone if s in order]
        recency.forget(np.array(gone, np.int64))
        order = [s for s in order if s not in gone]
        assert recency.oldest(count).tolist() == order[:count]
        assert len(recency) == len(order)


def test_recency_stays_small_however_often_slots_are_used() -> None:
    recency = Recency()
    for _ in range(1000):
        recency.use(np.arange(100))
    assert recency.oldest(3).tolist() == [0, 1, 2]
    assert recency.nbytes < 300_000


def test_a_failing_table_is_asked_again_after_growing_pauses() -> None:
    table, pauses = Outside({"a": [1]}), []
    keys = pa.RecordBatch.from_arrays([pa.array(["a"])], names=["k"])
    table.failing = 3
    positions, _ = asked_again(lambda: table.lookup(["k"], keys), 3, pauses.append)
    assert positions.to_pylist() == [0]
    assert pauses == [0.1, 0.2, 0.4]
    table.failing = 2
    with pytest.raises(ConnectorError, match="it is away"):
        asked_again(lambda: table.lookup(["k"], keys), 1, pauses.append)
    assert table.failing == 0


class Listing:
    """A table that ends, and whose rows another one may be the next time."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int]] = []
        self.read = 0
        self.changelog_mode, self.bounded, self.schema = APPEND, True, KEYED

    def splits(self) -> list[Split]:
        return [Split("all"), Split("none")]

    def open(self, split: Split, context: object) -> Listing:
        self.left = list(self.rows) if split.id == "all" else []
        self.read += split.id == "all"
        return self

    def poll(self, max_rows: int) -> ChangelogBatch | None:
        batch, self.left = batch_of(KEYED, [(INSERT, row) for row in self.left]), []
        return batch

    @property
    def finished(self) -> bool:
        return not self.left

    def close(self) -> None: ...

    def describe(self) -> dict[str, object]:
        return {}


def test_a_whole_table_is_as_it_was_at_the_last_reload() -> None:
    listing = Listing()
    cache = WholeCache(WholeTable(listing, Reload(100), 0), "UTC")
    keys = pa.RecordBatch.from_arrays([pa.array(["a", "b"])], names=["k"])

    def seen(now: int) -> list[tuple[int, int]]:
        positions, (_, values) = cache.answer(keys, 2, now)
        return list(zip(positions.tolist(), values.to_pylist(), strict=True))

    assert seen(0) == []
    listing.rows = [("b", 1), ("a", 2), ("b", 3)]
    assert seen(99) == []
    assert seen(150) == [(0, 2), (1, 1), (1, 3)]
    listing.rows = [("a", 9)]
    assert seen(249) == [(0, 2), (1, 1), (1, 3)]
    assert seen(250) == [(0, 9)]
    figures = cache.figures
    assert (figures.loads, figures.hits, figures.rows, listing.read) == (3, 10, 1, 3)


@pytest.mark.parametrize(
    ("reload", "now", "due", "expected"),
    [
        (Reload(100), 1030, 1000, 1130),
        (Reload(100, True), 1030, 1000, 1100),
        (Reload(100, True), 1230, 1000, 1300),
        (Reload(time=10 * 60 * MINUTE, zone="UTC"), 9 * 60 * MINUTE, None, 10 * 60 * MINUTE),
        (Reload(time=10 * 60 * MINUTE, zone="UTC", days=3), 10 * 60 * MINUTE, None, DAY + 10 * 60 * MINUTE),
        (Reload(time=0, zone="UTC", days=3), DAY + 5, DAY, 4 * DAY),
        (Reload(time=0, zone="UTC", days=3), 9 * DAY, DAY, 10 * DAY),
        (Reload(time=0, zone="+02:00"), 0, None, DAY - 120 * MINUTE),
        # The session's time zone, across the change to summer time in Berlin, 2024-03-31.
        (Reload(time=0), 1711753200000, 1711753200000, 1711839600000),
        (Reload(time=0), 1711839600000, 1711839600000, 1711839600000 + 23 * 60 * MINUTE),
    ],
)
def test_times_of_reloads(reload: Reload, now: int, due: int | None, expected: int) -> None:
    assert next_reload(reload, now, due, "Europe/Berlin") == expected


def test_what_is_taken_back_is_what_was_given_whatever_the_cache_remembers() -> None:
    table = Outside({"u1": [1]})
    left = Schema.of(("id", BIGINT), ("uid", STRING))
    cached = CachedTable(table, PartialCaching(after_write=10), 0)
    node = LookupJoinExec(
        leaf(left, RETRACT), cached, "t", JoinKind.LEFT, ((InputRef(1, STRING), 0),), None, joined(left, KEYED), RETRACT
    )
    join = LookupJoinOperator(node, context())

    def step(now: int, *changes: tuple) -> list[tuple]:
        output = join.step([batch_of(left, list(changes))], at(0, clock=now))
        return (
            []
            if output is None
            else sorted(zip(output.signs().tolist(), *(c.to_pylist() for c in output.columns), strict=True))
        )

    assert step(0, (INSERT, (1, "u1"))) == [(1, 1, "u1", "u1", 1)]
    table.contents["u1"] = [2]
    assert step(5, (INSERT, (2, "u1"))) == [(1, 2, "u1", "u1", 1)]
    assert step(10, (INSERT, (3, "u1")), (DELETE, (1, "u1"))) == [(-1, 1, "u1", "u1", 1), (1, 3, "u1", "u1", 2)]
    assert step(20, (DELETE, (2, "u1")), (DELETE, (3, "u1"))) == [(-1, 2, "u1", "u1", 1), (-1, 3, "u1", "u1", 2)]
    assert join.cache_figures is not None and (join.cache_figures.hits, join.cache_figures.misses) == (1, 2)
    assert rows_of([pa.array(table.asked)]) == [("u1",), ("u1",)]
