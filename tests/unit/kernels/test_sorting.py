"""Order words, sorting, grouping and consolidation against Python's own."""

from __future__ import annotations

import datetime
import decimal
import functools
import math

import numpy as np
import pyarrow as pa
import pytest

from runtime.core.errors import UnsupportedError
from runtime.kernels.cancel import consolidate
from runtime.kernels.grouping import distinct_rows, group_ids
from runtime.kernels.order_words import OrderEncoder
from runtime.kernels.sort import run_starts, sort_indices, sort_words

D = decimal.Decimal
DOMAINS: list[tuple[pa.DataType, list[object]]] = [
    (pa.bool_(), [True, False]),
    (pa.int8(), [-128, -1, 0, 127]),
    (pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    (pa.uint64(), [0, 1, 2**64 - 1]),
    (pa.float32(), [-0.0, 0.0, 1.5, -1.5, math.nan, math.inf, -math.inf]),
    (pa.float64(), [-0.0, 0.0, 1e-300, -1e-300, math.nan, math.inf, -math.inf]),
    (pa.decimal128(18, 2), [D("-1.00"), D("0.00"), D("9999999999999999.99"), D("-9999999999999999.99")]),
    (pa.decimal128(38, 0), [D(-1), D(0), D(2**64), D(-(2**64)), D(2**64 + 1), D(10**38 - 1), D(1 - 10**38)]),
    (pa.date32(), [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(2024, 1, 1)]),
    (pa.timestamp("us"), [datetime.datetime(1, 1, 1), datetime.datetime(2024, 1, 1, 0, 0, 0, 1)]),
    (pa.string(), ["", "a", "a\0", "ab", "zebra", "ä", "a" * 8, "a" * 9, "a" * 30]),
    (pa.binary(), [b"", b"\0", b"\xff", b"\xff" * 8, b"\xff" * 9]),
    (
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        [{"x": 1, "y": "b"}, {"x": 1, "y": "a"}, {"x": None, "y": "a"}],
    ),
    (pa.list_(pa.int64()), [[], [1], [1, 2], [None], [None, 1], [-1, 9], [1, None, 3]]),
    (pa.list_(pa.string()), [[], ["a"], ["a", "b"], ["a" * 20], ["", "z"], [None], ["a\0"]]),
    (
        pa.list_(pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
        [[{"x": 1, "y": ["a"]}], [{"x": 1, "y": ["a", "b" * 9]}, {"x": None, "y": None}], [None], [{"x": 1, "y": []}]],
    ),
]


def compare(a: object, b: object, nulls_last: bool, descending: bool) -> int:
    if a is None or b is None:
        return 0 if a is b else (1 if (a is None) == nulls_last else -1)
    if isinstance(a, dict) and isinstance(b, dict):
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list) and isinstance(b, list):
        for x, y in zip(a, b, strict=False):
            order = compare(x, y, nulls_last, descending)
            if order:
                return order
        a, b = len(a), len(b)
    if isinstance(a, float) and isinstance(b, float) and (math.isnan(a) or math.isnan(b)):
        order = math.isnan(a) - math.isnan(b)
    elif isinstance(a, str) and isinstance(b, str):
        order = (a.encode() > b.encode()) - (a.encode() < b.encode())
    else:
        order = (a > b) - (a < b)
    return -order if descending else order


@pytest.mark.parametrize("seed", range(12))
def test_sort_agrees_with_python(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chosen = [DOMAINS[i] for i in ([seed] if seed < 4 else rng.permutation(len(DOMAINS))[:3])]
    rows = [[[*domain, None][rng.integers(0, len(domain) + 1)] for _, domain in chosen] for _ in range(300)]
    descending, nulls_last = (rng.random(3) < 0.5).tolist(), (rng.random(3) < 0.5).tolist()

    def order(i: int, j: int) -> int:
        for a, b, last, down in zip(rows[i], rows[j], nulls_last, descending, strict=False):
            result = compare(a, b, last, down)
            if result:
                return result
        return 0

    columns = [pa.array(c, type=t) for c, (t, _) in zip(zip(*rows, strict=True), chosen, strict=True)]
    got = sort_indices(columns, descending[: len(chosen)], nulls_last[: len(chosen)])
    assert got.tolist() == sorted(range(300), key=functools.cmp_to_key(order))


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda d: str(d[0]))
def test_every_type_sorts(domain: tuple[pa.DataType, list[object]]) -> None:
    type_, values = domain
    both = [None, *values, *reversed(values)]
    for descending in (False, True):
        for nulls_last in (False, True):
            key = functools.cmp_to_key(lambda i, j, d=descending, n=nulls_last: compare(both[i], both[j], n, d))
            got = sort_indices([pa.array(both, type=type_)], [descending], [nulls_last])
            assert got.tolist() == sorted(range(len(both)), key=key)


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda d: str(d[0]))
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_last", [False, True])
def test_words_stay_comparable_when_longer_values_come(
    domain: tuple[pa.DataType, list[object]], descending: bool, nulls_last: bool
) -> None:
    type_, values = domain
    values = [None, *values]
    encoder = OrderEncoder([type_, pa.bool_()], [descending, False], [nulls_last, False])
    words = np.zeros((0, encoder.width), np.uint64)
    for value in values:
        new = encoder.encode([pa.array([value], type=type_), pa.array([True])])
        words = np.concatenate((encoder.adapt(words), new))
    key = functools.cmp_to_key(lambda i, j: compare(values[i], values[j], nulls_last, descending))
    assert sort_words(words).tolist() == sorted(range(len(values)), key=key)


