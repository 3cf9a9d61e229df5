"""Times of the years 1 to 9999 against Python's clocks, and times that come from outside: right, or an error."""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.formats.fitting import as_time
from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment, udf

ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
INSTANTS = st.datetimes(dt.datetime(2, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC))


def text(moment: dt.datetime, digits: int) -> str:
    shown = f"{moment.year:04d}{moment:-%m-%d %H:%M:%S}"
    return f"{shown}.{moment.microsecond:06d}"[: 20 + digits] if digits else shown


def values(env: TableEnvironment, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in env.execute_sql(query).collect()]


@pytest.fixture
def env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        yield made


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(ZONES), st.lists(INSTANTS, min_size=40, max_size=60))
def test_a_zone_has_the_clock_of_python(zone: str, given_: list[dt.datetime]) -> None:
    clock = zoneinfo.ZoneInfo(zone)
    moments = [EPOCH + (m - EPOCH) // dt.timedelta(milliseconds=1) * dt.timedelta(milliseconds=1) for m in given_]
    rows = ", ".join(f"({i}, {(m - EPOCH) // dt.timedelta(milliseconds=1)})" for i, m in enumerate(moments))
    with TableEnvironment.create({"table.local-time-zone": zone}) as env:
        found = values(
            env,
            "SELECT i, CAST(x AS STRING), DATE_FORMAT(x, 'yyyy-MM-dd HH:mm:ss.SSS'), CAST(x AS TIMESTAMP(3)), CAST(x AS DATE), "
            "EXTRACT(YEAR FROM x), EXTRACT(HOUR FROM x), FLOOR(x TO HOUR), FLOOR(x TO YEAR), x FROM "
            f"(SELECT i, TO_TIMESTAMP_LTZ(m, 3) AS x FROM (VALUES {rows}) AS t(i, m)) ORDER BY i",
        )
    for i, shown, formatted, local, day, year, hour, _, start, moment in found:
        wanted = moments[i].astimezone(clock)
        plain = wanted.replace(tzinfo=None)
        assert (shown, formatted, local, day, year, hour, moment) == (
            text(plain, 3), text(plain, 3), plain, wanted.date(), plain.year, plain.hour, wanted,
        )  # fmt: skip
        assert start == dt.datetime(plain.year, 1, 1, tzinfo=clock)


@settings(max_examples=25, deadline=None)
@given(
    st.datetimes(dt.datetime(1678, 1, 1), dt.datetime(2261, 12, 31)),
    st.integers(0, 999),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_digits_are_cut(moment: dt.datetime, rest: int, first: int, last: int) -> None:
    written = f"{text(moment, 6)}{rest:03d}"
    fraction = written[20 : 20 + min(first, last)].ljust(last, "0")
    wanted = written[:19] + (f".{fraction}" if last else "")
    with TableEnvironment.create() as env:
        cast = f"CAST(CAST(CAST(x AS TIMESTAMP({first})) AS TIMESTAMP({last})) AS STRING)"
        assert values(env, f"SELECT {cast} FROM (VALUES ('{written}')) AS t(x)") == [(wanted,)]


def test_daily_windows_follow_the_clock_after_2037() -> None:
    with TableEnvironment.create({"table.local-time-zone": "America/New_York"}) as env:
        env.execute_sql("CREATE TABLE t (at TIMESTAMP_LTZ(3), WATERMARK FOR at AS at)")
        env.execute_sql("INSERT INTO t VALUES (TO_TIMESTAMP_LTZ('2050-07-04 04:30:00', 'yyyy-MM-dd HH:mm:ss', 'UTC'))")
        found = values(
            env,
            "SELECT CAST(window_start AS STRING), CAST(window_end AS STRING), COUNT(*) FROM "
            "TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' DAY)) GROUP BY window_start, window_end",
        )
        assert found == [("2050-07-04 00:00:00.000", "2050-07-05 00:00:00.000", 1)]


def test_local_times_in_files_after_2037(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "a.csv").write_text("2050-07-04 00:30:00\n2050-01-04 00:30:00\n")
    (tmp_path / "o").mkdir()
    naive = pa.array([dt.datetime(2050, 7, 4, 0, 30), dt.datetime(2050, 1, 4, 0, 30)], pa.timestamp("ns"))
    orc.write_table(pa.table({"x": naive}), tmp_path / "o" / "a.orc")
    with TableEnvironment.create({"table.local-time-zone": "America/New_York"}) as env:
        for name, format_ in (("c", "csv"), ("o", "orc")):
            options = f"'connector' = 'filesystem', 'path' = '{tmp_path}/{name}', 'format' = '{format_}'"
            env.execute_sql(f"CREATE TABLE {name} (x TIMESTAMP_LTZ(3)) WITH ({options})")
            found = values(env, f"SELECT CAST(x AS STRING) FROM {name}")
            assert sorted(found) == [("2050-01-04 00:30:00.000",), ("2050-07-04 00:30:00.000",)]


@pytest.mark.parametrize(
    ("zone", "expression", "code"),
    [
        ("America/New_York", "CEIL(TO_TIMESTAMP_LTZ(253402300799999, 3) TO DAY)", "E2103"),
        ("America/New_York", "FLOOR(TO_TIMESTAMP_LTZ(-62135596800000, 3) TO DAY)", "E2103"),
        ("America/New_York", "TO_TIMESTAMP_LTZ(253402300799999, 3) + INTERVAL '1' MONTH", "E2103"),
        ("Asia/Tokyo", "TO_TIMESTAMP_LTZ(-62135596800000, 3) - INTERVAL '1' MONTH", "E2103"),
        ("America/New_York", "CAST(TIMESTAMP '2262-04-11 23:00:00.123456789' AS TIMESTAMP_LTZ(9))", "E2101"),
        ("Asia/Tokyo", "CAST(TIMESTAMP '1677-09-21 00:20:00.123456789' AS TIMESTAMP_LTZ(9))", "E2101"),
        ("UTC", "TIMESTAMP '2500-01-01 00:00:00.123456789'", "E1308"),
        ("UTC", "TIMESTAMP_LTZ '1500-01-01 00:00:00.1234567'", "E1308"),
        ("UTC", "TIMESTAMP '2500-01-01 00:00:00' = TIMESTAMP '2000-01-01 00:00:00.123456789'", "E2101"),
    ],
)
def test_what_is_out_of_range_is_told(zone: str, expression: str, code: str) -> None:
    with TableEnvironment.create({"table.local-time-zone": zone}) as env, pytest.raises(SqlEngineError) as caught:
        values(env, f"SELECT {expression}")
    assert caught.value.code == code


def test_the_last_nanoseconds_have_a_text_in_every_zone() -> None:
    with TableEnvironment.create({"table.local-time-zone": "Asia/Tokyo"}) as env:
        query = "SELECT CAST(CAST('2262-04-11 23:00:00.123456789' AS TIMESTAMP_LTZ(9)) AS STRING)"
        assert values(env, query) == [("2262-04-11 23:00:00.123456789",)]
        shown = (
            "CAST(TO_TIMESTAMP_LTZ('2262-04-11 23:00:00.123456789', 'yyyy-MM-dd HH:mm:ss.SSSSSSSSS', 'UTC') AS STRING)"
        )
        assert values(env, f"SELECT {shown}")[0][0].startswith("2262-04-12 08:00:00.123")


def test_json_has_no_fraction_of_whole_seconds(env: TableEnvironment) -> None:
    query = "SELECT JSON_STRING(ARRAY[TIMESTAMP '2024-01-01 10:20:00', TIMESTAMP '2024-01-01 00:00:00.120'])"
    assert values(env, query) == [('["2024-01-01T10:20:00","2024-01-01T00:00:00.12"]',)]
    assert values(env, "SELECT JSON_STRING(TIMESTAMP '2024-01-01 00:00:00')") == [('"2024-01-01T00:00:00"',)]


def test_finer_fractions_are_cut_also_before_1970() -> None:
    nanoseconds = pa.array([-1, -1000, -1001, 0, 999, None], pa.int64()).cast(pa.timestamp("ns"))
    assert as_time(nanoseconds, pa.timestamp("us")).cast(pa.int64()).to_pylist() == [-1, -1, -2, 0, 0, None]


# --- from outside

YEARS = {"y0000": -62135596801, "y0001": -62135596800, "y1500": -14831769600, "y2500": 16725225600,
         "y9999": 253402300799, "y10000": 253402300800}  # fmt: skip


@pytest.mark.parametrize("old", [False, True], ids=["INT64", "INT96"])
@pytest.mark.parametrize("year", YEARS)
def test_parquet(env: TableEnvironment, tmp_path: Path, year: str, old: bool) -> None:
    moments = pa.array([YEARS[year] * 10**6 + 123456, 1_700_000_000_123_456], pa.int64()).cast(pa.timestamp("us"))
    rows = pa.table({"x": moments, "r": pa.StructArray.from_arrays([moments], ["y"])})
    pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=old)
    options = f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet')"
    env.execute_sql(f"CREATE TABLE m (x TIMESTAMP(6), r ROW<y TIMESTAMP(6)>) {options}")
    env.execute_sql(f"CREATE TABLE n (x TIMESTAMP(9)) {options}")
    with pytest.raises(SqlEngineError, match="E3205"):
        values(env, "SELECT x FROM n")
    for column in ("x", "r.y"):
        if year in ("y0000", "y10000"):
            with pytest.raises(SqlEngineError, match="E3205"):
                values(env, f"SELECT {column} FROM m")
        else:
            found = values(env, f"SELECT EXTRACT(YEAR FROM {column}), EXTRACT(MICROSECOND FROM {column}) FROM m")
            assert sorted(found)[0 if year < "y2023" else 1][0] == int(year[1:])


def test_nanoseconds_of_old_parquet(env: TableEnvironment, tmp_path: Path) -> None:
    moments = pa.array([1_700_000_000_123_456_789], pa.int64()).cast(pa.timestamp("ns"))
    pq.write_table(pa.table({"x": moments}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    options = f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'parquet')"
    env.execute_sql(f"CREATE TABLE n (x TIMESTAMP(9)) {options}")
    assert values(env, "SELECT CAST(x AS STRING) FROM n") == [("2023-11-14 22:13:20.123456789",)]


FAR = pa.array([568971820800 * 10**6], pa.int64()).cast(pa.timestamp("us"))


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"x": FAR}),
        pa.table({"x": FAR.cast(pa.timestamp("us", "UTC"))}),
        pa.table({"x": pa.array([10**7], pa.int32()).cast(pa.date32())}),
        pa.table({"x": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), FAR)}),
        pa.table({"x": pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array([1]), FAR)}),
    ],
    ids=["timestamp", "instant", "date", "list", "map"],
)
def test_arrow(env: TableEnvironment, rows: pa.Table) -> None:
    with pytest.raises(SqlEngineError, match="E1325"):
        env.from_arrow(rows)


