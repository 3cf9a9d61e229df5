"""Sources, state and sinks of one job go back to the same checkpoint: a job that is stopped at random and goes on from
its newest checkpoint writes what one writes that is never stopped."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runtime.checkpoint.store import read_savepoint
from runtime.core.clock import VirtualClock
from runtime.core.options import Options
from runtime.local.dataflow import Dataflow
from runtime.local.job import Job
from runtime.local.rejected import RejectedRows
from runtime.local.source_inputs import SourceContext, SourceInputs
from runtime.plan.nodes import PhysicalNode
from runtime.state.snapshot import SavedOperator, SavedState
from sqlengine import TableEnvironment

TABLES = """
CREATE TABLE orders (id INT, shop STRING, amount INT, at TIMESTAMP(3), WATERMARK FOR at AS at - INTERVAL '2' SECOND)
  WITH ('connector' = 'filesystem', 'path' = '{dir}/orders', 'format' = 'json');
CREATE TABLE shops (shop STRING, town STRING) WITH ('connector' = 'filesystem', 'path' = '{dir}/shops.csv', 'format' = 'csv');
CREATE TABLE plain (id INT, shop STRING, town STRING) PARTITIONED BY (shop) WITH ('connector' = 'filesystem',
  'path' = '{dir}/out', 'format' = 'csv', 'sink.rolling-policy.file-size' = '100b',
  'sink.partition-commit.policy.kind' = 'success-file');
