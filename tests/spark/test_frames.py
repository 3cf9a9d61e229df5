"""DataFrames of PySpark as tables, and tables as DataFrames. Part of the tests with a real Spark."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import BindError, SparkError, TypeMismatchError, UnsupportedError
from runtime.local.job import Job
from runtime.spark import gathered
from runtime.spark.frame import FrameSource, frame_of
from runtime.spark.session import spark_session
from runtime.spark.table_commits import FileCommits
from runtime.tasks.divided import Divided
from runtime.tasks.filed import FiledBatch
from sqlengine.api.environment import TableEnvironment
from sqlengine.spark import install
from sqlengine.spark_catalog import SparkCatalog
from sqlengine.spark_source import register

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int32()),
        "name": ["ann", "bob", None, "ann"],
        "amount": pa.array([Decimal("9.50"), Decimal("1.00"), Decimal("2.25"), None], pa.decimal128(10, 2)),
        "at": pa.array([dt.datetime(2024, 1, 1, 0, 0, s, tzinfo=dt.UTC) for s in range(4)], pa.timestamp("us", "UTC")),
        "tags": [["a"], [], None, ["b", "c"]],
    }
)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    session = spark_session("local[2,4]", {"spark.sql.warehouse.dir": warehouse})
    yield session
    session.stop()


def test_a_frame_is_a_table_and_filters_go_into_spark(spark: Any) -> None:
    t_env = TableEnvironment.create()
    t_env.create_temporary_view("orders", spark.createDataFrame(ROWS))
    assert t_env.execute_sql("SELECT * FROM orders").to_arrow().to_pylist() == ROWS.to_pylist()
    query = "SELECT name, SUM(amount) AS total FROM orders WHERE id < 4 AND name IS NOT NULL GROUP BY name"
    assert "id < 4" in t_env.explain_sql(query)
    frame = t_env.sql_query(query).to_spark(spark)
    assert sorted(map(tuple, frame.collect())) == [("ann", Decimal("9.50")), ("bob", Decimal("1.00"))]


def test_a_frame_of_files_has_the_types_of_one_from_memory(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = """SELECT id, CAST(id AS TINYINT) AS tiny, CAST(id AS DECIMAL(20, 3)) AS price, CAST(id AS STRING) AS name,
      CAST('ab' AS CHAR(3)) AS padded, id > 2 AS large, CAST(id AS FLOAT) AS f, CAST(NULL AS DOUBLE) AS d, X'01' AS raw,
      DATE '2024-01-01' AS day, TIMESTAMP '2024-01-01 00:00:00.123456' AS at, TO_TIMESTAMP_LTZ(id, 3) AS moment,
      ARRAY[id, NULL] AS ids, MAP['a', id] AS by_name, ROW(id, 'b') AS both
      FROM (VALUES (1), (2), (3)) AS t(id)"""
    monkeypatch.setattr(gathered, "_FILE_BYTES", 1)
    options = {"sqlengine.spark.write-in-tasks.min-rows": "1", "parallelism.default": "2"}
    t_env = TableEnvironment.create(options, spark=spark)
    plain = frame_of(t_env.execute_sql(query).to_arrow(), spark)
    frame = t_env.execute_sql(query).to_spark(spark)
    assert "MapInArrow" in frame._jdf.queryExecution().toString()
    assert frame.schema == plain.schema
    assert sorted(frame.collect()) == sorted(plain.collect())


def test_spark_reads_only_what_a_query_needs(spark: Any, tmp_path: Path) -> None:
    spark.createDataFrame(ROWS.select(["id", "name", "amount"])).write.parquet(str(tmp_path / "in"))
    t_env = TableEnvironment.create()
    t_env.create_temporary_view("orders", spark.read.parquet(str(tmp_path / "in")), primary_key=["id"])
    jobs: list[Job] = []
    t_env.session.on_job = jobs.append
    rows = t_env.execute_sql("SELECT amount FROM orders WHERE id < 3 AND amount > 2").to_arrow().to_pylist()
    assert rows == [{"amount": Decimal("9.50")}]
    (source,) = jobs[-1].dataflow.sources
    assert isinstance(source.table, FrameSource)
    plan = source.table.selected()._jdf.queryExecution().executedPlan().toString()
    assert "LessThan(id,3)" in plan
    assert "name" not in plan.partition("ReadSchema")[2]


def test_rows_of_a_frame_do_not_pass_the_driver(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(batch: FiledBatch) -> Any:
        raise AssertionError("the driver has loaded rows that tasks read")

    monkeypatch.setattr(FiledBatch, "_load", load)
    query = "SELECT k, COUNT(*) AS n, SUM(id) AS total FROM t WHERE id <> 5 GROUP BY k"
    answers: list[Any] = []
    for target in ("local", "spark"):
        with TableEnvironment.create(
            {"execution.target": target, "sqlengine.epoch.max-rows": "400000"}, spark=spark
        ) as t_env:
            t_env.create_temporary_view("t", spark.range(600_000).selectExpr("id", "id % 7 AS k"))
            answers.append(sorted(map(str, t_env.execute_sql(query).to_arrow().to_pylist())))
    assert answers[0] == answers[1]
    assert len(answers[0]) == 7


def test_a_job_goes_on_within_a_frame(spark: Any, tmp_path: Path) -> None:
    """Stopped after an epoch on one runtime, it resumes on the other; and not with other rows."""
    config = {"execution.checkpointing.dir": str(tmp_path / "state"), "sqlengine.epoch.max-rows": "3"}

    def run(target: str, rows: int, wanted: int) -> None:
        options = {**config, "execution.target": target, "sqlengine.spark.read-in-tasks": "true"}
        with TableEnvironment.create(options, spark=spark) as t_env:
            t_env.create_temporary_view("t", spark.range(10, 10 + rows, 1, 2), schema={"id": "BIGINT"})
            t_env.execute_sql(
                f"CREATE TABLE out (n BIGINT, v BIGINT) WITH ('connector'='filesystem', 'path'='{tmp_path}/out', 'format'='debezium-json')"
            )

            def on_epoch(job: Job) -> None:
                if sum(v.rows_in for v in job.dataflow.vertices if v.operator is None) >= wanted:
                    job.cancel()

            def on_job(job: Job) -> None:
                job.on_epoch = on_epoch

            t_env.session.on_job = on_job
            t_env.execute_sql("INSERT INTO out SELECT COUNT(*), SUM(id) FROM t").wait()

    for target in ("local", "spark"):
        with pytest.raises(UnsupportedError, match="was stopped before its end"):
            run(target, 10, 3)
    with pytest.raises(SparkError, match="gives other rows") as told:
        run("local", 12, 1)
    assert told.value.code == "E3108"
    run("local", 10, 100)
    files = [f for f in (tmp_path / "out").iterdir() if not f.name.startswith(".")]
    written = [line for f in files for line in f.read_text().splitlines()]
    after = [(r["after"]["n"], r["after"]["v"]) for r in map(json.loads, written) if r["after"]]
    assert max(after) == (10, sum(range(10, 20)))
    assert len(after) == len(set(after)) == 4


def test_a_frame_gets_event_time_and_a_key(spark: Any) -> None:
    t_env = TableEnvironment.create()
    frame = spark.createDataFrame(ROWS.select(["id", "name", "at"]))
    declared = {"schema": {"id": "BIGINT"}, "rowtime": "at", "watermark": "at - INTERVAL '1' SECOND"}
    t_env.create_temporary_view("orders", frame, **declared, primary_key=["id"])
    described = t_env.execute_sql("DESCRIBE orders").to_arrow().to_pylist()
    assert [(c["type"], c["key"]) for c in described] == [
        ("BIGINT", "PRI(id)"),
        ("STRING", None),
        ("TIMESTAMP_LTZ(3) *ROWTIME*", None),
    ]
    query = """SELECT window_start, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '2' SECOND)) WHERE name = 'ann'
    GROUP BY window_start, window_end"""
    assert sorted(row["n"] for row in t_env.execute_sql(query).to_arrow().to_pylist()) == [1, 1]
    with pytest.raises(BindError, match='did you mean "at"'):
        t_env.create_temporary_view("wrong", frame, rowtime="att")
    with pytest.raises(TypeMismatchError, match="STRING"):
        t_env.create_temporary_view("wrong", frame, rowtime="name")
    with pytest.raises(UnsupportedError, match="DataFrame"):
        t_env.create_temporary_view("wrong", t_env.from_elements([(1,)], ["id"]), primary_key=["id"])


def test_a_query_is_a_stream_of_spark_that_goes_on_where_it_stopped(spark: Any, tmp_path: Path) -> None:
    register(spark)
    options = {
        "script": f"""CREATE TABLE t (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in',
          'format' = 'csv', 'source.monitor-interval' = '10 ms')""",
        "query": "SELECT k, SUM(v) AS total FROM t GROUP BY k",
        "checkpoint": str(tmp_path / "query"),
    }
    (tmp_path / "in").mkdir()
    changes: list[tuple[Any, ...]] = []
    for number, text in enumerate(("1,10\n2,20\n1,1\n", "1,100\n3,5\n")):
        (tmp_path / "in" / f"{number}.csv").write_text(text)
        stream = spark.readStream.format("sqlengine").options(**options).load()
        writer = stream.writeStream.foreachBatch(lambda frame, _: changes.extend(map(tuple, frame.collect())))
        writer = writer.option("checkpointLocation", str(tmp_path / "spark")).trigger(availableNow=True)
        writer.start().awaitTermination()
    assert sorted(changes[:2]) == [("+I", 1, 11), ("+I", 2, 20)]
    assert sorted(changes[2:]) == [("+I", 3, 5), ("+U", 1, 111), ("-U", 1, 11)]


def test_a_streaming_frame_is_a_table_without_an_end(spark: Any, tmp_path: Path) -> None:
    """Its jobs run where it is, unless told otherwise."""
    spark.createDataFrame(ROWS.select(["id", "name"])).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id INT, name STRING").parquet(str(tmp_path / "in"))
    for config, on_spark in (({}, True), ({"execution.target": "local"}, False)):
        with TableEnvironment.create(config) as t_env:
            jobs: list[Job] = []
            t_env.session.on_job = jobs.append
            t_env.create_temporary_view("orders", stream)
            result = t_env.execute_sql("SELECT COUNT(*) AS n, MAX(id) FROM orders")
            for row in result:
                if row["n"] == 4:
                    break
            result.cancel()
            assert isinstance(jobs[0].dataflow.elsewhere, Divided) is on_spark


def test_a_job_goes_on_with_a_streaming_frame(spark: Any, tmp_path: Path) -> None:
    """Stopped twice: in the middle of a micro-batch, and behind all."""
    (tmp_path / "in").mkdir()
    config = {"execution.checkpointing.dir": str(tmp_path / "state"), "sqlengine.epoch.max-rows": "2"}
    for number, rows in enumerate(([1, 2, 3], [], [4])):
        if rows:
            (tmp_path / "in" / f"{number}.json").write_text("".join(f'{{"id": {row}}}\n' for row in rows))
        with TableEnvironment.create(config) as t_env:
            stream = spark.readStream.schema("id INT").json(str(tmp_path / "in"))
            t_env.create_temporary_view("t", stream, checkpoint=(tmp_path / "rows").as_uri())
            t_env.execute_sql(
                f"CREATE TABLE out (n BIGINT, v INT) WITH ('connector'='filesystem', 'path'='{tmp_path}/out', 'format'='debezium-json')"
            )
            wanted = (2, 3, 4)[number]

            def on_epoch(job: Job, wanted: int = wanted) -> None:
                if sum(v.rows_in for v in job.dataflow.vertices if v.operator is None) >= wanted:
                    job.cancel()

            def on_job(job: Job) -> None:
                job.on_epoch = on_epoch

            t_env.session.on_job = on_job
            t_env.execute_sql("INSERT INTO out SELECT COUNT(*), SUM(id) FROM t").wait()
    files = [f for f in (tmp_path / "out").iterdir() if not f.name.startswith(".")]
    written = [line for f in files for line in f.read_text().splitlines()]
    after = {(r["after"]["n"], r["after"]["v"]) for r in map(json.loads, written) if r["after"]}
    assert after == {(2, 3), (3, 6), (4, 10)}


def test_the_tables_of_a_spark_session_are_a_catalog(spark: Any) -> None:
    t_env = TableEnvironment.create()
    t_env.register_catalog("spark", SparkCatalog(spark))
    spark.sql("CREATE DATABASE shop")
    spark.createDataFrame(ROWS.select(["id", "name"])).write.saveAsTable("shop.orders")
    spark.sql("CREATE VIEW shop.named AS SELECT id FROM shop.orders WHERE name IS NOT NULL")
    total = "SELECT COUNT(*) AS n, MAX(o.id) AS m FROM spark.shop.orders o JOIN spark.shop.named v ON o.id = v.id"
    assert t_env.execute_sql(total).to_arrow().to_pylist() == [{"n": 3, "m": 4}]
    t_env.execute_sql("USE CATALOG spark")
    t_env.execute_sql("USE shop")
    assert [row[0] for row in t_env.execute_sql("SHOW TABLES")] == ["named", "orders"]
    with pytest.raises(BindError, match='unknown table "order"'):
        t_env.execute_sql("SELECT * FROM `order`")
    with pytest.raises(UnsupportedError, match="no other change"):
        t_env.execute_sql("DROP TABLE orders")


def test_temporary_views_and_all_types_by_name(spark: Any) -> None:
    t_env = TableEnvironment.create()
    t_env.register_catalog("spark", SparkCatalog(spark))
    spark.sql("CREATE DATABASE IF NOT EXISTS named")
    spark.sql("CREATE TABLE named.both (c CHAR(3), v VARCHAR(5)) USING parquet")
    spark.sql("INSERT INTO named.both VALUES ('a', 'b')")
    spark.sql("CREATE TEMPORARY VIEW both AS SELECT 2 AS n")
    spark.sql(
        """CREATE TEMPORARY VIEW `All types` AS SELECT parse_json('{"b": 1.50, "a": [null]}') AS v, INTERVAL '1-2' YEAR TO MONTH AS m,
        INTERVAL '1 00:00:01.5' DAY TO SECOND AS d, TIMESTAMP_NTZ '2024-01-01 00:00:00.000001' AS n,
        named_struct('i', INTERVAL '2' DAY, 'l', array(map('x', DATE '2024-01-01'))) AS s"""
    )
    spark.range(2).createOrReplaceGlobalTempView("everywhere")
    rows = "SELECT n FROM spark.`default`.both UNION ALL SELECT CAST(id AS INT) FROM spark.global_temp.everywhere"
    assert sorted(row["n"] for row in t_env.execute_sql(rows).to_arrow().to_pylist()) == [0, 1, 2]
    assert t_env.execute_sql("SELECT * FROM spark.NAMED.Both").to_arrow().to_pylist() == [{"c": "a  ", "v": "b"}]
    found = t_env.execute_sql("SELECT * FROM spark.named.`all TYPES`").to_arrow().to_pylist()
    day = dt.timedelta(days=1)
    assert found == [
        {
            "v": '{"a":[null],"b":1.5}',
            "m": 14,
            "d": day + dt.timedelta(seconds=1.5),
            "n": dt.datetime(2024, 1, 1, 0, 0, 0, 1),
            "s": {"i": 2 * day, "l": [[("x", dt.date(2024, 1, 1))]]},
        }
    ]
    t_env.create_temporary_view("pandas", spark.range(3).pandas_api())
    assert t_env.execute_sql("SELECT SUM(id) AS n FROM pandas").to_arrow().to_pylist() == [{"n": 3}]


def test_rows_get_into_tables_of_spark_once(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the driver ends while files of a commit are moved to their place."""
    spark.sql("CREATE DATABASE IF NOT EXISTS written")
    config = {"execution.checkpointing.dir": str(tmp_path / "state"), "execution.checkpointing.interval": "1 ms"}
    rows = "SELECT * FROM (VALUES (1, 'x=1/2', 'a'), (2, CAST(NULL AS STRING), 'b'), (3, 'it''s', 'c')) AS t (id, p, v)"
    with TableEnvironment.create(config) as t_env:
        t_env.register_catalog("spark", SparkCatalog(spark))
        t_env.execute_sql("CREATE TABLE spark.written.parts (v CHAR(2), id INT, p STRING) PARTITIONED BY (p)")
        moved = FileCommits._move
        failed: list[str] = []

        class Gone(BaseException):
            """The driver ends."""

        def cut_short(self: FileCommits, files: Any, *rest: Any) -> set[str]:
            found = moved(self, files, *rest)
            if not failed:
                failed.append("once")
                raise Gone
            return found

        monkeypatch.setattr(FileCommits, "_move", cut_short)
        sink = t_env.session.open_sink(t_env.session.catalogs.get(("spark", "written", "parts")), {}, live=True)  # type: ignore[arg-type]
        schema = sink.schema
        first = sink.open_writer("job")
        batch = t_env.execute_sql(f"SELECT CAST(v AS CHAR(2)) AS v, id, p FROM ({rows})").folded()
        first.write(ChangelogBatch.of(batch.columns, schema))
        checkpoint = first.prepare()
        with pytest.raises(Gone):
            first.publish(checkpoint)
        for _ in range(2):
            sink.open_writer("job").recover([checkpoint])
        found = spark.table("written.parts").select("id", "p", "v").orderBy("id")
        assert list(map(tuple, found.collect())) == [(1, "x=1/2", "a "), (2, None, "b "), (3, "it's", "c ")]
        t_env.execute_sql(f"CREATE TABLE spark.written.`as` WITH ('provider' = 'orc') AS {rows}").wait()
        t_env.execute_sql("INSERT INTO spark.written.`as` SELECT id + 3, p, v FROM spark.written.parts").wait()
        assert [row["id"] for row in spark.table("written.as").orderBy("id").collect()] == [1, 2, 3, 4, 5, 6]
        with pytest.raises(UnsupportedError, match="E1601 .* a view of Spark"):
            spark.sql("CREATE VIEW written.seen AS SELECT 1 AS id")
            t_env.execute_sql("INSERT INTO spark.written.seen VALUES (1)")


