"""Row stores against plain Python counters: random changes, every identity, bags and sorted reads after every epoch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, ChangelogBatch
from runtime.core.errors import InternalError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, STRING
from runtime.plan.nodes import SortSpec
from runtime.state.keyed import KeyIndex
from runtime.state.multiset import RowMultiset
from runtime.state.ordered import OrderedRows
from runtime.state.rows import Identity

SCHEMA = Schema.of(("k", BIGINT), ("name", STRING), ("v", BIGINT))


def batch(rows: list[tuple], kinds: list[int]) -> ChangelogBatch:
    columns = [pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(SCHEMA)]
    return ChangelogBatch.of(columns, SCHEMA, np.array(kinds, np.int8))


def random_row(rng: np.random.Generator) -> tuple:
    name = None if rng.random() < 0.1 else "x" * int(rng.integers(0, 12)) + str(rng.integers(3))
    return int(rng.integers(4)), name, int(rng.integers(3))


def contents(store: RowMultiset | OrderedRows, keys: KeyIndex) -> Counter:
    found: Counter = Counter()
    slots = (
        [s for _, s in store.probe(keys.live_slots(), 5)]
        if isinstance(store, RowMultiset)
        else [store.all(keys.live_slots())[1]]
    )
    for part in slots:
        for *row, count in zip(*(c.to_pylist() for c in store.take(part)), store.count[part].tolist(), strict=True):
            found[tuple(row)] += count
    return found


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_full_identity_counts_equal_rows(seed: int, ordered: bool) -> None:
    rng = np.random.default_rng(seed)
    keys = KeyIndex.of(SCHEMA, (0,))
    store = (
        OrderedRows(SCHEMA, (SortSpec(1), SortSpec(2, True)), Identity.FULL)
        if ordered
        else RowMultiset(SCHEMA, Identity.FULL, totals=True)
    )
    live: Counter = Counter()
    for _ in range(25):
        before = Counter(live)
        rows, kinds = [], []
        for _ in range(int(rng.integers(1, 12))):
            if live and rng.random() < 0.45:
                row = list(live)[int(rng.integers(len(live)))]
                live[row] -= 1
                live += Counter()
                rows.append(row)
                kinds.append(DELETE)
            else:
                row = random_row(rng)
                live[row] += 1
                rows.append(row)
                kinds.append(INSERT)
        change = batch(rows, kinds)
        slots, _ = keys.insert([change.column(0)])
        changed = store.apply(change, slots)
        told: Counter = Counter()
        for *row, delta in zip(
            *(c.to_pylist() for c in store.take(changed)), store.delta[changed].tolist(), strict=True
        ):
            told[tuple(row)] += delta
        assert {r: n for r, n in told.items() if n} == {
            r: live[r] - before[r] for r in live | before if live[r] != before[r]
        }
        store.settle(changed)
        assert contents(store, keys) == live
        assert store.rows == len(live)
        if isinstance(store, OrderedRows):
            index, found = store.first(keys.live_slots(), 3)
            for position, key in enumerate(keys.live_slots()):
                mine = [
                    tuple(r) for r in zip(*(c.to_pylist() for c in store.take(found[index == position])), strict=True)
                ]
                order = sorted(
                    (r for r in live if keys.find([pa.array([r[0]])])[0] == key),
                    key=lambda r: ((r[1] is not None, r[1] or ""), -r[2]),
                )
                assert mine == order[:3]
        else:
            total, _ = store.totals(keys.live_slots())
            assert total.sum() == live.total()


@pytest.mark.parametrize("seed", range(6))
def test_unique_key_replaces_and_deletes_by_key_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = KeyIndex.of(SCHEMA, (2,))
    store = RowMultiset(SCHEMA, Identity.KEYED, (0,), totals=True)
    live: dict[int, tuple] = {}
    for _ in range(25):
        before = Counter(live.values())
        rows, kinds = [], []
        for _ in range(int(rng.integers(1, 8))):
            row = random_row(rng)
            if rng.random() < 0.3:
                live.pop(row[0], None)
                rows.append((row[0], None, None))
                kinds.append(DELETE)
            else:
                kinds.append(UPDATE_AFTER if row[0] in live else INSERT)
                live[row[0]] = row
                rows.append(row)
        change = batch(rows, kinds)
        slots, _ = keys.insert([change.column(2)])
        changed = store.apply(change, slots)
        told: Counter = Counter()
        for *row, delta in zip(
            *(c.to_pylist() for c in store.take(changed)), store.delta[changed].tolist(), strict=True
        ):
            told[tuple(row)] += delta
        after = Counter(live.values())
        assert dict(told) == {r: after[r] - before[r] for r in after | before if after[r] != before[r]}
        store.settle(changed)
        assert contents(store, keys) == after


@pytest.mark.parametrize("seed", range(4))
def test_full_images_need_no_order_by_the_unique_key(seed: int) -> None:
    # Rows in order by k exchange their v, which is unique as well: by v a new row comes before the old one goes.
    rng = np.random.default_rng(seed)
    store = RowMultiset(SCHEMA, Identity.KEYED, (2,), images=True)
    held: dict[int, int] = {}
    for _ in range(20):
        values = rng.permutation(8)
        rows, kinds = [], []
        for key in range(5):
            if key in held:
                rows.append((key, "x", held.pop(key)))
                kinds.append(UPDATE_BEFORE)
            if rng.random() < 0.8:
                held[key] = int(values[key])
                rows.append((key, "x", held[key]))
                kinds.append(UPDATE_AFTER)
        changed = store.apply(batch(rows, kinds), np.zeros(len(rows), np.int64))
        store.settle(changed)
        (slots,) = [s for _, s in store.probe(np.zeros(1, np.int64), 100)] or [np.empty(0, np.int64)]
        assert sorted(zip(*(store.take_column(c, slots).to_pylist() for c in (0, 2)), strict=True)) == sorted(
            held.items()
        )


def test_append_identity_refuses_to_take_back() -> None:
    store = RowMultiset(SCHEMA, Identity.APPEND)
    with pytest.raises(InternalError):
        store.apply(batch([(1, "a", 1)], [DELETE]), np.zeros(1, np.int64))


def test_expired_rows_are_those_not_written_since() -> None:
    store = RowMultiset(SCHEMA, Identity.FULL)
    first = store.apply(batch([(1, "a", 1), (2, "b", 1)], [INSERT, INSERT]), np.zeros(2, np.int64))
    store.write_times(first, 100)
    store.settle(first)
    again = store.apply(batch([(2, "b", 1)], [INSERT]), np.zeros(1, np.int64))
    store.write_times(again, 200)
    store.settle(again)
    assert store.take_column(0, store.expired(101)).to_pylist() == [1]
    assert store.take_column(0, store.expired(300)).to_pylist() == [2]
    assert len(store.expired(1000)) == 0


def test_equal_values_stand_in_order_of_arrival_and_wide_strings_widen_the_order() -> None:
    store = OrderedRows(SCHEMA, (SortSpec(1),), Identity.APPEND)
    for rows in ([(1, "b", 1), (2, "b", 2)], [(3, "a" * 40, 3)], [(4, "b", 4)]):
        change = batch(rows, [INSERT] * len(rows))
        store.settle(store.apply(change, np.zeros(len(rows), np.int64)))
    _, slots = store.all(np.zeros(1, np.int64))
    assert store.take_column(0, slots).to_pylist() == [3, 1, 2, 4]
    at = store.floor(np.zeros(1, np.int64), [pa.array(["az"])])
    assert store.take_column(0, at).to_pylist() == [3]
    assert len(np.unique(store.words_of(slots), axis=0)) == 2


def test_freed_keys_are_forgotten() -> None:
    keys = KeyIndex([pa.string()])
    for start in range(0, 60_000, 3000):
        slots, _ = keys.insert([pa.array([f"key {start + i}" for i in range(3000)])])
        keys.remove(slots[:2990])
    assert len(keys) == 200
    assert keys.capacity < 3300
    assert (
        keys.find([pa.array([f"key {s + i}" for s in range(0, 60_000, 3000) for i in range(2990, 3000)])]) >= 0
    ).all()
    assert keys._encoder.pooled < 20_000
