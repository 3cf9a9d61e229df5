"""TPC-H as materialized views under random changes: every view equals DuckDB's answer after every epoch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sqlengine import TableEnvironment
from tests.oracle.duckdb_oracle import assert_same_rows, connect, duckdb_text, rows_like, view_query
from tests.oracle.tpch_changes import TABLES, Shop
from tests.oracle.tpch_data import generate

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "sql_examples" / "tpch"
QUERIES = tuple(f"q{i}" for i in range(1, 23))
EPOCHS = 24

# An aggregate without GROUP BY over no rows gives no row; DuckDB would give one of NULLs.
ONE_ROW = ("q6", "q14", "q17", "q19")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `load.sql` finds the data, at scale 0.01."""
    folder = tmp_path_factory.mktemp("tpch")
    generate(folder / "sql_examples" / "tpch" / "data")
    return folder


@pytest.fixture(scope="module")
def shop(data: Path) -> Iterator[Shop]:
    """All tables and views: those of odd number saw the load as changes, the others began with full tables."""
    duck = connect()
    for name in TABLES:
        duck.execute(f"CREATE TABLE {name} AS SELECT * FROM '{data}/sql_examples/tpch/data/{name}.parquet'")
    with TableEnvironment.create() as environment, pytest.MonkeyPatch.context() as patch:
        patch.chdir(data)
        environment.session.harness.checked = True
        environment.execute_script((EXAMPLES / "schema.sql").read_text())
        create_views(environment, 1)
        environment.execute_script((EXAMPLES / "load.sql").read_text())
        create_views(environment, 0)
        yield Shop(environment, duck, np.random.default_rng(7))


def create_views(environment: TableEnvironment, parity: int) -> None:
    for name in QUERIES:
        if int(name[1:]) % 2 == parity:
            query = view_query((EXAMPLES / f"{name}.sql").read_text())
            environment.execute_sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def compare(shop: Shop, moment: str) -> None:
    """Raises AssertionError for all views that differ."""
    wrong: list[str] = []
    for name in QUERIES:
        query = duckdb_text(view_query((EXAMPLES / f"{name}.sql").read_text())) + (
            " HAVING COUNT(*) > 0" if name in ONE_ROW else ""
        )
        ours = shop.environment.execute_sql(f"SELECT * FROM {name}").to_arrow()
        theirs = shop.duck.sql(query).to_arrow_table()
        try:
            assert_same_rows(rows_like(ours, ours.schema), rows_like(theirs, ours.schema), f"{name} {moment}")
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, "\n".join(wrong)


def test_views_after_load(shop: Shop) -> None:
    compare(shop, "after the load")


def test_views_follow_random_changes(shop: Shop) -> None:
    for epoch in range(EPOCHS):
        done = shop.change()
        compare(shop, f"after epoch {epoch} ({'; '.join(done)})")


@pytest.mark.parametrize("name", ["region", "customer", "lineitem"])
def test_views_follow_an_emptied_table(shop: Shop, name: str) -> None:
    rows = shop.duck.sql(f"SELECT * FROM {name}").to_arrow_table()
    shop.empty(name)
    compare(shop, f"without rows in {name}")
    shop.refill(name, rows)
    compare(shop, f"with the rows of {name} back")
