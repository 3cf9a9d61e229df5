"""Times and intervals at the ends of their range, in every function that moves them: a value, NULL or an error with a
code."""

from __future__ import annotations

import random

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment

UNITS = [
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
    "MICROSECOND",
    "NANOSECOND",
]
POINTS = {
    "DATE": ["0001-01-01", "9999-12-31", "1969-12-31", "2024-02-29"],
    "TIMESTAMP(3)": ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999", "1969-07-20 20:17:40", "2024-02-29 12:00:00"],
    "TIMESTAMP(9)": ["1677-09-22 00:00:00", "2262-04-11 23:00:00", "1969-07-20 20:17:40.123456789"],
    "TIMESTAMP_LTZ(3)": ["0001-01-02 00:00:00", "9999-12-30 23:59:59.999", "1969-07-20 20:17:40"],
    "TIME": ["00:00:00", "23:59:59"],
}
COUNTS = [
    "9223372036854775807",
    "-9223372036854775807",
    "2147483647",
    "-2147483648",
    "0",
    "1",
    "-1",
    "8000",
    "99999999",
]
INTERVALS = [
    *(
        "INTERVAL '999999999' DAY(9)",
        "INTERVAL '-999999999' DAY(9)",
        "INTERVAL '99999999' YEAR(9)",
        "INTERVAL '1' MONTH",
    ),
    *("INTERVAL '-99999999' YEAR(9)", "INTERVAL '0.001' SECOND(1, 3)", "INTERVAL '999999999' HOUR(9)"),
]
SHAPES = [
    *("TIMESTAMPADD({unit}, {count}, {point})", "{point} + {interval}", "{point} - {interval}", "{interval} * {count}"),
    *("{interval} + {interval2}", "{interval} - {interval2}", "-({interval} - {interval2})"),
    *("TIMESTAMPDIFF({unit}, {point}, {point2})", "FLOOR({point} TO {unit})", "CEIL({point} TO {unit})"),
    *("EXTRACT({unit} FROM {point})", "CAST({point} AS TIMESTAMP(9))", "CAST({point} AS TIMESTAMP_LTZ(3))"),
    *("CAST({point} AS STRING)", "CAST({count} AS INTERVAL SECOND)", "CAST({count} AS INTERVAL DAY)"),
    *(
        "CAST({small} AS INTERVAL MONTH)",
        "CAST(CAST({small} AS INTERVAL MONTH) AS STRING)",
        "TO_TIMESTAMP_LTZ({count}, 3)",
    ),
    *("TO_TIMESTAMP_LTZ({count}, 0)", "TO_TIMESTAMP_LTZ({count}, 9)", "FROM_UNIXTIME({count})", "{interval} / 1"),
    *(
        "DATE_FORMAT({point}, 'yyyy-MM-dd HH:mm:ss.SSS')",
        "({point} - {point2}) DAY TO SECOND",
        "({point} - {point2}) MONTH",
    ),
    *("CONVERT_TZ(CAST({point} AS STRING), 'UTC', 'Asia/Tokyo')", "CAST({point} AS DATE)", "CAST({point} AS TIME)"),
    *("UNIX_TIMESTAMP(CAST({point} AS STRING))", "({point}, {interval}) OVERLAPS ({point2}, {interval2})"),
]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_no_time_ends_in_an_internal_error(zone: str) -> None:
    chance = random.Random(zone)
    with TableEnvironment.create() as environment:
        environment.get_config().set("table.local-time-zone", zone)
        columns = {kind: f"c{i}" for i, kind in enumerate(POINTS)}
        environment.execute_sql(f"CREATE TABLE t ({', '.join(f'{c} {k}' for k, c in columns.items())})")
        longest = max(map(len, POINTS.values()))
        rows = [", ".join(f"CAST('{p[i % len(p)]}' AS {k})" for k, p in POINTS.items()) for i in range(longest)]
        environment.execute_sql(f"INSERT INTO t VALUES {', '.join(f'({r})' for r in rows)}")
        answered = 0
        for shape in SHAPES:
            for _ in range(12):
                kind = chance.choice(list(POINTS))
                constant = f"CAST('{chance.choice(POINTS[kind])}' AS {kind})"
                point = chance.choice([columns[kind], constant])
                expression = shape.format(
                    point=point,
                    point2=chance.choice([columns[kind], point]),
                    unit=chance.choice(UNITS),
                    count=chance.choice(COUNTS),
                    small=chance.choice(COUNTS[2:]),
                    interval=chance.choice(INTERVALS),
                    interval2=chance.choice(INTERVALS),
                )
                try:
                    list(environment.execute_sql(f"SELECT {expression} FROM t").collect())
                    answered += 1
                except SqlEngineError as error:
                    assert error.code != "E9100", f"{expression}: {error}"
        assert answered > 100


