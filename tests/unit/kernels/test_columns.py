"""ColumnStore and SlotAllocator against dicts and sets."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pyarrow as pa

from runtime.kernels.columns import ColumnStore, SlotAllocator

TYPES: list[pa.DataType] = [
    pa.int64(),
    pa.bool_(),
    pa.float32(),
    pa.decimal128(38, 4),
    pa.timestamp("us", tz="UTC"),
    pa.date32(),
    pa.string(),
    pa.binary(),
    pa.list_(pa.string()),
    pa.struct([("a", pa.int16()), ("b", pa.string())]),
    pa.map_(pa.string(), pa.int32()),
    pa.null(),
    pa.time32("ms"),
    pa.duration("ms"),
    pa.large_string(),
]


def row(rng: np.random.Generator) -> list[object]:
    n = int(rng.integers(0, 1000))
    text = "é" * (n % 7) + str(n)
    moment = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=n)
    whole: list[object] = [
        n,
        n % 2 == 0,
        n / 2,
        decimal.Decimal(n).scaleb(-4),
        moment,
        moment.date(),
        text,
        text.encode(),
        [text, None][: n % 3],
        {"a": n, "b": None if n % 3 else text},
        [(text, n)] * (n % 2),
        None,
        datetime.time(n % 24),
        datetime.timedelta(seconds=n),
        text,
    ]
    return [None if rng.random() < 0.15 else value for value in whole]


def test_random_puts_and_frees_agree_with_a_dict() -> None:
    rng = np.random.default_rng(0)
    store = ColumnStore(TYPES)
    model: dict[int, list[object]] = {}
    for _ in range(80):
        slots = rng.permutation(300)[: int(rng.integers(1, 60))]
        if rng.random() < 0.7:
            rows = [row(rng) for _ in slots]
            store.put(slots, [pa.array([r[i] for r in rows], type=t) for i, t in enumerate(TYPES)])
            model.update(zip(slots.tolist(), rows, strict=True))
        else:
            gone = [s for s in slots.tolist() if s in model]
            store.free(np.array(gone, dtype=np.int64))
            for slot in gone:
                del model[slot]
        asked = [*rng.choice(np.array([*model, -1]), 40).tolist()]
        taken = store.take(np.array(asked))
        for i, type_ in enumerate(TYPES):
            assert taken[i].type == type_
            taken[i].validate(full=True)
            assert taken[i].to_pylist() == [model[s][i] if s >= 0 else None for s in asked]
            assert store.take_column(i, np.array(asked)).equals(taken[i])


def test_garbage_is_reclaimed() -> None:
    store = ColumnStore([pa.string(), pa.list_(pa.int64())])
    slots = np.arange(2000)
    sizes = []
    for step in range(60):
        texts = pa.array([f"{step}-{i}" + "x" * 50 for i in range(2000)])
        lists = pa.array([[i, step] for i in range(2000)])
        store.put(slots, [texts, lists])
        sizes.append(store.nbytes)
    assert max(sizes) < 6 * sizes[0]
    assert store.take(np.array([3]))[0].to_pylist() == ["59-3" + "x" * 50]
    assert store.take(np.array([3]))[1].to_pylist() == [[3, 59]]


def test_slices_and_chunks_are_stored_by_value() -> None:
    store = ColumnStore([pa.string(), pa.bool_(), pa.int64()])
    texts = pa.array(["a", None, "ccc", "dd", None, "f"]).slice(1, 4)
    flags = pa.chunked_array([[True, None], [False, True]])
    store.put(np.array([4, 0, 2, 9]), [texts, flags, pa.array([7, 8, None, 1, 2]).slice(1)])
    got = [column.to_pylist() for column in store.take(np.array([9, 2, 0, 4]))]
    assert got == [[None, "dd", "ccc", None], [True, False, None, True], [2, 1, None, 8]]


def test_allocator_reuses_slots() -> None:
    rng = np.random.default_rng(1)
    slots = SlotAllocator()
    live: set[int] = set()
    peak = 0
    for _ in range(200):
        if rng.random() < 0.55:
            fresh = slots.allocate(int(rng.integers(0, 20))).tolist()
            assert len(set(fresh)) == len(fresh) and not live & set(fresh)
            live |= set(fresh)
        else:
            gone = rng.permutation(np.array(sorted(live), dtype=np.int64))[:10]
            slots.free(gone)
            live -= set(gone.tolist())
        peak = max(peak, len(live))
        assert len(slots) == len(live) and slots.high == peak
        assert set(slots.free_slots().tolist()) == set(range(slots.high)) - live


def test_many_rows_are_read_the_same_whatever_their_order() -> None:
    rng = np.random.default_rng(3)
    for rewritten in (0, 500):
        store = ColumnStore([pa.int64(), pa.string(), pa.bool_(), pa.string()])
        model: dict[int, tuple[object, ...]] = {}

        def put(slots: np.ndarray, nulls: bool, of: ColumnStore, known: dict[int, tuple[object, ...]]) -> None:
            texts = [None if nulls and i % 7 == 0 else f"{i}-{s}" for i, s in enumerate(slots.tolist())]
            flags = [None if i % 5 == 0 else i % 2 == 0 for i in range(len(slots))]
            others = [f"x{s}" * (s % 4) for s in slots.tolist()]
            of.put(slots, [pa.array(slots), pa.array(texts), pa.array(flags), pa.array(others)])
            known.update(zip(slots.tolist(), zip(slots.tolist(), texts, flags, others, strict=True), strict=True))

        for start in range(0, 9000, 3000):
            put(np.arange(start, start + 3000), False, store, model)
        if rewritten:
            put(rng.permutation(9000)[:rewritten], True, store, model)
            put(rng.permutation(9000)[:rewritten], False, store, model)
        sparse = np.sort(rng.permutation(9000)[:1500])
        for slots in (np.arange(9000), np.arange(100, 4000), sparse, rng.permutation(9000), np.array([4])):
            ordered = store.reading_order(slots)
            assert sorted(ordered.tolist()) == sorted(slots.tolist())
            for asked in (slots, ordered):
                taken = store.take(asked)
                for array in taken:
                    array.validate(full=True)
                assert list(zip(*(a.to_pylist() for a in taken), strict=True)) == [model[s] for s in asked.tolist()]
        before = store.take(np.arange(9000))[1].to_pylist()
        kept = store.take(np.arange(9000))
        put(np.arange(9000), False, store, model)
        assert kept[1].to_pylist() == before, "what was read is no view of what changes"


def test_strings_in_order_of_slots_stay_readable_whatever_comes_after() -> None:
    texts = [f"{i}-" + "ab" * (i % 5) for i in range(40)]
    later = {
        "put": (np.array([3, 40]), ["new", "last"]),
        "null": (np.array([40, 41]), [None, "last"]),
        "gap": (np.array([45]), ["far"]),
    }
    for slots, values in later.values():
        store, model = ColumnStore([pa.string()]), dict(enumerate(texts))
        for start in range(0, 40, 8):
            store.put(np.arange(start, start + 8), [pa.array(texts[start : start + 8])])
        asked = np.array([39, -1, 0, 17, 17])
        assert store.take(asked)[0].to_pylist() == [model.get(s) for s in asked.tolist()]
        store.put(slots, [pa.array(values)])
        model.update(zip(slots.tolist(), values, strict=True))
        store.free(np.array([5, 6]))
        store.put(np.array([6]), [pa.array(["again"])])
        model[6] = "again"
        asked = np.array([s for s in model if s != 5])
        assert store.take(asked)[0].to_pylist() == [model[s] for s in asked.tolist()]


def test_strings_go_in_and_out_in_the_large_types() -> None:
    """Of more than 2 GB there is no `string`: so they are saved, and so they come back."""
    store = ColumnStore([pa.string(), pa.struct([("a", pa.string())]), pa.binary()])
    texts, nested = pa.array(["x", None, "zz"], pa.large_string()), pa.array([{"a": "1"}, None, {"a": None}])
    store.put(np.arange(3), [texts, nested, pa.chunked_array([["a"], [None, "c"]], pa.large_binary())])
    for slots in (np.arange(3), np.array([2, 0, 1])):
        wide, exact = store.take(slots, wide=True), store.take(slots)
        assert [c.type for c in wide] == [pa.large_string(), store.types[1], pa.large_binary()]
        assert [c.type for c in exact] == store.types == [store.take_column(i, slots).type for i in range(3)]
        assert [c.to_pylist() for c in wide] == [c.to_pylist() for c in exact]
    assert exact[0].to_pylist() == ["zz", "x", None]
