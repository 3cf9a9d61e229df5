"""BITMAP values: equal sets have equal bytes, bytes from outside are checked, Python's values and SQL's are the same."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from runtime.core.errors import SqlEngineError
from runtime.expr.bitmaps import bitmap, bitmaps_text, carried, checked
from sqlengine import TableEnvironment, udf

STARTS = st.sampled_from([0, 65_530, 65_536 * 3, 65_536 * 5, 65_536 * 9, 65_536 * 11, 2**32 - 200])
STRETCHES = st.tuples(STARTS, st.integers(0, 30), st.sampled_from([1, 2, 3, 5, 7, 40, 5000]), st.integers(1, 2))
SETS = st.lists(STRETCHES, max_size=6).map(
    lambda all_: {x for s, off, n, by in all_ for x in range(s + off, s + off + n * by, by) if x < 2**32}
)


@settings(max_examples=200, deadline=None)
@given(SETS, SETS)
def test_equal_sets_have_equal_bytes(wanted: set[int], other: set[int]) -> None:
    direct = carried(BitMap(wanted))
    whole, rest = BitMap(wanted | other), BitMap(other - wanted)
    whole.run_optimize()
    one_by_one = BitMap()
    for value in random.Random(0).sample(sorted(wanted), len(wanted)):
        one_by_one.add(value)
    assert carried(whole - rest) == direct
    assert carried(one_by_one) == direct
    assert checked(direct) == direct
    assert set(bitmap(direct)) == wanted


def test_bytes_of_others_are_a_bitmap_or_an_error() -> None:
    """A byte is another one, bytes lack or are too many: never anything else than a bitmap or E2019."""
    rng = random.Random(1)
    sources = [carried(BitMap(s)) for s in ({1, 2, 3}, range(10_000), {1, 70_000, 2**32 - 1}, range(0, 200_000, 3))]
    refused = 0
    for _ in range(3000):
        data = bytearray(rng.choice(sources))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(min(len(data), 40))] = rng.randrange(256)
        data = data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data
        try:
            assert checked(checked(bytes(data))) == checked(bytes(data))
        except SqlEngineError as error:
            assert error.code == "E2019"
            refused += 1
    assert refused > 300


def test_all_integers_stay_small() -> None:
    everything = BitMap()
    everything.add_range(0, 2**32)
    data = carried(everything)
    assert len(data) < 1 << 20
    (text,) = bitmaps_text(pa.array([checked(data)])).to_pylist()
    assert text.startswith("{0,1,2,") and text.endswith(",...}") and 1 << 19 < len(text) < (1 << 19) + 20


def test_bitmaps_in_python() -> None:
    @udf(result_type="BITMAP", input_types=["BITMAP"])
    def more(b: BitMap) -> BitMap:
        return b | BitMap([100])

    @udf(result_type="BITMAP", input_types=["BITMAP"])
    def wrong(b: BitMap) -> bytes:
        return b"zzz"

    @udf(result_type="ARRAY<BITMAP>", input_types=["BITMAP"])
    def inside(b: BitMap) -> list[BitMap | None]:
        return [b, None]

    @udf(result_type="ROW<a MAP<STRING, BITMAP>, n INT>", input_types=["BITMAP"])
    def deep(b: BitMap) -> tuple[dict[str, BitMap], int]:
        return ({"x": b}, 1)

    @udf(result_type="BITMAP", input_types=["BITMAP"])
    def other(b: BitMap) -> set[int]:
        return set(b)

    with TableEnvironment.create() as t_env:
        named = {"more": more, "wrong": wrong, "inside": inside, "deep": deep, "other": other}
        for name, function in named.items():
            t_env.create_temporary_system_function(name, function)
        ((found, nothing),) = t_env.execute_sql("SELECT more(BITMAP_BUILD(ARRAY[1, -1])), CAST(NULL AS BITMAP)")
        assert (set(found), str(found), nothing) == ({1, 100, 2**32 - 1}, "{1,100,4294967295}", None)
        ((first, row),) = t_env.execute_sql(
            "SELECT CAST(inside(b) AS STRING), CAST(deep(b) AS STRING) FROM (SELECT BITMAP_BUILD(ARRAY[2, 1]) AS b)"
        )
        assert (first, row) == ("[{1,2}, NULL]", "({x={1,2}}, 1)")
        table = t_env.from_elements([(found,), (bytes(found.serialize()),), (None,)], {"b": "BITMAP"})
        assert [str(row[0]) for row in table.execute()] == [str(found), str(found), "None"]
        for sql, code in (("wrong", "E2019"), ("other", "E2111")):
            with pytest.raises(SqlEngineError) as error:
                list(t_env.execute_sql(f"SELECT {sql}(BITMAP_BUILD(ARRAY[1]))"))
            assert error.value.code == code
        with pytest.raises(SqlEngineError) as error:
            t_env.from_arrow(pa.table({"b": [b"zz"]}), {"b": "BITMAP"}).execute().to_arrow()
        assert error.value.code == "E2019"
