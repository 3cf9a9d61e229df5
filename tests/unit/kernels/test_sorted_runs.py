"""SortedRuns against a sorted Python list."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from runtime.core.errors import InternalError
from runtime.kernels.order_words import OrderEncoder
from runtime.kernels.sorted_runs import SortedRuns

Entry = tuple[int, tuple[int, ...], int, int]


def in_order(model: dict[int, Entry], partition: int) -> list[Entry]:
    return sorted(e for e in model.values() if e[0] == partition)


def pairs(answer: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int]]:
    return list(zip(answer[0].tolist(), answer[1].tolist(), strict=True))


def check_reads(
    rng: np.random.Generator, runs: SortedRuns, model: dict[int, Entry], partitions: int, width: int, domain: int
) -> None:
    asked = rng.integers(-1, partitions + 1, 8)
    entries = [in_order(model, p) for p in asked.tolist()]
    limits = rng.integers(0, 6, 8)
    assert pairs(runs.first(asked, limits)) == [(i, e[3]) for i, es in enumerate(entries) for e in es[: limits[i]]]
    assert pairs(runs.first(asked, 2)) == [(i, e[3]) for i, es in enumerate(entries) for e in es[:2]]
    assert pairs(runs.last(asked, limits)) == [
        (i, e[3]) for i, es in enumerate(entries) for e in es[max(0, len(es) - limits[i]) :]
    ]
    low, high = (rng.integers(0, domain, (8, width)).astype(np.uint64) for _ in range(2))
    lows, highs = list(map(tuple, low.tolist())), list(map(tuple, high.tolist()))
    for low_in, high_in in ((True, False), (False, True)):
        expected = [
            (i, e[3])
            for i, es in enumerate(entries)
            for e in es
            if (e[1] >= lows[i] if low_in else e[1] > lows[i]) and (e[1] <= highs[i] if high_in else e[1] < highs[i])
        ]
        assert pairs(runs.range(asked, low, high, low_in, high_in)) == expected
    assert pairs(runs.range(asked, None, None)) == [(i, e[3]) for i, es in enumerate(entries) for e in es]
    for inclusive in (True, False):
        asks = list(zip(entries, lows, strict=True))
        below = [[e[3] for e in es if e[1] < b or (inclusive and e[1] == b)] for es, b in asks]
        above = [[e[3] for e in es if e[1] > b or (inclusive and e[1] == b)] for es, b in asks]
        assert runs.floor(asked, low, inclusive).tolist() == [b[-1] if b else -1 for b in below]
        assert runs.ceiling(asked, low, inclusive).tolist() == [a[0] if a else -1 for a in above]


@pytest.mark.parametrize(
    ("partitions", "width", "domain", "batch", "seed"),
    [
        (1, 1, 50, 30, 0),
        (5, 1, 400, 60, 1),
        (40, 2, 5, 100, 2),
        (3, 3, 2, 20, 3),
        (2, 1, 10**6, 700, 4),
    ],
)
def test_random_operations_agree_with_a_list(partitions: int, width: int, domain: int, batch: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    runs = SortedRuns()
    model: dict[int, Entry] = {}
    seq = 0
    for _ in range(60):
        action = rng.random()
        if action < 0.55:
            count = int(rng.integers(1, batch))
            unused = np.setdiff1d(np.arange(len(model) + count + 5), np.array([*model], dtype=np.int64))
            values = rng.permutation(unused)[:count]
            parts = rng.integers(0, partitions, count)
            words = rng.integers(0, domain, (count, width)).astype(np.uint64)
            # Arrival numbers in any order, negative ones too.
            seqs = rng.permutation(np.arange(seq, seq + count)) - 500
            seq += count
            runs.insert(parts, words, seqs, values)
            for p, w, s, v in zip(parts.tolist(), words.tolist(), seqs.tolist(), values.tolist(), strict=True):
                model[v] = (p, tuple(w), s, v)
        elif action < 0.9:
            gone = rng.permutation(np.array([*model], dtype=np.int64))[: int(rng.integers(0, batch))]
            runs.remove(gone)
            for value in gone.tolist():
                del model[value]
        else:
            bound = rng.integers(0, domain, width).astype(np.uint64)
            expected = [e[3] for e in in_order(model, 0) if e[1] < tuple(bound.tolist())]
            assert runs.pop_below(0, bound).tolist() == expected
            for value in expected:
                del model[value]
        assert len(runs) == len(model)
        kept = np.array([*model], dtype=np.int64)
        assert list(map(tuple, runs.order_words_of(kept).tolist())) == [e[1] for e in model.values()]
        check_reads(rng, runs, model, partitions, width, domain)


def test_a_queue_eaten_from_the_front() -> None:
    """The dead at the head of a partition are skipped, whatever their number."""
    runs = SortedRuns()
    count = 3000
    words = np.arange(count, dtype=np.uint64)[:, None]
    runs.insert(np.zeros(count, dtype=np.int64), words, None, np.arange(count))
    for step in range(count):
        _, head = runs.first(np.zeros(1, dtype=np.int64), 2)
        assert head.tolist() == list(range(step, min(step + 2, count)))
        if step % 2:
            assert runs.floor(np.zeros(1, dtype=np.int64), np.array([[count]], dtype=np.uint64)).tolist() == [count - 1]
        runs.remove(head[:1])
    assert len(runs) == 0


def test_removing_what_is_not_there_is_refused() -> None:
    runs = SortedRuns()
    runs.insert(np.zeros(1, dtype=np.int64), np.zeros((1, 1), dtype=np.uint64), None, np.array([3]))
    for wrong in (0, 7, -1):
        with pytest.raises(InternalError):
            runs.remove(np.array([wrong]))


def test_strings_stay_in_order_while_the_layout_widens() -> None:
    rng = np.random.default_rng(9)
    encoder = OrderEncoder([pa.string(), pa.int32(), pa.binary()], [False, True, True], [True, False, True])
    runs = SortedRuns()
    rows: list[tuple[str | None, int, bytes | None]] = []
    for longest in (3, 9, 9, 30, 17, 80):
        fresh = [
            (
                None if rng.random() < 0.1 else "".join(rng.choice(["a", "\0", "b", "ü"], rng.integers(0, longest))),
                int(rng.integers(-2, 2)),
                None
                if rng.random() < 0.1
                else rng.choice([0, 255], rng.integers(0, longest)).astype(np.uint8).tobytes(),
            )
            for _ in range(30)
        ]
        columns = [
            pa.array(c, type=t)
            for c, t in zip(zip(*fresh, strict=True), [pa.string(), pa.int32(), pa.binary()], strict=True)
        ]
        words = encoder.encode(columns)
        if runs.width is not None and runs.width != words.shape[1]:
            runs.widen(encoder.adapt)
        runs.insert(np.zeros(30, dtype=np.int64), words, None, np.arange(len(rows), len(rows) + 30))
        rows += fresh
        if longest == 9:
            gone = rng.permutation(np.arange(len(rows) - 30, len(rows)))[:10]
            runs.remove(gone)
            for value in gone.tolist():
                rows[value] = ("removed", 0, None)
        _, values = runs.range(np.zeros(1, dtype=np.int64), None, None)
        live = [i for i, r in enumerate(rows) if r[0] != "removed"]
        assert values.tolist() == sorted(live, key=lambda i, rows=rows: (*_sort_key(rows[i]), i))
    assert encoder.generation >= 3


def _sort_key(row: tuple[str | None, int, bytes | None]) -> tuple[object, ...]:
    text, number, data = row
    return (text is None, (text or "").encode(), -number, data is None, _Descending(data or b""))


class _Descending:
    """A key that sorts bytes in descending order."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __lt__(self, other: _Descending) -> bool:
        return other.data < self.data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and other.data == self.data


