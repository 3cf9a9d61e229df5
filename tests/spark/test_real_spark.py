"""The engine's operators in the tasks of a real Spark, one session for all tests (a JVM takes seconds to start)."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.core.errors import ExpressionError
from runtime.core.metrics import Metric
from runtime.core.secrets import is_secret
from runtime.local.dataflow import Vertex
from runtime.local.job import Job
from runtime.spark.session import spark_session
from runtime.spark.shown import _Gauges, _names
from runtime.tasks import divided, taking
from runtime.tasks.divided import Divided
from runtime.tasks.sinks import adopt as real_adopt
from runtime.tasks.stage import Stage
from runtime.tasks.task import Record
from sqlengine.api.environment import TableEnvironment
from sqlengine.testing.runner import spark_cuts_for
from tests.docs.page_run import check_page
from tests.golden.elsewhere import wrong_lines

ROOT = Path(__file__).parents[2]
FILES = (
    "aggregate/grouping_sets.slt",
    "join/outer.slt",
    "rank/top_n.slt",
    "set/intersect.slt",
    "join/temporal.slt",
    "window/session.slt",
)
"""Files that together have the operators which are built most differently. `make spark-matrix` runs all files."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    before = signal.getsignal(signal.SIGINT)
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    conf = {"spark.sql.warehouse.dir": warehouse, "spark.ui.enabled": "true", "spark.ui.port": "0"}
    session = spark_session("local[2,4]", conf)
    assert signal.getsignal(signal.SIGINT) is before, "an interrupt would no longer stop a job cleanly"
    yield session
    session.stop()


