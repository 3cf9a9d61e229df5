"""Kernels that are given indexes, entries and sizes that no caller gives: an internal error or a number, and nothing
beyond the arrays is written. The sanitizers (`make sanitize`) see what is only read."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.core.errors import InternalError
from runtime.kernels.checksum import crc32
from runtime.kernels.native import Kernel
from tests.unit.kernels.avro_calls import of_avro
from tests.unit.kernels.conftest import handles
from tests.unit.kernels.json_calls import of_objects
from tests.unit.kernels.match_calls import of_match, of_paths
from tests.unit.kernels.proto_calls import of_protobuf
from tests.unit.kernels.test_framing import of_frames
from tests.unit.kernels.test_native import of_index, of_lists, of_ranks, of_slots, of_strings, of_words
from tests.unit.kernels.variant_calls import of_variants

Call = tuple["np.ndarray | int", ...]

HOSTILE = np.array([-1, -2, -3, 1 << 31, 1 << 40, 1 << 62, -(1 << 62), (1 << 63) - 1, -(1 << 63)])
GUARD = 64

INDEXES = {
    "greatest_rows": [0],
    "index_settle": [6, 7, 8],
    "put_at": [1],
    "fill_at": [1],
    "add_integers_at": [1],
    "add_signs_at": [1],
    "add_floats_at": [1],
    "count_at": [1],
    "least_at": [1],
    "greatest_at": [1],
    "mark_at": [1],
    "append_to_lists": [0, 3, 4, 5, 10, 11, 12],
    "expand_ranges": [1],
    "contenders": [0],
    "radix_sort": [1],
    "hash_strings": [0],
    "same_strings": [2, 3],
    "copy_strings": [3],
    "match_walk": [1],
    "match_paths": [1],
    "parse_variants": [1],
    "variant_members": [1, 3],
    "variant_elements": [1],
    "variant_parts": [1],
    "avro_read": [4],
    "avro_write": [2],
    "proto_read": [4],
    "proto_write": [2],
    "frame_heads": [0],
    "frame_values": [0, 3],
    "delimit_values": [0, 3],
}
"""The arguments that are indexes in every item: none of them may be outside."""

LIMITS = {"contenders": [3], "string_offsets": [1], "copy_strings": [2]}
"""Those that may be below 0, for none, but not too large."""

FLOORS = {"append_to_lists": [1], "index_settle": [5]}
"""Those that may be any number from 0 on."""


@pytest.fixture
def calls(kernels: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Kernel, list[Call]]]:
    """Of each kernel some calls that the engine's own code makes."""
    if kernels == "numpy":
        return {}
    found: dict[str, tuple[Kernel, list[Call]]] = {}
    true_call = Kernel.__call__

    def noting(kernel: Kernel, *given: np.ndarray | int) -> int:
        noted = found.setdefault(kernel.name, (kernel, []))[1]
        if len(noted) < 12 and all(isinstance(value, int) or value.size < 10_000 for value in given):
            noted.append(tuple(value if isinstance(value, int) else value.copy() for value in given))
        return true_call(kernel, *given)

    with monkeypatch.context() as patched:
        patched.setattr(Kernel, "__call__", noting)
        for rows in (70, 300):
            for kind in (
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
                of_frames,
            ):
                kind(np.random.default_rng(rows), rows)
        of_index(np.random.default_rng(2), 1000)
        crc32(bytes(4099))
    return found


def guarded(given: Call) -> tuple[Call, list[np.ndarray]]:
    """The arrays amid others of the same kind, so that a write beyond them is seen."""
    arrays: list[np.ndarray | int] = []
    wholes: list[np.ndarray] = []
    for value in given:
        if isinstance(value, int):
            arrays.append(value)
            continue
        whole = np.full(value.nbytes + 2 * GUARD, 0xA5, np.uint8)
        array = whole[GUARD : GUARD + value.nbytes].view(value.dtype).reshape(value.shape)
        array[...] = value
        arrays.append(array)
        wholes.append(whole)
    return tuple(arrays), wholes


def spoil(rng: np.random.Generator, given: Call) -> None:
    """Some items of one of the arrays of words or numbers become hostile."""
    arrays = [
        v for v in given if isinstance(v, np.ndarray) and v.dtype.itemsize == 8 and v.dtype.kind in "iu" and v.size
    ]
    if not arrays:
        return
    array = arrays[rng.integers(len(arrays))].reshape(-1)
    places = rng.integers(0, len(array), rng.integers(1, 4))
    choices = np.concatenate((HOSTILE, [len(array), max(v.size for v in arrays)]))
    array[places] = rng.choice(choices, len(places)).view(array.dtype)


def test_every_kernel_is_tried(calls: dict[str, tuple[Kernel, list[Call]]], kernels: str) -> None:
    made = {value.name for module, name in handles() for value in [getattr(module, name)]}
    assert set(calls) == made - {"has_crc32"} and all(noted for _, noted in calls.values())
    assert kernels == "numpy" or made >= set(INDEXES)


