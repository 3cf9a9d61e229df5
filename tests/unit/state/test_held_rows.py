"""Rows that another thread reads while the job goes on: it finds what was there when they were held."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa

from runtime.kernels.columns import ColumnStore, SlotAllocator
from runtime.state.held_rows import HeldRows, RowsInPlace


def test_rows_are_read_as_they_were_while_others_come_and_go() -> None:
    """Rows grow beyond the memory of the arrays, are freed, and texts are put together anew, all in the meantime."""
    rng = np.random.default_rng(5)
    store, allocator = ColumnStore([pa.int64(), pa.string(), pa.bool_()]), SlotAllocator()
    known: dict[int, tuple[int, str | None, bool]] = {}
    numbers = iter(range(10**9))

    def come(count: int) -> None:
        slots = allocator.allocate(count)
        rows = [(n, None if n % 11 == 0 else f"row {n}" * (n % 3), n % 2 == 0) for n in (next(numbers) for _ in slots)]
        store.put(slots, [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), store.types, strict=True)])
        known.update(zip(slots.tolist(), rows, strict=True))

    def go(count: int) -> None:
        slots = rng.permutation(np.array(sorted(known)))[:count]
        store.free(slots)
        allocator.free(slots)
        for slot in slots.tolist():
            del known[slot]

    come(3000)
    for _ in range(6):
        slots = allocator.live_slots()
        assert slots.tolist() == sorted(known)
        expected = {slot: (*row, slot * 7) for slot, row in known.items()}
        held = HeldRows(
            RowsInPlace(store, allocator, lambda s: [pa.array(s * 7)]),
            slots,
            lambda ids, columns: pa.RecordBatch.from_arrays([pa.array(ids), *columns], names=list("sabcd")),
        )
        found: list[pa.RecordBatch] = []
        reader = threading.Thread(target=lambda: [found.extend(held.batches()) for _ in range(3)])  # noqa: B023
        reader.start()
        for _ in range(8):
            come(900)
            go(850)
            assert len(allocator) == len(known)
        reader.join()
        for batch in (*found, *held.batches()):
            batch.validate(full=True)
            columns = [column.to_pylist() for column in batch.columns]
            assert {s: tuple(row) for s, *row in zip(*columns, strict=True)} == expected
        held.release()
        assert allocator.live_slots().tolist() == sorted(known)
    assert allocator.high < 20_000
    assert store.nbytes < 100 * allocator.high
