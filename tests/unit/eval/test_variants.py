"""VARIANT values: equal values have equal texts, Python's values and SQL's are the same, casts give what Python does."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.errors import SqlEngineError
from runtime.core.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, VARIANT, DataType, array, map_of, row
from runtime.expr.cast.dispatch import convert
from runtime.expr.given import given as carried
from runtime.kernels.variants import MADE, parse
from sqlengine import DataTypes, TableEnvironment, udf

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=4), v, max_size=5), max_leaves=12
)


def shuffled(value: Any, rng: random.Random) -> Any:
    if isinstance(value, list):
        return [shuffled(v, rng) for v in value]
    if isinstance(value, dict):
        return {k: shuffled(value[k], rng) for k in rng.sample(list(value), len(value))}
    return value


def as_numbers(value: Any) -> Any:
    """A value with its integers beyond 38 digits as DOUBLE."""
    return json.loads(
        json.dumps(value), parse_int=lambda text: int(text) if len(text.strip("-")) <= 38 else float(text)
    )


def texts(values: list[str | None]) -> pa.Array:
    found, state = parse(pa.array(values, pa.string()), np.zeros(len(values), np.bool_))
    assert (state <= MADE).all()
    return found


@settings(max_examples=300, deadline=None)
@given(VALUES, st.randoms(use_true_random=False), st.booleans())
def test_equal_values_have_equal_texts(value: Any, rng: random.Random, ascii_: bool) -> None:
    one, other, again = texts(
        [
            json.dumps(value),
            json.dumps(shuffled(value, rng), ensure_ascii=ascii_, indent=rng.choice([None, 2])),
            texts([json.dumps(value)])[0].as_py(),
        ]
    ).to_pylist()
    assert one == other == again
    assert json.loads(one) == as_numbers(value)


@settings(max_examples=200, deadline=None)
@given(VALUES.filter(lambda v: v is not None))
def test_values_of_python_are_carried(value: Any) -> None:
    made = carried([value], VARIANT)[0].as_py()
    assert json.loads(made) == as_numbers(value)
    assert carried(pa.array([made]), VARIANT)[0].as_py() == made


def python_cast(value: Any, type_: DataType) -> Any:
    """What a cast of a JSON value gives. Raises ValueError where it fails."""
    if value is None:
        return None
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if type_ in (INT, BIGINT):
        bound = 2 ** (31 if type_ == INT else 63)
        if not number or not -bound <= int(value) < bound:
            raise ValueError
        return int(value)
    if type_ == DOUBLE:
        if not number:
            raise ValueError
        return float(value)
    if type_ == BOOLEAN:
        if not isinstance(value, bool):
            raise ValueError
        return value
    if type_ == STRING:
        if isinstance(value, str):
            return value
        shown = texts([json.dumps(value)])[0].as_py()
        return shown.upper() if isinstance(value, bool) else shown
    if type_ == VARIANT:
        return texts([json.dumps(value)])[0].as_py()
    if type_.children and len(type_.children) == 1:
        if not isinstance(value, list):
            raise ValueError
        return [python_cast(v, type_.children[0]) for v in value]
    if not isinstance(value, dict):
        raise ValueError
    if type_.children:
        return [
            (k, python_cast(value[k], type_.children[1]))
            for k in sorted(value, key=lambda k: json.dumps(k, ensure_ascii=False)[:-1].encode())
        ]
    return {f.name: python_cast(value.get(f.name), f.type) for f in type_.fields}


TYPES = [
    INT,
    BIGINT,
    DOUBLE,
    BOOLEAN,
    STRING,
    array(INT),
    array(STRING),
    map_of(STRING, DOUBLE),
    row(("a", INT), ("b", array(BOOLEAN))),
    array(row(("a", STRING))),
]
KEYS = st.sampled_from(["a", "b", "c"])
PARTS = st.none() | st.integers(-9, 9) | st.booleans() | st.dictionaries(KEYS, st.integers(0, 3), max_size=2)
FITTING = st.one_of(
    st.integers(-(2**33), 2**33),
    st.floats(-1e12, 1e12),
    st.lists(PARTS, max_size=4),
    st.dictionaries(KEYS, PARTS | st.lists(st.booleans(), max_size=2), max_size=3),
    SCALARS.filter(lambda v: not isinstance(v, int) or abs(v) < 10**38),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(FITTING, min_size=1, max_size=6), st.sampled_from(TYPES))
def test_casts_give_what_python_gives(values: list[Any], type_: DataType) -> None:
    wanted: list[Any] = []
    failed: list[bool] = []
    for value in values:
        try:
            wanted.append(python_cast(value, type_))
            failed.append(False)
        except ValueError:
            wanted.append(None)
            failed.append(True)
    made = convert(texts([json.dumps(v) for v in values]), VARIANT, type_, "UTC")
    made.values.validate(full=True)
    assert made.values.to_pylist() == wanted
    assert (failed if made.failed is None else made.failed.tolist()) == failed
    assert made.failed is not None or not any(failed)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | st.lists(st.integers(-9, 9) | st.none(), max_size=4), max_size=4))
def test_a_cast_and_back_gives_the_same(values: list[Any]) -> None:
    given_ = pa.array(values, pa.list_(pa.int32()))
    there = convert(given_, array(INT), VARIANT, "UTC")
    assert there.failed is None
    assert convert(there.values, VARIANT, array(INT), "UTC").values.to_pylist() == values


def test_variants_of_python_programs() -> None:
    environment = TableEnvironment.create()
    documents = [{"b": [1, 2.5], "a": None}, "text", None, Decimal("1.50"), [True]]
    table = environment.from_elements(
        list(enumerate(documents)),
        DataTypes.ROW([DataTypes.FIELD("id", DataTypes.INT()), DataTypes.FIELD("doc", DataTypes.VARIANT())]),
    )
    environment.create_temporary_view("docs", table)
    rows = list(environment.execute_sql("SELECT id, doc FROM docs").collect())
    assert [r[1] for r in rows] == ['{"a":null,"b":[1,2.5]}', '"text"', None, "1.5", "[true]"]
    assert rows[0][1].value == {"a": None, "b": [1, 2.5]}

    @udf(result_type="VARIANT", input_types=["VARIANT"])
    def wrapped(document: Any) -> Any:
        return {"is": document}

    @udf(result_type="VARIANT", input_types=["VARIANT"], func_type="arrow")
    def listed(documents: pa.Array) -> pa.Array:
        return pa.array([f"[{d}]" for d in documents.to_pylist()])

    environment.create_temporary_function("wrapped", wrapped)
    environment.create_temporary_function("listed", listed)
    found = environment.execute_sql("SELECT wrapped(doc)['is'], listed(doc)[1] FROM docs WHERE id = 0").collect()
    assert [tuple(r) for r in found] == [('{"a":null,"b":[1,2.5]}',) * 2]
    assert (
        environment.execute_sql("SELECT doc FROM docs WHERE id = 0").to_pandas()["doc"][0] == '{"a":null,"b":[1,2.5]}'
    )
    arrow = pa.table({"doc": ['{"b": 1.0, "a": 2}', None]})
    assert environment.from_arrow(arrow, schema={"doc": "VARIANT"}).to_arrow()["doc"].to_pylist() == [
        '{"a":2,"b":1.0}',
        None,
    ]
    with pytest.raises(SqlEngineError, match="no JSON"):
        environment.from_arrow(pa.table({"doc": ["oops"]}), schema={"doc": "VARIANT"})
