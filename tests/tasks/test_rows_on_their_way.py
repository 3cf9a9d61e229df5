"""Rows on their way between tasks: who takes those that were read, what a process has without their file, how they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from runtime.core.changelog import ChangelogBatch
from runtime.spi.source import Split
from runtime.tasks import held
from runtime.tasks.filed import Piece, spread
from runtime.tasks.reading import Part
from runtime.tasks.sources import _TasksRead
from runtime.tasks.wire import decode_rows, encode_rows


def piece(name: str, rows: int, task: int) -> Piece:
    return Piece("split", name if rows else "", rows, None, rows, task)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        pytest.param([("a", 100, 1), ("b", 100, 0)], [["b"], ["a"]], id="each where it was read"),
        pytest.param([("a", 100, 1), ("b", 0, 0), ("c", 80, 0)], [["c"], ["a"]], id="without rows"),
        pytest.param([("a", 100, 1)], [[], ["a"]], id="a single one stays"),
        pytest.param([("a", 100, 1), ("b", 100, 1)], [["a"], ["b"]], id="one task has read all"),
        pytest.param([], [[], []], id="none"),
    ],
)
def test_pieces_stay_with_their_reader_unless_one_has_too_many(
    pieces: list[tuple[str, int, int]], expected: list[list[str]]
) -> None:
    assert spread([piece(*given) for given in pieces], 2) == expected


def test_parts_of_a_split_are_read_in_the_order_of_tasks() -> None:
    """Whoever had the split before may be in the middle: the order of tasks is that of rows."""
    reading = _TasksRead(0, cast(Any, None), cast(Any, None), cast(Any, SimpleNamespace()), 4)
    assert reading._tasks_of([Part(Split("a"), None, 1), Part(Split("b"), None, 1)]) == [0, 1]
    assert reading._tasks_of([Part(Split("b"), n, 1) for n in range(4)]) == [0, 1, 2, 3]
    parts = [*(Part(Split("b"), n, 1) for n in range(2)), *(Part(Split("a"), n, 1) for n in range(2))]
    found = reading._tasks_of(parts)
    assert sorted(found) == [0, 1, 2, 3] and found[0] < found[1] and found[2] < found[3]


def batch(rows: int) -> ChangelogBatch:
    return ChangelogBatch(pa.record_batch({"n": pa.array(np.arange(rows))}))


@pytest.fixture
def place() -> Iterator[str]:
    yield "here"
    held.drop("here")


def test_rows_are_at_hand_once_and_the_oldest_go(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = batch(100)
    held.hold(place, "a", first)
    assert held.take(place, "a") is first and held.take(place, "a") is None and held.take("there", "a") is None
    monkeypatch.setattr(held, "MOST_BYTES", 2 * first.nbytes)
    for name in "abc":
        held.hold(place, name, batch(100))
    assert [held.take(place, name) is None for name in "abc"] == [True, False, False]
    held.hold(place, "d", batch(1000))
    assert held.take(place, "d") is None
    held.hold(place, "e", first)
    held.drop(place)
    assert held.take(place, "e") is None


@pytest.mark.parametrize("rows", [0, 1, 7])
def test_a_stream_has_the_size_that_is_made_for_it(rows: int) -> None:
    """Whatever the types are: rows come back, and no byte is left over."""
    texts = pa.array(["a", None, "long" * 20, "", "b", "c", "d"])
    columns: dict[str, pa.Array] = {
        "text": texts,
        "coded": texts.dictionary_encode(),
        "number": pa.array([1, None, 3, 4, 5, 6, 7], pa.int64()),
        "truth": pa.array([True, None, False, True, True, False, None]),
        "decimal": pa.array([None] * 7, pa.decimal128(38, 2)),
        "none": pa.nulls(7),
        "list": pa.array([[1], None, [], [2, 3], [4], [5], [6]], pa.list_(pa.int32())),
        "row": pa.array([{"a": 1, "b": "x"}] * 7),
        "map": pa.array([[("k", 1)]] * 7, pa.map_(pa.string(), pa.int64())),
        "bytes": pa.array([b"x"] * 7, pa.binary()),
    }
    for names in ([*columns], *([name] for name in columns), []):
        given = pa.record_batch({name: columns[name] for name in names}) if names else pa.record_batch({})
        given = given.slice(0, rows)
        data = encode_rows(given)
        assert decode_rows(data).equals(given), names
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, given.schema) as writer:
            writer.write_batch(given)
        assert data.equals(sink.getvalue()), names
