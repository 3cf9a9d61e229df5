"""A materialized view that is given another query keeps the state of what computes the same: sources are not read again,
and what cannot be read again is not lost in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlengine import SqlEngineError, TableEnvironment, udf
from sqlengine.testing.runner import AS_WRITTEN, run_file
from sqlengine.testing.show import difference_lines
from sqlengine.testing.slt import read_slt

AGGREGATE = "SELECT g, SUM(a) AS s FROM {} GROUP BY g"
ON_TOP = (
    "SELECT g, SUM(a) AS s FROM {} GROUP BY g HAVING SUM(a) > 3",
    "SELECT g, SUM(a) AS s, SUM(a) * 2 AS twice FROM {} GROUP BY g",
    "SELECT SUM(a) AS s FROM {} GROUP BY g",
    "SELECT g, SUM(a) AS s FROM {} GROUP BY g ORDER BY s DESC LIMIT 1",
    "SELECT x.g, s, n FROM (SELECT g, SUM(a) AS s FROM {} GROUP BY g) AS x JOIN o ON x.g = o.g",
    "SELECT x.g, s, n FROM (SELECT g, SUM(a) AS s FROM {} GROUP BY g) AS x LEFT JOIN o ON x.g = o.g",
    "SELECT g, SUM(a) AS s FROM {} GROUP BY g UNION ALL SELECT g, n FROM o",
    "SELECT MAX(s) AS m FROM (SELECT g, SUM(a) AS s FROM {} GROUP BY g)",
    "SELECT g, SUM(a) AS s FROM {} GROUP BY g INTERSECT SELECT g, n FROM o",
)


def rows(t_env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return sorted((tuple(r.values()) for r in t_env.execute_sql(query).to_arrow().to_pylist()), key=repr)


def with_files(t_env: TableEnvironment, folder: Path) -> None:
    """A table over files that are gone when they have been read, a table of the same rows, and another one."""
    source = folder / "files"
    source.mkdir()
    (source / "one.csv").write_text("a,1\nb,2\nb,3\nc,4\n")
    t_env.execute_sql(
        "CREATE TABLE files (g STRING, a INT) WITH "
        f"('connector' = 'filesystem', 'path' = '{source}', 'format' = 'csv', 'csv.null-literal' = '-', 'source.monitor-interval' = '1 ms')"
    )
    t_env.execute_sql("CREATE TABLE same (g STRING, a INT)")
    t_env.execute_sql("INSERT INTO same VALUES ('a', 1), ('b', 2), ('b', 3), ('c', 4)")
    t_env.execute_sql("CREATE TABLE o (g STRING, n INT)")
    t_env.execute_sql("INSERT INTO o VALUES ('a', 1), ('b', 20)")


def forget_files(t_env: TableEnvironment, folder: Path) -> None:
    """What the views have read cannot be read again."""
    t_env.execute_sql("FLUSH")
    (folder / "files" / "one.csv").unlink()


@pytest.mark.parametrize("query", ON_TOP)
@pytest.mark.parametrize("lasting", [False, True])
def test_what_is_new_above_an_aggregate_is_filled_from_it(tmp_path: Path, query: str, lasting: bool) -> None:
    path = str(tmp_path / "db") if lasting else None
    with TableEnvironment.create(path=path) as t_env:
        with_files(t_env, tmp_path)
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {AGGREGATE.format('files')}")
        forget_files(t_env, tmp_path)
        t_env.execute_sql(f"ALTER MATERIALIZED VIEW v AS {query.format('files')}")
        assert rows(t_env, "SELECT * FROM v") == rows(t_env, query.format("same"))
        # And back: the state is there still.
        t_env.execute_sql(f"ALTER MATERIALIZED VIEW v AS {AGGREGATE.format('files')}")
        t_env.execute_sql(f"ALTER MATERIALIZED VIEW v AS {query.format('files')}")
    if lasting:
        with TableEnvironment.create(path=path) as t_env:
            t_env.execute_sql("INSERT INTO o VALUES ('c', 4)")
            assert rows(t_env, "SELECT * FROM v") == rows(t_env, query.format("same"))


def test_a_database_that_is_killed_has_what_a_replaced_view_has_taken_over(tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    with TableEnvironment.create(path=path) as t_env:
        with_files(t_env, tmp_path)
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {AGGREGATE.format('files')}")
        forget_files(t_env, tmp_path)
        t_env.execute_sql(f"ALTER MATERIALIZED VIEW v AS {ON_TOP[0].format('files')}")
        assert t_env.session.durable is not None
        # As if the process ended here.
        t_env.session.durable.abandon()
    with TableEnvironment.create(path=path) as t_env:
        assert rows(t_env, "SELECT * FROM v") == rows(t_env, ON_TOP[0].format("same"))


@pytest.mark.parametrize(
    ("shown", "below"),
    [
        ("g || CAST(a + n AS STRING)", "SELECT g, a, o.n FROM {} AS f JOIN o USING (g)"),
        (
            "g",
            "SELECT g, a FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY a DESC) AS r FROM {}) WHERE r <= 2",
        ),
        ("g", "SELECT DISTINCT g, a FROM {}"),
        ("g", "SELECT g, a FROM {} EXCEPT SELECT g, n FROM o"),
        ("g || CAST(a AS STRING)", "SELECT g, a FROM {} WHERE g IN (SELECT g FROM o)"),
    ],
)
def test_operators_tell_their_answers(tmp_path: Path, shown: str, below: str) -> None:
    """Where the view does not have the columns of what stands below."""
    with TableEnvironment.create() as t_env:
        with_files(t_env, tmp_path)
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS SELECT {shown} AS s FROM ({below.format('files')})")
        forget_files(t_env, tmp_path)
        ((text,),) = t_env.execute_sql(f"EXPLAIN ALTER MATERIALIZED VIEW v AS {below.format('files')}").collect()
        assert "from the state of" in text
        assert "anew" not in text
        t_env.execute_sql(f"ALTER MATERIALIZED VIEW v AS {below.format('files')}")
        assert rows(t_env, "SELECT * FROM v") == rows(t_env, below.format("same"))


@pytest.mark.parametrize(
    ("shown", "below"),
    [
        ("g || CAST(a AS STRING)", "SELECT g, a, n FROM {} AS f LEFT JOIN o USING (g)"),
        ("g || CAST(a AS STRING)", "SELECT g, a FROM {} AS f WHERE NOT EXISTS (SELECT * FROM o WHERE o.g = f.g)"),
        ("g", "SELECT g, a + 1 AS a FROM {}"),
    ],
)
def test_where_nobody_can_tell_the_answer_sources_are_read_again(tmp_path: Path, shown: str, below: str) -> None:
    """Rows with NULL in a key are not kept by a join, and a row alone has no state."""
    with TableEnvironment.create() as t_env:
        with_files(t_env, tmp_path)
        (tmp_path / "files" / "null.csv").write_text("-,7\n")
        t_env.execute_sql("INSERT INTO same VALUES (NULL, 7)")
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS SELECT {shown} AS s FROM ({below.format('files')})")
        t_env.execute_sql("FLUSH")
        ((text,),) = t_env.execute_sql(f"EXPLAIN ALTER MATERIALIZED VIEW v AS {below.format('files')}").collect()
        assert "anew     read from the start" in text
        t_env.execute_sql(f"ALTER MATERIALIZED VIEW v AS {below.format('files')}")
        assert rows(t_env, "SELECT * FROM v") == rows(t_env, below.format("same"))


def test_the_same_answer_under_other_names_reads_nothing(tmp_path: Path) -> None:
    with TableEnvironment.create() as t_env:
        with_files(t_env, tmp_path)
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {AGGREGATE.format('files')}")
        forget_files(t_env, tmp_path)
        (view,) = t_env.session.views.jobs()
        t_env.execute_sql(
            "ALTER MATERIALIZED VIEW v AS SELECT f.g, SUM(f.a) /* all */ AS s FROM files AS f GROUP BY f.g"
        )
        assert t_env.session.views.jobs() == [view]
        t_env.execute_sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT g AS h, SUM(a) AS t FROM files GROUP BY g")
        assert rows(t_env, "SELECT h, t FROM v") == rows(t_env, AGGREGATE.format("same"))
        (tmp_path / "files" / "two.csv").write_text("a,5\n")
        t_env.execute_sql("INSERT INTO same VALUES ('a', 5)")
        t_env.execute_sql("FLUSH")
        assert rows(t_env, "SELECT * FROM v") == rows(t_env, AGGREGATE.format("same"))


def test_who_follows_hears_nothing_of_the_same_answer() -> None:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE TABLE t (g STRING, a INT)")
        t_env.execute_sql("INSERT INTO t VALUES ('a', 1), ('b', 5)")
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {AGGREGATE.format('t')}")
        changes = t_env.execute_sql("SUBSCRIBE TO v").changes()
        assert next(changes).rows.num_rows == 2
        t_env.execute_sql(f"ALTER MATERIALIZED VIEW v AS {AGGREGATE.format('t')}")
        t_env.execute_sql(f"ALTER MATERIALIZED VIEW v AS {AGGREGATE.format('t')} HAVING SUM(a) > 1")
        batch = next(changes)
        assert (batch.signs().tolist(), batch.rows.to_pylist()) == ([-1], [{"g": "a", "s": 1}])


def test_what_was_pushed_is_kept_or_not_lost_in_silence() -> None:
    with TableEnvironment.create() as t_env:
        numbers = t_env.create_input("numbers", {"g": "STRING", "a": "INT"})
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {AGGREGATE.format('numbers')}")
        numbers.push([("a", 1), ("b", 5)])
        t_env.execute_sql("FLUSH")
        t_env.execute_sql(f"ALTER MATERIALIZED VIEW v AS {AGGREGATE.format('numbers')} HAVING SUM(a) > 1")
        numbers.push([("a", 1)])
        t_env.execute_sql("FLUSH")
        assert rows(t_env, "SELECT * FROM v") == [("a", 2), ("b", 5)]
        counts = "ALTER MATERIALIZED VIEW v AS SELECT g, CAST(COUNT(*) AS INT) AS s FROM numbers GROUP BY g"
        ((text,),) = t_env.execute_sql(f"EXPLAIN {counts}").collect()
        assert "lost     what was read so far cannot be read again" in text
        with pytest.raises(SqlEngineError, match="E1717"):
            t_env.execute_sql(counts)
        assert rows(t_env, "SELECT * FROM v") == [("a", 2), ("b", 5)]
        t_env.execute_sql("SET 'sqlengine.restore.allow-incomplete' = 'true'")
        t_env.execute_sql(counts)
        numbers.push([("b", 7)])
        t_env.execute_sql("FLUSH")
        assert rows(t_env, "SELECT * FROM v") == [("b", 1)]


def test_a_replacement_that_fails_while_it_is_filled_leaves_the_view(tmp_path: Path) -> None:
    with TableEnvironment.create() as t_env:
        with_files(t_env, tmp_path)

        def refuse(s: int) -> int:
            raise ValueError("no")

        t_env.create_temporary_system_function("refuse", udf(refuse, result_type="INT"))
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {AGGREGATE.format('files')}")
        t_env.execute_sql("CREATE MATERIALIZED VIEW above AS SELECT SUM(s) AS s FROM v")
        forget_files(t_env, tmp_path)
        for wrong in (
            "SELECT g, refuse(s) AS s FROM ({})",
            "SELECT g, s / 0 AS s FROM ({})",
            "SELECT g, gone AS s FROM ({})",
        ):
            with pytest.raises(SqlEngineError):
                t_env.execute_sql(f"ALTER MATERIALIZED VIEW v AS {wrong.format(AGGREGATE.format('files'))}")
            assert rows(t_env, "SELECT * FROM v") == rows(t_env, AGGREGATE.format("same"))
        (tmp_path / "files" / "two.csv").write_text("a,5\n")
        t_env.execute_sql("FLUSH")
        assert rows(t_env, "SELECT * FROM above") == [(15,)]


def test_another_time_zone_or_time_to_live_begins_anew() -> None:
    with TableEnvironment.create() as t_env:
        t_env.execute_sql("CREATE TABLE t (g TIMESTAMP_LTZ(3), a INT)")
        t_env.execute_sql("INSERT INTO t VALUES (TO_TIMESTAMP_LTZ(0, 3), 1)")
        query = "SELECT CAST(g AS STRING) AS g, SUM(a) AS s FROM t GROUP BY CAST(g AS STRING)"
        t_env.execute_sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        t_env.execute_sql("SET 'table.local-time-zone' = 'Asia/Tokyo'")
        t_env.execute_sql(f"ALTER MATERIALIZED VIEW v AS {query}")
        assert rows(t_env, "SELECT * FROM v") == [("1970-01-01 09:00:00.000", 1)]


def test_explain_shows_what_becomes_of_the_state() -> None:
    """Where operators run elsewhere a view is replaced as a whole: the file runs in one way alone."""
    differences = run_file(read_slt(Path(__file__).parent / "replaced_views.slt"), AS_WRITTEN)
    assert not differences, "\n".join(line for d in differences for line in difference_lines(d))