def test_frames(env: TableEnvironment) -> None:
    with pytest.raises(SqlEngineError, match="E1325"):
        env.from_pandas(pd.DataFrame({"x": np.array(["20000-01-01"], dtype="datetime64[s]")}))


@pytest.mark.parametrize(
    ("type_", "give"),
    [
        ("TIMESTAMP(6)", lambda x: FAR),
        ("TIMESTAMP(9)", lambda x: pa.array([16725225600], pa.int64()).cast(pa.timestamp("s"))),
        ("ARRAY<TIMESTAMP(6)>", lambda x: pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), FAR)),
    ],
)
def test_functions(env: TableEnvironment, type_: str, give: Callable[[Any], Any]) -> None:
    env.create_temporary_system_function("far", udf(give, result_type=type_, func_type="arrow"))
    with pytest.raises(SqlEngineError, match="E2111"):
        values(env, "SELECT far(1)")


def test_duckdb(env: TableEnvironment, tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("CREATE TABLE t (n INT, x TIMESTAMP, d DATE)")
        database.execute("INSERT INTO t VALUES (1, 'infinity', '2024-01-01'), (2, '2024-01-01', '-infinity')")
    env.execute_sql(f"CREATE CATALOG d WITH ('type' = 'duckdb', 'path' = '{path}')")
    for column in ("x", "d"):
        with pytest.raises(SqlEngineError, match="E3205"):
            values(env, f"SELECT {column} FROM d.main.t")
    assert values(env, "SELECT SUM(n) FROM d.main.t") == [(3,)]