def test_many_requests_at_once() -> None:
    """Large batches of requests are sorted on the way: the answers come in the order of the requests all the same."""
    rng = np.random.default_rng(11)
    runs = SortedRuns()
    model: dict[int, Entry] = {}
    for start in (0, 3000, 3500):
        count = 3000 if start == 0 else 500
        parts, words = rng.integers(0, 50, count), rng.integers(0, 100, (count, 2)).astype(np.uint64)
        values = np.arange(start, start + count)
        runs.insert(parts, words, None, values)
        for p, w, v in zip(parts.tolist(), words.tolist(), values.tolist(), strict=True):
            model[v] = (p, tuple(w), v, v)
    gone = rng.permutation(4000)[:1500]
    runs.remove(gone)
    for value in gone.tolist():
        del model[value]
    entries = {p: in_order(model, p) for p in range(-1, 52)}
    asked = rng.integers(-1, 52, 400)
    bound = rng.integers(0, 100, (400, 2)).astype(np.uint64)
    requests = list(zip(asked.tolist(), map(tuple, bound.tolist()), strict=True))
    assert pairs(runs.first(asked, 3)) == [(i, e[3]) for i, (p, _) in enumerate(requests) for e in entries[p][:3]]
    below = [[e[3] for e in entries[p] if e[1] < b] for p, b in requests]
    assert runs.floor(asked, bound, inclusive=False).tolist() == [b[-1] if b else -1 for b in below]
    assert pairs(runs.range(asked, None, bound)) == [(i, v) for i, b in enumerate(below) for v in b]
    above = [[e[3] for e in entries[p] if e[1] >= b] for p, b in requests]
    assert pairs(runs.range(asked, bound, None)) == [(i, v) for i, a in enumerate(above) for v in a]
