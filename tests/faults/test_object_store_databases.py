"""A database in an object store or a shared folder: whatever a former owner still does, what was acknowledged is there,
and nothing else.

A scenario of one process is cut at each operation of its store: there another process takes over, works and makes
checkpoints, and then the first one goes on, which does not know it. Or it ends there. Afterwards a third process reads.
Only some operations are tried, others by each test (OPERATIONS_STEP), in a folder fewer, because it syncs; `make faults` tries all.
"""

from __future__ import annotations

import itertools
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from runtime.core.errors import SqlEngineError
from sqlengine import TableEnvironment
from tests.faults.object_stores import Gate, Machines, cut_off

OPTIONS = {"sqlengine.database.checkpoint-size": "1 b"}
"""A checkpoint after each epoch."""

TABLE = "CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, x INT)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT x % 2 AS k, COUNT(*) AS c, SUM(id) AS s FROM t GROUP BY x % 2"


def rows(environment: TableEnvironment) -> set[tuple[int, int]]:
    return {(r["id"], r["x"]) for r in environment.execute_sql("SELECT id, x FROM t").to_arrow().to_pylist()}


def insert(environment: TableEnvironment, *values: tuple[int, int]) -> None:
    environment.execute_sql("INSERT INTO t VALUES " + ", ".join(map(str, values))).wait()


def view_is_right(environment: TableEnvironment) -> bool:
    found = environment.execute_sql("SELECT k, c, s FROM v").to_arrow().to_pylist()
    expected: dict[int, tuple[int, int]] = {}
    for id_, x in rows(environment):
        c, s = expected.get(x % 2, (0, 0))
        expected[x % 2] = c + 1, s + id_
    return {r["k"]: (r["c"], r["s"]) for r in found} == expected


@pytest.fixture(params=["object store", "folder"])
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], Machines]:
    """Makes an empty place."""
    number = itertools.count()
    return lambda: Machines(monkeypatch, None if request.param == "object store" else f"{tmp_path}/shop{next(number)}")


def tried(total: int, request: pytest.FixtureRequest) -> range:
    """The operations at which something happens."""
    name = request.node.name
    step = int(os.environ.get("OPERATIONS_STEP", "11" if "folder" in name else "3"))
    return range(1 + zlib.crc32(name.encode()) % step, total + 1, step)


class Scenario:
    """What a process does, and which of it was acknowledged."""

    def __init__(self, machines: Machines, gate: Gate) -> None:
        self.acknowledged: set[tuple[int, int]] = set()
        self.at_hand: set[tuple[int, int]] = set()
        self.refused: list[str] = []
        self.environment = machines.start(gate, OPTIONS)
        self.opened = gate.operations

    def run(self, first: int) -> None:
        for number in range(first, first + 4):
            self.at_hand = {(2 * number, number), (2 * number + 1, number + 1)}
            try:
                insert(self.environment, *self.at_hand)
            except SqlEngineError as error:
                self.refused.append(str(error.code))
                return
            self.acknowledged |= self.at_hand
            self.at_hand = set()

    def close(self) -> None:
        try:
            self.environment.close()
        except SqlEngineError as error:
            self.refused.append(str(error.code))


def prepared(machines: Machines) -> None:
    """A database with a table, a view and a few rows."""
    environment = machines.start(options=OPTIONS)
    environment.execute_sql(TABLE)
    environment.execute_sql(VIEW)
    insert(environment, (-2, 1), (-1, 2))
    environment.close()


def operations_of_the_scenario(machines: Machines) -> int:
    gate = Gate()
    scenario = Scenario(machines, gate)
    scenario.run(100)
    scenario.close()
    return gate.operations


