"""`system.metrics`: figures of jobs, views and tables, compared with what really happened."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.core.clock import VirtualClock
from runtime.core.errors import ConnectorError
from runtime.local.job import Job
from sqlengine import SqlEngineError, TableEnvironment
from sqlengine.database.metrics import METRICS
from tests.exposition import parse

ROOT = Path(__file__).parents[3]
DATABASE = "default_catalog.default_database"


def figures(env: TableEnvironment) -> Callable[..., float | None]:
    """Finds the value of a metric, without its prefix, by the labels that are given; None when there is none."""
    rows = env.metrics().to_pylist()

    def find(name: str, **labels: str) -> float | None:
        found = [
            r["value"] for r in rows if r["name"] == f"sqlengine_{name}" and labels.items() <= dict(r["labels"]).items()
        ]
        assert len(found) <= 1, found
        return found[0] if found else None

    return find


def files(tmp_path: Path, env: TableEnvironment) -> None:
    """Three files of which one has two bad lines, and a sink."""
    (tmp_path / "in").mkdir(exist_ok=True)
    for name, text in (("a", "a,1\nb,2\n"), ("b", "a,x\na,3\nc,y\n"), ("c", "c,4\n")):
        (tmp_path / "in" / f"{name}.csv").write_text(text)
    env.execute_script(
        f"""CREATE TABLE source (k STRING, n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in',
              'format' = 'csv', 'csv.ignore-parse-errors' = 'true');
            CREATE TABLE sums (k STRING, n INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'blackhole');
            CREATE TABLE sink (k STRING, n INT) WITH (
              'connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'csv')"""
    )


def test_a_job_over_files_with_checkpoints(tmp_path: Path) -> None:
    with TableEnvironment.create({"execution.checkpointing.dir": str(tmp_path / "state")}) as env:
        files(tmp_path, env)
        env.execute_sql("INSERT INTO sink SELECT k, n FROM source WHERE n > 1").wait()
        find, job = figures(env), env.session.jobs.get("job-1").job
        (info,) = env.execute_sql("SELECT id, bytes, total_bytes, duration_ms FROM system.checkpoints").collect()
    assert find("job_status", job="job-1", status="FINISHED") == 1
    assert find("job_epochs_total", job="job-1") == job.dataflow.epoch
    assert find("job_epoch_duration_seconds_count", job="job-1") == job.epoch_seconds.count >= 1
    took = find("job_epoch_duration_seconds_sum", job="job-1")
    assert took is not None and took > 0 and find("job_restarts_total", job="job-1") == 0
    # Four lines could be read, of which three have n > 1; two could not.
    source, sink = f"{DATABASE}.source", f"{DATABASE}.sink"
    assert find("source_records_total", source=source) == 4
    assert find("records_rejected_total", operator=source) == 2
    assert find("operator_records_in_total", kind="Sink") == 3 == find("sink_records_total", sink=sink)
    assert find("sink_commits_total", sink=sink) == 1
    assert find("source_splits", state="finished") == 3
    assert find("source_splits", state="active") == find("source_splits", state="waiting") == 0
    assert (
        find("checkpoints_completed_total", job="job-1") == 1 == find("checkpoint_duration_seconds_count", job="job-1")
    )
    assert find("checkpoints_failed_total", job="job-1") == 0 == find("checkpoints_in_progress", job="job-1")
    last = [find(f"checkpoint_last_{what}") for what in ("id", "size_bytes", "full_size_bytes", "duration_seconds")]
    assert last == [info[0], info[1], info[2], info[3] / 1000]


def test_state_and_changes_of_an_aggregate(tmp_path: Path) -> None:
    with TableEnvironment.create({"sqlengine.epoch.max-rows": "1"}) as env:
        files(tmp_path, env)
        env.execute_sql("INSERT INTO sums SELECT k, SUM(n) FROM source GROUP BY k").wait()
        find = figures(env)
        operators = env.execute_sql("SELECT operator, rows_in, rows_out, state_rows, state_bytes FROM system.operators")
        for operator, rows_in, rows_out, state_rows, state_bytes in operators:
            kept = operator.startswith("Source")
            rejected = 2 if kept else 0
            assert find("operator_records_in_total", operator=operator) == rows_in - rejected
            assert find("operator_records_out_total", operator=operator) == rows_out
            assert find("operator_state_rows", operator=operator) == (None if kept else state_rows)
            assert find("operator_state_bytes", operator=operator) == (None if kept else state_bytes)
    assert find("operator_state_rows", kind="GroupAggregate") == 3
    assert find("operator_tasks", kind="GroupAggregate") == 1
    busy = find("operator_busy_seconds_total", kind="GroupAggregate")
    assert busy is not None and busy > 0


def test_watermarks_and_their_lag() -> None:
    with TableEnvironment.create(clock=VirtualClock(100_000)) as env:
        made = env.create_input("events", "at TIMESTAMP(3), n INT, WATERMARK FOR at AS at")
        env.execute_sql("CREATE TABLE b (w TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole')")
        env.execute_sql(
            "CREATE MATERIALIZED VIEW per_minute AS SELECT window_end, SUM(n) AS n FROM"
            " TABLE(TUMBLE(TABLE events, DESCRIPTOR(at), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
        )
        assert figures(env)("source_watermark_lag_seconds") is None
        made.push_row(dt.datetime(1970, 1, 1, 0, 1, 10), 1)
        env.flush()
        find = figures(env)
        assert find("operator_output_watermark_seconds", kind="Sink") == 70.0
        assert find("source_watermark_lag_seconds", source=f"{DATABASE}.events") == 30.0