def test_the_engine_is_a_part_of_a_session(spark: Any) -> None:
    t_env = install(spark)
    assert install(spark) is t_env
    spark.createDataFrame(ROWS.select(["id", "name"])).createOrReplaceTempView("people")
    spark.sqlengine("CREATE TABLE own (id INT, note STRING)")
    spark.sqlengine("INSERT INTO own VALUES (1, 'x'), (4, 'y')")
    spark.sqlengine("CREATE MATERIALIZED VIEW notes AS SELECT id, UPPER(note) AS note FROM own")
    spark.sqlengine("CREATE VIEW seen AS SELECT * FROM `default`.people")
    joined = spark.sqlengine("SELECT name, note FROM people JOIN notes ON people.id = notes.id")
    assert sorted(map(tuple, joined.collect())) == [("ann", "X"), ("ann", "Y")]
    assert spark.sqlengine("SELECT COUNT(*) AS n FROM seen").collect()[0]["n"] == 4
    with pytest.raises(BindError, match='unknown table "nowhere"'):
        spark.sqlengine("SELECT * FROM nowhere")
    commits: list[tuple[str, list[Any]]] = []
    own = t_env.sql_query("SELECT id, CAST('10:00:00' AS TIME) AS t FROM own")
    own.write_to(lambda frame, commit: commits.append((commit, sorted(map(tuple, frame.collect()))))).wait()
    assert [rows for _, rows in commits] == [[(1, "10:00:00.000"), (4, "10:00:00.000")]]
    with pytest.raises(TypeMismatchError, match="E1329"):
        own.write_to("table")  # type: ignore[arg-type]


