"""Aggregates of BITMAP: after every epoch the answer is that of Python's sets, also after restarts."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import Any

import numpy as np
import pytest
from aggregate_harness import batch, call, context, fold, source, time
from pyroaring import BitMap
from restart_harness import Twins, on_backend

from runtime.core.changelog import RETRACT
from runtime.core.schema import Schema
from runtime.core.types import BITMAP, BOOLEAN, INT, STRING
from runtime.eval.aggregates.aggregate_set import AggregateSet
from runtime.expr.bitmaps import bitmap, carried
from runtime.operators.group_aggregate import GroupAggregateOperator
from runtime.operators.guards import undeclared
from runtime.plan.nodes import AggregateSpec, GroupAggregateExec

SCHEMA = Schema.of(("k", STRING), ("v", INT), ("b", BITMAP), ("f", BOOLEAN.not_null()))
K, V, B, F = range(4)
Row = tuple[str, int | None, bytes | None, bool]


def calls(retract: bool) -> list[AggregateSpec]:
    names = [(f"BITMAP_{kind}{size}_AGG", B) for kind in ("AND", "OR", "XOR") for size in ("", "_CARDINALITY")]
    names += [("BITMAP_BUILD_AGG", V), ("BITMAP_BUILD_CARDINALITY_AGG", V)]
    return [
        *(call(SCHEMA, name, column, retract=retract) for name, column in names),
        *(call(SCHEMA, name, column, retract=retract, distinct=True) for name, column in names),
        *(call(SCHEMA, name, column, retract=retract, filter=F) for name, column in names),
    ]


def expected(spec: AggregateSpec, rows: list[Row]) -> Any:
    values = [r[spec.args[0]] for r in rows if spec.filter is None or r[F]]
    sets = [{v & 0xFFFFFFFF} if isinstance(v, int) else set(bitmap(v)) for v in values if v is not None]
    if spec.distinct:
        sets = [set(s) for s in {frozenset(s) for s in sets}]
    if not sets:
        return None
    combine = set.intersection if "AND" in spec.function else set.union
    combine = set.symmetric_difference if "XOR" in spec.function else combine
    found = reduce(combine, sets)
    return len(found) if "CARDINALITY" in spec.function else carried(BitMap(found))


def node(retract: bool, ttl: int = 0) -> GroupAggregateExec:
    specs = calls(retract)
    columns = [("k", STRING), *((f"a{n}", s.type) for n, s in enumerate(specs))]
    return GroupAggregateExec(source(SCHEMA, retract), (K,), tuple(specs), Schema.of(*columns), RETRACT, ttl=ttl)


class Rows:
    """Random changes, and the rows that are there after them."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.live: list[Row] = []

    def changes(self, retract: bool, most: int = 12) -> tuple[list[Row], list[int]]:
        rng, rows, signs = self._rng, list[Row](), list[int]()
        for _ in range(int(rng.integers(0, most))):
            if retract and self.live and rng.random() < 0.45:
                rows.append(self.live.pop(int(rng.integers(len(self.live)))))
                signs.append(-1)
            else:
                rows.append(self._row())
                signs.append(1)
                self.live.append(rows[-1])
        return rows, signs

    def _row(self) -> Row:
        rng = self._rng
        start = int(rng.choice([0, 3, 65_534, 2**32 - 40]))
        some = BitMap(range(start, start + int(rng.integers(0, 9)), int(rng.integers(1, 3))))
        value = None if rng.random() < 0.2 else int(rng.choice([-1, -(2**31), 0, 1, 2, 3, 4, 70_000]))
        return ("abc"[rng.integers(3)], value, None if rng.random() < 0.2 else carried(some), bool(rng.random() < 0.5))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("retract", [False, True], ids=["inserts", "changes"])
def test_the_answers_are_those_of_sets(seed: int, retract: bool) -> None:
    plan = node(retract)
    operator = GroupAggregateOperator(plan, context())
    rows, live, shown = Rows(np.random.default_rng(seed)), Counter[str](), dict[Any, list[Any]]()
    for epoch in range(15):
        changed, signs = rows.changes(retract)
        output = operator.step([batch(SCHEMA, changed, signs if retract else None) if changed else None], time(epoch))
        fold(live, output)
        if output is not None:
            for kind, row in zip(output.kinds_or_inserts().tolist(), output.rows.to_pylist(), strict=True):
                key, *values = row.values()
                if kind in (0, 2):
                    shown[key] = values
                elif kind == 3:
                    del shown[key]
        groups: dict[str, list[Row]] = {}
        for row in rows.live:
            groups.setdefault(row[K], []).append(row)
        assert {k: [expected(s, members) for s in plan.calls] for k, members in groups.items()} == shown
    if retract and rows.live:
        fold(live, operator.step([batch(SCHEMA, rows.live, [-1] * len(rows.live))], time(99)))
        assert not live
        assert operator.state_size.rows == 0


@pytest.mark.parametrize("retract", [False, True], ids=["inserts", "changes"])
@pytest.mark.parametrize(("ttl", "backend"), [(0, "memory"), (40, "memory"), (0, "rocksdb")])
def test_a_restart_changes_nothing(retract: bool, ttl: int, backend: str) -> None:
    plan = node(retract, ttl)

    def make() -> GroupAggregateOperator:
        return GroupAggregateOperator(plan, context())

    rng = np.random.default_rng(5)
    twins, rows, now = Twins(make, rng, on_backend(backend, plan, make)), Rows(rng), 0
    for epoch in range(20):
        changed, signs = rows.changes(retract)
        now += int(rng.integers(0, 12))
        twins.step([batch(SCHEMA, changed, signs if retract else None) if changed else None], time(epoch, now=now))
    twins.close()
    assert twins.restarts > 3


@pytest.mark.parametrize("retract", [False, True], ids=["inserts", "changes"])
def test_the_tables_are_those_that_the_plan_declares(retract: bool) -> None:
    plan = node(retract)
    assert undeclared(GroupAggregateOperator(plan, context()), plan) == []


@pytest.mark.parametrize("retract", [False, True], ids=["inserts", "changes"])
def test_groups_are_merged(retract: bool) -> None:
    """Panes: two groups that are added to a third are what one group of all their rows would be."""
    specs = calls(retract)
    types = [f.type for f in SCHEMA]
    rows = Rows(np.random.default_rng(2))
    for _ in range(4):
        rows.changes(False)
    parts, whole = AggregateSet(specs, types, mergeable=True), AggregateSet(specs, types, mergeable=True)
    given = batch(SCHEMA, rows.live)
    seqs = np.arange(len(rows.live))
    parts.update(seqs % 2, None, given.columns, seqs)
    whole.merge(np.array([7, 7]), parts, np.array([0, 1]))
    found = [column.to_pylist()[0] for column in whole.results(np.array([7]))]
    assert found == [expected(s, rows.live) for s in specs]
