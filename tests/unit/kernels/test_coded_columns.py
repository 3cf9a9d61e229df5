"""Strings that come as Arrow dictionaries mean what the same strings mean that come one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from runtime.core.changelog import ChangelogBatch, plain_column
from runtime.kernels.columns import ColumnStore
from runtime.kernels.key_encoding import KeyEncoder


def _coded(rng: np.random.Generator, rows: int, nulls: bool) -> pa.DictionaryArray:
    """Few values, two of them equal, one that no row has."""
    values = pa.array(["", "b", "long enough to be seen " * 3, "b", "nobody's", *(f"v{i}" for i in range(rows // 8))])
    codes = rng.integers(0, len(values) - 1, rows)
    codes[codes >= 4] += 1
    mask = rng.random(rows) < 0.2 if nulls else None
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=mask), values)


@pytest.mark.parametrize("nulls", [False, True])
def test_keys_have_the_same_words_and_hashes(nulls: bool) -> None:
    rng = np.random.default_rng(1)
    coded = _coded(rng, 64, nulls)
    plain = plain_column(coded)
    encoder = KeyEncoder([pa.string()])
    words = encoder.encode([coded])
    assert (words == encoder.encode([plain])).all()
    assert encoder.decode(words)[0].equals(plain)
    assert (encoder.stable_hash([coded]) == encoder.stable_hash([plain])).all()
    assert (KeyEncoder([pa.string()]).probe([coded]) == KeyEncoder([pa.string()]).probe([plain])).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_store_gives_back_what_was_put(seed: int) -> None:
    rng = np.random.default_rng(seed)
    store = ColumnStore([pa.string()])
    kept: dict[int, str | None] = {}
    for turn in range(120):
        slots = rng.permutation(400)[: rng.integers(1, 200)]
        given = _coded(rng, len(slots), bool(turn % 3))
        store.put(slots, [given if turn % 4 else plain_column(given)])
        kept.update(zip(slots.tolist(), given.to_pylist(), strict=True))
        gone = np.array([s for s in kept if rng.random() < 0.3], np.int64)
        store.free(gone)
        for slot in gone.tolist():
            del kept[slot]
        live = np.array(sorted(kept), np.int64)
        assert store.take(live)[0].to_pylist() == [kept[s] for s in live.tolist()]
    assert store.nbytes < 400_000


def test_rows_that_only_come_may_be_coded_later() -> None:
    store = ColumnStore([pa.string()])
    store.put(np.arange(3), [pa.array(["a", "b", "c"])])
    store.put(np.arange(3, 7), [pa.array(["d", "e", "d", "e"]).dictionary_encode()])
    store.put(np.arange(7, 9), [pa.array(["f", None])])
    assert store.take(np.arange(9))[0].to_pylist() == ["a", "b", "c", "d", "e", "d", "e", "f", None]


def test_batches_with_and_without_codes_are_put_together() -> None:
    plain, other = pa.array(["a", "b"]), pa.array(["b", "c", "c"]).dictionary_encode()
    batches = [ChangelogBatch(pa.RecordBatch.from_arrays([c], names=["x"])) for c in (plain, other, other)]
    assert ChangelogBatch.concat(batches).decoded().column(0).to_pylist() == ["a", "b", "b", "c", "c", "b", "c", "c"]
    assert ChangelogBatch.concat(batches[1:]).decoded().column(0).to_pylist() == ["b", "c", "c", "b", "c", "c"]