def test_a_view_that_lets_changes_gather_is_not_brought_up_to_date_for_it() -> None:
    view = f"{DATABASE}.v"
    with TableEnvironment.create() as env:
        env.execute_script(
            "CREATE TABLE t (n INT); CREATE MATERIALIZED VIEW v AS SELECT SUM(n) AS n FROM t; INSERT INTO t VALUES (1), (2)"
        )
        for _ in range(2):
            find = figures(env)
            waiting = find("view_backlog_rows", view=view)
            assert waiting is not None and waiting >= 2 == find("table_rows", table=f"{DATABASE}.t")
        epochs = find("view_epochs_total", view=view)
        env.execute_sql("SELECT * FROM v").to_arrow()
        find = figures(env)
        assert find("view_backlog_rows", view=view) == 0 == find("view_failed", view=view)
        assert find("view_epochs_total", view=view) == (epochs or 0) + 1
        assert find("table_rows", table=view) == 1 and (find("table_bytes", table=view) or 0) > 0
        assert find("source_records_total", job="view v") == 2


def test_failures_restarts_and_what_is_shown_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    advance, left = Job._advance, [1, 1]

    def failing(job: Job, *, waiting_only: bool) -> object:
        if left:
            left.pop()
            raise ConnectorError("the broker has gone", code="E3131")
        return advance(job, waiting_only=waiting_only)

    options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "5"}
    with TableEnvironment.create({**options, "restart-strategy.fixed-delay.delay": "1 ms"}) as env:
        files(tmp_path, env)
        with monkeypatch.context() as patched:
            patched.setattr(Job, "_advance", failing)
            env.execute_sql("INSERT INTO sink SELECT * FROM source").wait()
        with pytest.raises(SqlEngineError, match="E2101"):
            env.execute_sql("INSERT INTO sums SELECT k, CAST(k AS INT) FROM source").wait()
        env.execute_script("CREATE TABLE t (s STRING); CREATE MATERIALIZED VIEW v AS SELECT CAST(s AS INT) AS n FROM t")
        with pytest.warns(UserWarning, match="materialized view"):
            env.execute_sql("INSERT INTO t VALUES ('x')")
        find = figures(env)
        assert find("job_restarts_total", job="job-1") == 2
        assert (
            find("job_status", job="job-2", status="FAILED") == 1 == find("job_status", job="view v", status="FAILED")
        )
        assert find("view_failed", view=f"{DATABASE}.v") == 1


def test_the_text_is_what_the_table_says(tmp_path: Path) -> None:
    with TableEnvironment.create({"execution.checkpointing.dir": str(tmp_path / "state")}) as env:
        files(tmp_path, env)
        env.execute_script("""CREATE TABLE `odd "name"` (n INT); INSERT INTO `odd "name"` VALUES (1)""")
        env.execute_sql("INSERT INTO sink SELECT * FROM source").wait()
        found = parse(env.metrics_text())
        rows = env.metrics().to_pylist()
    text = {key for family in found.values() for key in family.samples}
    assert text == {(row["name"], tuple(row["labels"])) for row in rows}
    assert {(name, f.kind, f.help) for name, f in found.items()} <= {(m.name, m.kind, m.help) for m in METRICS}
    assert any(dict(labels).get("table", "").endswith('odd "name"') for _, labels in text)


def test_it_may_be_read_while_jobs_run() -> None:
    with TableEnvironment.create({"sqlengine.epoch.max-rows": "500"}) as env:
        env.execute_script(
            """CREATE TABLE g (k BIGINT) WITH ('connector' = 'datagen', 'fields.k.min' = '0', 'fields.k.max' = '1000');
               CREATE TABLE b (k BIGINT, n BIGINT) WITH ('connector' = 'blackhole')"""
        )
        result = env.execute_sql("INSERT INTO b SELECT k, COUNT(*) FROM g GROUP BY k")
        seen = [0.0]
        while len(seen) < 20:
            seen.append(figures(env)("sink_records_total", job="job-1") or 0.0)
        assert seen == sorted(seen)
        result.get_job_client().cancel()


def test_views_of_one_name_have_figures_of_their_own() -> None:
    with TableEnvironment.create() as env:
        env.execute_sql("CREATE TABLE t (n INT)")
        for database in ("d", "`d.v`"):
            env.execute_sql(f"CREATE DATABASE {database}")
            env.execute_sql(f"CREATE MATERIALIZED VIEW {database}.v AS SELECT n FROM default_database.t")
        for view in ("v", "`d.v`"):
            env.execute_sql(f"CREATE MATERIALIZED VIEW {view} AS SELECT n FROM t")
        samples = [(sample.name, tuple(sample.labels)) for sample in env.session.database.metrics.collect()]
        assert len(samples) == len(set(samples))
        jobs = {dict(labels).get("job") for _, labels in samples} - {None}
        assert jobs == {"view v", "view d.v", "view `d.v`", "view `d.v`.v"}


def test_names_say_their_unit_and_kind() -> None:
    assert len({m.name for m in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"(sqlengine|process)_[a-z_]+", metric.name) and not metric.help.endswith(".")
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        if metric.unit in ("seconds", "bytes"):
            assert metric.name.removesuffix("_total").endswith(metric.unit)


def test_the_page_has_every_metric_and_no_other() -> None:
    page = (ROOT / "docs" / "observability.md").read_text()
    rows = re.findall(r"^\| `((?:sqlengine|process)_\w+)` \| (\w+) \| (.*?) \| (.*?) \| (.*?) \|$", page, re.MULTILINE)
    assert rows == [
        (m.name, m.kind, ", ".join(f"`{label}`" for label in m.labels), m.help, m.flink) for m in METRICS
    ], "\n" + "\n".join(
        f"| `{m.name}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels)} | {m.help} | {m.flink} |"
        for m in METRICS
    )