def test_a_time_of_day_goes_round_however_far() -> None:
    expressions = {
        "TIME '10:00:00' + INTERVAL '999999999' DAY(9)": "10:00:00",
        "TIME '10:00:00' - INTERVAL '999999999' HOUR(9)": "19:00:00",
        "TIMESTAMPADD(HOUR, 9223372036854775807, TIME '10:00:00')": "17:00:00",
        "TIMESTAMPADD(DAY, 9223372036854775807, TIME '10:00:00')": "10:00:00",
        "TIMESTAMPADD(YEAR, 9223372036854775807, TIME '10:00:00')": "10:00:00",
    }
    with TableEnvironment.create() as environment:
        for expression, expected in expressions.items():
            (row,) = environment.execute_sql(f"SELECT {expression}").collect()
            assert str(row[0]) == expected, expression


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("TIMESTAMPADD(SECOND, 9223372036854775807, TIMESTAMP '2020-01-01 00:00:00')", "E2103"),
        ("TIMESTAMPADD(MONTH, -9223372036854775807, DATE '2020-01-01')", "E2103"),
        ("TIMESTAMP '9999-12-31 23:59:59' + INTERVAL '1' SECOND", "E2103"),
        ("DATE '0001-01-01' - INTERVAL '1' DAY", "E2103"),
        ("INTERVAL '1' DAY * 9223372036854775807", "E2103"),
        ("INTERVAL '1' YEAR * 2147483647", "E2103"),
        ("TIMESTAMPDIFF(SECOND, TIMESTAMP '0001-01-01 00:00:00', TIMESTAMP '9999-01-01 00:00:00')", "E2103"),
        ("CEIL(TIMESTAMP '9999-12-31 23:59:59' TO YEAR)", "E2103"),
        ("CEIL(TIMESTAMP '2262-04-11 23:00:00.123456789' TO DAY)", "E2103"),
        ("CEIL(TIMESTAMP '2262-01-11 23:00:00.123456789' TO YEAR)", "E2103"),
        ("FLOOR(TIMESTAMP '1677-09-22 23:00:00.123456789' TO MONTH)", "E2103"),
        ("CAST(9223372036854775807 AS INTERVAL SECOND)", "E1308"),
        ("CAST(CAST(9223372036854775807 AS BIGINT) AS INTERVAL SECOND)", "E2101"),
        ("CAST(DATE '9999-12-31' AS TIMESTAMP(9))", "E2101"),
        ("INTERVAL '9999999999999999999999' SECOND", "E1308"),
    ],
)
def test_what_is_out_of_range_is_told(expression: str, code: str) -> None:
    with TableEnvironment.create() as environment, pytest.raises(SqlEngineError) as caught:
        list(environment.execute_sql(f"SELECT {expression}").collect())
    assert caught.value.code == code


def test_a_guard_keeps_the_last_day_of_time_out() -> None:
    with TableEnvironment.create() as environment:
        environment.execute_sql("CREATE TABLE t (id INT, d DATE)")
        environment.execute_sql("INSERT INTO t VALUES (1, DATE '9999-12-31'), (2, DATE '2024-02-29')")
        query = "SELECT id, CASE WHEN d < DATE '9999-12-31' THEN d + INTERVAL '1' DAY END IS NULL FROM t"
        assert [tuple(r) for r in environment.execute_sql(query).collect()] == [(1, True), (2, False)]


def test_a_row_at_the_beginning_of_time_moves_no_watermark() -> None:
    with TableEnvironment.create() as environment:
        environment.execute_sql("CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)")
        environment.execute_sql(
            "INSERT INTO t VALUES (TIMESTAMP '0001-01-01 00:00:00'), (TIMESTAMP '2024-01-01 00:00:00')"
        )
        assert len(list(environment.execute_sql("SELECT * FROM t").collect())) == 2
