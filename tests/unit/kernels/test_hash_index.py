"""HashIndex against a dict of key to slot, under inserts, look-ups and removals in random batches."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.core.errors import InternalError
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.hashing import hash_row, hash_words


def words_of(rng: np.random.Generator, count: int, width: int, domain: int) -> np.ndarray:
    return rng.integers(0, domain, (count, width)).astype(np.uint64)


def key_list(words: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(row) for row in words.tolist()]


@pytest.mark.parametrize(("width", "domain", "seed"), [(1, 300, 0), (1, 5000, 1), (2, 30, 2), (3, 12, 3), (0, 1, 4)])
def test_random_operations_agree_with_a_dict(width: int, domain: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    index = HashIndex(width, capacity=16)
    model: dict[tuple[int, ...], int] = {}
    for _ in range(240):
        # Batches of one row go another way.
        words = words_of(rng, int(rng.choice([1, rng.integers(0, 200)])), width, domain)
        keys = key_list(words)
        action = rng.integers(0, 3)
        if action == 0:
            assert index.find(words).tolist() == [model.get(k, -1) for k in keys]
        elif action == 1:
            slots, is_new = index.insert(words)
            before = set(model)
            fresh: list[int] = []
            for key, slot, new in zip(keys, slots.tolist(), is_new.tolist(), strict=True):
                assert new == (key not in before and key not in model)
                if new:
                    assert slot not in model.values()
                    model[key] = slot
                    fresh.append(slot)
                assert model[key] == slot
        else:
            found = np.unique(index.find(words))
            found = found[found >= 0][: int(rng.choice([1, 200]))]
            gone = key_list(index.keys(found))
            index.remove(found)
            assert [model.pop(k) for k in gone] == found.tolist()
        assert len(index) == len(model)
        live = index.live_slots()
        assert live.tolist() == sorted(model.values())
        assert dict(zip(key_list(index.keys(live)), live.tolist(), strict=True)) == model
        assert index.capacity > max(model.values(), default=-1)


def test_first_inserts_number_keys_in_order_of_first_occurrence() -> None:
    rng = np.random.default_rng(5)
    words = words_of(rng, 200_000, 1, 90_000)
    slots, is_new = HashIndex(1).insert(words)
    _, first = np.unique(words[:, 0], return_index=True)
    assert np.flatnonzero(is_new).tolist() == np.sort(first).tolist()
    assert slots[is_new].tolist() == list(range(len(first)))
    assert (words[is_new][slots] == words).all()


def test_churn_keeps_slots_and_memory_bounded() -> None:
    index = HashIndex(1)
    previous = np.empty(0, dtype=np.int64)
    sizes = []
    for step in range(300):
        words = np.arange(step * 1000, step * 1000 + 1000, dtype=np.uint64)[:, None]
        slots, is_new = index.insert(words)
        assert is_new.all()
        index.remove(previous)
        previous = slots
        sizes.append(index.nbytes)
    assert len(index) == 1000
    assert index.capacity <= 2000
    assert max(sizes[10:]) <= 2 * sizes[10]


def test_removing_a_free_slot_is_refused() -> None:
    index = HashIndex(1)
    slots, _ = index.insert(np.array([[7]], dtype=np.uint64))
    index.remove(slots)
    with pytest.raises(InternalError):
        index.remove(slots)


def test_keys_of_another_width_are_refused() -> None:
    with pytest.raises(InternalError):
        HashIndex(2).find(np.zeros((3, 1), dtype=np.uint64))


def test_rekey_keeps_slots() -> None:
    index = HashIndex(1)
    slots, _ = index.insert(np.array([[10], [20], [30]], dtype=np.uint64))
    index.remove(slots[1:2])
    index.rekey(index.keys(index.live_slots()) + np.uint64(1))
    assert index.find(np.array([[11], [20], [21], [31], [10]], dtype=np.uint64)).tolist() == [0, -1, -1, 2, -1]


@pytest.mark.parametrize("width", [0, 1, 2, 5])
def test_one_row_has_the_hash_that_it_has_among_others(width: int) -> None:
    words = np.random.default_rng(width).integers(0, 1 << 64, (300, width), dtype=np.uint64)
    assert [hash_row(row) for row in words.tolist()] == hash_words(words).tolist()


def test_one_at_a_time_is_the_same_as_all_at_once() -> None:
    words = words_of(np.random.default_rng(8), 3000, 2, 40)
    whole, single = HashIndex(2), HashIndex(2)
    slots, is_new = whole.insert(words)
    one_by_one = [single.insert(words[i : i + 1]) for i in range(3000)]
    assert [s.item() for s, _ in one_by_one] == slots.tolist()
    assert [n.item() for _, n in one_by_one] == is_new.tolist()
