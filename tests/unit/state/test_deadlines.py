"""Keys in a store come back when their time is over, each once, whatever was noted and removed before; and what the
store has of keys that are gone leaves the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from runtime.state.deadlines import NO_DEADLINE, Deadlines, earliest
from runtime.state.idle_slots import IdleSlots
from runtime.state.rocksdb import RocksSettings, RocksStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RocksStore]:
    made = RocksStore(RocksSettings(str(tmp_path), 1 << 20, 1 << 16))
    yield made
    made.close()


def keys_of(names: list[bytes]) -> pa.Array:
    return pa.array(names, pa.large_binary())


def test_random_keys_come_in_time(store: RocksStore) -> None:
    rng = np.random.default_rng(0)
    deadlines, model, now = Deadlines(store), dict[bytes, int](), -50
    for _ in range(300):
        now += int(rng.integers(0, 20))
        fresh = [
            name
            for name in {bytes([65 + int(i)]) * int(1 + i % 3) for i in rng.integers(0, 40, 8)}
            if name not in model
        ]
        times = np.array([int(rng.integers(now - 5, now + 60)) if rng.random() < 0.9 else NO_DEADLINE for _ in fresh])
        if fresh:
            deadlines.add(keys_of(fresh), times.astype(np.int64))
            model.update(zip(fresh, times.tolist()))
        lost = [name for name in model if rng.random() < 0.1]
        deadlines.remove(keys_of(lost), np.array([model.pop(name) for name in lost], np.int64))
        due = {name for name, time in model.items() if time < now}
        found: list[bytes] = []
        while some := deadlines.take(now, 3).to_pylist():
            assert len(some) <= 3
            found += some
        assert len(found) == len(due) and set(found) == due
        for name in found:
            del model[name]


def test_the_earliest_of_each() -> None:
    assert earliest(np.array([5, 3, 9]), np.array([2, 0, 1, 0])).tolist() == [3, NO_DEADLINE, 9, NO_DEADLINE]


def test_what_is_deleted_leaves_the_disk(store: RocksStore) -> None:
    value = np.random.default_rng(0).bytes(200)
    for first in range(0, 200_000, 20_000):
        keys = keys_of([b"%08d" % i for i in range(first, first + 20_000)])
        store.put("rows", keys, pa.array([value] * len(keys), pa.large_binary()))
    # RocksDB writes and compacts beside the job. What its memory holds is not on the disk yet, and the last deletes are
    # not carried out.
    while (full := store.disk_bytes) <= 20 << 20:
        os.sched_yield()
    for first in range(0, 200_000, 20_000):
        store.delete("rows", keys_of([b"%08d" % i for i in range(first, first + 20_000)]))
    while store.disk_bytes >= full / 2:
        os.sched_yield()


def test_touches_take_no_more_than_slots() -> None:
    idle, slots = IdleSlots(10**6), np.arange(1000)
    for now in range(1000):
        idle.touch(slots, now)
    assert idle.nbytes < 8 * 200_000
    assert sorted(idle.expired(999 + 10**6 + 1)) == list(range(1000))


def test_restored_times_are_in_order() -> None:
    idle = IdleSlots(10)
    idle.touch(np.array([0]), 100)
    idle.restore(np.array([1, 2, 3]), pa.array([50, None, 70], pa.int64()))
    assert [idle.expired(now).tolist() for now in (60, 61, 81, 110, 111, 10**9)] == [[], [1], [3], [], [0], []]
