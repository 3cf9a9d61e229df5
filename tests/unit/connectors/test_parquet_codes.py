"""Texts of few values come from Parquet as they are stored; queries give what they give over plain texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connectors.filesystem.parquet_reader import ParquetFileReader
from runtime.core.schema import Field, Schema
from runtime.core.types import BIGINT, STRING
from sqlengine import TableEnvironment

ROWS = 3000
SCHEMA = Schema((Field("id", BIGINT), Field("name", STRING), Field("note", STRING)))
QUERIES = (
    "SELECT id, UPPER(name) AS n, note FROM t WHERE name <> 'name 3' AND id > 10",
    "SELECT name, COUNT(*) AS n, MAX(note) AS m, COUNT(DISTINCT name) AS d FROM t GROUP BY name",
    "SELECT a.id, a.name, b.note FROM t AS a JOIN t AS b ON a.name = b.name AND a.id = b.id + 1",
    "SELECT a.id, b.id AS other FROM t AS a LEFT JOIN t AS b ON a.name = b.name AND a.id = b.id + 1",
    "SELECT id, name, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY note DESC, id) AS place FROM t) WHERE place <= 3",
    "SELECT id, name FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY name ORDER BY id DESC) AS place FROM t) WHERE place = 1",
    "SELECT name FROM t UNION SELECT note FROM t",
    "SELECT COALESCE(name, 'none') AS n, CHAR_LENGTH(name) AS l FROM t ORDER BY id LIMIT 20",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of small row groups; the columns `name` and `note` have few values, `note` and some names NULL."""
    made = tmp_path_factory.mktemp("codes")
    rng = np.random.default_rng(3)
    for number in range(2):
        ids = np.arange(ROWS) + number * ROWS
        names = pa.array([f"name {n}" for n in rng.integers(0, 9 + number, ROWS)], mask=rng.random(ROWS) < number * 0.1)
        notes = pa.array([f"note {n}" for n in rng.integers(0, 5, ROWS)], mask=rng.random(ROWS) < 0.2)
        # As Arrow, Polars and DataFusion note texts.
        types = (pa.string_view(), pa.large_string()) if number == 0 else (pa.string(), pa.string())
        table = pa.table({"id": ids, "name": names.cast(types[0]), "note": notes.cast(types[1])})
        pq.write_table(table, made / f"part-{number}.parquet", row_group_size=700)
    return made


def test_the_reader_gives_codes_when_asked(folder: Path) -> None:
    path = str(folder / "part-0.parquet")
    plain, coded = (ParquetFileReader(path, SCHEMA, SCHEMA, ()) for _ in range(2))
    coded.use_dictionaries()
    one, other = plain.poll(700), coded.poll(700)
    assert one is not None and other is not None
    assert not one.is_coded and other.is_coded
    assert other.decoded().rows.equals(one.rows)


@pytest.mark.parametrize("query", QUERIES)
def test_queries_do_not_see_it(folder: Path, query: str) -> None:
    found: list[pa.Table] = []
    for coded in (True, False):
        with TableEnvironment.create({"sqlengine.epoch.max-rows": "1000"}) as environment:
            environment.execute_sql(
                "CREATE TABLE files (id BIGINT, name STRING, note STRING) "
                f"WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'parquet')"
            )
            # What reads two columns is computed row by row.
            name, note = (
                c if coded else f"SUBSTRING({c} || CAST(id AS STRING), 1, CHAR_LENGTH({c}))" for c in ("name", "note")
            )
            environment.execute_sql(f"CREATE VIEW t AS SELECT id, {name} AS name, {note} AS note FROM files")
            table = environment.execute_sql(query).to_arrow()
            found.append(table.sort_by([(name, "ascending") for name in table.column_names]))
    assert found[0].num_rows and found[0].equals(found[1])
