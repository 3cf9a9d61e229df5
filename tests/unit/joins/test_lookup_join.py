"""Lookup joins: what is asked of the table, what comes out, and rows taken back after the table has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from join_drive import Folded, at, batch_of, context, joined, leaf, rows_of

from runtime.core.changelog import APPEND, DELETE, INSERT, RETRACT, UPDATE_AFTER, ChangelogMode
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, BOOLEAN, STRING
from runtime.expr.nodes import Call, InputRef, Literal
from runtime.operators.lookup_join import LookupJoinOperator
from runtime.plan.nodes import JoinKind, LookupJoinExec

LEFT = Schema.of(("id", BIGINT), ("uid", STRING))
USERS = Schema.of(("region", BIGINT), ("uid", STRING), ("name", STRING))
LESS = Call("<", (InputRef(1, STRING), InputRef(4, STRING)), BOOLEAN)


class Users:
    """A table in memory that remembers what it was asked."""

    def __init__(self, *rows: tuple) -> None:
        self.rows = list(rows)
        self.asked: list[list[tuple]] = []

    @property
    def schema(self) -> Schema:
        return USERS

    def lookup(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        wanted = rows_of(keys.columns)
        self.asked.append(wanted)
        places = [USERS.names.index(c) for c in key_columns]
        found = [(i, r) for i, key in enumerate(wanted) for r in self.rows if tuple(r[p] for p in places) == key]
        batch = batch_of(USERS, [(INSERT, r) for _, r in found])
        rows = batch.rows if batch is not None else pa.RecordBatch.from_pylist([], schema=USERS.arrow)
        return pa.array([i for i, _ in found], pa.int64()), rows

    def describe(self) -> dict[str, Any]:
        return {}


def operator(users: Users, kind: JoinKind, mode: ChangelogMode = APPEND, condition: bool = False) -> LookupJoinOperator:
    keys = ((InputRef(1, STRING), 1), (Literal(7, BIGINT), 0))
    node = LookupJoinExec(
        leaf(LEFT, mode), users, "users", kind, keys, LESS if condition else None, joined(LEFT, USERS), mode
    )
    return LookupJoinOperator(node, context())


def test_each_distinct_key_is_asked_once_with_constants_and_never_with_null() -> None:
    users = Users((7, "u1", "Uma"), (7, "u2", "Ugo"), (7, "u2", "Ugo II"), (8, "u3", "elsewhere"))
    join = operator(users, JoinKind.LEFT)
    rows = [(1, "u2"), (2, "u1"), (3, "u3"), (4, "u2"), (5, None), (6, "u1")]
    output = join.step([batch_of(LEFT, [(INSERT, r) for r in rows])], at(0))
    assert users.asked == [[("u2", 7), ("u1", 7), ("u3", 7)]]
    assert output is not None and output.kinds is None
    assert [(r[0], r[4]) for r in rows_of(output.columns)] == [
        (1, "Ugo"),
        (1, "Ugo II"),
        (2, "Uma"),
        (3, None),
        (4, "Ugo"),
        (4, "Ugo II"),
        (5, None),
        (6, "Uma"),
    ]
    assert output.column(2).to_pylist() == [7, 7, 7, None, 7, 7, None, 7]


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT], ids=lambda k: k.value)
def test_condition_is_part_of_the_match(kind: JoinKind) -> None:
    join = operator(Users((7, "u1", "a"), (7, "u2", "z")), kind, condition=True)
    output = join.step([batch_of(LEFT, [(INSERT, (1, "u1")), (INSERT, (2, "u2"))])], at(0))
    assert output is not None
    found = [(r[0], r[4]) for r in rows_of(output.columns)]
    assert found == ([(2, "z")] if kind is JoinKind.INNER else [(1, None), (2, "z")])


def test_rows_of_null_keys_alone_ask_nothing() -> None:
    users = Users()
    assert operator(users, JoinKind.INNER).step([batch_of(LEFT, [(INSERT, (1, None))])], at(0)) is None
    assert users.asked == []


def test_upserts_pass_with_their_kinds() -> None:
    join = operator(Users((7, "u1", "Uma")), JoinKind.LEFT, ChangelogMode(update_after=True, delete=True))
    output = join.step([batch_of(LEFT, [(UPDATE_AFTER, (1, "u1")), (DELETE, (2, "u9"))])], at(0))
    assert output is not None
    assert list(zip(output.kinds.tolist(), output.column(4).to_pylist(), strict=True)) == [
        (UPDATE_AFTER, "Uma"),
        (DELETE, None),
    ]


@pytest.mark.parametrize("kind", [JoinKind.INNER, JoinKind.LEFT], ids=lambda k: k.value)
def test_a_row_leaves_with_what_it_came_with(kind: JoinKind) -> None:
    users = Users((7, "u1", "Uma"), (7, "u2", "Ugo"), (7, "u2", "Ugo II"))
    join, folded = operator(users, kind, RETRACT), Folded()
    folded.add(
        join.step(
            [batch_of(LEFT, [(INSERT, (1, "u1")), (INSERT, (2, "u2")), (INSERT, (2, "u2")), (INSERT, (3, "u3"))])],
            at(0),
        )
    )
    assert sum(folded.rows.values()) == (5 if kind is JoinKind.INNER else 6)
    users.rows = [(7, "u1", "renamed"), (7, "u3", "new")]
    folded.add(
        join.step(
            [batch_of(LEFT, [(DELETE, (1, "u1")), (DELETE, (2, "u2")), (DELETE, (3, "u3")), (INSERT, (4, "u1"))])],
            at(1),
        )
    )
    assert sorted((r[0], r[4], n) for r, n in folded.rows.items()) == [
        (2, "Ugo", 1),
        (2, "Ugo II", 1),
        (4, "renamed", 1),
    ]
    folded.add(join.step([batch_of(LEFT, [(DELETE, (2, "u2")), (DELETE, (4, "u1"))])], at(2)))
    assert not folded.rows
    assert join.state_size.rows == 0
