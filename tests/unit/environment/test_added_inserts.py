"""An INSERT is added to a statement set that goes on from what it has saved: it gets all rows, the others only later ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from sqlengine import SqlEngineError, TableEnvironment

INSERTS = {
    "totals": "SELECT g, SUM(a) FROM source GROUP BY g",
    "counts": "SELECT g, COUNT(*) FROM source GROUP BY g",
    "plain": "SELECT g, a FROM source WHERE a > 1",
}


def run(folder: Path, names: list[str]) -> str:
    """Carries the set out; gives what EXPLAIN RESTORE says of it before."""
    with TableEnvironment.create() as t_env:
        t_env.execute_sql(f"SET 'execution.checkpointing.dir' = '{folder / 'state'}'")
        t_env.execute_sql("SET 'pipeline.name' = 'all'")
        t_env.execute_sql("SET 'sqlengine.epoch.max-rows' = '2'")
        t_env.execute_sql(
            f"CREATE TABLE source (g STRING, a BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder / 'in'}', 'format' = 'csv')"
        )
        for name in INSERTS:
            t_env.execute_sql(
                f"CREATE TABLE {name} (g STRING, a BIGINT) WITH "
                f"('connector' = 'filesystem', 'path' = '{folder / name}', 'format' = 'debezium-json')"
            )
        statement = "STATEMENT SET BEGIN\n" + "\n".join(f"INSERT INTO {n} {INSERTS[n]};" for n in names) + "\nEND"
        ((shown,),) = t_env.execute_sql(f"EXPLAIN RESTORE {statement}").collect()
        t_env.execute_sql(f"EXECUTE {statement}")
        return str(shown)


def written(folder: Path) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for file in folder.glob("[!.]*"):
        for line in file.read_text().splitlines():
            change = json.loads(line)
            for image, count in (("before", -1), ("after", 1)):
                if change.get(image):
                    found[change[image]["g"], change[image]["a"]] += count
    return +found


def test_each_has_the_result_over_all_input(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.csv").write_text("a,1\nb,2\nb,3\nc,4\n")
    run(tmp_path, ["totals"])
    shown = run(tmp_path, ["totals", "counts"])
    assert shown.count("new      read from the start") == 1
    assert shown.count("kept     read on from its position") == 1
    assert "exact" in shown
    # What was added goes on from its own position the next time, and so does what is added later.
    shown = run(tmp_path, ["counts", "totals", "plain"])
    assert shown.count("new      read from the start") == 1
    assert shown.count("kept     read on from its position") == 2
    shown = run(tmp_path, list(INSERTS))
    assert "new " not in shown.replace("knows", "")
    assert shown.count("kept     read on from its position") == 3
    assert written(tmp_path / "totals") == {("a", 1): 1, ("b", 5): 1, ("c", 4): 1}
    assert written(tmp_path / "counts") == {("a", 1): 1, ("b", 2): 1, ("c", 1): 1}
    assert written(tmp_path / "plain") == {("b", 2): 1, ("b", 3): 1, ("c", 4): 1}


def test_what_has_another_query_is_refused_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.csv").write_text("a,1\nb,2\nb,3\nc,4\n")
    run(tmp_path, ["totals", "counts"])
    monkeypatch.setitem(INSERTS, "counts", "SELECT g, MAX(a) FROM source GROUP BY g")
    with pytest.raises(SqlEngineError, match="E3411"):
        run(tmp_path, ["totals", "counts"])
    assert written(tmp_path / "counts") == {("a", 1): 1, ("b", 2): 1, ("c", 1): 1}
