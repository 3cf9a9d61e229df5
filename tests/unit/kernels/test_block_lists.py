"""BlockLists against a dict of lists."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.core.errors import InternalError
from runtime.kernels.block_lists import BlockLists


def check(lists: BlockLists, model: dict[int, list[int]], keys: list[int]) -> None:
    asked = np.array(keys, dtype=np.int64)
    pairs = [(i, v) for i, k in enumerate(keys) for v in model.get(k, [])]
    index, values = lists.probe(asked)
    assert list(zip(index.tolist(), values.tolist(), strict=True)) == pairs
    assert lists.counts(asked).tolist() == [len(model.get(k, [])) for k in keys]
    assert len(lists) == sum(map(len, model.values()))
    chunked: list[tuple[int, int]] = []
    for index, values in lists.probe_chunks(asked, 7):
        assert len(values) <= 7 or len(np.unique(index)) == 1
        chunked += zip(index.tolist(), values.tolist(), strict=True)
    assert chunked == pairs


@pytest.mark.parametrize(("domain", "seed"), [(3, 0), (40, 1), (2000, 2)])
def test_random_operations_agree_with_a_dict(domain: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    lists = BlockLists()
    model: dict[int, list[int]] = {}
    key_of: dict[int, int] = {}
    check(lists, model, [0, -1, 5])
    for _ in range(150):
        action = rng.random()
        if action < 0.5:
            count = int(rng.integers(0, 40))
            unused = np.setdiff1d(np.arange(len(key_of) + count + 5), np.array([*key_of], dtype=np.int64))
            values = rng.permutation(unused)[:count]
            keys = rng.integers(0, domain, len(values))
            lists.append(keys, values)
            for key, value in zip(keys.tolist(), values.tolist(), strict=True):
                model.setdefault(key, []).append(value)
                key_of[value] = key
        elif action < 0.9:
            values = rng.permutation(np.array([*key_of], dtype=np.int64))[: int(rng.integers(0, 40))]
            lists.remove(np.array([key_of[v] for v in values.tolist()], dtype=np.int64), values)
            for value in values.tolist():
                model[key_of.pop(value)].remove(value)
        else:
            keys = rng.integers(-1, domain + 3, 2)
            lists.drop_keys(keys)
            for key in keys.tolist():
                for value in model.pop(key, []):
                    del key_of[value]
        check(lists, model, rng.integers(-1, domain + 5, 30).tolist())


def test_churn_keeps_memory_bounded() -> None:
    lists = BlockLists()
    values = np.arange(4000)
    keys = values % 50
    sizes = []
    for _ in range(100):
        lists.append(keys, values)
        lists.remove(keys, values)
        sizes.append(lists.nbytes)
    assert len(lists) == 0
    assert max(sizes) <= 2 * sizes[0]


def test_one_hot_key_grows_in_blocks() -> None:
    lists = BlockLists()
    for step in range(200):
        lists.append(np.zeros(100, dtype=np.int64), np.arange(step * 100, step * 100 + 100))
    lists.remove(np.zeros(15000, dtype=np.int64), np.arange(15000))
    _, values = lists.probe(np.array([0]))
    assert values.tolist() == list(range(15000, 20000))


def test_removing_what_is_not_there_is_refused() -> None:
    lists = BlockLists()
    lists.append(np.array([0, 1]), np.array([3, 4]))
    lists.remove(np.array([0]), np.array([3]))
    for wrong in (3, 5, 90):
        with pytest.raises(InternalError):
            lists.remove(np.array([0]), np.array([wrong]))


def test_first_removal_after_much_growth_finds_every_value() -> None:
    rng = np.random.default_rng(7)
    lists, keys = BlockLists(), np.empty(0, np.int64)
    for _ in range(20):
        more = rng.integers(0, 30, 50)
        lists.append(more, np.arange(len(keys), len(keys) + 50))
        keys = np.concatenate((keys, more))
    gone = rng.permutation(1000)[:700]
    lists.remove(keys[gone], gone)
    left = np.setdiff1d(np.arange(1000), gone)
    index, values = lists.probe(np.arange(30))
    assert [(k, v) for k, v in zip(index.tolist(), values.tolist(), strict=True)] == sorted(
        (int(keys[v]), int(v)) for v in left
    )


@pytest.mark.parametrize("domain", [1, 7, 3000])
def test_large_batches_in_lists_of_any_length(domain: int) -> None:
    """Lists outgrow several sizes of blocks within one batch, of which dropped keys have left some."""
    rng = np.random.default_rng(domain)
    lists, model, given = BlockLists(), dict[int, list[int]](), 0
    for count in (5000, 3, 20_000, 1, 700, 9000):
        keys = rng.integers(0, domain, count)
        lists.append(keys, np.arange(given, given + count))
        for key, value in zip(keys.tolist(), range(given, given + count), strict=True):
            model.setdefault(key, []).append(value)
        given += count
        check(lists, model, list(range(-1, min(domain, 40))))
        gone = rng.integers(0, domain, 1 + domain // 3)
        lists.drop_keys(gone)
        for key in gone.tolist():
            model.pop(key, None)
    taken = [(k, v) for k, values in model.items() for v in values[::2]]
    lists.remove(
        *(np.array(column, np.int64) for column in zip(*taken, strict=True)) if taken else (np.empty(0, np.int64),) * 2
    )
    for key in model:
        model[key] = model[key][1::2]
    keys = rng.integers(0, domain, 4000)
    lists.append(keys, np.arange(given, given + 4000))
    for key, value in zip(keys.tolist(), range(given, given + 4000), strict=True):
        model.setdefault(key, []).append(value)
    check(lists, model, list(range(min(domain, 40))))


def test_very_many_keys() -> None:
    lists, many = BlockLists(), (1 << 21) + 1
    for size in (many, many + 1, 3 * many):
        lists.append(np.array([size - 1]), np.array([size]))
    index, values = lists.probe(np.array([0, many - 1, 3 * many - 1]))
    assert (index.tolist(), values.tolist()) == ([1, 2], [many, 3 * many])