CREATE TABLE changes (shop STRING, n BIGINT, s BIGINT) WITH ('connector' = 'filesystem', 'path' = '{dir}/out', 'format' = 'debezium-json');
CREATE TABLE windows (w TIMESTAMP(3), shop STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{dir}/out', 'format' = 'json');
"""
QUERIES = {
    "join": "INSERT INTO plain SELECT id, o.shop, town FROM orders AS o JOIN shops AS s ON o.shop = s.shop",
    "aggregate": "INSERT INTO changes SELECT shop, COUNT(*), SUM(amount) FROM orders GROUP BY shop",
    "window": "INSERT INTO windows SELECT window_start, shop, COUNT(*) "
    "FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, shop",
    "set": "EXECUTE STATEMENT SET BEGIN INSERT INTO windows SELECT at, shop, amount FROM orders WHERE id < 40; "
    "INSERT INTO windows SELECT at, shop, amount FROM orders WHERE id >= 40; END",
}


@dataclass
class Checkpoint:
    """What a job goes on from."""

    epoch: int = 0
    saves: list[list[SavedOperator]] = field(default_factory=list)
    positions: list[Any] | None = None
    prepared: list[dict[str, list[Any]]] = field(default_factory=list)


class Runs:
    """One job, run as often as it takes."""

    def __init__(self, t_env: TableEnvironment, roots: Sequence[PhysicalNode], rng: random.Random) -> None:
        self._session, self._roots, self._rng = t_env.session, roots, rng
        self.checkpoint = Checkpoint()
        self.starts = 0

    def run(self, crash: float) -> bool:
        """From the newest checkpoint to the end, or to a crash; tells whether it was the end."""
        rng, held = self._rng, self.checkpoint
        self.starts += 1
        rejections = RejectedRows().for_job("job")
        flow = Dataflow(
            self._roots, Options(), self._session.functions, "UTC", rejections, checked=self.starts % 2 == 0, job="job"
        )
        names = [saved.name for saved in held.saves[-1]] if held.saves else []
        saved = {name: SavedState.of([save[i] for save in held.saves]) for i, name in enumerate(names)}
        flow.restore(held.epoch, saved)
        flow.recover(held.prepared[0] if held.prepared else {})
        inputs = [
            SourceInputs(
                node, SourceContext("UTC", node.name, rejections), VirtualClock(), held.positions and held.positions[i]
            )
            for i, node in enumerate(flow.sources)
        ]
        chain: list[list[SavedOperator]] = []
        while not all(source.finished for source in inputs):
            flow.step({s.node: s.poll(rng.choice([0, 1, 4, 30])) for s in inputs}, flow.epoch)
            if rng.random() < 0.4:
                chain.append(flow.save())
                positions = json.loads(json.dumps([s.position() for s in inputs]))
                prepared = json.loads(json.dumps(flow.prepare()))
                self.checkpoint = Checkpoint(flow.epoch, list(chain), positions, [prepared])
                if rng.random() < 0.7:
                    flow.publish(prepared)
            if rng.random() < crash:
                for source in inputs:
                    source.close()
                if rng.random() < 0.5:  # a failed job; else one that was killed
                    flow.abort()
                return False
        for source in inputs:
            source.close()
        flow.finish()
        return True


def written(folder: Path) -> list[str]:
    """All lines that readers see, with the folder that each stands in."""
    found = [p for p in (folder / "out").rglob("*") if p.is_file() and not p.name.startswith((".", "_"))]
    return sorted(f"{p.parent.name}: {line}" for p in found for line in p.read_text().splitlines())


def prepare_input(folder: Path, rng: random.Random) -> None:
    (folder / "orders").mkdir(parents=True)
    for part in range(4):
        rows = [
            {
                "id": i,
                "shop": f"s{rng.randrange(4)}",
                "amount": rng.randrange(100),
                "at": f"2024-05-01 10:00:{i // 2:02d}",
            }
            for i in range(part * 25, part * 25 + 25)
        ]
        (folder / "orders" / f"{part}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (folder / "shops.csv").write_text("".join(f"s{i},town {i}\n" for i in range(3)))


class Planned(Exception):
    """Carries the plans of a statement out of its session."""


def plans_of(t_env: TableEnvironment, statement: str, monkeypatch: pytest.MonkeyPatch) -> Sequence[PhysicalNode]:
    def planned(name: str, roots: Sequence[PhysicalNode], *more: Any) -> None:
        raise Planned(roots)

    with monkeypatch.context() as patched:
        patched.setattr(t_env.session, "new_job", planned)
        with pytest.raises(Planned) as caught:
            t_env.execute_sql(statement)
    roots: Sequence[PhysicalNode] = caught.value.args[0]
    return roots


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", range(6))
def test_a_job_that_is_stopped_at_random_writes_each_row_once(
    query: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[list[str]] = []
    for name, crash in (("whole", 0.0), ("stopped", 0.15)):
        folder, rng = tmp_path / name, random.Random(seed)
        prepare_input(folder, random.Random(seed))
        with TableEnvironment.create() as t_env:
            for statement in TABLES.format(dir=folder).split(";\n"):
                if statement.strip():
                    t_env.execute_sql(statement)
            runs = Runs(t_env, plans_of(t_env, QUERIES[query], monkeypatch), rng)
            while not runs.run(crash):
                assert runs.starts < 500
        found = written(folder)
        if query == "aggregate":  # between its first and its last state, rows may change more or less often
            found = folded(found)
        results.append(found)
        hidden = [p.name for p in folder.rglob(".*")]
        assert hidden == []
    assert results[0] and results[1] == results[0]


def folded(lines: list[str]) -> list[str]:
    """The rows that are left of events."""
    counts: dict[str, int] = {}
    for line in lines:
        event = json.loads(line.partition(": ")[2])
        row = json.dumps(event["after"] or event["before"])
        counts[row] = counts.get(row, 0) + (1 if event["op"] == "c" else -1)
    return sorted(f"{row} {n}" for row, n in counts.items() if n)


def test_partitions_that_wait_go_into_a_savepoint(tmp_path: Path) -> None:
    """A savepoint has no rows of sinks, which are published before it is written, but what they wait for."""
    prepare_input(tmp_path, random.Random(1))
    ddl = TABLES.format(dir=tmp_path).replace("'success-file'", "'success-file', 'sink.partition-commit.delay' = '1 h'")
    path = str(tmp_path / "saved")
    options = {"sqlengine.epoch.max-rows": "10"}
    with TableEnvironment.create(options, clock=VirtualClock(1)) as t_env:
        t_env.execute_script(ddl)

        def watch(job: Job) -> None:
            job.on_epoch = lambda job: job.dataflow.epoch == 3 and job.savepoint(path, stop=True) and None

        t_env.session.on_job = watch
        t_env.execute_sql(QUERIES["join"])
    assert not list(tmp_path.rglob("_SUCCESS"))
    (kept,) = read_savepoint(path).sinks.values()
    assert [c["files"] for c in kept] == [[]]
    assert set(kept[0]["waiting"]) <= {f"shop=s{i}" for i in range(3)} and kept[0]["waiting"]
    first = written(tmp_path)
    with TableEnvironment.create({**options, "execution.savepoint.path": path}, clock=VirtualClock(2)) as t_env:
        t_env.execute_script(ddl)
        t_env.execute_sql(QUERIES["join"])
    assert 0 < len(first) < len(written(tmp_path)) == len(set(written(tmp_path)))
    assert {p.parent.name for p in tmp_path.rglob("_SUCCESS")} == {f"shop=s{i}" for i in range(3)}
