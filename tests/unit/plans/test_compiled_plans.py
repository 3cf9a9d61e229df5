"""Compiled plans: from a file as from the statement, with its checkpoints, its jobs and its errors."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from mutations import mutated

from runtime.core.clock import VirtualClock
from runtime.core.errors import CatalogError, FormatError, SqlEngineError
from runtime.local.job import Job
from sqlengine import PlanReference, TableEnvironment, col

HERE = Path(__file__).parent
KEPT = HERE / "auction_totals_v1.json"
"""A plan of version 1 of the format: later versions read it, too."""
TABLES = """
CREATE TABLE nexmark (
  event_type INT,
  bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING>,
  person ROW<id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING,
    `dateTime` TIMESTAMP(3), extra STRING>,
  auction ROW<id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, `dateTime` TIMESTAMP(3),
    expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING>
) WITH ('connector' = 'nexmark', 'events.num' = '2000', 'seed' = '7');
CREATE TABLE totals (auction BIGINT, n BIGINT, best BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'debezium-json');
"""
INSERT = "INSERT INTO totals SELECT bid.auction, COUNT(*), MAX(bid.price) FROM nexmark WHERE event_type = 2 GROUP BY bid.auction"
SIMPLE = """
CREATE TABLE orders (id INT, item STRING, price INT, PRIMARY KEY (id) NOT ENFORCED);
CREATE TABLE sums (item STRING, total INT, PRIMARY KEY (item) NOT ENFORCED);
CREATE TABLE logs (item STRING, n INT);
INSERT INTO orders VALUES (1, 'a', 5), (2, 'b', 6), (3, 'a', 7);
"""
SUMS = "INSERT INTO sums SELECT item, SUM(price) FROM orders WHERE price > 1 GROUP BY item"


def environment(folder: Path) -> TableEnvironment:
    clock = VirtualClock(1)
    made = TableEnvironment.create(
        {
            "execution.checkpointing.dir": str(folder / "state"),
            "execution.checkpointing.interval": "1 ms",
            "sqlengine.epoch.max-rows": "100",
        },
        clock=clock,
    )
    made.execute_script(TABLES.format(out=folder / "out"))

    def tick(job: Job) -> None:
        job.on_epoch = lambda job: clock.advance_to(clock.now() + 10)

    made.session.on_job = tick
    return made


def published(folder: Path) -> list[str]:
    files = [f for f in (folder / "out").rglob("*") if f.is_file() and not f.name.startswith((".", "_"))]
    return sorted(line for f in files for line in f.read_text().splitlines())


def stops(t_env: TableEnvironment, statement: str) -> None:
    """The statement dies after seven epochs, leaving everything as it stands."""
    follow = t_env.session.on_job
    assert follow is not None

    def watch(job: Job) -> None:
        follow(job)
        tick = job.on_epoch
        assert tick is not None

        def count(job: Job) -> None:
            tick(job)
            if job.dataflow.epoch >= 7:
                raise FormatError("the process is gone")

        job.on_epoch = count

    t_env.session.on_job = watch
    with pytest.raises(FormatError, match="is gone"):
        t_env.execute_sql(statement)


def simple() -> TableEnvironment:
    made = TableEnvironment.create()
    made.execute_script(SIMPLE)
    return made


def rows(t_env: TableEnvironment, table: str = "sums") -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in t_env.execute_sql(f"SELECT * FROM {table}").to_arrow().to_pylist())


# --- the plan that is kept


def test_the_statement_still_has_the_plan_that_is_kept(tmp_path: Path) -> None:
    with environment(tmp_path) as t_env:
        now = json.loads(t_env.compile_plan_sql(INSERT).as_json_string())
    kept = json.loads(KEPT.read_text())
    for node in (*now["nodes"], *kept["nodes"]):
        # That of a sink follows its path.
        del node["uid"]
    assert now == kept


@pytest.mark.parametrize(("first", "then"), [("plan", "plan"), ("statement", "plan"), ("plan", "statement")])
def test_a_plan_goes_on_from_the_checkpoints_of_plan_and_statement(tmp_path: Path, first: str, then: str) -> None:
    text = {"plan": f"EXECUTE PLAN '{KEPT}'", "statement": INSERT}
    with environment(tmp_path / "whole") as t_env:
        t_env.execute_sql(INSERT)
    t_env = environment(tmp_path)
    stops(t_env, text[first])
    assert published(tmp_path) != published(tmp_path / "whole")
    with environment(tmp_path) as again:
        assert "exact" in again.explain_sql(f"EXECUTE PLAN '{KEPT}'", "RESTORE")
        result = again.execute_sql(text[then])
        assert result.job is not None and result.job.restored is not None
    assert published(tmp_path) == published(tmp_path / "whole")


def test_a_job_of_a_database_keeps_its_plan_and_not_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in", "1.csv").write_text("1\n2\n")
    with TableEnvironment.create(path="db") as t_env:
        t_env.execute_script(
            "CREATE TABLE g (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv',"
            " 'source.monitor-interval' = '1 ms');"
            "CREATE TABLE s (n BIGINT);"
            "COMPILE AND EXECUTE PLAN 'plan.json' FOR INSERT INTO s SELECT n * 10 FROM g;"
        )
        while len(rows(t_env, "s")) < 2:
            pass
    Path("plan.json").unlink()
    Path("in", "2.csv").write_text("3\n")
    with TableEnvironment.create(path="db") as again:
        (job,) = again.session.jobs.active()
        assert job.statement.startswith("EXECUTE PLAN")
        while len(rows(again, "s")) < 3:
            assert not job.done.is_set(), job.failure
        assert rows(again, "s") == [(10,), (20,), (30,)]
        with pytest.raises(CatalogError, match="is written by the job"):
            again.execute_sql("DROP TABLE s")


def test_a_job_of_a_plan_keeps_the_past_that_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it would be forgotten by the time at which the database is opened again."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in", "1.csv").write_text("1\n")
    clock = VirtualClock(1_000_000)
    with TableEnvironment.create(path="db", clock=clock) as t_env:
        t_env.execute_script(
            "CREATE TABLE g (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv',"
            " 'source.monitor-interval' = '1 ms');"
            "CREATE TABLE s (n BIGINT, f INT);"
            "CREATE TABLE factors (n INT, f INT) WITH ('history.retention' = '1 min');"
            "INSERT INTO factors VALUES (1, 10), (2, 20);"
        )
        clock.advance_to(1_000_500)
        t_env.execute_script(
            "UPDATE factors SET f = 0;"
            "COMPILE AND EXECUTE PLAN 'plan.json' FOR INSERT INTO s SELECT g.n, f.f FROM g"
            " JOIN factors FOR SYSTEM_TIME AS OF TO_TIMESTAMP_LTZ(1000100, 3) AS f ON f.n = g.n;"
        )
        (job,) = t_env.session.jobs.active()
        while len(rows(t_env, "s")) < 1:
            assert not job.done.is_set(), job.failure
            clock.advance_to(clock.now() + 1)
        with pytest.raises(SqlEngineError, match="E3211"):
            epoch = t_env.session.database.shown.epoch
            t_env.compile_plan_sql(f"INSERT INTO s SELECT n, f FROM factors FOR SYSTEM_TIME AS OF EPOCH {epoch}")
    clock.advance_to(2_000_000)
    Path("in", "2.csv").write_text("2\n")
    with TableEnvironment.create(path="db", clock=clock) as again:
        (job,) = again.session.jobs.active()
        while len(rows(again, "s")) < 2:
            assert not job.done.is_set(), job.failure
            clock.advance_to(clock.now() + 1)
        assert rows(again, "s") == [(1, 10), (2, 20)]


# --- in Python


def test_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with simple() as t_env:
        plan = t_env.compile_plan_sql(SUMS)
        assert rows(t_env) == []
        assert "GroupAggregate by (item)" in plan.explain() and "state groups" in plan.explain("STATE")
        plan.write_to_file(str(tmp_path / "p.json"))
        plan.write_to_file(str(tmp_path / "p.json"), ignore_if_exists=True)
        with pytest.raises(FormatError, match="E3212"):
            plan.write_to_file(str(tmp_path / "p.json"))
        plan.execute().wait()
        assert rows(t_env) == [("a", 12), ("b", 6)]
        t_env.execute_sql("TRUNCATE TABLE sums")
        t_env.load_plan(PlanReference.from_file(str(tmp_path / "p.json"))).execute().wait()
        assert rows(t_env) == [("a", 12), ("b", 6)]
        t_env.execute_sql("TRUNCATE TABLE sums")
        t_env.execute_plan(PlanReference.from_json_string(plan.as_json_string())).wait()
        assert rows(t_env) == [("a", 12), ("b", 6)]
        again = t_env.from_path("orders").select(col("item"), col("price")).insert_into("sums").compile_plan()
        again.print_explain()
        assert "Sink default_catalog.default_database.sums" in capsys.readouterr().out
        inserts = t_env.create_statement_set().add_insert_sql(SUMS)
        assert '"statement": "EXECUTE STATEMENT SET BEGIN' in inserts.compile_plan().as_json_string()
        with pytest.raises(SqlEngineError, match="E1606"):
            t_env.compile_plan_sql("SELECT 1")
        with pytest.raises(SqlEngineError, match="E1618"):
            plan.explain("ESTIMATED_COST")


# --- what is pushed into sources


def test_filters_and_columns_are_pushed_into_files_again(tmp_path: Path) -> None:
    with simple() as t_env:
        t_env.execute_script(
            f"CREATE TABLE p (id INT, item STRING, price INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/p',"
            " 'format' = 'parquet'); INSERT INTO p SELECT id, item, price FROM orders"
        )
        text = "INSERT INTO sums SELECT item, SUM(price) FROM p WHERE price > 5 AND id IN (1, 2, 3) AND item IS NOT NULL GROUP BY item"
        plan = t_env.compile_plan_sql(text)
        source = next(n for n in json.loads(plan.as_json_string())["nodes"] if n["node"] == "SourceExec@1")
        assert len(source["table"]["filters"]) == 3
        assert plan.explain().splitlines()[1:] == t_env.explain_sql(text).split("== Physical Plan ==\n")[1].splitlines()
        plan.execute().wait()
        assert rows(t_env) == [("a", 7), ("b", 6)]


def test_overwriting_a_partition(tmp_path: Path) -> None:
    with simple() as t_env:
        t_env.execute_script(
            f"CREATE TABLE p (id INT, item STRING) PARTITIONED BY (item) WITH ('connector' = 'filesystem',"
            f" 'path' = '{tmp_path}/p', 'format' = 'csv'); INSERT INTO p VALUES (1, 'a'), (2, 'b')"
        )
        plan = t_env.compile_plan_sql("INSERT OVERWRITE p PARTITION (item = 'a') SELECT id FROM orders WHERE id > 90")
        plan.execute().wait()
        assert rows(t_env, "p") == [(2, "b")]


# --- what a plan does not have


def test_no_option_and_no_secret_of_a_table_is_in_the_file(tmp_path: Path) -> None:
    with simple() as t_env:
        t_env.execute_sql(
            "CREATE TABLE k (id INT) WITH ('connector' = 'kafka', 'topic' = 't', 'format' = 'json',"
            " 'properties.bootstrap.servers' = 'broker:1', 'properties.sasl.jaas.config' = 'hunter2')"
        )
        text = t_env.compile_plan_sql("INSERT INTO sums SELECT CAST(id AS STRING), id FROM k").as_json_string()
        assert "hunter2" not in text and "broker" not in text
        for hint in ("'properties.bootstrap.servers' = 'x:1'", "'properties.sasl.password' = 'hunter2'"):
            with pytest.raises(FormatError, match="E3211") as raised:
                t_env.compile_plan_sql(f"INSERT INTO sums SELECT 'x', id FROM k /*+ OPTIONS({hint}) */")
            assert "hunter2" not in str(raised.value)


def test_rows_of_a_program_are_in_no_catalog() -> None:
    with simple() as t_env:
        t_env.create_temporary_view("given", t_env.from_arrow(t_env.execute_sql("SELECT * FROM orders").to_arrow()))
        with pytest.raises(FormatError, match="E3211"):
            t_env.compile_plan_sql("INSERT INTO sums SELECT item, price FROM given")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("DROP TABLE orders; CREATE TABLE orders (id INT, item STRING, price BIGINT)", "E1418"),
        ("DROP TABLE orders; CREATE TABLE orders (id INT, thing STRING, price INT)", "E1418"),
        ("DROP TABLE orders; CREATE VIEW orders AS SELECT 1 AS id, 'a' AS item, 2 AS price", "E1418"),
        ("DROP TABLE sums; CREATE TABLE sums (item STRING, total INT)", "E1418"),
        ("DROP TABLE sums", "E1202"),
        ("SET 'table.local-time-zone' = 'Europe/Berlin'", "E1718"),
    ],
)
def test_what_has_changed_is_told(change: str, code: str) -> None:
    with simple() as t_env:
        plan = t_env.compile_plan_sql(SUMS)
        t_env.execute_script(change)
        with pytest.raises(SqlEngineError) as raised:
            plan.execute()
        assert raised.value.code == code


def test_a_view_without_the_key_of_its_plan_is_told() -> None:
    view = "MATERIALIZED VIEW best AS SELECT item, MAX(price) AS total FROM orders GROUP BY item"
    with simple() as t_env:
        t_env.execute_script(f"SET 'sqlengine.insert.follow' = 'true'; CREATE {view}")
        plan = t_env.compile_plan_sql("INSERT INTO sums SELECT DISTINCT item, total FROM best")
        plan.execute().wait()
        assert rows(t_env) == [("a", 7), ("b", 6)]
        t_env.execute_sql(f"ALTER {view}, id")
        with pytest.raises(CatalogError, match=r"\(item\) is no key of it now"):
            plan.execute()


def test_more_columns_of_a_source_are_nothing_to_a_plan() -> None:
    with simple() as t_env:
        plan = t_env.compile_plan_sql(SUMS)
        t_env.execute_script("ALTER TABLE orders ADD note STRING")
        plan.execute().wait()
        assert rows(t_env) == [("a", 12), ("b", 6)]


# --- files that mean harm


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON"),
        ("[]", "at format"),
        ("[" * 100_000, "too deep"),
        ('{"format": "sqlengine-plan", "version": 1, "format": "x"}', "stands twice"),
        ('{"format": "sqlengine-plan", "version": 1, "nodes": [], "roots": [], "x": 1}', "no such member"),
        ('{"format": "sqlengine-plan", "version": NaN}', "NaN"),
    ],
)
def test_texts_that_are_no_plans(text: str, message: str) -> None:
    with simple() as t_env, pytest.raises(FormatError, match=message) as raised:
        t_env.execute_plan(PlanReference.from_json_string(text))
    assert raised.value.code == "E3210"


def test_a_plan_cannot_say_where_a_table_is() -> None:
    with simple() as t_env:
        plan = json.loads(t_env.compile_plan_sql(SUMS).as_json_string())
        plan["nodes"][0]["table"]["hints"] = {"path": "/etc"}
        with pytest.raises(FormatError, match=r"at nodes\[0\].table.hints.path: a plan cannot say where a table is"):
            t_env.execute_plan(PlanReference.from_json_string(json.dumps(plan)))


@pytest.mark.parametrize(
    ("moment", "message"),
    [
        ("now", r"at nodes\[0\].table.as_of: "),
        (1 << 62, r"at nodes\[0\].table.as_of: it is a moment"),
        (0, "the history of .* goes back to"),
        (
            1_000_001,
            r"at nodes\[0\].table.path: it is .* as of 1970-01-01 00:16:40.001, and the node reads .* 00:16:40",
        ),
    ],
)
def test_a_plan_reads_the_past_that_it_names(moment: object, message: str) -> None:
    with TableEnvironment.create(clock=(clock := VirtualClock(1_000_000))) as t_env:
        t_env.execute_sql("CREATE TABLE t (n INT) WITH ('history.retention' = '1 h')")
        t_env.execute_sql("CREATE TABLE s (n INT)")
        clock.advance_to(1_000_010)
        insert = "INSERT INTO s SELECT n FROM t FOR SYSTEM_TIME AS OF TO_TIMESTAMP_LTZ(1000000, 3)"
        plan = json.loads(t_env.compile_plan_sql(insert).as_json_string())
        assert plan["nodes"][0]["table"]["as_of"] == 1_000_000
        plan["nodes"][0]["table"]["as_of"] = moment
        with pytest.raises(SqlEngineError, match=message):
            t_env.execute_plan(PlanReference.from_json_string(json.dumps(plan)))


def test_files_that_are_none(tmp_path: Path) -> None:
    with simple() as t_env:
        for path in (tmp_path, "s3://bucket/plan.json", tmp_path / "none" / "plan.json"):
            with pytest.raises(FormatError) as raised:
                t_env.execute_sql(f"EXECUTE PLAN '{path}'")
            assert raised.value.code == "E3212"
            with pytest.raises(FormatError) as raised:
                t_env.execute_sql(f"COMPILE PLAN '{path}' FOR {SUMS}")
            assert raised.value.code == "E3212"
        (tmp_path / "latin").write_bytes(b"\xff")
        with pytest.raises(FormatError, match="no UTF-8"):
            t_env.execute_sql(f"EXECUTE PLAN '{tmp_path}/latin'")
        assert [p.name for p in tmp_path.iterdir()] == ["latin"]


STATEMENTS = [
    SUMS,
    "INSERT INTO logs SELECT a.item, b.id FROM orders a LEFT JOIN orders b ON a.id = b.price AND a.price > b.id",
    "INSERT INTO logs SELECT item, CAST(n AS INT) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY price) n FROM orders)"
    " WHERE n <= 2",
    "INSERT INTO logs VALUES ('x', 1), ('y', NULL)",
    "INSERT INTO logs SELECT CASE WHEN price > 5 THEN UPPER(item) ELSE item END, id FROM orders LIMIT 2",
]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_a_file_says_only_errors_with_codes_come_out(seed: int) -> None:
    chance = random.Random(seed)
    with simple() as t_env:
        plans = [json.loads(t_env.compile_plan_sql(text).as_json_string()) for text in STATEMENTS]
        for _ in range(40):
            text = json.dumps(mutated(chance.choice(plans), chance))
            try:
                t_env.execute_plan(PlanReference.from_json_string(text)).wait()
            except SqlEngineError as error:
                assert error.code != "E9000", error


def test_a_copy_of_a_plan_runs_elsewhere(tmp_path: Path) -> None:
    shutil.copy(KEPT, tmp_path / "moved.json")
    with environment(tmp_path) as t_env:
        t_env.execute_sql(f"EXECUTE PLAN 'file://{tmp_path}/moved.json'")
    assert published(tmp_path)
