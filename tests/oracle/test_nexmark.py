"""The queries of Nexmark against DuckDB's batch answers over the same events: at the end of the input, for several ways
to cut it into epochs, and after every epoch. Answers of windows come when their windows close: after an epoch they are
some of the final ones.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from runtime.core.changelog import ChangelogBatch
from runtime.core.clock import VirtualClock
from runtime.plan.nodes import SourceExec
from sqlengine import TableEnvironment
from sqlengine.results.result import fold
from tests.oracle.duckdb_oracle import assert_same_rows, connect, rows_like

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "sql_examples" / "nexmark"
TEXTS = Path(__file__).parent / "nexmark_duckdb"
QUERIES = tuple(f"q{i}" for i in range(23))
WINDOWED = ("q5", "q7", "q8", "q11")
OF_THE_CLOCK = ("q12",)
EVENTS = 10_000
START_OF_CLOCK = 1_577_836_815_000
"""2020-01-01 00:00:15: in the window of ten seconds that q12 expects."""


class Cuts:
    """Rows per epoch: some number between the bounds. Args: see `JobSettings.cut`."""

    def __init__(self, least: int, most: int) -> None:
        self._chance = random.Random(least)
        self._bounds = (least, most)
        self.taken = 0

    def rows(self, sources: Sequence[SourceExec], epoch: int) -> Sequence[int]:
        """The same number for each source: all of them give the same events, of which views take some."""
        count = self._chance.randint(*self._bounds)
        self.taken += count
        return [count] * len(sources)


CUTS = {"all in one epoch": (10**9, 10**9), "small epochs": (1, 400)}


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    """DuckDB with the people, auctions and bids that the connector gives."""
    connection = connect()
    table = parts("q0")[0].split("CREATE VIEW")[0]
    examples = "".join((EXAMPLES / f"{name}.sql").read_text() for name in ("q3", "q4"))
    with TableEnvironment.create() as environment:
        environment.execute_script(table)
        for view in sorted(set(re.findall(r"CREATE VIEW \w+ AS\n[^;]*;", examples))):
            environment.execute_sql(view)
        for name in ("person", "auction", "bid"):
            rows = environment.execute_sql(f"SELECT * FROM {name}").to_arrow()
            connection.register("rows", rows)
            connection.execute(f"CREATE TABLE all_{name} AS SELECT * FROM rows")
            connection.unregister("rows")
    return connection


def parts(name: str) -> tuple[str, str]:
    """An example with more events, fifty a second: tables and views, then the INSERT."""
    text = (EXAMPLES / f"{name}.sql").read_text()
    text = text.replace("'events.num' = '500'", f"'events.num' = '{EVENTS}'").replace(
        "-event.rate' = '10'", "-event.rate' = '50'"
    )
    assert f"'{EVENTS}'" in text and "'50'" in text
    header, insert = text.split("\nINSERT INTO ")
    return header, "INSERT INTO " + insert.split(";")[0]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", QUERIES)
def test_same_answer_as_duckdb(
    name: str,
    cut: str,
    oracle: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sql_examples").symlink_to(ROOT / "sql_examples")
    first_events(oracle, EVENTS)
    ours = answer(name, cut)
    theirs = oracle.sql((TEXTS / f"{name}.sql").read_text()).to_arrow_table()
    assert theirs.num_rows > 0, "an empty answer shows nothing"
    assert_same_rows(rows_like(ours, ours.schema), rows_like(theirs, ours.schema), f"{name}, {cut}")


def answer(name: str, cut: str) -> pa.Table:
    header, insert = parts(name)
    target = re.match(r"INSERT INTO (\w+)", insert)
    assert target is not None
    clock = VirtualClock()
    clock.advance_to(START_OF_CLOCK)
    with TableEnvironment.create(clock=clock) as environment:
        environment.session.harness.checked = True
        environment.session.harness.cut = Cuts(*CUTS[cut])
        environment.execute_script(header)
        environment.execute_sql(insert)
        return environment.execute_sql(f"SELECT * FROM {target[1]}").to_arrow()


@pytest.mark.parametrize("name", [q for q in QUERIES if q not in OF_THE_CLOCK])
def test_same_answer_as_duckdb_after_every_epoch(
    name: str, oracle: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    header, insert = parts(name)
    query = re.sub(r"INSERT INTO \w+\n", "", insert)
    text = (TEXTS / f"{name}.sql").read_text()
    first_events(oracle, EVENTS)
    final = oracle.sql(text).to_arrow_table()
    with TableEnvironment.create() as environment:
        environment.session.harness.checked = True
        cuts = environment.session.harness.cut = Cuts(200, 1500)
        environment.execute_script(header)
        result = environment.execute_sql(query)
        changes: list[ChangelogBatch] = []
        for change in result.changes():
            changes.append(change)
            ours = rows_like(pa.Table.from_batches([fold(changes, result.schema)]), result.schema.arrow)
            if name in WINDOWED:
                wrong = Counter(ours) - Counter(rows_like(final, result.schema.arrow))
                assert not wrong, f"{name} gave answers after {cuts.taken} events that are not final: {list(wrong)[:5]}"
                continue
            first_events(oracle, cuts.taken)
            assert_same_rows(
                ours,
                rows_like(oracle.sql(text).to_arrow_table(), result.schema.arrow),
                f"{name} after {cuts.taken} events",
            )
        assert_same_rows(ours, rows_like(final, result.schema.arrow), f"{name} in the end")
        assert name in WINDOWED or len(changes) > 3


def first_events(oracle: duckdb.DuckDBPyConnection, count: int) -> None:
    """Let the tables of DuckDB hold the first events: one every 20 milliseconds."""
    for name in ("person", "auction", "bid"):
        oracle.execute(
            f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM all_{name} "
            f"WHERE dateTime < TIMESTAMP '2015-07-15 00:00:00' + {min(count, EVENTS)} * INTERVAL '20 milliseconds'"
        )
