"""JSON: what is written can be read, paths in both modes, clauses."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from calls import column, evaluate, value

from runtime.core.errors import ExpressionError, TypeMismatchError
from runtime.core.types import (
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIME,
    DataType,
    array,
    map_of,
    row,
    timestamp,
    timestamp_ltz,
)
from runtime.expr.json_path import JsonPath, NotFound, json_path, parse_json
from runtime.expr.nodes import Literal

DOCUMENT = '{"a b": 1, "a": [{"b": 1}, {"b": [2, 3]}, {"c": "x"}], "n": null, "d": {"e": {"b": 9}}}'


def read(path: str) -> Any:
    found = json_path(path)
    assert isinstance(found, JsonPath)
    return found.read(parse_json(DOCUMENT))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$['a b']", 1),
        ("$.a[0].b", 1),
        ("$.a[-1].c", "x"),
        ("$.a[*].b", [1, [2, 3]]),
        ("$.a[0,2]", [{"b": 1}, {"c": "x"}]),
        ("$.a[1:]", [{"b": [2, 3]}, {"c": "x"}]),
        ("$..b", [1, [2, 3], 9]),
        ("$.d.*", [{"b": 9}]),
        ("$.n", None),
        ("lax $.zz", None),
        ("lax $.zz[*].b", []),
        ("$['a b','n']", {"a b": 1, "n": None}),
        (" LAX   $.a[7]", None),
    ],
)
def test_paths(path: str, expected: Any) -> None:
    assert read(path) == expected


@pytest.mark.parametrize("path", ["$.zz", "$.a[7]", "$.a.b", "$.zz[*]", "strict $.d.e.f"])
def test_strict_paths_must_find(path: str) -> None:
    with pytest.raises(NotFound):
        read(path)


def test_wrong_and_refused_paths() -> None:
    assert json_path("$.a[") is None
    assert json_path("$a b") is None
    with pytest.raises(ExpressionError, match="filters"):
        json_path("$.a[?(@.b > 1)]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", True),
        ("1 2", True),
        ("01", False),
        ("1x", False),
        ('"x"y', True),
        ("", False),
        (" ", False),
        ("nul", False),
        ("NaN", False),
        ("{} x", True),
        ("{", False),
        (None, False),
        ('{"a":1,"a":2}', True),
    ],
)
def test_is_json(text: str | None, expected: bool) -> None:
    assert value("IS JSON VALUE", text) is expected


def test_numbers_keep_their_digits() -> None:
    assert value("JSON_VALUE", '{"a": 1.10}', "$.a") == "1.10"
    assert value("JSON_QUERY", '{"b": 1.50, "a": 1e400}', "$") == '{"a":1E+400,"b":1.50}'


def test_returning_that_does_not_fit_is_an_error_of_the_row() -> None:
    clauses = ("RETURNING", Literal(None, INT), "DEFAULT ON ERROR", -1)
    documents = column('{"a": 3}', '{"a": "x"}', '{"a": 7.9}', "bad", '{"a": null}', None)
    assert evaluate("JSON_VALUE", documents, "$.a", *clauses) == [3, -1, -1, -1, None, None]
    with pytest.raises(ExpressionError, match="JSON_VALUE"):
        evaluate("JSON_VALUE", documents, "$.a", "ERROR ON ERROR")
    with pytest.raises(TypeMismatchError, match="cannot return"):
        evaluate("JSON_VALUE", documents, "$.a", "RETURNING", Literal(None, DATE))


def test_query_clauses() -> None:
    documents = column('{"a": 1}', '{"a": [1, {"z": 2}]}', "{}")
    assert evaluate("JSON_QUERY", documents, "lax $.a", "CONDITIONAL WRAPPER", "EMPTY ARRAY ON EMPTY") == [
        "[1]",
        '[1,{"z":2}]',
        "[]",
    ]
    assert evaluate("JSON_QUERY", documents, "$.a", "UNCONDITIONAL WRAPPER", "EMPTY OBJECT ON ERROR") == [
        "[1]",
        '[[1,{"z":2}]]',
        "{}",
    ]
    assert evaluate("JSON_QUERY", documents, "$.a", "RETURNING", Literal(None, array(STRING))) == [
        None,
        ["1", '{"z":2}'],
        None,
    ]


VALUES: list[tuple[DataType, list[Any], list[Any]]] = [
    (STRING, ['a"b\\c\n\x01é☺', "", None], ['a"b\\c\n\x01é☺', "", None]),
    (INT, [1, -5, None], [1, -5, None]),
    (BOOLEAN, [True, None], [True, None]),
    (BYTES, [b"\x01"], ["AQ=="]),
    (DATE, [dt.date(2024, 1, 2)], ["2024-01-02"]),
    (
        timestamp(3),
        [dt.datetime(2024, 1, 1, 0, 0, 0, 500000), dt.datetime(2024, 1, 1, 10, 20, 30)],
        ["2024-01-01T00:00:00.5", "2024-01-01T10:20:30"],
    ),
    (timestamp_ltz(3), [dt.datetime(2024, 1, 1, tzinfo=dt.UTC)], ["2024-01-01T00:00:00Z"]),
    (array(INT), [[1, None], [], None], [[1, None], [], None]),
    (map_of(STRING, INT), [[("b", 1), ("a", None)], [], None], [{"b": 1, "a": None}, {}, None]),
    (array(row(("x", INT), ("a", STRING))), [[{"x": 1, "a": "q"}, None]], [[{"x": 1, "a": "q"}, None]]),
]


@pytest.mark.parametrize(("type_", "given", "expected"), VALUES, ids=[str(t) for t, _, _ in VALUES])
def test_what_is_written_can_be_read(type_: DataType, given: list[Any], expected: list[Any]) -> None:
    texts = evaluate("JSON_STRING", column(*given, type_=type_))
    assert [None if t is None else json.loads(t) for t in texts] == expected
    members = evaluate("JSON_OBJECT", "NULL ON NULL", "0", "k", column(*given, type_=type_))
    assert [json.loads(m)["k"] for m in members] == expected


def test_keys_are_in_order_and_doubles_in_javas_digits() -> None:
    assert evaluate("JSON_STRING", column({"x": 1, "a": "q"}, type_=row(("x", INT), ("a", STRING)))) == [
        '{"a":"q","x":1}'
    ]
    assert evaluate("JSON_STRING", column(1e10, 1.5, 1e-7, type_=DOUBLE)) == ["1.0E+10", "1.5", "1.0E-7"]


def test_nulls_and_parts_that_are_json_already() -> None:
    texts = column("x", None)
    assert evaluate("JSON_ARRAY", "ABSENT ON NULL", "00", texts, 1) == ['["x",1]', "[1]"]
    assert evaluate("JSON_ARRAY", "NULL ON NULL", "0", texts) == ['["x"]', "[null]"]
    assert evaluate("JSON_OBJECT", "ABSENT ON NULL", "0", "k", texts) == ['{"k":"x"}', "{}"]
    assert evaluate("JSON_OBJECT", "NULL ON NULL", "10", "b", column("[1]", "{}"), "a", texts) == [
        '{"a":"x","b":[1]}',
        '{"a":null,"b":{}}',
    ]
    assert value("JSON", " [1, 2] ") == "[1,2]"
    with pytest.raises(TypeMismatchError, match="does not take TIME"):
        evaluate("JSON_STRING", column(dt.time(1), type_=TIME))


def test_quotes() -> None:
    texts = ["", "a", 'q"\\', "é\n", '"bad', None]
    assert evaluate("JSON_UNQUOTE", column(*evaluate("JSON_QUOTE", column(*texts)))) == texts
    assert value("JSON_UNQUOTE", '"bad') == '"bad'
