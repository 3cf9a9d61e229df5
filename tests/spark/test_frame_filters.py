"""Filters that Spark applies mean what the engine means: random conditions over values of all types, both ways.

The number of conditions is FILTER_CASES (default 80). All are columns of one DataFrame, so that they are one Spark job.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runtime.expr.nodes import Expr
from runtime.spark.frame import FrameSource
from runtime.spark.frame_filters import Pushed, column_kinds
from runtime.spark.session import spark_session
from sqlengine.api.environment import TableEnvironment

CASES = int(os.environ.get("FILTER_CASES", "80"))

_DAY = dt.datetime(2024, 2, 28, 23, 59, 59, 999_999)
_TIMES = [_DAY + dt.timedelta(microseconds=step) for step in (-86_400_000_000, -1000, -1, 0, 1, 500, 999, 1000, 1001)]
_TIMES += [dt.datetime(1, 1, 1), dt.datetime(1582, 10, 10, 1), dt.datetime(9999, 12, 31, 23, 59, 59)]
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [-(2**31), -1, 0, 1, 2, 7, 2**31 - 1]),
    "b": (pa.int64(), [-(2**63), -5, 0, 3, 2**40, 2**63 - 1]),
    "d": (pa.decimal128(10, 2), [Decimal(n).scaleb(-2) for n in (-9999999999, -1, 0, 1, 100, 250, 251, 9999999999)]),
    "e": (pa.decimal128(38, 18), [Decimal("0.000000000000000001"), Decimal(1), Decimal("-2.5"), Decimal(99999)]),
    "f": (pa.float32(), [-0.0, 0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 16777216.0]),
    "x": (pa.float64(), [-0.0, 0.0, 0.1, 1.5, -1.5, math.nan, math.inf, -math.inf, 1e300]),
    "s": (pa.string(), ["", "a", "A", "ab", "abc", "a_b", "a%b", "ä", "b\nc", "𝄞x", "a ", "\\", "Ab"]),
    "o": (pa.bool_(), [True, False]),
    "dt": (pa.date32(), [t.date() for t in _TIMES]),
    "ts": (pa.timestamp("us"), _TIMES),
    "lt": (pa.timestamp("us", "UTC"), [t.replace(tzinfo=dt.UTC) for t in _TIMES]),
    "t3": (pa.timestamp("us"), _TIMES),
}
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


def literal(name: str, rng: random.Random) -> str:
    value = rng.choice(VALUES[name][1])
    match name:
        case "i" | "b":
            return str(rng.choice((value, value, 3_000_000_000, "2.5", "2.0"))) if value > -(2**63) else "-5"
        case "d" | "e":
            return rng.choice((format(value, "f"), format(value, "f"), "2", "2.555", "2.500"))
        case "f" | "x":
            type_ = "FLOAT" if name == "f" else "DOUBLE"
            special = {math.inf: "Infinity", -math.inf: "-Infinity"}
            text = "NaN" if math.isnan(value) else special.get(value, repr(value))
            return f"CAST('{text}' AS {type_})"
        case "s":
            return "'" + value + "'"
        case "o":
            return str(value).upper()
        case "dt":
            return f"DATE '{value}'"
        case "lt":
            return f"CAST(TIMESTAMP '{value.replace(tzinfo=None)}' AS TIMESTAMP_LTZ(6))"
        case _:
            value = value.replace(microsecond=value.microsecond // 1000 * 1000) if name == "t3" else value
            return f"TIMESTAMP '{value}'"


def condition(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.35:
        left, right = condition(rng, depth - 1), condition(rng, depth - 1)
        return rng.choice((f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"))
    name = rng.choice(list(VALUES))
    kind = rng.random()
    if kind < 0.1:
        return f"`{name}` IS {rng.choice(('', 'NOT '))}NULL"
    if name == "o" and kind < 0.5:
        return rng.choice(("`o`", "NOT `o`"))
    if name == "s" and kind < 0.5:
        pattern = rng.choice(("a%", "%b", "_", "a_b", "%", "a%b", "__", "A%", "%\n%", "\\%"))
        return f"`s` {rng.choice(('', 'NOT '))}LIKE '{pattern}'"
    if kind < 0.3:
        items = ", ".join(literal(name, rng) for _ in range(3))
        return f"`{name}` {rng.choice(('', 'NOT '))}IN ({items})"
    if kind < 0.4:
        return f"`{name}` BETWEEN {literal(name, rng)} AND {literal(name, rng)}"
    if kind < 0.5:
        return f"{literal(name, rng)} {rng.choice(COMPARISONS)} `{name}`"
    return f"`{name}` {rng.choice(COMPARISONS)} {literal(name, rng)}"


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    # A zone with summer time: constants must not pass through it.
    session = spark_session("local[2,4]", {"spark.sql.session.timeZone": "America/New_York"})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    rng = random.Random(7)
    columns = {n: pa.array([rng.choice([None, *v]) for _ in range(120)], t) for n, (t, v) in VALUES.items()}
    return pa.table({"id": pa.array(range(120), pa.int64()), **columns})


@pytest.fixture(scope="module")
def frame(spark: Any, rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The rows in Parquet files, which Spark filters as well."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    place = str(tmp_path_factory.mktemp("filters") / "t")
    spark.createDataFrame(rows).repartition(3, "i").write.parquet(place)
    return spark.read.parquet(place)


def environment(frame: Any) -> TableEnvironment:
    t_env = TableEnvironment.create({"table.local-time-zone": "UTC"})
    t_env.create_temporary_view("t", frame, schema={"t3": "TIMESTAMP(3)"})
    return t_env


def ids(t_env: TableEnvironment, where: str) -> list[int]:
    return sorted(row["id"] for row in t_env.execute_sql(f"SELECT id FROM t WHERE {where}").to_arrow().to_pylist())


def test_what_spark_filters_is_what_the_engine_filters(spark: Any, frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(int(os.environ.get("FILTER_SEED", "3")))
    conditions = [condition(rng) for _ in range(CASES)]
    seen: list[Pushed | None] = []

    def none_taken(source: FrameSource, filters: Sequence[Expr]) -> tuple[FrameSource, list[Expr]]:
        kinds = column_kinds(frame)
        seen.extend(Pushed.of(e, source.schema, kinds) for e in filters)
        return source, list(filters)

    taken = FrameSource.with_filters
    pushed: list[tuple[int, str, list[int], bool]] = []
    with environment(frame) as embedded, environment(frame) as t_env:
        kept = embedded.execute_sql("SELECT * FROM t").to_arrow()
        embedded.create_temporary_view("kept", embedded.from_arrow(kept))
        monkeypatch.setattr(FrameSource, "with_filters", none_taken)
        checks: list[Any] = []
        for number, text in enumerate(conditions):
            seen.clear()
            t_env.explain_sql(f"SELECT id FROM t WHERE {text}")
            found = embedded.execute_sql(f"SELECT id FROM kept WHERE {text}").to_arrow()
            expected = sorted(row["id"] for row in found.to_pylist())
            each = [p.condition(frame) for p in seen if p is not None]
            if each:
                whole = each[0]
                for one in each[1:]:
                    whole = whole & one
                checks.append(whole.alias(f"c{number}"))
                pushed.append((number, text, expected, len(each) == len(seen)))
        assert len(checks) > CASES // 2
        told = frame.select("id", *checks).toArrow()
        for number, text, expected, wholly in pushed:
            got = {i for i, c in zip(told["id"].to_pylist(), told[f"c{number}"].to_pylist(), strict=True) if c}
            # Where something is left, the engine filters once more.
            assert got == set(expected) if wholly else got >= set(expected), text
        monkeypatch.setattr(FrameSource, "with_filters", taken)
        for _, text, expected, _ in rng.sample(pushed, min(3, len(pushed))):
            assert ids(t_env, text) == expected, text


def test_partitions_that_no_row_is_wanted_of_are_not_read(spark: Any, rows: pa.Table, tmp_path: Path) -> None:
    plain = spark.createDataFrame(rows.select(["id", "dt", "d", "s"]))
    plain.filter("dt > DATE '2000-01-01' AND dt < DATE '2100-01-01'").write.partitionBy("dt").parquet(
        str(tmp_path / "t")
    )
    with environment_of(spark.read.parquet(str(tmp_path / "t"))) as t_env:
        query = "SELECT id FROM t WHERE dt = DATE '2024-02-28' AND d > 1 AND s LIKE 'a%'"
        explained = t_env.explain_sql(query)
        assert "dt = DATE '2024-02-28'" in explained
        sources: list[FrameSource] = []
        t_env.session.on_job = lambda job: sources.extend(s.table for s in job.dataflow.sources)
        t_env.execute_sql(query).to_arrow()
        plan = sources[0].selected()._jdf.queryExecution().executedPlan().toString()
        assert "PartitionFilters: [isnotnull(dt" in plan
        assert "StringStartsWith(s,a)" in plan
        assert "GreaterThan(d,1.00)" in plan


def environment_of(frame: Any) -> TableEnvironment:
    t_env = TableEnvironment.create()
    t_env.create_temporary_view("t", frame)
    return t_env
