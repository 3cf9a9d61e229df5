"""Functions of arrays and maps against Python over random rows, nested elements among them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from calls import column, evaluate

from runtime.core.errors import ExpressionError, TypeMismatchError
from runtime.core.types import INT, STRING, DataType, array, map_of, row

RANDOM = random.Random(3)
PAIR = row(("x", INT), ("y", array(STRING)))
ELEMENTS: list[tuple[DataType, list[Any]]] = [
    (INT, [1, 2, 3, None, -5]),
    (STRING, ["a", "", "bb", None]),
    (array(INT), [[1], [], [1, None], None]),
    (PAIR, [{"x": 1, "y": ["a"]}, {"x": 1, "y": None}, {"x": None, "y": ["a"]}, None]),
]


def _arrays(values: list[Any], count: int = 40) -> list[Any]:
    return [
        None if RANDOM.random() < 0.1 else [RANDOM.choice(values) for _ in range(RANDOM.randrange(6))]
        for _ in range(count)
    ]


def _distinct(items: list[Any]) -> list[Any]:
    return [v for i, v in enumerate(items) if v not in items[:i]]


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: None if any(a is None for a in args) else function(*args)


@pytest.mark.parametrize(("element", "values"), ELEMENTS, ids=[str(t) for t, _ in ELEMENTS])
def test_arrays_with_arrays_and_elements(element: DataType, values: list[Any]) -> None:
    first, second = _arrays(values), _arrays(values)
    single = [RANDOM.choice(values) for _ in first]
    a, b = column(*first, type_=array(element)), column(*second, type_=array(element))
    x = column(*single, type_=element)
    two: dict[str, Callable[..., Any]] = {
        "ARRAY_UNION": lambda p, q: _distinct(p + q),
        "ARRAY_EXCEPT": lambda p, q: [v for v in _distinct(p) if v not in q],
        "ARRAY_INTERSECT": lambda p, q: [v for v in _distinct(p) if v in q],
        "ARRAY_CONCAT": lambda p, q: p + q,
    }
    for name, expected in two.items():
        assert evaluate(name, a, b) == [_strict(expected)(p, q) for p, q in zip(first, second, strict=True)], name
    one: dict[str, Callable[..., Any]] = {
        "ARRAY_APPEND": lambda p, v: [*p, v],
        "ARRAY_PREPEND": lambda p, v: [v, *p],
        "ARRAY_REMOVE": lambda p, v: [w for w in p if w != v],
        "ARRAY_CONTAINS": lambda p, v: v in p,
        "ARRAY_POSITION": lambda p, v: None if v is None else p.index(v) + 1 if v in p else 0,
    }
    for name, expected in one.items():
        wanted = [None if p is None else expected(p, v) for p, v in zip(first, single, strict=True)]
        assert evaluate(name, a, x) == wanted, name
    assert evaluate("ARRAY_DISTINCT", a) == [_strict(_distinct)(p) for p in first]
    assert evaluate("ARRAY_REVERSE", a) == [_strict(lambda p: p[::-1])(p) for p in first]
    assert evaluate("CARDINALITY", a) == [_strict(len)(p) for p in first]


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    size = len(items)
    low = max(start + (size + 1 if start < 0 else 0), 1)
    high = end + (size + 1 if end < 0 else 0)
    high = 1 if high == 0 else min(high, size)
    return items[low - 1 : high] if low <= high else []


def test_slices() -> None:
    rows = [(_arrays([1, 2, 3, None], 1)[0], RANDOM.randrange(-6, 7), RANDOM.randrange(-6, 7)) for _ in range(200)]
    arrays, starts, ends = zip(*rows, strict=True)
    got = evaluate("ARRAY_SLICE", column(*arrays, type_=array(INT)), column(*starts), column(*ends))
    assert got == [None if a is None else _slice(a, s, e) for a, s, e in rows]


@pytest.mark.parametrize("options", [(), (True,), (False,), (True, False), (False, True)])
def test_sort(options: tuple[bool, ...]) -> None:
    rows = _arrays([5, 1, None, 3, -2, 5])
    ascending = options[0] if options else True
    nulls_first = options[1] if len(options) > 1 else ascending

    def expected(items: list[Any]) -> list[Any]:
        known = sorted((v for v in items if v is not None), reverse=not ascending)
        nulls = [None] * (len(items) - len(known))
        return nulls + known if nulls_first else known + nulls

    assert evaluate("ARRAY_SORT", column(*rows, type_=array(INT)), *options) == [_strict(expected)(r) for r in rows]


def test_extremes_and_join() -> None:
    rows = _arrays(["b", "a", None, "c"])
    a = column(*rows, type_=array(STRING))
    assert evaluate("ARRAY_MAX", a) == [max((v for v in r or [] if v is not None), default=None) for r in rows]
    assert evaluate("ARRAY_MIN", a) == [min((v for v in r or [] if v is not None), default=None) for r in rows]
    assert evaluate("ARRAY_JOIN", a, "-") == [
        _strict(lambda r: "-".join(v for v in r if v is not None))(r) for r in rows
    ]
    assert evaluate("ARRAY_JOIN", a, "-", "N") == [
        _strict(lambda r: "-".join("N" if v is None else v for v in r))(r) for r in rows
    ]


def test_element_and_item() -> None:
    a = column([7], [], None, type_=array(INT))
    assert evaluate("ELEMENT", a) == [7, None, None]
    with pytest.raises(ExpressionError, match="2 elements"):
        evaluate("ELEMENT", column([1, 2], type_=array(INT)))
    assert evaluate("ITEM", column([1, 2], [3], None, [4], type_=array(INT)), column(2, 2, 1, None)) == [
        2,
        None,
        None,
        None,
    ]
    maps = column([("a", 1), ("b", 2)], [], None, [("a", None)], type_=map_of(STRING, INT))
    assert evaluate("ITEM", maps, column("b", "a", "a", "a")) == [2, None, None, None]
    assert evaluate("ITEM", maps, "a") == [1, None, None, None]


def test_maps() -> None:
    maps = column([("a", 1), ("b", 2)], [], None, type_=map_of(STRING, INT))
    others = column([("b", 3), ("c", 4)], [("x", None)], [], type_=map_of(STRING, INT))
    assert evaluate("MAP_UNION", maps, others) == [[("a", 1), ("b", 3), ("c", 4)], [("x", None)], None]
    assert evaluate("MAP_KEYS", maps) == [["a", "b"], [], None]
    assert evaluate("MAP_VALUES", maps) == [[1, 2], [], None]
    assert evaluate("MAP_ENTRIES", maps)[0] == [{"key": "a", "value": 1}, {"key": "b", "value": 2}]
    keys, values = column(["a", "a"], [], None, type_=array(STRING)), column([1, 2], [], [1], type_=array(INT))
    assert evaluate("MAP_FROM_ARRAYS", keys, values) == [[("a", 2)], [], None]
    with pytest.raises(ExpressionError, match="1 keys and 2 values"):
        evaluate("MAP_FROM_ARRAYS", column(["a"], type_=array(STRING)), column([1, 2], type_=array(INT)))
    assert evaluate("MAP", "k", column(1, 2), "k", column(3, 4)) == [[("k", 3)], [("k", 4)]]


def test_an_element_must_fit_without_loss() -> None:
    with pytest.raises(TypeMismatchError):
        evaluate("ARRAY_APPEND", column([1], type_=array(INT)), column("x"))


def test_objects() -> None:
    made = evaluate("OBJECT_OF", "com.acme.User", "name", column("Ann", "Bob"), "age", 41)
    assert made == [{"name": "Ann", "age": 41}, {"name": "Bob", "age": 41}]
    person = column({"x": 1, "y": ["a"]}, None, type_=PAIR.with_(words=("com.acme.Pair",)))
    assert evaluate("OBJECT_UPDATE", person, "x", column(5, 6)) == [{"x": 5, "y": ["a"]}, None]
    with pytest.raises(TypeMismatchError, match="no field"):
        evaluate("OBJECT_UPDATE", person, "z", 1)
    with pytest.raises(TypeMismatchError, match="takes a structured object"):
        evaluate("OBJECT_UPDATE", column({"x": 1, "y": ["a"]}, type_=PAIR), "x", 1)
