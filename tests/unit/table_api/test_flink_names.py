"""Programs of PyFlink: the names of `pyflink.table` (2.3) are there with their arguments, and mean their SQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from sqlengine import (
    AggregateFunction,
    AsyncScalarFunction,
    DataTypes,
    ExplainDetail,
    Expression,
    JsonExistsOnError,
    JsonOnNull,
    JsonQueryOnEmptyOrError,
    JsonQueryWrapper,
    JsonType,
    JsonValueOnEmptyOrError,
    ListView,
    MapView,
    Over,
    Row,
    RowKind,
    ScalarFunction,
    Schema,
    SqlEngineError,
    Table,
    TableAggregateFunction,
    TableDescriptor,
    TableEnvironment,
    TimeIntervalUnit,
    TimePointUnit,
    Tumble,
    col,
    lit,
    udaf,
    udf,
    udtaf,
    udtf,
)
from sqlengine import expressions as ex

SQL: dict[str, list[tuple[Expression, str]]] = {
    "texts": [
        (col("s").trim(), "TRIM(s)"),
        (col("s").trim("x"), "TRIM(BOTH 'x' FROM s)"),
        (col("s").trim_leading("x"), "TRIM(LEADING 'x' FROM s)"),
        (col("s").trim_trailing(), "TRIM(TRAILING FROM s)"),
        (col("s").ltrim("x"), "LTRIM(s, 'x')"),
        (col("s").rtrim(), "RTRIM(s)"),
        (col("s").btrim("x"), "BTRIM(s, 'x')"),
        (col("s").starts_with("x"), "STARTSWITH(s, 'x')"),
        (col("s").ends_with("x"), "ENDSWITH(s, 'x')"),
        (col("s").translate("ab", "cd"), "TRANSLATE(s, 'ab', 'cd')"),
        (col("s").instr("x"), "INSTR(s, 'x')"),
        (lit("x").locate(col("s"), 2), "LOCATE('x', s, 2)"),
        (col("s").substr(2, 1), "SUBSTRING(s FROM 2 FOR 1)"),
        (col("s").encode("UTF-8").decode("UTF-8"), "DECODE(ENCODE(s, 'UTF-8'), 'UTF-8')"),
        (col("s").url_encode().url_decode(), "URL_DECODE(URL_ENCODE(s))"),
        (col("s").inet_aton().inet_ntoa(), "INET_NTOA(INET_ATON(s))"),
        (col("s").parse_url("QUERY", "k"), "PARSE_URL(s, 'QUERY', 'k')"),
        (lit("%s").printf(col("s")), "PRINTF('%s', s)"),
        (col("s").str_to_map(), "STR_TO_MAP(s)"),
        (col("s").str_to_map(";", ":"), "STR_TO_MAP(s, ';', ':')"),
        (col("n").elt("a", "b"), "ELT(n, 'a', 'b')"),
        (col("s").like("a!%", "!"), "s LIKE 'a!%' ESCAPE '!'"),
        (col("s").sha2(256), "SHA2(s, 256)"),
        (col("s").sha224, "SHA224(s)"),
        (col("s").unhex, "UNHEX(s)"),
        (col("s").split(","), "SPLIT(s, ',')"),
        (ex.concat("a", col("s")), "CONCAT('a', s)"),
        (ex.concat_ws("-", "a", col("s")), "CONCAT_WS('-', 'a', s)"),
    ],
    "regular expressions": [
        (col("s").regexp_extract("a(b)", 1), "REGEXP_EXTRACT(s, 'a(b)', 1)"),
        (col("s").regexp_extract_all("a"), "REGEXP_EXTRACT_ALL(s, 'a')"),
        (col("s").regexp_count("a"), "REGEXP_COUNT(s, 'a')"),
        (col("s").regexp_instr("a"), "REGEXP_INSTR(s, 'a')"),
        (col("s").regexp_substr("a"), "REGEXP_SUBSTR(s, 'a')"),
    ],
    "numbers": [
        (col("n").log(2), "LOG(2, n)"),
        (ex.log(col("n"), 2), "LOG(2, n)"),
        (col("n").sinh, "SINH(n)"),
        (col("n").cosh, "COSH(n)"),
        (col("n").tanh, "TANH(n)"),
        (col("n").cot, "COT(n)"),
        (ex.atan2(1.0, col("n")), "ATAN2(1e0, n)"),
        (ex.negative(col("n")), "-n"),
    ],
    "groups": [
        (col("n").percentile(0.5), "PERCENTILE(n, 0.5e0)"),
        (col("s").list_agg(), "LISTAGG(s, ',')"),
        (ex.json_object_agg(JsonOnNull.ABSENT, col("s"), col("n")), "JSON_OBJECTAGG(KEY s VALUE n ABSENT ON NULL)"),
        (ex.json_array_agg(JsonOnNull.NULL, col("n")), "JSON_ARRAYAGG(n NULL ON NULL)"),
    ],
    "collections": [
        (col("xs").array_append(1), "ARRAY_APPEND(xs, 1)"),
        (col("xs").array_prepend(1), "ARRAY_PREPEND(xs, 1)"),
        (col("xs").array_position(1), "ARRAY_POSITION(xs, 1)"),
        (col("xs").array_remove(1), "ARRAY_REMOVE(xs, 1)"),
        (col("xs").array_reverse(), "ARRAY_REVERSE(xs)"),
        (col("xs").array_distinct(), "ARRAY_DISTINCT(xs)"),
        (col("xs").array_slice(1, 2), "ARRAY_SLICE(xs, 1, 2)"),
        (col("xs").array_sort(False), "ARRAY_SORT(xs, FALSE)"),
        (col("xs").array_sort(null_first=True), "ARRAY_SORT(xs, TRUE, TRUE)"),
        (col("xs").array_union(col("xs")), "ARRAY_UNION(xs, xs)"),
        (col("xs").array_except(col("xs")), "ARRAY_EXCEPT(xs, xs)"),
        (col("xs").array_intersect(col("xs")), "ARRAY_INTERSECT(xs, xs)"),
        (col("xs").array_concat(col("xs"), col("xs")), "ARRAY_CONCAT(xs, xs, xs)"),
        (col("xs").array_max(), "ARRAY_MAX(xs)"),
        (col("xs").array_min(), "ARRAY_MIN(xs)"),
        (col("xs").cast("ARRAY<STRING>").array_join("-", "?"), "ARRAY_JOIN(CAST(xs AS ARRAY<STRING>), '-', '?')"),
        (col("m").map_entries, "MAP_ENTRIES(m)"),
        (col("m").map_union(col("m")), "MAP_UNION(m, m)"),
        (ex.map_from_arrays(col("xs"), col("xs")), "MAP_FROM_ARRAYS(xs, xs)"),
        (ex.object_of("C", "a", 1).object_update("a", 2), "OBJECT_UPDATE(OBJECT_OF('C', 'a', 1), 'a', 2)"),
        (ex.row(1, "a").flatten, "(ROW(1, 'a')).*"),
    ],
    "json": [
        (col("s").is_json(), "s IS JSON"),
        (col("s").is_json(JsonType.ARRAY), "s IS JSON ARRAY"),
        (col("s").json_exists("$.a", JsonExistsOnError.TRUE), "JSON_EXISTS(s, '$.a' TRUE ON ERROR)"),
        (col("s").json_value("$.a"), "JSON_VALUE(s, '$.a')"),
        (
            col("s").json_value(
                "$.a", DataTypes.INT(), JsonValueOnEmptyOrError.DEFAULT, 7, JsonValueOnEmptyOrError.ERROR
            ),
            "JSON_VALUE(s, '$.a' RETURNING INT DEFAULT 7 ON EMPTY ERROR ON ERROR)",
        ),
        (
            col("s").json_query(
                "$.a",
                JsonQueryWrapper.CONDITIONAL_ARRAY,
                JsonQueryOnEmptyOrError.EMPTY_ARRAY,
                JsonQueryOnEmptyOrError.EMPTY_OBJECT,
            ),
            "JSON_QUERY(s, '$.a' WITH CONDITIONAL ARRAY WRAPPER EMPTY ARRAY ON EMPTY EMPTY OBJECT ON ERROR)",
        ),
        (col("s").json_quote().json_unquote(), "JSON_UNQUOTE(JSON_QUOTE(s))"),
        (ex.json_string(col("n")), "JSON_STRING(n)"),
        (
            ex.json_object(JsonOnNull.ABSENT, "a", col("n"), "b", ex.json(lit("{}"))),
            "JSON_OBJECT(KEY 'a' VALUE n, KEY 'b' VALUE JSON('{}') ABSENT ON NULL)",
        ),
        (ex.json_array(JsonOnNull.NULL, 1, col("n")), "JSON_ARRAY(1, n NULL ON NULL)"),
    ],
    "times": [
        (lit("12:30:00").to_time, "CAST('12:30:00' AS TIME)"),
        (col("t").extract(TimeIntervalUnit.MONTH), "EXTRACT(MONTH FROM t)"),
        (col("t").floor(TimeIntervalUnit.DAY), "FLOOR(t TO DAY)"),
        (ex.timestamp_diff(TimePointUnit.HOUR, col("t"), col("t")), "TIMESTAMPDIFF(HOUR, t, t)"),
        (
            ex.temporal_overlaps(col("t"), lit(1).hours, col("t"), lit(2).hours),
            "(t, INTERVAL '1' HOUR) OVERLAPS (t, INTERVAL '2' HOUR)",
        ),
        (ex.date_format(col("t"), "yyyy"), "DATE_FORMAT(t, 'yyyy')"),
        (ex.convert_tz(col("s"), "UTC", "Asia/Tokyo"), "CONVERT_TZ(s, 'UTC', 'Asia/Tokyo')"),
        (ex.from_unixtime(44, "HH:mm"), "FROM_UNIXTIME(44, 'HH:mm')"),
        (ex.unix_timestamp(col("s")), "UNIX_TIMESTAMP(s)"),
        (ex.to_date(col("s")), "TO_DATE(s)"),
        (ex.to_timestamp(col("s"), "yyyy"), "TO_TIMESTAMP(s, 'yyyy')"),
        (ex.to_timestamp_ltz(1000, 3), "TO_TIMESTAMP_LTZ(1000, 3)"),
        (ex.lag(col("n"), 2, 0).over(Over.order_by("t")), "LAG(n, 2, 0) OVER (ORDER BY t)"),
    ],
}


@pytest.fixture(scope="module")
def env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as made:
        made.execute_sql(
            "CREATE TABLE t (n INT, s STRING, xs ARRAY<INT>, m MAP<STRING, INT>, t TIMESTAMP(3), WATERMARK FOR t AS t)"
        )
        yield made


@pytest.mark.parametrize("family", SQL)
def test_methods_have_the_plan_of_their_sql(env: TableEnvironment, family: str) -> None:
    made = env.from_path("t").select(*(e for e, _ in SQL[family])).explain(ExplainDetail.CHANGELOG_MODE)
    twin = env.explain_sql(f"SELECT {', '.join(sql for _, sql in SQL[family])} FROM t", "CHANGELOG_MODE")
    assert _physical(made) == _physical(twin)


def _physical(plan: str) -> str:
    return plan[plan.index("== Physical Plan ==") :]


def test_what_tells_the_time_or_a_number_of_its_own_is_there(env: TableEnvironment) -> None:
    told = (
        ex.current_time(),
        ex.local_time(),
        ex.local_timestamp(),
        ex.current_database(),
        ex.current_watermark(col("t")),
    )
    made = env.from_path("t").select(*told, ex.uuid(), ex.rand(), ex.rand(1), ex.rand_integer(5), ex.pi(), ex.e())
    assert len(made.schema) == 11
    # The seed comes first in SQL, last in Python.
    assert ex.rand_integer(5, 1).code.sql == "RAND_INTEGER(1, 5)"


EXPRESSION = """
log sinh cosh tanh cot exp log10 log2 ln sqrt abs floor ceil sin cos tan asin acos atan degrees radians sign round
between not_between then if_null is_null is_not_null is_true is_false is_not_true is_not_false distinct sum sum0 min
max count avg first_value last_value list_agg stddev_pop stddev_samp var_pop var_samp collect array_agg percentile
alias cast try_cast asc desc in_ start end bin hex unhex truncate starts_with ends_with substring substr trim_leading
trim_trailing trim replace char_length upper_case lower_case init_cap like similar position lpad rpad overlay
translate regexp regexp_count regexp_replace regexp_extract regexp_extract_all regexp_instr regexp_substr from_base64
to_base64 ascii chr decode encode left right instr locate url_decode url_encode parse_url printf ltrim rtrim btrim
repeat over reverse split_index str_to_map elt to_date to_time to_timestamp extract year years quarter quarters month
months week weeks day days hour hours minute minutes second seconds milli millis get flatten at cardinality element
array_append array_contains array_distinct array_position array_prepend array_remove array_reverse array_slice
array_sort array_union array_concat array_max array_join array_min array_except array_intersect split map_keys
map_values map_union map_entries rowtime proctime md5 sha1 sha224 sha256 sha384 sha512 sha2 is_json json_exists
json_value json_query json_quote json_unquote object_update inet_aton inet_ntoa
"""


def test_expressions_have_all_methods_of_flink() -> None:
    assert [name for name in EXPRESSION.split() if not hasattr(Expression, name)] == []


# Functions that get whole rows

PAIR = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT()), DataTypes.FIELD("b", DataTypes.STRING())])


@udf(result_type=PAIR)
def next_row(row: Row) -> Row:
    return Row(row.id + 1, row[1])


@udf(result_type=PAIR, func_type="pandas")
def next_rows(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame.id + 10, frame.s], axis=1)


@udtf(result_types=[DataTypes.INT(), DataTypes.STRING()])
def letters(row: Row) -> Iterator[tuple[int, str]]:
    for letter in row.s or "":
        yield row.id, letter


class CountAndSum(AggregateFunction):
    opened = False

    def open(self, context: Any) -> None:
        self.opened = True

    def create_accumulator(self) -> list[int]:
        assert self.opened
        return [0, 0]

    def accumulate(self, accumulator: list[int], row: Row) -> None:
        accumulator[0] += 1
        accumulator[1] += row.id

    def get_value(self, accumulator: list[int]) -> Row:
        return Row(*accumulator)

    def get_result_type(self) -> Any:
        return DataTypes.ROW([DataTypes.FIELD("n", DataTypes.BIGINT()), DataTypes.FIELD("total", DataTypes.BIGINT())])


class Greatest(TableAggregateFunction):
    """The two greatest, with how often each was there."""

    def create_accumulator(self) -> list[Any]:
        return [ListView(), MapView()]

    def accumulate(self, accumulator: list[Any], row: Row) -> None:
        values, counts = accumulator
        counts.put(row.id, counts.get(row.id, 0) + 1)
        values.clear()
        values.add_all(sorted(counts)[-2:])

    def emit_value(self, accumulator: list[Any]) -> Iterator[Row]:
        values, counts = accumulator
        for value in values.get():
            yield Row(value, counts[value])


count_and_sum = udaf(CountAndSum(), name="count_and_sum")
greatest = udtaf(Greatest, result_type="ROW<v BIGINT, n BIGINT>", name="greatest")


@pytest.fixture
def pairs(env: TableEnvironment) -> Table:
    return env.from_elements([(1, "ab"), (2, "c"), (2, None)], {"id": "INT", "s": "STRING"})


def rows(table: Table) -> list[tuple[Any, ...]]:
    return [tuple(r) for r in table.execute()]


def test_functions_that_are_not_called_get_whole_rows(pairs: Table) -> None:
    assert rows(pairs.map(next_row)) == [(2, "ab"), (3, "c"), (3, None)]
    assert rows(pairs.map(next_rows)) == [(11, "ab"), (12, "c"), (12, None)]
    assert rows(pairs.flat_map(letters.alias("i", "l")).select("l")) == [("a",), ("b",), ("c",)]
    assert rows(pairs.join_lateral(letters.alias("i", "l"), col("i") > 1).select("id", "l")) == [(2, "c")]
    assert rows(pairs.left_outer_join_lateral(letters).select("id", "f1"))[-1] == (2, None)
    assert rows(pairs.aggregate(count_and_sum.alias("c", "t")).select(col("c"), col("t"))) == [(3, 5)]
    by_parity = pairs.group_by((col("id") % 2).alias("k"))
    assert sorted(rows(by_parity.aggregate(count_and_sum).select("k", "n", "total"))) == [(0, 2, 4), (1, 1, 1)]
    assert sorted(rows(by_parity.flat_aggregate(greatest).select("*"))) == [(0, 2, 2), (1, 1, 1)]
    assert sorted(rows(pairs.flat_aggregate(greatest.alias("x", "y")).select("x", "y"))) == [(1, 1), (2, 2)]


def test_windows_are_aggregated_by_functions(env: TableEnvironment) -> None:
    at = dt.datetime(2024, 1, 1)
    given = env.create_input("given", {"id": "INT", "at": "TIMESTAMP(3)"}, rowtime="at", keep=True)
    given.push([(i, at + dt.timedelta(minutes=i)) for i in range(4)])
    given.close()
    window = Tumble.over(lit(2).minutes).on(col("at")).alias("w")
    windowed = env.from_path("given").window(window).group_by(col("w"))
    made = windowed.aggregate(count_and_sum.alias("c", "t")).select(col("w").start.alias("since"), "c", "t")
    assert rows(made) == [(at, 2, 1), (at + dt.timedelta(minutes=2), 2, 5)]
    assert sorted(rows(windowed.flat_aggregate(greatest).select("v", "n"))) == [(i, 1) for i in range(4)]
    by_rows = env.from_path("given").window(Tumble.over(lit(2).rows).on("at").alias("w")).group_by(col("w"))
    with pytest.raises(SqlEngineError, match="E1230.*takes aggregates in select"):
        by_rows.aggregate(count_and_sum)


def test_functions_are_opened_once_before_they_are_used(pairs: Table) -> None:
    class Prefix(ScalarFunction):
        """Adds a text that `open` has found."""

        opened = 0

        def open(self, context: Any) -> None:
            Prefix.opened += 1
            self.text = "> "

        def eval(self, s: str) -> str:
            return self.text + (s or "")

    class Later(AsyncScalarFunction):
        def open(self, context: Any) -> None:
            context.get_metric_group()

        async def eval(self, s: str) -> str:
            return s

    made = udf(Prefix(), result_type="STRING")
    assert (made.name, made.__doc__, Prefix.opened) == ("Prefix", "Adds a text that `open` has found.", 0)
    assert rows(pairs.select(made(col("s")))) == [("> ab",), ("> c",), ("> ",)]
    assert Prefix.opened == 1
    assert rows(pairs.select(udf(Later(), result_type="STRING")(col("s")))) == [("ab",), ("c",), (None,)]


# Results, schemas, options


def test_results_rows_and_kinds(pairs: Table) -> None:
    with pairs.execute().collect() as found:
        first = found.next()
        assert (first.get_row_kind(), str(RowKind.DELETE)) == (RowKind.INSERT, "-D")
    assert Row(id=1, s="x").as_dict() == {"id": 1, "s": "x"} and Row(1, "x") == (1, "x")
    with pytest.raises(TypeError, match="an accumulator that does is a list"):
        Row(0, 0)[0] += 1
    assert pairs.execute().get_result_kind() == "SUCCESS_WITH_CONTENT"


def test_tables_that_are_described_where_they_are_written(env: TableEnvironment, pairs: Table, capsys: Any) -> None:
    schema = Schema.new_builder().from_row_data_type(pairs_type()).build()
    printed = TableDescriptor.for_connector("print").schema(schema).build()
    pairs.execute_insert(printed).wait(timeout_ms=60_000)
    statements = env.create_statement_set().add(pairs.insert_into(printed)).add_insert(printed, pairs)
    statements.print_explain(ExplainDetail.CHANGELOG_MODE)
    assert capsys.readouterr().out.count("Sink") > 1
    env.create_view("kept", pairs)
    assert "kept" in env.list_views() and "kept" not in env.list_temporary_views()
    assert any(name.startswith("descriptor_") for name in env.list_temporary_tables())


def pairs_type() -> Any:
    return DataTypes.ROW([DataTypes.FIELD("id", DataTypes.INT()), DataTypes.FIELD("s", DataTypes.STRING())])


def test_schemas_keep_the_order_of_their_columns() -> None:
    schema = Schema.new_builder().from_fields(["a"], [DataTypes.INT(False)]).column_by_expression("b", "a + 1")
    schema = schema.column_by_metadata("c", "INT", "key", True).column("d", DataTypes.STRING()).primary_key("a")
    assert schema.build().ddl == (
        "a INT NOT NULL, b AS a + 1, c INT METADATA FROM 'key' VIRTUAL, d STRING, PRIMARY KEY (a) NOT ENFORCED"
    )
    assert str(DataTypes.INTERVAL(DataTypes.DAY(), DataTypes.SECOND(3))) == "INTERVAL DAY(2) TO SECOND(3)"
    assert str(DataTypes.INTERVAL(DataTypes.SECOND(3))) == "INTERVAL SECOND(3)"
    assert str(DataTypes.INTERVAL(DataTypes.YEAR(4), DataTypes.MONTH())) == "INTERVAL YEAR(4) TO MONTH"


def test_options_have_methods() -> None:
    with TableEnvironment.create() as env:
        config = env.get_config().set_local_timezone("Europe/Berlin").set_idle_state_retention(dt.timedelta(hours=1))
        config.get_configuration().add_configuration({"parallelism.default": "2"})
        assert config.get_local_timezone() == "Europe/Berlin"
        assert (config.get("table.exec.state.ttl"), config.get("parallelism.default")) == ("3600000 ms", "2")


def test_a_method_without_its_parentheses_is_told(pairs: Table) -> None:
    with pytest.raises(SqlEngineError, match=r"E1321 \.trim is a method, and its parentheses are missing"):
        pairs.select(col("s").trim)


GIVEN = {
    "join": (
        lambda o: o.join("orders", col("n") == 1),
        "E1329 join takes a table, and this is 'orders'; t_env.from_path",
    ),
    "union": (lambda o: o.union(None), "E1329 union takes a table, and this is None"),
    "limit": (lambda o: o.limit("x"), "E1329 limit takes a number of rows, and this is 'x'"),
    "where": (
        lambda o: o.where(ex.with_columns("n")),
        "E1321.*where columns are listed.*a condition or value takes col",
    ),
    "window": (lambda o: o.window("w"), "E1329 window takes a window, and this is 'w'; Tumble.over"),
    "rename": (lambda o: o.rename_columns(col("n")), "E1329 rename_columns takes columns with their new names"),
    "add": (lambda o: o.add_columns("n"), 'E1205 there is a column "n" already'),
    "map": (lambda o: o.map(len), "E1329 an operation by rows takes a function of sqlengine.*decorate it with @udf"),
    "col": (lambda o: o.select(col(1)), "E1329 col takes the name of a column, and this is 1"),
    "cast": (lambda o: o.select(col("n").cast(int)), "E1329 cast takes a SQL type, and this is a type; DataTypes"),
    "insert": (lambda o: o.execute_insert(None), "E1329 an INSERT takes the name of a table, and this is None"),
}


@pytest.mark.parametrize("name", GIVEN)
def test_what_operations_are_given_is_checked(env: TableEnvironment, name: str) -> None:
    mistake, message = GIVEN[name]
    with pytest.raises(SqlEngineError, match=message):
        mistake(env.from_path("t"))


def test_between_two_tables_the_next_step_is_told(env: TableEnvironment) -> None:
    table = env.from_path("t")
    with pytest.raises(
        AttributeError, match=r"GroupedTable has no 'where': say what to know of each group next: select"
    ):
        _ = table.group_by("n").where
    with pytest.raises(AttributeError, match=r"TemporalTable has no 'select': the versions of a table are only joined"):
        _ = table.for_system_time_as_of("t").select
    with pytest.raises(TypeError, match=r"for row in table.execute"):
        list(table)