@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "ends"])
def test_a_former_owner_changes_nothing_wherever_it_stood(
    request: pytest.FixtureRequest, made: Callable[[], Machines], ends: bool
) -> None:
    machines = made()
    prepared(machines)
    total = operations_of_the_scenario(machines)
    assert total > 40
    for at in tried(total, request):
        machines = made()
        prepared(machines)
        gate = Gate()
        first = Scenario(machines, gate)
        if at <= first.opened:
            first.close()
            continue
        seen: set[tuple[int, int]] = set()
        right: list[bool] = []

        def take_over(
            first: Scenario = first,
            seen: set[tuple[int, int]] = seen,
            right: list[bool] = right,
            machines: Machines = machines,
        ) -> None:
            known, at_hand = set(first.acknowledged), set(first.at_hand)
            cut_off(first.environment)
            second = machines.start(options=OPTIONS)
            found = rows(second) - {(-2, 1), (-1, 2)}
            right.append(found in (known, known | at_hand))
            right.append(view_is_right(second))
            insert(second, (1000, 1), (1001, 2))
            insert(second, (1002, 1))
            seen |= rows(second)
            if ends:
                cut_off(second)
            else:
                second.close()

        gate.at, gate.then = at, take_over
        first.run(0)
        known = set(first.acknowledged)
        with suppress(SqlEngineError):
            first.close()
        # What is wrong in a checkpoint fails that alone, so it is told here.
        assert right == [True, True], at
        third = machines.start()
        assert rows(third) == seen, (at, first.refused)
        assert known <= seen
        assert not first.refused or first.refused[0] == "E3707", first.refused
        assert view_is_right(third), at
        insert(third, (2000, 2))
        assert view_is_right(third), at
        third.close()


def test_the_job_of_a_former_owner_shows_nothing(made: Callable[[], Machines], tmp_path: Path) -> None:
    """Both run: only what the job of the owner has read counts, in a table and in files."""
    machines = made()
    (tmp_path / "in").mkdir()

    def add_file(number: int) -> None:
        hidden = tmp_path / "in" / f"_{number}"
        hidden.write_text("".join(f"{number * 50 + i}\n" for i in range(50)))
        hidden.rename(tmp_path / "in" / f"{number:04}.csv")

    def counted(environment: TableEnvironment) -> list[int]:
        return sorted(environment.execute_sql("SELECT n FROM s").to_arrow()["n"].to_pylist())

    options = {"execution.checkpointing.interval": "10 ms"}
    environment = machines.start(options=options)
    files = "WITH ('connector' = 'filesystem', 'format' = 'csv', "
    environment.execute_sql(
        f"CREATE TABLE g (n INT) {files}'path' = '{tmp_path}/in', 'source.monitor-interval' = '5 ms')"
    )
    environment.execute_sql(f"CREATE TABLE f (n INT) {files}'path' = '{tmp_path}/out')")
    environment.execute_sql("CREATE TABLE s (n INT)")
    environment.execute_sql(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO s SELECT n FROM g; INSERT INTO f SELECT n FROM g; END"
    )
    former: list[TableEnvironment] = []
    for number in range(8):
        add_file(number)
        while len(counted(environment)) < 50 * (number + 1):
            pass
        if number % 2:
            cut_off(environment)
            former.append(environment)
            add_file(100 + number)
            environment = machines.start(options=options)
            # The former one reads this, too.
            (tmp_path / "in" / f"{100 + number:04}.csv").unlink()
    while not set(range(400)) <= set(counted(environment)):
        pass
    environment.close()
    for one in former:
        with suppress(SqlEngineError):
            one.close()
    with machines.start() as last:
        found = counted(last)
    assert len(found) == len(set(found)) and set(range(400)) <= set(found)
    written = [int(line) for path in (tmp_path / "out").glob("part-*") for line in path.read_text().split()]
    assert sorted(written) == found


def test_a_process_that_ends_anywhere_loses_nothing(
    request: pytest.FixtureRequest, made: Callable[[], Machines]
) -> None:
    machines = made()
    prepared(machines)
    total = operations_of_the_scenario(machines)
    for at in tried(total, request):
        machines = made()
        prepared(machines)

        def end() -> None:
            raise OSError(5, "the machine is gone")

        gate = Gate()
        first = Scenario(machines, gate)
        if at <= first.opened:
            first.close()
            continue
        # From there on nothing reaches the store.
        gate.passes = lambda gate=gate, at=at: _until(gate, at, end)  # type: ignore[method-assign]
        first.run(0)
        cut_off(first.environment)
        with suppress(SqlEngineError):
            first.close()
        second = machines.start()
        found = rows(second) - {(-2, 1), (-1, 2)}
        assert found in (first.acknowledged, first.acknowledged | first.at_hand), at
        assert view_is_right(second), at
        second.close()


def _until(gate: Gate, at: int, end: object) -> None:
    gate.operations += 1
    if gate.operations >= at:
        end()  # type: ignore[operator]