def test_golden_files(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert not wrong_lines(FILES, spark_cuts_for, everything=bool(os.environ.get("SPARK_MATRIX")))


class DiesOnce(Stage):
    """The process of a task ends when the task has written its state and sent nothing: Spark tries it again."""

    def __call__(self, partition: int, given: Iterator[Any]) -> Iterator[tuple[int, Record]]:
        from pyspark import TaskContext

        found = list(super().__call__(partition, given))
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0 and self.order.epoch == 1 + partition:
            os._exit(1)
        return iter(found)


def test_tasks_that_die_are_tried_again(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divided, "Stage", DiesOnce)
    options = {"sqlengine.epoch.max-rows": "2", "parallelism.default": "2", "sqlengine.spark.mode": "per-epoch"}
    t_env = TableEnvironment.create(options, spark=spark)
    jobs: list[Job] = []
    t_env.session.on_job = jobs.append
    t_env.execute_sql("CREATE TABLE t (k STRING, v BIGINT)")
    t_env.execute_sql("INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3), ('a', 4), ('b', 5), ('a', 6), ('d', 7)")
    result = t_env.execute_sql("SELECT k, SUM(v), COUNT(*) FROM t GROUP BY k")
    rows = result.folded().to_pydict()
    assert sorted(zip(*rows.values(), strict=True)) == [("a", 11, 3), ("b", 7, 2), ("c", 3, 1), ("d", 7, 1)]
    flow = jobs[-1].dataflow
    assert isinstance(flow.elsewhere, Divided)
    assert flow.epoch >= 4
    assert flow.elsewhere.cold_starts >= 3


def test_an_error_of_a_row_is_the_users_and_told_as_embedded(spark: Any) -> None:
    t_env = TableEnvironment.create(spark=spark)
    t_env.execute_sql("CREATE TABLE t (k STRING)")
    t_env.execute_sql("INSERT INTO t VALUES ('1'), ('x')")
    with pytest.raises(ExpressionError):
        list(t_env.execute_sql("SELECT MAX(CAST(m AS INT)) FROM (SELECT MAX(k) m FROM t GROUP BY k)"))


def test_the_pages_of_spark_show_no_secret(spark: Any) -> None:
    pattern = spark.sparkContext._jvm.java.util.regex.Pattern.compile(spark.conf.get("spark.redaction.regex"))
    for key in ("spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.azure.account.key.x", "sasl.jaas.config"):
        assert pattern.matcher(key).find() and is_secret(key)
    assert not pattern.matcher("spark.sql.shuffle.partitions").find()


@pytest.mark.parametrize("page", ["docs/guide.md", "docs/spark.md", "docs/spark_tables.md"])
def test_the_documentation_on_spark(
    page: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rewrite: bool
) -> None:
    check_page(ROOT / page, tmp_path, monkeypatch, rewrite=rewrite, spark=True)


def test_tasks_read_a_source_and_write_a_sink(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adopted: list[int] = []

    def adopt(vertex: Vertex, written: object, rows: int) -> None:
        adopted.append(rows)
        real_adopt(vertex, written, rows)

    monkeypatch.setattr(taking, "adopt", adopt)
    published: list[list[str]] = []
    for session in (None, spark):
        folder = tmp_path / f"on {session is not None}"
        t_env = TableEnvironment.create({"sqlengine.spark.read-in-tasks": "true"}, spark=session)
        t_env.execute_script(
            f"""CREATE TABLE bid (auction BIGINT, price BIGINT)
            WITH ('connector' = 'nexmark', 'nexmark.table' = 'bid', 'events.num' = '100000');
            CREATE TABLE out (auction BIGINT, price BIGINT)
            WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv');
            INSERT INTO out SELECT auction, price FROM bid WHERE price > 100"""
        )
        published.append(sorted(line for f in folder.iterdir() for line in f.read_text().splitlines()))
    assert len(published[0]) == sum(adopted) > 40_000
    assert published[0] == published[1]


def told_by(spark: Any, path: str) -> str:
    with urllib.request.urlopen(f"{spark.sparkContext.uiWebUrl}/{path}") as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("mode", ["continuous", "per-epoch"])
def test_spark_shows_epochs_by_name_and_our_figures(spark: Any, mode: str) -> None:
    context = spark.sparkContext

    def jobs() -> dict[int, str]:
        found = json.loads(told_by(spark, f"api/v1/applications/{context.applicationId}/jobs"))
        return {job["jobId"]: str(job.get("description")) for job in found}

    before = jobs()
    context.setJobDescription("work of the program")
    options = {"sqlengine.spark.mode": mode, "sqlengine.epoch.max-rows": "100", "parallelism.default": "2"}
    with TableEnvironment.create(options, spark=spark) as t_env:
        t_env.execute_script(
            """CREATE TABLE n (i BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1000');
            CREATE TABLE totals_shown (k BIGINT, n BIGINT) WITH ('connector' = 'blackhole');
            INSERT INTO totals_shown SELECT MOD(i, 7), COUNT(*) FROM n GROUP BY MOD(i, 7)"""
        )
        (job,) = {s["labels"][0][1] for s in t_env.metrics().to_pylist() if s["name"] == "sqlengine_job_epochs_total"}
        t_env.session.target._shown[0].close()
        page = re.sub(r"<[^>]+>|\s+", " ", told_by(spark, "StreamingQuery/"))
        assert f"{job}: " in page and "totals_shown" in page and "FINISHED" in page
    assert context.getLocalProperty("spark.job.description") == "work of the program"
    named = [name for number, name in jobs().items() if number not in before]
    named = [name for name in named if re.fullmatch(rf"{job}, epoch [1-9]\d*", name)]
    assert (len(named) >= 10) == (mode == "per-epoch"), named


def test_figures_are_gauges_of_spark_while_they_are_there(spark: Any) -> None:
    shown = _Gauges(spark.sparkContext)
    beside = _Gauges(spark.sparkContext)
    metric = Metric("sqlengine_source_records_total", "counter", "rows", ("job", "source"), "")

    def gauges(of: _Gauges) -> dict[str, float]:
        """Those of one engine: others of the session may show theirs meanwhile."""
        found = json.loads(told_by(spark, "metrics/json"))["gauges"]
        named = {name.partition(".AccumulatorSource.")[2]: g["value"] for name, g in found.items()}
        prefix = f"{of._name}."
        return {name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)}

    for value in (5.0, 7.0):
        shown.show([metric.sample(value, "job-1", "default.orders")])
        beside.show([metric.sample(1.0, "job-1", "t")])
        assert gauges(shown) == {"job-1.default_orders.source_records_total": value}
        assert gauges(beside) == {"job-1.t.source_records_total": 1.0}
    beside.show([])
    shown.end()
    assert gauges(shown) == gauges(beside) == {}
    names = _names[spark.sparkContext.applicationId]
    assert shown._name not in names and beside._name in names
    # Whichever name is free: engines of earlier tests may let go of theirs meanwhile.
    again = _Gauges(spark.sparkContext)
    again.show([metric.sample(2.0, "job-1", "t")])
    assert gauges(again) == {"job-1.t.source_records_total": 2.0}
    again.end()
    beside.end()
