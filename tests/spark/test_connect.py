"""A session of Spark Connect: what a program far from the cluster has. `make spark-matrix` alone, for it needs a server and
`pip install 'pyspark[connect]'`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif("SPARK_MATRIX" not in os.environ, reason="a JVM, and pyspark[connect]: make spark-matrix"),
]

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from runtime.spark import gathered
from sqlengine import TableEnvironment
from sqlengine.spark import install
from sqlengine.spark_catalog import SparkCatalog
from sqlengine.spark_source import register

folder = sys.argv[1]
spark = SparkSession.builder.config("spark.sql.warehouse.dir", folder + "/warehouse").remote("local[2]").getOrCreate()
rows = spark.createDataFrame([("ann", 9), ("bob", 20), ("ann", 12)], "customer STRING, amount INT")

with TableEnvironment.create() as t_env:
    t_env.create_temporary_view("orders", rows)
    t_env.create_temporary_view("numbers", spark.range(1000))
    t_env.create_temporary_view("frames", spark.range(3).pandas_api())
    answer = t_env.execute_sql("SELECT customer, SUM(amount) AS total FROM orders WHERE amount > 10 GROUP BY customer")
    assert sorted(map(tuple, answer.to_spark(spark).collect())) == [("ann", 12), ("bob", 20)]
    assert t_env.execute_sql("SELECT COUNT(*) FROM frames").to_arrow().column(0).to_pylist() == [3]
    assert t_env.execute_sql("SELECT id FROM numbers WHERE id < 0").to_spark(spark).columns == ["id"]
    gathered._FILE_BYTES = 1
    assert t_env.execute_sql("SELECT id, id * 2 AS d FROM numbers").to_spark(spark).count() == 1000

with TableEnvironment.create() as t_env:
    spark.range(5).createOrReplaceTempView("five")
    t_env.register_catalog("spark", SparkCatalog(spark))
    t_env.execute_sql("CREATE TABLE spark.`default`.made AS SELECT id FROM spark.`default`.five WHERE id > 1").wait()
    assert spark.table("made").count() == 3
    counts = []
    t_env.sql_query("SELECT id FROM spark.`default`.five").write_to(lambda frame: counts.append(frame.count()), spark).wait()
    assert counts == [5]

install(spark)
spark.sqlengine("CREATE TABLE own (id INT)")
spark.sqlengine("INSERT INTO own VALUES (1), (2)")
assert spark.sqlengine("SELECT own.id FROM own JOIN five ON five.id = own.id").count() == 2

with TableEnvironment.create() as t_env:
    rate = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    t_env.create_temporary_view("rate", rate, checkpoint=folder + "/rate")
    found = []
    for row in t_env.execute_sql("SELECT `value` FROM rate").collect():
        found.append(row[0])
        if len(found) > 5:
            break
    assert sorted(set(found)) == sorted(found)

with TableEnvironment.create() as t_env:
    t_env.execute_sql("CREATE TEMPORARY TABLE clicks (c INT) WITH ('connector' = 'datagen', 'number-of-rows' = '100')")
    changes = t_env.sql_query("SELECT COUNT(*) AS clicks FROM clicks").to_spark_stream(folder + "/counted", spark)
    query = changes.writeStream.format("memory").queryName("counted").trigger(availableNow=True).start()
    query.awaitTermination()
    assert [row["clicks"] for row in spark.table("counted").collect()][-1] == 100

register(spark)
options = {
    "script": "CREATE TABLE t (c INT) WITH ('connector' = 'datagen', 'number-of-rows' = '100')",
    "query": "SELECT COUNT(*) AS n FROM t",
}
assert [row["n"] for row in spark.read.format("sqlengine").options(**options).load().collect()] == [100]

try:
    TableEnvironment.create(spark=spark)
except Exception as error:
    assert "E3605 a session of Spark Connect cannot run the engine's tasks" in str(error), error
else:
    raise AssertionError("tasks over Spark Connect")
spark.stop()
print("all of it")
"""


def test_what_a_session_of_spark_connect_can_do(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    known = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path)],
        env=known,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "all of it" in done.stdout, done.stderr[-4000:]
