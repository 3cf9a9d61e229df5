"""VECTOR_SEARCH against a plain search, while rows of both tables come, change and go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.errors import ExpressionError
from runtime.kernels.vectors import as_matrix, nearest, scores
from sqlengine import TableEnvironment

NUMBERS = st.integers(-3, 3).map(float)
VECTORS = st.one_of(st.none(), st.tuples(NUMBERS, NUMBERS, NUMBERS))
KEYS = st.integers(0, 7)
TABLES = st.sampled_from(["docs", "questions"])
CHANGES = st.lists(st.tuples(TABLES, KEYS, st.one_of(VECTORS, st.just("gone"))), min_size=1, max_size=6)
METRICS = st.sampled_from(["cosine", "dot", "euclidean"])


def plain_score(metric: str, a: Sequence[float], b: Sequence[float]) -> float:
    if metric == "euclidean":
        return math.dist(a, b)
    product = sum(x * y for x, y in zip(a, b, strict=True))
    length = math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
    return product if metric == "dot" else product / length if length else 0.0


def plain_scores(metric: str, query: Any, docs: dict[int, Any], count: int) -> list[float]:
    """The scores of the nearest rows, nearest first: which of equally near rows is found says nobody."""
    if query is None:
        return []
    found = [plain_score(metric, query, v) for v in docs.values() if v is not None]
    return sorted(found, reverse=metric != "euclidean")[:count]


def written(vector: Any) -> str:
    return "CAST(NULL AS ARRAY<DOUBLE>)" if vector is None else f"ARRAY[{', '.join(f'{x}e0' for x in vector)}]"


@settings(max_examples=12, deadline=None)
@given(
    epochs=st.lists(CHANGES, min_size=1, max_size=5),
    metric=METRICS,
    index=st.sampled_from(["flat", "hnsw"]),
    count=st.integers(1, 4),
)
def test_each_row_has_what_was_nearest_when_it_came(
    epochs: list[list[tuple[str, int, Any]]], metric: str, index: str, count: int
) -> None:
    if index == "hnsw":
        pytest.importorskip("usearch")
    with TableEnvironment.create() as env:
        for table in ("docs", "questions"):
            env.execute_sql(f"CREATE TABLE {table} (id INT PRIMARY KEY NOT ENFORCED, v ARRAY<DOUBLE>)")
        env.execute_sql(
            "CREATE MATERIALIZED VIEW found AS SELECT q.id, s.id AS doc, s.score FROM questions AS q, LATERAL TABLE("
            f"VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), q.v, {count}, MAP['metric', '{metric}', 'index', '{index}'])) AS s"
        )
        tables: dict[str, dict[int, Any]] = {"docs": {}, "questions": {}}
        answers: dict[int, list[float]] = {}
        for changes in epochs:
            before = dict(tables["questions"])
            env.execute_sql("BEGIN EPOCH")
            for table, key, value in changes:
                if value == "gone":
                    env.execute_sql(f"DELETE FROM {table} WHERE id = {key}")
                    tables[table].pop(key, None)
                else:
                    env.execute_sql(f"INSERT INTO {table} VALUES ({key}, {written(value)})")
                    tables[table][key] = value
            env.execute_sql("END EPOCH")
            answers = {key: found for key, found in answers.items() if key in tables["questions"]}
            for key, value in tables["questions"].items():
                if key not in before or before[key] != value:
                    answers[key] = plain_scores(metric, value, tables["docs"], count)
            got: dict[int, list[float]] = {key: [] for key in tables["questions"]}
            for key, _, score in env.execute_sql("SELECT * FROM found").collect():
                got[key].append(score)
            for key, found in got.items():
                assert sorted(found) == pytest.approx(sorted(answers[key]), abs=1e-9)


@given(
    queries=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=5),
    vectors=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=40),
    metric=METRICS,
    count=st.integers(1, 9),
)
def test_the_nearest_are_those_of_a_sort(
    queries: list[tuple[float, ...]], vectors: list[tuple[float, ...]], metric: str, count: int
) -> None:
    positions, values = nearest(metric, np.array(queries), np.array(vectors).reshape(-1, 2), count)
    assert positions.shape == values.shape == (len(queries), min(count, len(vectors)))
    for query, found, near in zip(queries, positions, values, strict=True):
        exact = np.array([plain_score(metric, query, v) for v in vectors])
        np.testing.assert_allclose(near, plain_scores(metric, query, dict(enumerate(vectors)), count), atol=1e-12)
        np.testing.assert_allclose(exact[found] if len(found) else [], near, atol=1e-12)


def test_many_vectors_are_looked_at_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.kernels.vectors._CELLS", 64)
    chance = np.random.default_rng(1)
    queries, vectors = chance.normal(size=(9, 4)).astype(np.float32), chance.normal(size=(50, 4)).astype(np.float32)
    positions, values = nearest("cosine", queries, vectors, 3)
    every = scores("cosine", queries[:, None, :], vectors[None, :, :])
    np.testing.assert_array_equal(positions, np.argsort(-every, axis=1)[:, :3])
    np.testing.assert_allclose(values, -np.sort(-every, axis=1)[:, :3])


def test_what_is_no_vector() -> None:
    assert as_matrix(pa.array([], pa.list_(pa.float32()))).shape == (0, 0)
    for wrong in ([[1.0], [1.0, 2.0]], [[1.0, None]]):
        with pytest.raises(ExpressionError, match="E2121"):
            as_matrix(pa.array(wrong, pa.list_(pa.float32())))


def test_rows_that_are_read_in_many_epochs_are_all_searched() -> None:
    with TableEnvironment.create({"sqlengine.epoch.max-rows": "3"}) as env:
        env.execute_sql("CREATE TABLE docs (id INT, v ARRAY<DOUBLE>)")
        env.execute_sql("INSERT INTO docs VALUES " + ", ".join(f"({i}, ARRAY[1e0, {i}e0])" for i in range(20)))
        sql = "SELECT id FROM VECTOR_SEARCH(TABLE docs, DESCRIPTOR(v), ARRAY[1, 17], 1, MAP['metric', 'euclidean'])"
        assert [tuple(r) for r in env.execute_sql(sql).collect()] == [(17,)]
        env.execute_sql("SET 'execution.runtime-mode' = 'batch'")
        assert [tuple(r) for r in env.execute_sql(sql).collect()] == [(17,)]
