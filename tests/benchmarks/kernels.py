"""Times the kernels on one core and prints a table: `python tests/benchmarks/kernels.py [--large] [word ...]`.

Words choose the benchmarks whose name contains one of them; `--large` adds states of 10,000,000 keys. Shown is the
best of a few repetitions, but the mean for what changes state ("mean"), so that merges, rebuilds and compaction
count. Nothing is asserted: a benchmark is never a timed test.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from runtime.kernels.block_lists import BlockLists
from runtime.kernels.cancel import consolidate
from runtime.kernels.columns import ColumnStore
from runtime.kernels.grouping import group_ids
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.indexed import add_at, least_at
from runtime.kernels.key_encoding import KeyEncoder
from runtime.kernels.sort import sort_indices
from runtime.kernels.sorted_runs import SortedRuns

BATCH = 65_536
STATE = 1_000_000
Result = tuple[str, float, str]


def timed(work: Callable[[], object], repeat: int = 5) -> float:
    """The best wall time of a few repetitions, in milliseconds."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best * 1000


def averaged(work: Callable[[], object], repeat: int) -> float:
    """The mean wall time of one repetition, in milliseconds."""
    start = time.perf_counter()
    for _ in range(repeat):
        work()
    return (time.perf_counter() - start) * 1000 / repeat


def filled_index(keys: np.ndarray) -> HashIndex:
    index = HashIndex(keys.shape[1])
    for start in range(0, len(keys), BATCH):
        index.insert(keys[start : start + BATCH])
    return index


def hash_index(size: int) -> Iterator[Result]:
    rng = np.random.default_rng(1)
    shuffle = timed(lambda: rng.permutation(size))
    for width in (1, 2):
        keys = rng.integers(0, 2**62, (size, width)).astype(np.uint64)
        took = timed(lambda k=keys: filled_index(k), 1 + 2 * (size <= STATE))
        yield f"hash index, width {width}: {size:,} inserts", took, ""
        index = filled_index(keys)
        known = keys[rng.integers(0, size, BATCH)]
        absent = rng.integers(0, 2**62, (BATCH, width)).astype(np.uint64)
        took = timed(lambda i=index, k=known: i.find(k))
        yield f"hash index, width {width}: 65,536 look-ups, present, in {size:,}", took, ""
        note = f"{index.nbytes / size:.0f} bytes a key"
        took = timed(lambda i=index, k=absent: i.find(k))
        yield f"hash index, width {width}: 65,536 look-ups, absent, in {size:,}", took, note
        one = known[:1]
        yield f"hash index, width {width}: 1 look-up in {size:,}", timed(lambda i=index, k=one: i.find(k), 50), ""

        def replace(i: HashIndex = index, keys: np.ndarray = keys) -> None:
            k = keys[rng.permutation(size)[:BATCH]]
            i.remove(i.find(k))
            i.insert(k)

        took = averaged(replace, 30) - shuffle
        yield f"hash index, width {width}: remove and insert 65,536 in {size:,}", took, "mean"


def encoding() -> Iterator[Result]:
    rng = np.random.default_rng(2)
    numbers = pa.array(rng.integers(0, STATE, BATCH))
    names = pa.array([f"customer-{i:09d}" for i in rng.integers(0, STATE, BATCH)])
    urls = pa.array(
        [f"https://example.org/a/path/to/page-no/{i:09d}?ref=stream" for i in rng.integers(0, STATE, BATCH)]
    )
    yield "key words: 65,536 BIGINT NOT NULL", timed(lambda: KeyEncoder([pa.int64()], [False]).encode([numbers])), ""
    for label, column in (("18", names), ("56", urls)):
        encoder = KeyEncoder([pa.string()])
        encoder.encode([column])
        took = timed(lambda c=column: KeyEncoder([c.type]).encode([c]))
        yield f"key words: 65,536 strings of {label} bytes, new", took, ""
        yield f"key words: 65,536 strings of {label} bytes, known", timed(lambda e=encoder, c=column: e.encode([c])), ""
        yield f"key words: 65,536 strings of {label} bytes, probe", timed(lambda e=encoder, c=column: e.probe([c])), ""
    one = names.slice(0, 1)
    encoder = KeyEncoder([pa.string()])
    yield "key words: 1 string", timed(lambda: encoder.encode([one]), 50), ""
    yield "stable hash of 65,536 strings of 18 bytes", timed(lambda: encoder.stable_hash([names])), ""


def columns() -> Iterator[Result]:
    rng = np.random.default_rng(3)
    names = pa.array([f"customer-{i:09d}" for i in range(BATCH)])
    numbers = pa.array(rng.integers(0, STATE, BATCH))
    lists = pa.array([[i, i + 1] for i in range(BATCH)])
    slots = rng.permutation(STATE)[:BATCH]
    for label, column in (("BIGINT", numbers), ("18-byte STRING", names), ("ARRAY", lists)):
        store = ColumnStore([column.type])
        for start in range(0, STATE, BATCH):
            store.put(np.arange(start, start + BATCH), [column])
        took = averaged(lambda s=store, c=column: s.put(slots, [c]), 60)
        yield f"column store: put 65,536 {label} over others in 1,000,000", took, "mean"
        note = f"{store.nbytes / STATE:.0f} bytes a row"
        yield f"column store: take 65,536 {label} from 1,000,000", timed(lambda s=store: s.take(slots)), note
        yield f"column store: take 1 {label} from 1,000,000", timed(lambda s=store: s.take(slots[:1]), 50), ""


