"""Top-n, limit, deduplication and the repairs of changelogs, against plain Python after every epoch."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runtime.core.changelog import APPEND, RETRACT, UPSERT, ChangelogBatch, ChangelogMode
from runtime.core.clock import MIN_WATERMARK
from runtime.core.options import Options
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, INT, STRING, timestamp
from runtime.expr.library import builtin_functions
from runtime.local.rejected import RejectedRows
from runtime.operators.build import build_operator
from runtime.operators.operator import EpochTime, OperatorContext
from runtime.operators.ranking import rank_entries
from runtime.plan import nodes as plan
from runtime.plan.nodes import RankFunction, SortSpec

SCHEMA = Schema.of(("id", INT), ("k", STRING), ("v", INT))
RANKED = Schema((*SCHEMA.fields, *Schema.of(("rn", BIGINT.not_null())).fields))
Row = tuple[Any, ...]


class Input(plan.PhysicalNode):
    """Stands for the input of a node: schema and mode are all that operators ask of it."""

    __slots__ = ("mode", "schema")

    def __init__(self, schema: Schema, mode: ChangelogMode) -> None:
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "mode", mode)


def context() -> OperatorContext:
    return OperatorContext("test", Options(), builtin_functions(), "UTC", RejectedRows().for_job("test"))


def batch_of(changes: Sequence[tuple[str, Row]], schema: Schema = SCHEMA) -> ChangelogBatch | None:
    if not changes:
        return None
    arrays = [pa.array([row[i] for _, row in changes], f.type.arrow) for i, f in enumerate(schema)]
    kinds = np.array([("+I", "-U", "+U", "-D").index(kind) for kind, _ in changes], dtype=np.int8)
    return ChangelogBatch.of(arrays, schema, kinds)


def changes_of(batch: ChangelogBatch | None) -> list[tuple[str, Row]]:
    if batch is None:
        return []
    rows = zip(*(c.to_pylist() for c in batch.columns), strict=True)
    return [
        (("+I", "-U", "+U", "-D")[k], tuple(r)) for k, r in zip(batch.kinds_or_inserts().tolist(), rows, strict=True)
    ]


def fold(live: Counter[Row], changes: Sequence[tuple[str, Row]]) -> None:
    for kind, row in changes:
        if kind in ("+I", "+U"):
            live[row] += 1
        else:
            assert live[row] > 0, f"{kind} of a row that is not there: {row}"
            live[row] -= 1


def random_epochs(chance: random.Random, epochs: int, *, append: bool) -> list[list[tuple[str, Row]]]:
    """Epochs of changes of rows with a unique id; every deletion is of a live row."""
    live: list[Row] = []
    found = []
    for _ in range(epochs):
        epoch: list[tuple[str, Row]] = []
        for _ in range(chance.randint(0, 12)):
            if live and not append and chance.random() < 0.45:
                row = live.pop(chance.randrange(len(live)))
                if chance.random() < 0.4:
                    new = (row[0], chance.choice("ab"), chance.randint(0, 6))
                    epoch += [("-U", row), ("+U", new)]
                    live.append(new)
                else:
                    epoch.append(("-D", row))
            else:
                row = (chance.randint(0, 10**6), chance.choice(["a", "b", None]), chance.choice([None, *range(6)]))
                if any(row[0] == other[0] for other in live):
                    continue
                epoch.append(("+I", row))
                live.append(row)
        found.append(epoch)
    return found


def expected_ranks(rows: Sequence[Row], function: RankFunction) -> list[tuple[Row, int]]:
    """Rows with their ranks per k, by v descending with NULL last, ties by arrival."""
    ranked = []
    for k in {r[1] for r in rows}:
        group = sorted((r for r in rows if r[1] == k), key=lambda r: (r[2] is None, -(r[2] or 0)))
        values = [r[2] for r in group]
        for position, row in enumerate(group):
            rank = position + 1
            if function is RankFunction.RANK:
                rank = values.index(row[2]) + 1
            elif function is RankFunction.DENSE_RANK:
                rank = len(set(values[: values.index(row[2])])) + 1
            ranked.append((row, rank))
    return ranked


@pytest.mark.parametrize("append", [True, False], ids=["append", "updating"])
@pytest.mark.parametrize("rank_column", [True, False], ids=["rank", "no rank"])
@pytest.mark.parametrize("unique", [None, (0,)], ids=["bag", "keyed"])
@pytest.mark.parametrize(
    ("function", "start", "end"),
    [
        (RankFunction.ROW_NUMBER, 1, 2),
        (RankFunction.ROW_NUMBER, 2, 4),
        (RankFunction.ROW_NUMBER, 2, None),
        (RankFunction.ROW_NUMBER, 1, 200),
        (RankFunction.RANK, 1, 2),
        (RankFunction.DENSE_RANK, 2, 3),
    ],
    ids=lambda value: str(getattr(value, "value", value)),
)
def test_top_n(
    append: bool, rank_column: bool, unique: tuple[int, ...] | None, function: RankFunction, start: int, end: int | None
) -> None:
    for seed in range(6):
        source = Input(SCHEMA, APPEND if append else RETRACT)
        node = plan.TopNExec(
            source,
            function,
            (1,),
            (SortSpec(2, True, True),),
            start,
            end,
            rank_column,
            unique,
            RANKED if rank_column else SCHEMA,
            RETRACT,
        )
        operator = build_operator(node, context())
        live: list[Row] = []
        folded: Counter[Row] = Counter()
        for number, epoch in enumerate(random_epochs(random.Random(seed), 15, append=append)):
            fold(folded, changes_of(operator.step([batch_of(epoch)], at(number))))
            arrive(live, epoch)
            ranked = [
                (row, rank)
                for row, rank in expected_ranks(live, function)
                if start <= rank and (end is None or rank <= end)
            ]
            if function is RankFunction.ROW_NUMBER and not append:
                # Which of two equal sort values ranks first is the order of arrival, which an update in one epoch
                # leaves open.
                assert values_of(folded, rank_column) == Counter(
                    (r[1], r[2], *([n] if rank_column else [])) for r, n in ranked
                )
            else:
                assert +folded == Counter((*row, rank) if rank_column else row for row, rank in ranked)


def values_of(folded: Counter[Row], rank_column: bool) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for row, count in (+folded).items():
        found[(row[1], row[2], row[3]) if rank_column else (row[1], row[2])] += count
    return found


def arrive(live: list[Row], epoch: Sequence[tuple[str, Row]]) -> None:
    for kind, row in epoch:
        if kind in ("+I", "+U"):
            live.append(row)
        else:
            live.remove(row)


def at(epoch: int, watermark: int = MIN_WATERMARK, previous: int = MIN_WATERMARK) -> EpochTime:
    return EpochTime(epoch, watermark, previous, 0)


def test_limit_over_updates_lets_the_next_row_in() -> None:
    node = plan.LimitExec(Input(SCHEMA, RETRACT), 1, 2, SCHEMA, RETRACT)
    operator = build_operator(node, context())
    rows = [(i, "a", i) for i in range(5)]
    folded: Counter[Row] = Counter()
    fold(folded, changes_of(operator.step([batch_of([("+I", r) for r in rows])], at(0))))
    assert +folded == Counter(rows[1:3])
    fold(folded, changes_of(operator.step([batch_of([("-D", rows[0])])], at(1))))
    assert +folded == Counter(rows[2:4])


def test_limit_of_appends_passes_rows_by_number() -> None:
    operator = build_operator(plan.LimitExec(Input(SCHEMA, APPEND), 1, 3, SCHEMA, APPEND), context())
    out = [
        changes_of(operator.step([batch_of([("+I", (i, "a", i)), ("+I", (i + 10, "a", i))])], at(i))) for i in range(3)
    ]
    assert [[r[0] for _, r in o] for o in out] == [[10], [1, 11], []]


@pytest.mark.parametrize("update_before", [True, False])
def test_changelog_normalize(update_before: bool) -> None:
    mode = RETRACT if update_before else UPSERT
    operator = build_operator(plan.ChangelogNormalizeExec(Input(SCHEMA, UPSERT), (0,), SCHEMA, mode), context())
    first = operator.step([batch_of([("+U", (1, "a", 1)), ("+U", (2, "b", 2)), ("-D", (9, None, None))])], at(0))
    assert changes_of(first) == [("+I", (1, "a", 1)), ("+I", (2, "b", 2))]
    second = changes_of(operator.step([batch_of([("+U", (1, "a", 5)), ("-D", (2, None, None))])], at(1)))
    before = [("-U", (1, "a", 1))] if update_before else []
    assert sorted(second) == sorted([*before, ("+U", (1, "a", 5)), ("-D", (2, "b", 2))])
    assert operator.step([batch_of([("+U", (1, "a", 5))])], at(2)) is None


def test_sink_materialize_shows_the_row_before_when_the_last_is_taken_back() -> None:
    operator = build_operator(plan.SinkMaterializeExec(Input(SCHEMA, RETRACT), (1,), SCHEMA, UPSERT), context())
    assert changes_of(operator.step([batch_of([("+I", (1, "a", 1))])], at(0))) == [("+I", (1, "a", 1))]
    assert changes_of(operator.step([batch_of([("+I", (2, "a", 2))])], at(1))) == [("+U", (2, "a", 2))]
    assert changes_of(operator.step([batch_of([("-D", (2, "a", 2))])], at(2))) == [("+U", (1, "a", 1))]
    assert changes_of(operator.step([batch_of([("-D", (1, "a", 1))])], at(3))) == [("-D", (1, "a", 1))]
    assert operator.state_size.rows == 0


TIMED = Schema.of(("k", STRING), ("v", INT), ("ts", timestamp(3)))


def timed_rows(chance: random.Random, count: int) -> list[Row]:
    return [
        (chance.choice("abc"), i, dt.datetime(2024, 1, 1) + dt.timedelta(seconds=chance.randint(0, 20)))
        for i in range(count)
    ]


@pytest.mark.parametrize("keep_last", [True, False])
@pytest.mark.parametrize("mode", [APPEND, RETRACT], ids=["append", "updating"])
@pytest.mark.parametrize("timed", [True, False], ids=["event time", "arrival"])
def test_deduplicate(keep_last: bool, mode: ChangelogMode, timed: bool) -> None:
    node = plan.DeduplicateExec(Input(TIMED, mode), (0,), 2 if timed else None, keep_last, TIMED, RETRACT)
    for seed in range(5):
        operator, chance = build_operator(node, context()), random.Random(seed)
        folded: Counter[Row] = Counter()
        seen: list[Row] = []
        rows = timed_rows(chance, 40)
        end = 2**62
        for number in range(0, 40, 5):
            part = rows[number : number + 5]
            seen += part
            mark = end if number == 35 else MIN_WATERMARK
            fold(folded, changes_of(operator.step([batch_of([("+I", r) for r in part], TIMED)], at(number, mark))))
            if mode.is_append_only and timed and not keep_last and number < 35:
                assert not +folded
                continue
            assert +folded == Counter(chosen(seen, keep_last, timed))


def chosen(rows: Sequence[Row], keep_last: bool, timed: bool) -> list[Row]:
    found = []
    for key in {r[0] for r in rows}:
        group = [r for r in rows if r[0] == key]
        ordered = sorted(group, key=lambda r: r[2]) if timed else group
        found.append(ordered[-1] if keep_last else ordered[0])
    return found


def test_keep_first_by_time_waits_for_the_watermark_and_rejects_late_rows() -> None:
    kept = RejectedRows()
    node = plan.DeduplicateExec(Input(TIMED, APPEND), (0,), 2, False, TIMED, APPEND)
    operator = build_operator(node, OperatorContext("d", Options(), builtin_functions(), "UTC", kept.for_job("j")))
    start = dt.datetime(2024, 1, 1)
    seconds = lambda s: start + dt.timedelta(seconds=s)  # noqa: E731
    mark = lambda s: int(start.replace(tzinfo=dt.UTC).timestamp() + s) * 1000  # noqa: E731
    assert operator.step([batch_of([("+I", ("a", 1, seconds(5)))], TIMED)], at(0, mark(3))) is None
    out = operator.step(
        [batch_of([("+I", ("a", 2, seconds(4))), ("+I", ("b", 3, seconds(2)))], TIMED)], at(1, mark(4), mark(3))
    )
    assert changes_of(out) == [("+I", ("a", 2, seconds(4)))]
    assert kept.total == 1
    assert operator.step([batch_of([("+I", ("a", 4, seconds(9)))], TIMED)], at(2, mark(20), mark(4))) is None


def test_copies_beyond_the_last_rank_are_not_made() -> None:
    """A row that is there very often takes as much room as ranks are asked for."""
    rows: Any = SimpleNamespace(count=np.array([1, 10**12, 1]))
    found = rank_entries(rows, np.zeros(3, np.int64), np.arange(3), RankFunction.ROW_NUMBER, 3)
    kept = found.filter(found.rank <= 3)
    assert kept.slot.tolist() == [0, 1, 1] and kept.rank.tolist() == [1, 2, 3]
    assert len(found.slot) < 10
