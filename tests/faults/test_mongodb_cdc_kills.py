"""A job that follows a collection, whose process is killed with SIGKILL while documents are read and while they change: what it writes
is the answer over the collection as it is, with and without old documents.

`make faults` kills it fifty times.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.conftest import FIRST_SEED, KILLS, MANY_KILLS
from tests.faults.processes import WarmProcess
from tests.servers.mongodb_changes import ChangingCollection, changing_collection

KILLED_SOURCES = ("mongodb-cdc",)
"""Connectors of which the tests here prove something."""
_PATIENCE = 60.0


@pytest.mark.parametrize("full", ["false", "true"] if KILLS > MANY_KILLS else ["true"])
def test_a_killed_job_writes_the_answer(tmp_path: Path, warm: WarmProcess, full: str) -> None:
    rng = random.Random(FIRST_SEED)
    with closing(sqlite3.connect(tmp_path / "totals.db")) as made:
        made.execute("CREATE TABLE totals (region TEXT PRIMARY KEY, n INTEGER, total INTEGER)")
        made.commit()
    with changing_collection() as there:
        there.put(*({"_id": i, "region": "e", "amount": 1} for i in range(1000, 1600)))
        (tmp_path / "job.sql").write_text(
            "CREATE TABLE t (_id INT, region STRING, amount INT, PRIMARY KEY (_id) NOT ENFORCED) WITH ('connector' = 'mongodb-cdc', "
            f"'uri' = '{there.uri}', 'database' = 'shop', 'collection' = 'items', 'poll.max.batch.size' = '100', "
            f"'poll.await.time.ms' = '20', 'scan.full-changelog' = '{full}');"
            "CREATE TABLE totals (region STRING, n BIGINT, total BIGINT, PRIMARY KEY (region) NOT ENFORCED) WITH "
            f"('connector' = 'sqlite', 'path' = '{tmp_path}/totals.db', 'table-name' = 'totals');"
            "INSERT INTO totals SELECT region, COUNT(*), SUM(amount) FROM t GROUP BY region;"
        )
        options = {
            "execution.checkpointing.dir": str(tmp_path / "state"),
            "execution.checkpointing.interval": "10 ms",
            "sqlengine.epoch.max-rows": "100",
        }
        arguments = ["run", str(tmp_path / "job.sql"), *(p for k, v in options.items() for p in ("-D", f"{k}={v}"))]
        for _ in range((KILLS + 1) // 2):
            wanted, limit = _newest(tmp_path) + rng.randint(1, 4), time.monotonic() + _PATIENCE
            warm.start(arguments, tmp_path / "said")
            while _newest(tmp_path) < wanted:
                _change(there, rng)
                assert not warm.ended(0.005), (tmp_path / "said").read_text()
                assert time.monotonic() < limit
            warm.kill()
            assert warm.status() == -signal.SIGKILL
            _change(there, rng)
        warm.start(arguments, tmp_path / "said")
        limit = time.monotonic() + _PATIENCE
        while (found := _totals(tmp_path)) != (expected := _answer(there)):
            assert time.monotonic() < limit, (found, expected)
            assert not warm.ended(0.05), (tmp_path / "said").read_text()
        warm.kill()
        warm.status()


def _change(there: ChangingCollection, rng: random.Random) -> None:
    key, region = rng.randrange(200), rng.choice(["n", "s", "w"])
    there.put({"_id": key, "region": region, "amount": rng.randrange(9)})
    for one in rng.sample(sorted(there.documents), 3):
        there.set(one, amount=there.documents[one]["amount"] + 1, region=region)
    there.delete(rng.choice(sorted(there.documents)))


def _answer(there: ChangingCollection) -> list[tuple[str, int, int]]:
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for document in there.documents.values():
        counts[document["region"]] += 1
        sums[document["region"]] += document["amount"]
    return sorted((region, counts[region], sums[region]) for region in counts)


def _totals(folder: Path) -> list[tuple[str, int, int]]:
    with closing(sqlite3.connect(folder / "totals.db")) as made:
        return made.execute("SELECT * FROM totals ORDER BY region").fetchall()


def _newest(folder: Path) -> int:
    """The number of the newest checkpoint that is whole; 0 without one."""
    manifests = folder.glob("state/*/chk-*/manifest.json")
    return max((int(path.parent.name.removeprefix("chk-")) for path in manifests), default=0)