def block_lists() -> Iterator[Result]:
    rng = np.random.default_rng(4)
    shuffle = timed(lambda: rng.permutation(STATE))
    for keys_in_all in (STATE, 20_000):
        keys = rng.integers(0, keys_in_all, STATE)

        def fill(k: np.ndarray = keys) -> BlockLists:
            lists = BlockLists()
            for start in range(0, STATE, BATCH):
                lists.append(k[start : start + BATCH], np.arange(start, min(start + BATCH, STATE)))
            return lists

        label = f"block lists, {STATE // keys_in_all} a key"
        yield f"{label}: append 1,000,000", timed(fill, 2), ""
        lists = fill()
        asked = rng.integers(0, keys_in_all, BATCH if keys_in_all == STATE else BATCH // 16)
        found = len(lists.probe(asked)[1])
        took = timed(lambda b=lists, a=asked: b.probe(a))
        yield f"{label}: probe {len(asked):,} keys in 1,000,000 rows", took, f"{found:,} pairs"

        def replace(b: BlockLists = lists, keys: np.ndarray = keys) -> None:
            v = rng.permutation(STATE)[:BATCH]
            b.remove(keys[v], v)
            b.append(keys[v], v)

        took = averaged(replace, 30) - shuffle
        yield f"{label}: remove and append 65,536 in 1,000,000", took, f"mean, {lists.nbytes / STATE:.0f} bytes a row"


def sorted_runs() -> Iterator[Result]:
    rng = np.random.default_rng(5)
    shuffle = timed(lambda: rng.permutation(STATE))
    words = rng.integers(0, 2**62, (STATE, 1)).astype(np.uint64)
    partitions = rng.integers(0, 20_000, STATE)

    def fill() -> SortedRuns:
        runs = SortedRuns()
        for start in range(0, STATE, BATCH):
            end = min(start + BATCH, STATE)
            runs.insert(partitions[start:end], words[start:end], None, np.arange(start, end))
        return runs

    label = "sorted runs, 20,000 partitions"
    yield f"{label}: insert 1,000,000", timed(fill, 2), ""
    runs = fill()
    asked = np.arange(10_000)
    took = timed(lambda: runs.first(asked, 10))
    yield f"{label}: first 10 of 10,000 in 1,000,000", took, f"{runs.nbytes / STATE:.0f} bytes a row"
    bounds = words[:10_000]
    yield f"{label}: floor of 10,000 in 1,000,000", timed(lambda: runs.floor(partitions[:10_000], bounds)), ""
    one = np.array([7])
    yield f"{label}: first 10 of 1 in 1,000,000", timed(lambda: runs.first(one, 10), 20), ""

    def replace() -> None:
        values = rng.permutation(STATE)[:10_000]
        runs.remove(values)
        runs.insert(partitions[values], words[values], None, values)

    yield f"{label}: remove and insert 10,000 in 1,000,000", averaged(replace, 200) - shuffle, "mean"

    def replace_one() -> None:
        for number in rng.integers(0, STATE, 100):
            single = np.array([number])
            runs.remove(single)
            runs.insert(partitions[single], words[single], None, single)
            runs.first(partitions[single], 10)

    yield f"{label}: remove, insert and first 10, 100 epochs of 1 row", averaged(replace_one, 50), "mean"
    queue = SortedRuns()
    times = np.sort(words, axis=0)
    queue.insert(np.zeros(STATE, dtype=np.int64), words, None, np.arange(STATE))
    steps = iter(times[::1000])
    took = averaged(lambda: queue.pop_below(0, next(steps)), 900)
    yield "sorted runs as timers: pop 1,000 of 1,000,000", took, "mean"


def batches() -> Iterator[Result]:
    rng = np.random.default_rng(6)
    few = rng.integers(0, 20_000, (BATCH, 1)).astype(np.uint64)
    wide = rng.integers(0, 2**62, (20_000, 2)).astype(np.uint64)[few[:, 0].astype(np.int64)]
    values = rng.integers(-100, 100, BATCH)
    yield "group 65,536 rows into 20,000, dense integers", timed(lambda: group_ids(few)), ""
    yield "group 65,536 rows into 20,000, two random words", timed(lambda: group_ids(wide)), ""
    _, group = group_ids(few)
    totals = np.zeros(20_000, np.int64)
    yield "add 65,536 integers to 20,000 sums", timed(lambda: add_at(totals, group, values)), ""
    yield "lower 20,000 integers to the least of 65,536", timed(lambda: least_at(totals, group, values)), ""
    signs = rng.choice(np.array([-1, 1], dtype=np.int8), BATCH)
    yield "consolidate 65,536 changes of 20,000 rows", timed(lambda: consolidate(wide, signs)), ""
    numbers = pa.array(rng.integers(0, 2**40, BATCH))
    names = pa.array([f"customer-{i:09d}" for i in rng.integers(0, STATE, BATCH)])
    yield "sort 65,536 BIGINT", timed(lambda: sort_indices([numbers], [False], [False])), ""
    took = timed(lambda: sort_indices([names, numbers], [False, True], [False, True]))
    yield "sort 65,536 by STRING, BIGINT", took, ""


def main() -> None:
    arguments = sys.argv[1:]
    large = "--large" in arguments
    chosen = [a for a in arguments if not a.startswith("--")]
    suites: list[tuple[str, Callable[[], Iterator[Result]]]] = [
        ("hash_index", lambda: hash_index(STATE)),
        ("encoding", encoding),
        ("columns", columns),
        ("block_lists", block_lists),
        ("sorted_runs", sorted_runs),
        ("batches", batches),
    ]
    if large:
        suites.append(("large", lambda: hash_index(10 * STATE)))
    for name, suite in suites:
        if not chosen or any(word in name for word in chosen):
            for label, milliseconds, note in suite():
                print(f"{label:<76}{milliseconds:>10.3f} ms   {note}", flush=True)


if __name__ == "__main__":
    main()
