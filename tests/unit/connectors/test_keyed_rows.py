"""Rows by the values of some columns, against a search through all rows, after random changes."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import connectors.memory.keyed_rows as keyed_rows
from connectors.memory import MemoryTable
from connectors.memory.keyed_rows import KeyedRows
from runtime.core.changelog import DELETE, INSERT, ChangelogBatch
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING

_SCHEMA = Schema.of(("id", INT), ("name", STRING))


def _batch(rows: list[tuple[int | None, str | None]], kinds: list[int]) -> ChangelogBatch:
    columns = [pa.array([r[0] for r in rows], pa.int32()), pa.array([r[1] for r in rows], pa.string())]
    return ChangelogBatch.of(columns, _SCHEMA, np.array(kinds, np.int8))


def _found(index: KeyedRows, keys: list[tuple[int | None, str | None]]) -> list[Counter[tuple[int, str]]]:
    asked = [pa.array([k[i] for k in keys], (pa.int32(), pa.string())[i]) for i in index.columns]
    found = index.find(asked, [0, 1])
    assert found is not None
    at, (ids, names) = found
    answers: list[Counter[tuple[int, str]]] = [Counter() for _ in keys]
    for i, row in zip(at.tolist(), zip(ids.to_pylist(), names.to_pylist()), strict=True):
        answers[i][row] += 1
    return answers


@pytest.mark.parametrize("key", [(), ("id",)])
@pytest.mark.parametrize("columns", [(0,), (1,), (0, 1)])
def test_finds_what_a_search_finds(key: tuple[str, ...], columns: tuple[int, ...]) -> None:
    chance = random.Random(f"{key} {columns}")
    table = MemoryTable("t", _SCHEMA, key)
    index = KeyedRows(table, columns)
    rows: list[tuple[int | None, str | None]] = []
    for step in range(60):
        changed, kinds = [], []
        for _ in range(chance.randrange(6)):
            gone = chance.choice(rows) if rows and chance.random() < 0.4 else None
            new = (chance.choice([1, 2, 3, 4, 5, *([] if key else [None])]), chance.choice(["a", "b", None]))
            if gone is None and key:
                rows = [r for r in rows if r[0] != new[0]]
            if gone is None:
                rows.append(new)
            else:
                rows.remove(gone)
            changed.append(gone or new)
            kinds.append(INSERT if gone is None else DELETE)
        shown = table.version()
        if changed:
            table.apply(_batch(changed, kinds))
        if step == 20:
            # What nobody was shown yet is heard when it is.
            index.fill(shown)
            table.tell(index)
        table.publish()
        if step >= 20 and chance.random() < 0.5:
            keys = [(i, n) for i in (1, 2, 3, 4, 5, 6, None) for n in ("a", "b", "c", None)]
            for asked, answer in zip(keys, _found(index, keys), strict=True):
                wanted = [asked[c] for c in columns]
                expected = Counter(r for r in rows if None not in wanted and [r[c] for c in columns] == wanted)
                assert answer == expected
                assert index.most >= expected.total()


def test_is_worn_by_more_changes_than_it_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_rows, "_PATIENCE", 10)
    table = MemoryTable("t", _SCHEMA, ("id",))
    worn: list[KeyedRows] = []
    index = KeyedRows(table, (0,), worn.append)
    table.tell(index)
    for at in range(3):
        table.apply(_batch([(at * 5 + i, "a") for i in range(5)], [INSERT] * 5))
        table.publish()
    assert worn == [index] and index.worn
    assert index.find([pa.array([1], pa.int32())], [0]) is None
