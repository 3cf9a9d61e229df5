"""KeyEncoder against Python equality, with SQL's notion of "not distinct"."""

from __future__ import annotations

import datetime
import decimal
import math

import numpy as np
import pyarrow as pa
import pytest

from runtime.core.errors import InternalError
from runtime.kernels.bytes_pool import BytesPool
from runtime.kernels.hashing import hash_strings, hash_words
from runtime.kernels.key_encoding import KeyEncoder

D = decimal.Decimal
NAN = float("nan")
DAY = datetime.date(2024, 2, 29)
TIME = datetime.datetime(2024, 2, 29, 12, 30, 1, 5)

DOMAINS: dict[str, tuple[pa.DataType, list[object]]] = {
    "bool": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), [-128, -1, 0, 1, 127]),
    "int32": (pa.int32(), [-(2**31), -1, 0, 2**31 - 1]),
    "int64": (pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    "float": (pa.float32(), [0.0, -0.0, 1.5, -1.5, NAN, math.inf, -math.inf]),
    "double": (pa.float64(), [0.0, -0.0, 1.5, -1.5, NAN, math.inf, -math.inf]),
    "decimal9": (pa.decimal128(9, 2), [D("-1.00"), D("0.00"), D("9999999.99"), D("-9999999.99")]),
    "decimal18": (pa.decimal128(18, 0), [D(-1), D(0), D(10**18 - 1), D(1 - 10**18)]),
    "decimal38": (pa.decimal128(38, 0), [D(-1), D(0), D(2**64), D(10**38 - 1), D(1 - 10**38)]),
    "date": (pa.date32(), [DAY, datetime.date(1, 1, 1)]),
    "timestamp": (pa.timestamp("us"), [TIME, datetime.datetime(1, 1, 1)]),
    "string": (pa.string(), ["", "a", "a\0", "ab", "ä", "x" * 40, "x" * 41, "y" * 200]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", b"\xff" * 9]),
    "list": (pa.list_(pa.int64()), [[], [1], [1, 2], [2, 1], [None], [None, None]]),
    "strings": (pa.list_(pa.string()), [[], ["a"], ["a", "b"], ["ab"], [None], [""]]),
    "map": (
        pa.map_(pa.string(), pa.int32()),
        [[], [("a", 1)], [("a", 1), ("b", 2)], [("b", 2), ("a", 1)], [("a", None)]],
    ),
    "struct": (
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
        [{"x": 1, "y": "a"}, {"x": None, "y": "a"}, {"x": None, "y": None}, {"x": 1, "y": None}],
    ),
    "nested": (
        pa.list_(pa.struct([("x", pa.list_(pa.string()))])),
        [[], [{"x": ["a"]}], [{"x": []}], [{"x": None}], [None]],
    ),
}


def canonical(value: object) -> object:
    """A hashable Python value that is equal exactly for SQL values that are not distinct."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((k, canonical(v)) for k, v in value.items())
    if isinstance(value, list):
        if value and isinstance(value[0], tuple):
            return frozenset((k, canonical(v)) for k, v in value)
        return tuple(canonical(v) for v in value)
    return value


def drawn(rng: np.random.Generator, name: str, count: int) -> tuple[pa.Array, list[object]]:
    type_, domain = DOMAINS[name]
    values = [[*domain, None][i] for i in rng.integers(0, len(domain) + 1, count)]
    return pa.array(values, type=type_), [canonical(v) for v in values]


@pytest.mark.parametrize(
    "names",
    [[n] for n in DOMAINS]
    + [
        ["int32", "bool", "date"],
        ["string", "int64"],
        ["struct", "map", "decimal38"],
        ["bool"] * 70,
        ["list", "double", "int8"],
    ],
    ids=lambda names: "+".join(names[:3]),
)
def test_equal_words_mean_not_distinct(names: list[str]) -> None:
    rng = np.random.default_rng(len(names))
    encoder = KeyEncoder([DOMAINS[n][0] for n in names])
    code_of: dict[tuple[object, ...], tuple[int, ...]] = {}
    hash_of: dict[tuple[object, ...], int] = {}
    for round_ in range(4):
        columns, values = zip(*(drawn(rng, n, 60) for n in names), strict=True)
        if round_ == 3:
            # A slice reads the right part of every buffer.
            columns, values = [c.slice(7, 40) for c in columns], [v[7:47] for v in values]
        words = encoder.encode(columns)
        assert words.shape == (len(columns[0]), encoder.width) and words.dtype == np.uint64
        assert (encoder.probe(columns) == words).all()
        hashes = encoder.stable_hash(columns).tolist()
        for key, code, hashed in zip(zip(*values, strict=True), map(tuple, words.tolist()), hashes, strict=True):
            assert code_of.setdefault(key, code) == code
            assert hash_of.setdefault(key, hashed) == hashed
    assert len(set(code_of.values())) == len(code_of)
    assert len(set(hash_of.values())) == len(hash_of)


MORE: dict[str, tuple[pa.DataType, list[object]]] = {
    "int16": (pa.int16(), [-(2**15), -1, 0, 2**15 - 1]),
    "uint32": (pa.uint32(), [0, 2**32 - 1]),
    "decimal256": (pa.decimal256(60, 3), [D("-1.000"), D(10**50), D(-(10**50))]),
    "time": (pa.time64("us"), [datetime.time(0, 0), datetime.time(23, 59, 59, 999_999)]),
    "seconds": (pa.timestamp("s", "UTC"), [datetime.datetime(2024, 2, 29, tzinfo=datetime.UTC)]),
    "duration": (pa.duration("ms"), [datetime.timedelta(days=-3), datetime.timedelta(milliseconds=1)]),
    "months": (pa.month_day_nano_interval(), [pa.MonthDayNano([1, -2, 3]), pa.MonthDayNano([0, 0, -1])]),
    "bytes4": (pa.binary(4), [b"abcd", b"\0\0\0\0"]),
    "text": (pa.large_string(), ["", "ä" * 70]),
    "pair": (pa.list_(pa.float64(), 2), [[1.0, -0.0], [None, NAN]]),
    "wide": (pa.large_list(pa.decimal128(12, 1)), [[], [D("-0.1"), None]]),
    "maps": (pa.map_(pa.int64(), pa.list_(pa.bool_())), [[], [(3, [True, None]), (-1, None)]]),
    "empty": (pa.struct([]), [{}]),
    "deep": (
        pa.struct([("a", pa.struct([("b", pa.float32()), ("c", pa.string())])), ("d", pa.decimal128(20, 2))]),
        [{"a": {"b": -0.0, "c": None}, "d": D("-1.50")}, {"a": None, "d": None}],
    ),
    "null": (pa.null(), []),
}


@pytest.mark.parametrize("name", [*DOMAINS, *MORE])
def test_decoded_values_are_not_distinct_from_those_encoded(name: str) -> None:
    rng = np.random.default_rng(9)
    type_, domain = {**DOMAINS, **MORE}[name]
    # Beside columns that share its word, so that fields are cut out rightly.
    encoder = KeyEncoder([pa.bool_(), type_, pa.int8()])
    strict = KeyEncoder([type_], [False])
    for count in (0, 40, 1):
        values = [[*domain, None][i] for i in rng.integers(0, len(domain) + 1, count)]
        column, flags = pa.array(values, type_), pa.array(rng.integers(0, 2, count).astype(bool))
        small = pa.array(rng.integers(-128, 128, count), pa.int8())
        words = encoder.encode([flags, column, small])
        decoded = encoder.decode(words)
        assert [c.type for c in decoded] == [pa.bool_(), type_, pa.int8()]
        for given in decoded:
            given.validate(full=True)
        assert decoded[0].equals(flags) and decoded[2].equals(small)
        assert [canonical(v) for v in decoded[1].to_pylist()] == [canonical(v) for v in column.to_pylist()]
        assert (encoder.encode(decoded) == words).all()
        if domain:
            present = column.drop_null()
            (decoded_present,) = strict.decode(strict.encode([present]))
            assert list(map(canonical, decoded_present.to_pylist())) == list(map(canonical, present.to_pylist()))


def test_negative_zero_comes_back_as_zero_and_retained_words_decode() -> None:
    encoder = KeyEncoder([pa.float64(), pa.list_(pa.string())])
    columns = [pa.array([-0.0, 1.0]), pa.array([["a", "b"], ["c"]])]
    words = encoder.encode(columns)
    assert math.copysign(1, encoder.decode(words)[0][0].as_py()) == 1
    words = encoder.retain(words[1:])
    assert [c.to_pylist() for c in encoder.decode(words)] == [[1.0], [["c"]]]


def test_probe_does_not_intern_and_matches_nothing() -> None:
    encoder = KeyEncoder([pa.string()])
    known = encoder.encode([pa.array(["a", None])])
    probed = encoder.probe([pa.array(["b", "a", None, "c"])])
    assert encoder.pooled == 1
    assert probed[1:3].tolist() == known.tolist()
    later = encoder.encode([pa.array(["b", "c"])])
    assert not set(map(tuple, probed[[0, 3]].tolist())) & set(map(tuple, later.tolist()))


def test_widths() -> None:
    assert KeyEncoder([pa.int64()], [False]).width == 1
    assert KeyEncoder([pa.string()]).width == 1
    assert KeyEncoder([pa.float64()]).width == 1
    assert KeyEncoder([pa.int32(), pa.bool_(), pa.int16()]).width == 1
    assert KeyEncoder([pa.int64(), pa.int64()]).width == 3
    assert KeyEncoder([]).encode([], count=4).shape == (4, 0)


def test_bigint_key_is_its_own_word() -> None:
    values = pa.array([5, -1, 2**62])
    encoder = KeyEncoder([pa.int64()], [False])
    words = encoder.encode([values])
    assert words[:, 0].view(np.int64).tolist() == [5, -1, 2**62]
    assert encoder.stable_hash([values]).tolist() == hash_words(words).tolist()
    assert KeyEncoder([pa.int64()]).stable_hash([values]).tolist() == hash_words(words).tolist()
    narrow = pa.array([5, -1], pa.int8())
    assert KeyEncoder([pa.int8()]).stable_hash([narrow]).tolist() == hash_words(words[:2]).tolist()


def test_null_in_a_not_null_column_is_refused() -> None:
    for type_ in (pa.int64(), pa.string(), pa.list_(pa.int32()), pa.struct([("a", pa.int32())])):
        with pytest.raises(InternalError):
            KeyEncoder([type_], [False]).encode([pa.nulls(1, type_)])


def test_hashes_are_what_they_have_always_been() -> None:
    """Saved state and key groups depend on these numbers: a change here needs a new state version."""
    assert hash_words(np.array([[1], [2]], dtype=np.uint64)).tolist() == [7313996895654692819, 3920798740894415469]
    assert hash_words(np.array([[1, 2]], dtype=np.uint64)).tolist() == [12093294521880547261]
    texts = [b"hello", b"abcdefgh" * 9 + b"z", b"", None]
    assert hash_strings(pa.array(texts, type=pa.large_binary())).tolist() == [
        6502774357722037023,
        18180045417552486257,
        0,
        0,
    ]


def test_hash_of_bytes_depends_on_the_bytes_only() -> None:
    rng = np.random.default_rng(3)
    texts = [rng.integers(0, 3, n).astype(np.uint8).tobytes() for n in [*range(70), 300, 301, 5000]]
    together = hash_strings(pa.array([*texts, None], type=pa.large_binary())).tolist()
    alone = [int(hash_strings(pa.array([b"x", t], type=pa.large_binary()).slice(1))[0]) for t in texts]
    assert together == [*alone, alone[0]]
    assert len(set(alone)) == len(set(texts))


def test_pool_survives_hash_collisions() -> None:
    """A hash of two values only: every string has to be told apart by its bytes."""
    pool = BytesPool(lambda strings: np.array([len(s) % 2 for s in strings.to_pylist()], dtype=np.uint64))
    model: dict[bytes, int] = {}
    rng = np.random.default_rng(4)
    for _ in range(5):
        texts = [b"k%d" % i for i in rng.integers(0, 30, 20)]
        array = pa.array(texts, type=pa.large_binary())
        assert pool.find(array).tolist() == [model.get(t, -1) for t in texts]
        for text, code in zip(texts, pool.intern(array).tolist(), strict=True):
            assert model.setdefault(text, code) == code
        assert pool.take(np.array(list(model.values()))).to_pylist() == list(model)
    assert sorted(model.values()) == list(range(len(model)))


@pytest.mark.parametrize("name", ["string", "strings", "map", "struct", "nested", "int64"])
def test_retain_forgets_and_keeps_keys_distinct(name: str) -> None:
    rng = np.random.default_rng(6)
    type_, domain = DOMAINS[name]
    encoder = KeyEncoder([type_])
    column, _ = drawn(rng, name, 50)
    encoder.encode([column])
    kept = pa.array([*domain[1::2], None], type=type_)
    recoded = encoder.retain(encoder.encode([kept]))
    assert (encoder.probe([kept]) == recoded).all()
    if name == "string":
        assert encoder.pooled == len(set(domain[1::2]))
    everything = encoder.encode([pa.array([*domain, None], type=type_)])
    distinct = {canonical(v) for v in [*domain, None]}
    assert len(set(map(tuple, everything.tolist()))) == len(distinct)


def test_exact_keys_tell_apart_what_is_equal_but_reads_otherwise() -> None:
    entries = pa.array(
        [[("a", 1), ("b", 2)], [("b", 2), ("a", 1)], [("a", 1), ("b", 2)]], pa.map_(pa.string(), pa.int32())
    )
    nested = pa.array([[e] for e in entries.to_pylist()], pa.list_(entries.type))
    for column in (entries, nested, pa.array([0.0, -0.0, 0.0])):
        assert len(np.unique(KeyEncoder([column.type]).encode([column]), axis=0)) == 1
        encoder = KeyEncoder([column.type], exact=True)
        first, second, third = words = encoder.encode([column])
        assert (first == third).all()
        assert (first != second).any()
        assert repr(encoder.decode(encoder.retain(words))[0].to_pylist()) == repr(column.to_pylist())
