"""Rows of tables in memory: versions that no later change touches, and the changes of an open epoch over them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import connectors.memory.column_files as column_files
import connectors.memory.rows as memory_rows
from connectors.memory import MemoryTable, OpenChanges
from connectors.memory.column_files import ColumnFiles
from connectors.memory.rows import RowStore
from runtime.core.changelog import DELETE, INSERT, UPDATE_AFTER, ChangelogBatch
from runtime.core.errors import PlanningError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, STRING
from sqlengine.catalog.objects import ObjectPath
from sqlengine.database.open_epoch import OpenEpoch

SCHEMA = Schema.of(("k", BIGINT), ("v", STRING))
PATH = ObjectPath("c", "d", "t")
CHANGES = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from(["a", "b", None]), st.sampled_from([INSERT, INSERT, DELETE])),
    max_size=12,
)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_rows, "_CHUNK_ROWS", 4)
    monkeypatch.setattr(memory_rows, "_DEAD_ROWS", 3)
    monkeypatch.setattr(column_files, "_LEAST_BYTES", 0)


def _batch(rows: list[tuple[int, str | None, int]]) -> ChangelogBatch:
    columns = [pa.array([r[0] for r in rows], pa.int64()), pa.array([r[1] for r in rows], pa.string())]
    return ChangelogBatch.of(columns, SCHEMA, kinds=np.array([r[2] for r in rows], np.int8))


def _rows(table: pa.Table) -> list[tuple[int, str | None]]:
    return [(r["k"], r["v"]) for r in table.to_pylist()]


@pytest.mark.parametrize("files", [None, ColumnFiles()])
@settings(deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=6)))
)
def test_versions_stay_as_they_were(files: ColumnFiles | None, steps: list[tuple[int, list[tuple[int, int]]]]) -> None:
    """Rows appended, counted otherwise, and moved together: each version keeps the rows of its moment."""
    store = RowStore(pa.schema([("n", pa.int64())]), files)
    model: dict[int, int] = {}
    at: dict[int, int] = {}
    versions = []
    fresh = 0
    for size, counts in steps:
        first, _ = store.append(pa.RecordBatch.from_arrays([pa.array(range(fresh, fresh + size))], schema=store.schema))
        for i in range(size):
            model[fresh + i], at[fresh + i] = 1, first + i
        fresh += size
        wanted = {n: count for n, count in counts if n in model}
        store.count(np.array([at[n] for n in wanted], np.int64), np.array(list(wanted.values()), np.int64))
        model.update(wanted)
        if store.is_sparse:
            old, new = store.compact()
            moved = dict(zip(old.tolist(), new.tolist(), strict=True))
            model = {n: c for n, c in model.items() if c}
            at = {n: moved[at[n]] for n in model}
        expected = [n for n in sorted(model) for _ in range(model[n])]
        assert store.num_rows == len(expected)
        found = np.array([at[n] for n in model], np.int64)
        assert store.counts(found).tolist() == list(model.values())
        assert store.take(found[::-1]).column(0).to_pylist() == list(model)[::-1]
        versions.append((store.version(), expected))
        assert store.version() is versions[-1][0]
    for version, expected in versions:
        assert version.rows().column(0).to_pylist() == expected
        assert version.rows([]).num_rows == version.num_rows == len(expected)
        pieces = version.pieces(5)
        assert [n for piece in pieces for n in piece.rows().column(0).to_pylist()] == expected
        assert all(piece.num_rows == piece.rows().num_rows for piece in pieces)
        assert len(pieces) == 1 or (files and all(piece.num_rows >= 5 for piece in pieces[:-1]))


@pytest.mark.parametrize("files", [None, ColumnFiles()])
@settings(deadline=None)
@given(key=st.sampled_from([(), ("k",)]), before=CHANGES, steps=st.lists(CHANGES, max_size=4))
def test_an_epoch_sees_what_it_will_leave_behind(
    files: ColumnFiles | None,
    key: tuple[str, ...],
    before: list[tuple[int, str | None, int]],
    steps: list[list[tuple[int, str | None, int]]],
) -> None:
    """The contents with the changes of an open epoch are the contents after its end; nobody else sees them before."""
    table = MemoryTable("t", SCHEMA, key, files=files)
    table.apply(_batch([(k, v, INSERT) for k, v, _ in before]))
    table.publish()
    there = sorted(_rows(table.contents()), key=str)
    epoch = OpenEpoch()
    changes = epoch.to_write(PATH, table)
    for step in steps:
        possible = []
        held = _rows(changes.contents())
        for k, v, kind in step:
            # A bag gives back only rows that it has.
            if not key and kind == DELETE:
                if (k, v) not in held:
                    continue
                held.remove((k, v))
            elif not key:
                held.append((k, v))
            possible.append((k, v, kind))
        if possible:
            changes.apply(_batch(possible))
        assert changes.snapshot().rows.num_rows == len(changes)
        if not key:
            assert sorted(_rows(changes.contents()), key=str) == sorted(held, key=str)
        assert sorted(_rows(table.contents()), key=str) == there
    seen = _rows(changes.contents())
    epoch.check({PATH: table}.get)
    epoch.apply()
    assert sorted(_rows(table.contents()), key=str) == sorted(seen, key=str)


def test_rows_in_files_have_no_names_there_and_take_no_memory(tmp_path: Path) -> None:
    files = ColumnFiles(str(tmp_path))
    rows = pa.RecordBatch.from_pydict({"n": pa.array(range(100_000)), "t": pa.array(["text"] * 100_000)})
    before = pa.total_allocated_bytes()
    kept = [files.keep(rows) for _ in range(8)]
    assert all(k.equals(rows) for k in kept)
    assert pa.total_allocated_bytes() - before < rows.nbytes // 2
    assert list(tmp_path.iterdir()) == []
    assert not [name for name in os.listdir("/proc/self/fd") if _points_below(name, tmp_path)]


def _points_below(descriptor: str, folder: Path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(folder))
    except OSError:
        return False


def test_rows_stay_in_memory_when_the_disk_takes_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = ColumnFiles(str(tmp_path / "missing"))
    rows = pa.RecordBatch.from_pydict({"n": pa.array(range(100_000))})
    assert files.keep(rows) is rows
    assert files.keep(rows) is rows
    assert caplog.text.count("rows of tables stay in memory") == 1


def _changed_by_both(key: tuple[str, ...], mine: ChangelogBatch, theirs: ChangelogBatch) -> bool:
    """Whether an epoch is refused whose rows somebody else has changed meanwhile."""
    table = MemoryTable("t", SCHEMA, key)
    table.apply(_batch([(1, "a", INSERT), (2, "b", INSERT), (2, "b", INSERT)]))
    table.publish()
    epoch = OpenEpoch()
    epoch.to_write(PATH, table).apply(mine)
    table.apply(theirs)
    table.publish()
    newest = _rows(table.contents())
    try:
        epoch.check({PATH: table}.get)
        epoch.apply()
    except PlanningError as error:
        assert error.code == "E1716"
        assert _rows(table.contents()) == newest
        return True
    return False


@pytest.mark.parametrize(
    ("key", "mine", "theirs", "refused"),
    [
        (("k",), (1, "x", UPDATE_AFTER), (1, "y", UPDATE_AFTER), True),
        (("k",), (1, "x", UPDATE_AFTER), (2, "y", UPDATE_AFTER), False),
        (("k",), (1, "a", DELETE), (1, "a", DELETE), True),
        (("k",), (3, "x", INSERT), (3, "y", INSERT), True),
        ((), (1, "a", DELETE), (1, "a", DELETE), True),
        ((), (1, "a", DELETE), (2, "b", DELETE), False),
        ((), (1, "a", INSERT), (1, "a", INSERT), False),
    ],
)
def test_the_second_who_changes_a_row_is_told(
    key: tuple[str, ...], mine: tuple[int, str, int], theirs: tuple[int, str, int], refused: bool
) -> None:
    assert _changed_by_both(key, _batch([mine]), _batch([theirs])) is refused


def test_changes_of_a_table_that_was_replaced_are_refused() -> None:
    table = MemoryTable("t", SCHEMA)
    epoch = OpenEpoch()
    epoch.to_write(PATH, table).apply(_batch([(1, "a", INSERT)]))
    with pytest.raises(PlanningError, match="itself"):
        epoch.check({PATH: MemoryTable("t", SCHEMA)}.get)
        epoch.apply()
    assert isinstance(epoch.find(PATH), OpenChanges)


def test_rows_that_come_one_at_a_time_are_few_chunks_and_are_copied_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_rows, "_CHUNK_ROWS", 1 << 16)
    copied = 0
    concat = pa.concat_batches

    def counted(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        nonlocal copied
        copied += sum(map(len, batches))
        return concat(batches)

    monkeypatch.setattr(memory_rows.pa, "concat_batches", counted)
    store = RowStore(pa.schema([("a", pa.int64())]))
    for i in range(5000):
        store.append(pa.record_batch({"a": [i]}))
    assert store.version().rows().column("a").to_pylist() == list(range(5000))
    assert len(store.version()._chunks) <= 8 * 5
    assert copied <= 5 * 5000
    for _ in range(20):
        store.append(pa.record_batch({"a": range(20_000)}))
    assert all(len(chunk.rows) <= 1 << 16 for chunk in store.version()._chunks)
    assert len(store.version()._chunks) <= 8 * 5 + 8
