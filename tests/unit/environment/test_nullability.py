"""A result column that says NOT NULL never holds NULL, whatever aggregates it, and wherever no row is left to aggregate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runtime.core.errors import SqlEngineError
from runtime.expr.function import AggregateFunction
from runtime.expr.library import builtin_functions
from sqlengine import TableEnvironment

COLUMNS = {"i": "INT", "w": "DECIMAL(38, 0)", "f": "DECIMAL(38, 38)", "d": "DECIMAL(10, 2)", "s": "STRING"}
MOST = "9" * 38
ROWS = [
    f"({k}, {i}, CAST('{MOST}' AS DECIMAL(38, 0)), CAST('0.{MOST}' AS DECIMAL(38, 38)), {i}.25, 's{i}', "
    f"TIMESTAMP '1969-07-20 20:17:{10 + i}')"
    for k, i in [(1, 1), (1, 2), (1, 3), (2, 4), (3, 5)]
]
AGGREGATES = sorted(f.name for f in builtin_functions() if isinstance(f, AggregateFunction) and f.name.isidentifier())
PAIRS = {name for name in AGGREGATES if name.startswith(("CORR", "COVAR_", "REGR_"))}
NUMBERS = PAIRS | {name for name in AGGREGATES if name.startswith(("SUM", "AVG", "PERCENTILE", "STDDEV", "VAR"))}
WRITTEN = {
    "JSON_OBJECTAGG": "JSON_OBJECTAGG(KEY s VALUE {0})",
    "JSON_OBJECTAGG_NULL_ON_NULL": "JSON_OBJECTAGG(KEY s VALUE {0} NULL ON NULL)",
    "JSON_OBJECTAGG_ABSENT_ON_NULL": "JSON_OBJECTAGG(KEY s VALUE {0} ABSENT ON NULL)",
    "JSON_ARRAYAGG_NULL_ON_NULL": "JSON_ARRAYAGG({0} NULL ON NULL)",
    "JSON_ARRAYAGG_ABSENT_ON_NULL": "JSON_ARRAYAGG({0} ABSENT ON NULL)",
    "ARRAY_AGG_IGNORE_NULLS": "ARRAY_AGG({0}) IGNORE NULLS",
    "PERCENTILE": "PERCENTILE({0}, 0.5)",
    **{name: f"{name}({{0}}, i)" for name in PAIRS},
}
ROWS_BEFORE = "OVER (PARTITION BY k ORDER BY t ROWS BETWEEN {} PRECEDING AND {})"
PLACES = {
    "groups": ("{0}", "SELECT k, {0} FROM v GROUP BY k"),
    "distinct": ("{0}", "SELECT {0} FROM (SELECT DISTINCT k, s, i, w, f, d FROM v) GROUP BY k"),
    "filtered": ("{0} FILTER (WHERE i > 3)", "SELECT k, {0} FROM v GROUP BY k"),
    "all rows": ("{0}", "SELECT {0} FROM v WHERE i > 100"),
    "grouping sets": ("{0}", "SELECT k, i, {0} FROM v GROUP BY GROUPING SETS ((k, i), (k), ())"),
    "over": ("{0} " + ROWS_BEFORE.format("UNBOUNDED", "CURRENT ROW"), "SELECT k, {0} FROM v"),
    "over filtered": ("{0} FILTER (WHERE i > 3) OVER (PARTITION BY k ORDER BY t)", "SELECT k, {0} FROM v"),
    "over nothing": ("{0} " + ROWS_BEFORE.format("2", "1 PRECEDING"), "SELECT k, {0} FROM v"),
    "subquery": ("(SELECT {0} FROM v WHERE v.k = o.k + 1)", "SELECT k, {0} FROM v AS o"),
    "lateral": ("{0}", "SELECT * FROM v AS o, LATERAL (SELECT {0} FROM v WHERE v.k = o.k + 1) AS r"),
    "nearest": ("{0}", "SELECT * FROM v AS o LEFT JOIN LATERAL (SELECT {0} FROM v WHERE v.k > o.k) AS r ON TRUE"),
    "windows": (
        "{0}",
        "SELECT {0} FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(t), INTERVAL '2' SECOND)) GROUP BY window_start, window_end",
    ),
}
"""Where an aggregate stands: how its call is written there, and the query."""


@pytest.fixture(scope="module")
def environment() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        columns = ", ".join(f"{name} {type_} NOT NULL" for name, type_ in COLUMNS.items())
        made.execute_sql(f"CREATE TABLE v (k INT NOT NULL, {columns}, t TIMESTAMP(3) NOT NULL, WATERMARK FOR t AS t)")
        made.execute_sql(f"INSERT INTO v VALUES {', '.join(ROWS)}")
        yield made


@pytest.mark.parametrize(
    ("mode", "place"), [*(("streaming", p) for p in PLACES), *(("batch", p) for p in ("all rows", "grouping sets"))]
)
def test_an_aggregate_that_says_not_null(environment: TableEnvironment, place: str, mode: str) -> None:
    environment.get_config().set("execution.runtime-mode", mode)
    call, query = PLACES[place]
    answered = 0
    for name in AGGREGATES:
        written = WRITTEN.get(name, f"{name}({{0}})")
        columns = [c for c in COLUMNS if (c == "s" or name != "LISTAGG") and (c != "s" or name not in NUMBERS)]
        text = query.format(", ".join(f"{call.format(written.format(c))} AS r{c}" for c in columns))
        try:
            result = environment.execute_sql(text)
            rows = list(result.collect())
        except SqlEngineError as error:
            assert error.code != "E9100", f"{text}: {error}"
            continue
        answered += 1
        fields = [f.type.nullable for f in result.schema]
        for row in rows:
            wrong = [v for v, nullable in zip(row, fields, strict=True) if v is None and not nullable]
            assert not wrong, f"{text} gave {row} and says {result.schema}"
    assert answered > 15