def test_sorting_by_a_map_is_refused() -> None:
    with pytest.raises(UnsupportedError):
        OrderEncoder([pa.list_(pa.map_(pa.int64(), pa.int64()))], [False], [False])


def test_a_huge_sort_value_is_refused() -> None:
    with pytest.raises(UnsupportedError):
        sort_indices([pa.array(["a", "x" * 70_000])], [False], [False])
    with pytest.raises(UnsupportedError):
        sort_indices([pa.array([[1], list(range(5_000))])], [False], [False])


def test_not_null_bigint_is_one_word() -> None:
    assert OrderEncoder([pa.int64()], [False], [False], [False]).width == 1
    assert OrderEncoder([pa.timestamp("us")], [False], [False]).width == 1


@pytest.mark.parametrize(("width", "domain"), [(0, 1), (1, 20), (1, 2**60), (2, 6), (3, 2**60)])
def test_groups_and_runs(width: int, domain: int) -> None:
    rng = np.random.default_rng(domain % 97)
    pool = rng.integers(0, domain, (50, width)).astype(np.uint64)
    words = pool[rng.integers(0, 50, 400)]
    keys = [tuple(r) for r in words.tolist()]
    first, group = group_ids(words)
    seen = list(dict.fromkeys(keys))
    assert first.tolist() == [keys.index(k) for k in seen]
    assert group.tolist() == [seen.index(k) for k in keys]
    assert distinct_rows(group).tolist() == first.tolist()
    assert distinct_rows(group, last=True).tolist() == sorted(399 - keys[::-1].index(k) for k in seen)
    ordered = words[sort_words(words)]
    assert [tuple(r) for r in ordered.tolist()] == sorted(keys)
    runs = run_starts(ordered)
    assert runs.tolist() == [i for i in range(400) if i == 0 or tuple(ordered[i]) != tuple(ordered[i - 1])]
    assert group_ids(words[:0])[0].tolist() == [] and run_starts(words[:0]).tolist() == []


def test_consolidate_agrees_with_a_bag() -> None:
    rng = np.random.default_rng(3)
    for count in (0, 1, 5, 200):
        words = rng.integers(0, 12, (count, 2)).astype(np.uint64)
        signs = rng.choice(np.array([-1, 1], dtype=np.int8), count)
        net: dict[tuple[int, ...], int] = {}
        for key, sign in zip(map(tuple, words.tolist()), signs.tolist(), strict=True):
            net[key] = net.get(key, 0) + sign
        keep, weights = consolidate(words, signs)
        got = {tuple(words[k].tolist()): w for k, w in zip(keep.tolist(), weights.tolist(), strict=True)}
        assert got == {k: w for k, w in net.items() if w}
        assert (np.diff(keep) > 0).all()


def test_consolidate_deletes_before_it_inserts() -> None:
    """One key: A is replaced by B, B by A, A by C. What remains is -A, then +C."""
    rows = np.array([[1], [2], [2], [1], [1], [3]], dtype=np.uint64)
    keep, net = consolidate(rows, np.array([-1, 1, -1, 1, -1, 1]))
    assert keep.tolist() == [0, 5] and net.tolist() == [-1, 1]
