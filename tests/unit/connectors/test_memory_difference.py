"""The changes from one bag of rows to another."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.memory import MemoryTable
from connectors.memory.difference import difference
from runtime.core.changelog import ChangelogBatch
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, STRING

SCHEMA = Schema.of(("a", BIGINT), ("b", STRING))
Rows = list[tuple[int | None, str | None]]
ROWS = st.lists(st.tuples(st.sampled_from([None, 0, 1, 2]), st.sampled_from([None, "", "x"])), max_size=30)


def table(rows: Rows) -> pa.Table:
    arrays = [pa.array([r[i] for r in rows], f.type.arrow) for i, f in enumerate(SCHEMA)]
    return pa.Table.from_arrays(arrays, names=list(SCHEMA.names))


def bag(rows: Rows) -> MemoryTable:
    made = MemoryTable("bag", SCHEMA)
    for batch in table(rows).to_batches():
        made.apply(ChangelogBatch(batch))
    made.publish()
    return made


def counted(rows: pa.Table | pa.RecordBatch) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r.values()) for r in rows.to_pylist())


@settings(deadline=None)
@given(ROWS, ROWS)
def test_the_changes_lead_from_one_to_the_other_and_there_are_no_others(before: Rows, after: Rows) -> None:
    changes = difference(table(before), table(after))
    signs = changes.signs()
    gone = counted(changes.filter(signs < 0).rows) if len(changes) else Counter()
    come = counted(changes.filter(signs > 0).rows) if len(changes) else Counter()
    assert (gone, come) == (Counter(before) - Counter(after), Counter(after) - Counter(before))


@settings(deadline=None)
@given(ROWS, ROWS, ROWS, st.booleans())
def test_followers_of_a_table_that_becomes_another_hear_what_differs(
    before: Rows, after: Rows, later: Rows, gone: bool
) -> None:
    one, other = bag(before), bag(after)
    reader = one.follow()
    one.become(other)
    one.publish()
    for batch in table(later).to_batches():
        one.apply(ChangelogBatch(batch))
    if gone and after:
        one.apply(difference(table(after), table([])))
    one.publish()
    heard: Counter[tuple[object, ...]] = Counter()
    while (batch := reader.poll(1000)) is not None and len(batch):
        for row, sign in zip(batch.rows.to_pylist(), batch.signs().tolist(), strict=True):
            heard[tuple(row.values())] += sign
    expected = Counter(later) + (Counter() if gone else Counter(after))
    assert +heard == counted(one.contents()) == expected
    assert min(heard.values(), default=0) >= 0


def test_values_of_zero_are_told_apart() -> None:
    columns = pa.schema([("a", pa.float64())])
    changes = difference(
        pa.Table.from_pylist([{"a": 0.0}], schema=columns), pa.Table.from_pylist([{"a": -0.0}], schema=columns)
    )
    assert [str(r["a"]) for r in changes.rows.to_pylist()] == ["0.0", "-0.0"]


@pytest.mark.parametrize("rows", [[], [(1, "x")]])
def test_nothing_differs_between_a_table_and_itself(rows: Rows) -> None:
    assert len(difference(table(rows), table(rows))) == 0
