"""SUBSCRIBE while others write: every step is a whole epoch, their sum is what the view holds, and the end is told."""

from __future__ import annotations

import gc
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import pytest

from runtime.core.changelog import ChangelogBatch
from runtime.core.errors import PlanningError
from sqlengine import TableEnvironment

Row = tuple[Any, ...]

WRITERS, ROUNDS = 3, 25


def _add(held: Counter[Row], step: ChangelogBatch) -> None:
    rows = zip(*(c.to_pylist() for c in step.columns), strict=True)
    for row, sign in zip(rows, step.signs().tolist(), strict=True):
        held[row] += sign
        assert held[row] >= 0, f"{row} is taken back and was not there"
        if not held[row]:
            del held[row]


def _in_threads(tasks: list[Callable[[], object]]) -> list[threading.Thread]:
    """Start the tasks; an error of one is raised by `_joined`."""

    def run(task: Callable[[], object]) -> None:
        try:
            task()
        except BaseException as error:
            _ERRORS.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    return threads


def _joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join()
    if _ERRORS:
        raise _ERRORS[0]


_ERRORS: list[BaseException] = []


@pytest.fixture
def t_env() -> Iterator[TableEnvironment]:
    with TableEnvironment.create() as environment:
        yield environment


def test_steps_are_whole_epochs_while_several_threads_write(t_env: TableEnvironment) -> None:
    """Money moves between accounts, in one statement each time: what all have together is nothing after every step."""
    t_env.execute_script(
        "CREATE TABLE moved (id INT, account INT, amount INT, PRIMARY KEY (id, account) NOT ENFORCED);"
        "CREATE MATERIALIZED VIEW held AS SELECT account, SUM(amount) AS total, COUNT(*) AS n FROM moved GROUP BY account;"
        "CREATE MATERIALIZED VIEW pairs AS SELECT a.id, a.amount AS took, b.amount AS gave FROM moved a JOIN moved b "
        "ON a.id = b.id AND a.account < b.account;"
        "CREATE MATERIALIZED VIEW largest AS SELECT account, total FROM held ORDER BY total DESC, account LIMIT 2"
    )
    t_env.session.harness.checked = True
    last = {"held": (98,), "pairs": (-1,), "largest": (98,), "moved": (-1,)}
    results = {name: t_env.execute_sql(f"SUBSCRIBE TO {name}") for name in last}
    seen: dict[str, Counter[Row]] = {name: Counter() for name in last}
    steps = Counter[str]()

    def follow(name: str) -> None:
        held = seen[name]
        for step in results[name].changes():
            _add(held, step)
            steps[name] += 1
            if name == "held":
                assert sum(row[1] * times for row, times in held.items()) == 0
            if name == "pairs":
                assert all(row[1] == -row[2] for row in held)
            if name == "largest":
                assert held.total() <= 2
            if any(row[:1] == last[name] for row in held):
                return

    def write(number: int) -> None:
        chance = random.Random(number)
        for turn in range(ROUNDS):
            key, amount = number * 1000 + chance.randrange(8), chance.randint(1, 9)
            one, other = chance.sample(range(5), 2)
            what = chance.choice(("put", "put", "put", "double", "drop"))
            if what == "put":
                t_env.execute_sql(f"DELETE FROM moved WHERE id = {key}")
                t_env.execute_sql(f"INSERT INTO moved VALUES ({key}, {one}, {amount}), ({key}, {other}, {-amount})")
            elif what == "double":
                t_env.execute_sql(f"UPDATE moved SET amount = amount * 2 WHERE id = {key}")
            else:
                t_env.execute_sql(f"DELETE FROM moved WHERE id BETWEEN {number * 1000} AND {number * 1000 + turn % 8}")

    followers = _in_threads([partial(follow, name) for name in last])
    _joined(_in_threads([partial(write, number) for number in range(WRITERS)]))
    t_env.execute_sql("INSERT INTO moved VALUES (-1, 98, 1000000), (-1, 99, -1000000)")
    _joined(followers)
    for name in last:
        assert seen[name] == _rows(t_env, name)
        assert steps[name] > 10


def _rows(environment: TableEnvironment, name: str) -> Counter[Row]:
    table = environment.execute_sql(f"SELECT * FROM {name}").to_arrow()
    return Counter(zip(*(c.to_pylist() for c in table.columns), strict=True))


def test_a_subscriber_of_a_view_that_fails_is_told(t_env: TableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE texts (s STRING)")
    t_env.execute_sql("CREATE MATERIALIZED VIEW numbers AS SELECT CAST(s AS INT) AS n FROM texts")
    changes = t_env.execute_sql("SUBSCRIBE TO numbers").collect()
    t_env.execute_sql("INSERT INTO texts VALUES ('7')")
    assert next(changes) == (7,)
    with pytest.warns(match="numbers"):
        t_env.execute_sql("INSERT INTO texts VALUES ('seven')")
    with pytest.raises(PlanningError, match="E1713"):
        next(changes)


def test_a_subscription_ends_when_the_view_is_dropped_or_gets_other_columns(t_env: TableEnvironment) -> None:
    t_env.execute_script("CREATE TABLE t (id INT); INSERT INTO t VALUES (1), (2), (3)")
    t_env.execute_sql("CREATE MATERIALIZED VIEW doubled AS SELECT id * 2 AS n FROM t")
    changes = t_env.execute_sql("SUBSCRIBE TO doubled").collect()
    before = [next(changes) for _ in range(3)]
    t_env.execute_sql("CREATE OR REPLACE MATERIALIZED VIEW doubled AS SELECT id * 3 AS tripled FROM t")
    assert len(before) == 3 and list(changes) == []
    changes = t_env.execute_sql("SUBSCRIBE TO doubled").collect()
    t_env.execute_sql("DROP MATERIALIZED VIEW doubled")
    assert len(list(changes)) == 3


def test_a_subscription_begins_with_its_statement(t_env: TableEnvironment) -> None:
    """What happens between SUBSCRIBE and the first read comes epoch by epoch; a subscription that nobody can read any
    more gathers nothing."""
    t_env.execute_script("CREATE TABLE t (id INT); CREATE MATERIALIZED VIEW n AS SELECT COUNT(*) AS n FROM t")
    subscription = t_env.execute_sql("SUBSCRIBE TO n")
    t_env.execute_sql("INSERT INTO t VALUES (1)")
    t_env.execute_sql("INSERT INTO t VALUES (2), (3)")
    changes = subscription.collect()
    assert [(row.kind, *row) for row in islice(changes, 3)] == [("+I", 1), ("-U", 1), ("+U", 3)]
    table = t_env.session.memory_table(t_env.session.catalogs.get(("n",), None))
    held = len(table._readers)
    del subscription, changes
    gc.collect()
    assert len(table._readers) == held - 1