def test_a_spoiled_array_does_no_harm(calls: dict[str, tuple[Kernel, list[Call]]], kernels: str) -> None:
    rng = np.random.default_rng(0)
    refused = 0
    for kernel, noted in calls.values():
        for trial in range(300):
            given = noted[trial % len(noted)]
            if trial % 2:
                # As large as they are: the sanitizer sees reads beyond the end.
                arrays, wholes = tuple(v if isinstance(v, int) else v.copy() for v in given), []
            else:
                arrays, wholes = guarded(given)
            spoil(rng, arrays)
            try:
                assert kernel(*arrays) >= 0
            except InternalError:
                refused += 1
            for whole in wholes:
                assert (whole[:GUARD] == 0xA5).all() and (whole[-GUARD:] == 0xA5).all(), kernel.name
    assert kernels == "numpy" or refused > 300


@pytest.mark.parametrize("hostile", [*HOSTILE.tolist(), "one more"])
def test_an_index_outside_is_refused(
    calls: dict[str, tuple[Kernel, list[Call]]], hostile: int | str, kernels: str
) -> None:
    if kernels == "numpy":
        return
    rng = np.random.default_rng(1)
    below = hostile != "one more" and int(hostile) < 0
    for table in (INDEXES, FLOORS if below else LIMITS):
        for name, place in [(name, place) for name, places in table.items() for place in places]:
            if name == "index_settle" and place == 5 and hostile in (-2, -3):
                # The numbers of new keys.
                continue
            kernel, noted = calls[name]
            arrays, _ = guarded(next(call for call in noted if np.size(call[place])))
            array = arrays[place]
            assert isinstance(array, np.ndarray)
            # Beyond each of the arrays, whichever it is that the index is of.
            beyond = max(v.size for v in arrays if isinstance(v, np.ndarray)) + 1
            array.reshape(-1)[rng.choice(touched(name, place, arrays))] = beyond if hostile == "one more" else hostile
            with pytest.raises(InternalError, match="outside|sizes"):
                kernel(*arrays)


def touched(name: str, place: int, arrays: Call) -> np.ndarray:
    """The items of an array that the call looks at."""
    array = arrays[place]
    assert isinstance(array, np.ndarray)
    if name == "contenders" and place == 3:
        partitions, depth = arrays[0], arrays[4]
        assert isinstance(partitions, np.ndarray) and isinstance(depth, int)
        return (partitions + 1) * depth - 1
    if name == "append_to_lists" and place in (4, 5):
        keys = arrays[0]
        assert isinstance(keys, np.ndarray)
        return keys[:1]
    if name == "index_settle":
        if place == 5:
            slots = arrays[5]
            assert isinstance(slots, np.ndarray)
            return np.flatnonzero(slots < 0)
        given = arrays[8]
        assert isinstance(given, np.ndarray)
        return np.arange(len(given))
    if name == "copy_strings" and place == 3:
        places = arrays[2]
        assert isinstance(places, np.ndarray)
        return np.flatnonzero(places >= 0)
    return np.arange(array.size)


@pytest.mark.parametrize("change", ["shorter", "longer", "width"])
def test_sizes_that_do_not_fit_are_refused(
    calls: dict[str, tuple[Kernel, list[Call]]], change: str, kernels: str
) -> None:
    rng = np.random.default_rng(2)
    for kernel, noted in calls.values():
        for given in noted:
            for place, value in enumerate(given):
                arrays = list(guarded(given)[0])
                if isinstance(value, int):
                    if change != "width":
                        continue
                    arrays[place] = int(rng.choice(HOSTILE))
                elif change == "shorter":
                    arrays[place] = value.reshape(-1)[: value.size // 2].copy()
                elif change == "longer":
                    arrays[place] = np.concatenate((value.reshape(-1), value.reshape(-1)[:1]))
                else:
                    continue
                try:
                    assert kernel(*arrays) >= 0
                except InternalError:
                    pass


def test_types_and_layout_are_checked(calls: dict[str, tuple[Kernel, list[Call]]], kernels: str) -> None:
    if kernels == "numpy":
        return
    put, add = calls["put_at"][0], calls["add_integers_at"][0]
    slots, numbers = np.arange(70), np.arange(140)
    with pytest.raises(InternalError, match="got an array of int32 for one of int64"):
        put(np.zeros(70), slots.astype(np.int32), np.zeros(70), 8)
    fixed = np.zeros(70, np.int64)
    fixed.flags.writeable = False
    for target in (fixed, np.zeros(140, np.int64)[::2], np.zeros(70 * 8 + 1, np.uint8)[1:].view(np.int64)):
        with pytest.raises(InternalError, match="cannot write"):
            add(target, slots, slots)
    sums = np.zeros(70, np.int64)
    add(sums, slots, numbers[::2])
    assert (sums == numbers[::2]).all()
