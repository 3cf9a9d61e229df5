"""State tables: which saved column is which, after names and what the engine keeps beside them have changed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.core.schema import Schema
from runtime.core.types import INT
from runtime.plan.state import column_names
from runtime.state.table import SLOT, StateTable


def loaded(columns: list[tuple[str, pa.DataType]], saved: dict[str, pa.Array]) -> list[list[object]]:
    """What a table of these columns is given of rows that were saved under other ones."""
    given: list[pa.Array] = []

    def load(found: list[pa.Array]) -> np.ndarray:
        given.extend(found)
        return np.arange(len(found[0]))

    table = StateTable("t", columns, live=lambda: np.arange(0), read=lambda slots: [], load=load)
    rows = pa.RecordBatch.from_pydict({SLOT: pa.array([4, 7]), **saved})
    table.restore(rows, None, {})
    return [column.to_pylist() for column in given]


NAMED = {"a": pa.array(["x", "y"]), "b": pa.array(["v", "w"])}
TEXT, NUMBER = pa.string(), pa.int64()


def test_columns_keep_their_place_under_other_names() -> None:
    # The name of one is now that of the other.
    assert loaded([("b", TEXT), ("c", TEXT)], NAMED) == [["x", "y"], ["v", "w"]]


def test_what_is_kept_beside_the_columns_comes_and_goes_by_its_name() -> None:
    with_time = {**NAMED, "$touched": pa.array([1, 2]), "$arrival": pa.array([3, 4])}
    assert loaded([("b", TEXT), ("c", TEXT), ("$touched", NUMBER)], NAMED) == [["x", "y"], ["v", "w"], [None, None]]
    assert loaded([("b", TEXT), ("c", TEXT), ("$arrival", NUMBER)], with_time) == [["x", "y"], ["v", "w"], [3, 4]]


def test_columns_of_other_types_are_found_by_name_and_widened() -> None:
    saved = {"a": pa.array([1, 2], pa.int32()), "b": pa.array(["v", "w"])}
    assert loaded([("b", TEXT), ("a", NUMBER), ("c", TEXT)], saved) == [["v", "w"], [1, 2], [None, None]]


def test_a_column_of_a_user_is_not_taken_for_one_of_the_engine() -> None:
    assert column_names(Schema.of(("$time", INT), ("a", INT), ("a", INT))) == ("_$time", "a", "a0")
