"""The kernels in C and their twins in numpy give the same, value by value, for the same calls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runtime.core.errors import InternalError
from runtime.kernels.block_lists import BlockLists
from runtime.kernels.byte_arena import ByteArena
from runtime.kernels.grouping import distinct_rows, greatest_rows, group_ids
from runtime.kernels.grow import expand_ranges
from runtime.kernels.hash_index import HashIndex
from runtime.kernels.hashing import hash_strings, hash_words
from runtime.kernels.indexed import add_at, count_at, greatest_at, least_at, mark_at, put_at, take_at
from runtime.kernels.key_codecs import WordLayout
from runtime.kernels.radix import radix_argsort
from runtime.kernels.ranking import contenders
from tests.unit.kernels.avro_calls import of_avro
from tests.unit.kernels.conftest import handles
from tests.unit.kernels.json_calls import of_objects
from tests.unit.kernels.match_calls import of_match, of_paths
from tests.unit.kernels.proto_calls import of_protobuf
from tests.unit.kernels.variant_calls import of_variants

ROWS = (0, 1, 2, 63, 64, 1000, 70_000)


def words(rng: np.random.Generator, rows: int, width: int, few: bool) -> np.ndarray:
    """Key words of few or of many different rows, not always lying one after the other."""
    found = rng.integers(0, 50 if few else 1 << 62, (rows, 2 * width)).astype(np.uint64)
    return found[:, :width] if rows % 2 else np.ascontiguousarray(found[:, :width])


def strings(rng: np.random.Generator, rows: int) -> pa.Array:
    """Texts from none to forty bytes, many of them equal, with zero bytes among them."""
    found = [bytes(rng.integers(0, 3, rng.integers(0, 40)).astype(np.uint8)) for _ in range(min(rows, 300))]
    return pa.array(found * (rows // 300 + 1), pa.large_binary())[:rows]


def of_words(rng: np.random.Generator, rows: int) -> list[Any]:
    found: list[Any] = []
    for width in (0, 1, 2, 3):
        for few in (True, False):
            given = words(rng, rows, width, few)
            found += [hash_words(given), *group_ids(given)]
            if width:
                found.append(radix_argsort([given[:, i] for i in range(width)]))
    return found


def of_slots(rng: np.random.Generator, rows: int) -> list[Any]:
    found: list[Any] = []
    for size in (10, 100_000):
        slots = rng.integers(0, size, rows)
        found += [distinct_rows(slots), distinct_rows(slots, last=True), greatest_rows(slots, rng.integers(0, 9, rows))]
        for dtype in (np.bool_, np.int8, np.int16, np.int32, np.int64, np.float64):
            target = np.zeros(size, dtype)
            put_at(target, slots, rng.integers(0, 2, rows).astype(dtype))
            put_at(target, slots[: rows // 2], 1)
            found += [target, take_at(target, rng.integers(-3, size + 3, rows))]
        pairs = np.zeros((size, 2), np.uint64)
        put_at(pairs, slots, rng.integers(0, 1 << 60, (rows, 2)).astype(np.uint64))
        found += [pairs, take_at(pairs, slots)]
        flags = rng.random(size) < 0.5
        found += [mark_at(flags, slots, rng.random(rows) < 0.5), flags]
        numbers = rng.integers(-(1 << 63), 1 << 62, rows)
        sums = [np.zeros(size, np.int64) for _ in range(5)]
        add_at(sums[0], slots, numbers)
        add_at(sums[1], slots, np.where(numbers < 0, -1, 1).astype(np.int8))
        count_at(sums[2], slots)
        least_at(sums[3], slots, numbers)
        greatest_at(sums[4], slots, numbers)
        floats = np.zeros(size)
        add_at(floats, slots, rng.normal(size=rows))
        found += [*sums, floats]
    starts, counts = rng.integers(0, 1000, rows), rng.integers(0, 4, rows)
    return [*found, *expand_ranges(starts, counts)]


def of_ranks(rng: np.random.Generator, rows: int) -> list[Any]:
    found: list[Any] = []
    for width in (1, 2):
        best = rng.permutation(600).reshape(200, 3)
        best[:50, 2] = -1
        kept = rng.integers(0, 5, (600, width)).astype(np.uint64)
        found.append(
            contenders(rng.integers(0, 200, rows), rng.integers(0, 5, (rows, width)).astype(np.uint64), best, kept)
        )
    layout = WordLayout([64, 1, 32, 1, 40])
    pieces = [rng.integers(0, 1 << min(size, 62), rows).astype(np.uint64) for size in (64, 1, 32, 1, 40)]
    return [*found, layout.pack(pieces, rows)]


def of_strings(rng: np.random.Generator, rows: int) -> list[Any]:
    arena, given = ByteArena(), strings(rng, rows)
    positions = arena.append(given)
    if not rows:
        return [positions]
    asked = rng.integers(-1, rows, rows)
    other = rng.integers(0, rows, rows)
    part = given[rows // 3 :]
    return [
        hash_strings(given),
        hash_strings(part),
        np.array(arena.take(asked).to_pylist(), object),
        arena.same(positions, given),
        arena.same(other, given),
        arena.same(other[: len(part)], part),
    ]


def of_index(rng: np.random.Generator, rows: int) -> list[Any]:
    found: list[Any] = []
    for width in (0, 1, 3):
        index = HashIndex(width)
        for _ in range(6):
            given = words(rng, rows, width, rng.random() < 0.5)
            found += [*index.insert(given), index.find(words(rng, rows, width, True))]
            slots = np.unique(index.live_slots())
            index.remove(slots[rng.random(len(slots)) < 0.4])
            found.append(index.live_slots())
            found.append(index.keys(found[-1]))
    return found


def of_lists(rng: np.random.Generator, rows: int) -> list[Any]:
    found: list[Any] = []
    lists, high, where = BlockLists(), 0, np.empty(0, np.int64)
    for _ in range(5):
        keys = rng.integers(0, 40 if rng.random() < 0.5 else 100_000, rows)
        lists.append(keys, np.arange(high, high + rows))
        where = np.concatenate((where, keys))
        high += rows
        lost = np.flatnonzero((where >= 0) & (rng.random(high) < 0.3))
        lists.remove(where[lost], lost)
        where[lost] = -1
        found += [*lists.probe(np.arange(-1, 200)), lists.counts(np.arange(-1, 200)), np.array(len(lists))]
    return found


@pytest.mark.parametrize(
    "calls",
    [
        of_words,
        of_slots,
        of_ranks,
        of_strings,
        of_index,
        of_lists,
        of_match,
        of_paths,
        of_variants,
        of_avro,
        of_protobuf,
        of_objects,
    ],
)
@pytest.mark.parametrize("rows", ROWS)
def test_twins(
    calls: Callable[[np.random.Generator, int], list[Any]], rows: int, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernels == "numpy":
        assert not handles()
        return
    in_c = calls(np.random.default_rng(rows), rows)
    assert len(handles()) > 10
    for module, name in handles():
        monkeypatch.setattr(module, name, None)
    for left, right in zip(in_c, calls(np.random.default_rng(rows), rows), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("slot", [-1, 100])
def test_a_slot_outside_is_an_error(slot: int, kernels: str) -> None:
    slots = np.arange(100)
    slots[70] = slot
    # numpy counts places below 0 from the end; slots there have no meaning that anybody relies on.
    refused = slot == 100 or kernels == "c"
    for write in (put_at, add_at, least_at, greatest_at):
        with pytest.raises((IndexError, InternalError)) if refused else nullcontext():
            write(np.zeros(100, np.int64), slots, np.zeros(100, np.int64))