def test_a_stream_of_a_query_that_runs_in_tasks(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    changes: list[tuple[Any, ...]] = []
    for number, text in enumerate(("1,10\n2,20\n1,1\n", "1,100\n3,5\n")):
        (tmp_path / "in" / f"{number}.csv").write_text(text)
        with TableEnvironment.create({"parallelism.default": "1"}, spark=spark) as t_env:
            jobs: list[Job] = []
            t_env.session.on_job = jobs.append
            t_env.execute_sql(
                f"""CREATE TEMPORARY TABLE t (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'csv',
                'source.monitor-interval' = '10 ms')"""
            )
            totals = t_env.sql_query("SELECT k, SUM(v) AS total FROM t GROUP BY k")
            stream = totals.to_spark_stream(str(tmp_path / "query"), spark, interval="100 ms")
            assert stream.isStreaming and stream.columns == ["op", "k", "total"]
            totals.to_spark_stream(str(tmp_path / "query"), spark)  # The query that runs already.
            writer = stream.writeStream.foreachBatch(lambda frame, _: changes.extend(map(tuple, frame.collect())))
            writer = writer.option("checkpointLocation", str(tmp_path / "spark")).trigger(availableNow=True)
            writer.start().awaitTermination()
            assert len(jobs) == 1 and isinstance(jobs[0].dataflow.elsewhere, Divided)
    assert sorted(changes[:2]) == [("+I", 1, 11), ("+I", 2, 20)]
    assert sorted(changes[2:]) == [("+I", 3, 5), ("+U", 1, 111), ("-U", 1, 11)]
