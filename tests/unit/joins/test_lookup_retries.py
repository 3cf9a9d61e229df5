"""Rows that find nothing are asked for again later, and others do not wait for them; tables that are asked for several keys at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from join_drive import batch_of, context, joined, leaf
from test_lookup_cache import KEYED, Outside

from runtime.core.changelog import APPEND, DELETE, INSERT, RETRACT, ChangelogMode
from runtime.core.clock import MAX_WATERMARK, MIN_WATERMARK
from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.core.types import BIGINT, STRING
from runtime.expr.nodes import InputRef
from runtime.operators.lookup_async import ConcurrentlyAskedTable
from runtime.operators.lookup_join import LookupJoinOperator, lookup_join_operator
from runtime.operators.operator import EpochTime
from runtime.plan.nodes import JoinKind, LookupJoinExec
from runtime.plan.parts import CachedTable, LookupRequests, LookupRetry, PartialCaching
from runtime.spi.lookup import LookupTable
from runtime.state.snapshot import SavedOperator, SavedState

LEFT = Schema.of(("id", BIGINT), ("k", STRING))


def made(
    table: LookupTable,
    kind: JoinKind,
    mode: ChangelogMode,
    retry: LookupRetry | None,
    requests: LookupRequests | None = None,
) -> LookupJoinOperator:
    keys = ((InputRef(1, STRING), 0),)
    node = LookupJoinExec(leaf(LEFT, mode), table, "t", kind, keys, None, joined(LEFT, KEYED), mode, 0, retry, requests)
    return lookup_join_operator(node, context())


class Driven:
    """An operator, its output folded, by the clock."""

    def __init__(self, table: LookupTable, kind: JoinKind, mode: ChangelogMode, retry: LookupRetry) -> None:
        self.make = lambda: made(table, kind, mode, retry)
        self.join = self.make()
        self.rows: Counter[tuple] = Counter()
        self.watermark = MIN_WATERMARK
        self.shown = MIN_WATERMARK
        self.chain = [self.saved(True)]

    def saved(self, complete: bool) -> SavedOperator:
        return SavedOperator("join", 0, 0, self.join.save(complete))

    def step(self, now: int, *changes: tuple[int, tuple], watermark: int | None = None) -> list[tuple]:
        after = self.watermark if watermark is None else watermark
        time = EpochTime(0, after, self.watermark, now)
        output = self.join.step([batch_of(LEFT, list(changes))], time)
        self.watermark = after
        self.chain.append(self.saved(False))
        self.shown = self.join.output_watermark(time)
        if output is None:
            return []
        given = sorted(zip(output.signs().tolist(), *(c.to_pylist() for c in output.columns), strict=True), key=str)
        for sign, *row in given:
            self.rows[tuple(row)] += sign
        self.rows = Counter({row: n for row, n in self.rows.items() if n})
        return given

    def restart(self) -> None:
        self.join = self.make()
        self.join.load(SavedState.of(self.chain))
        self.chain = [self.saved(True)]


def test_a_row_waits_and_others_pass() -> None:
    table = Outside({"a": [1]})
    driven = Driven(table, JoinKind.LEFT, APPEND, LookupRetry(10, 2))
    assert driven.step(0, (INSERT, (1, "a")), (INSERT, (2, "b")), (INSERT, (3, "c")), watermark=5) == [
        (1, 1, "a", "a", 1)
    ]
    assert (driven.join.next_timer(), driven.shown, driven.join.state_size.rows) == (10, MIN_WATERMARK, 2)
    assert driven.step(9, (INSERT, (4, "b")), watermark=7) == []
    table.contents["b"] = [7, 8]
    assert driven.step(10) == [(1, 2, "b", "b", 7), (1, 2, "b", "b", 8)]
    assert driven.join.next_timer() == 19
    assert driven.step(19) == [(1, 4, "b", "b", 7), (1, 4, "b", "b", 8)]
    assert driven.shown == MIN_WATERMARK
    assert driven.step(20) == [(1, 3, "c", None, None)]
    assert (driven.join.next_timer(), driven.shown, driven.join.state_size.rows) == (None, 7, 0)
    assert table.asked == ["a", "b", "c", "b", "b", "c", "b", "c"]


def test_an_inner_join_drops_a_row_after_its_last_try() -> None:
    table = Outside({})
    driven = Driven(table, JoinKind.INNER, APPEND, LookupRetry(10, 1))
    assert driven.step(0, (INSERT, (1, "a"))) == driven.step(10) == driven.step(20) == []
    assert table.asked == ["a", "a"]
    assert driven.join.state_size.rows == 0


def test_the_end_of_the_input_is_the_last_try() -> None:
    table = Outside({})
    driven = Driven(table, JoinKind.LEFT, APPEND, LookupRetry(10, 5))
    driven.step(0, (INSERT, (1, "a")), (INSERT, (2, "b")))
    table.contents["b"] = [1]
    given = driven.step(1, (INSERT, (3, "c")), watermark=MAX_WATERMARK)
    assert given == [(1, 1, "a", None, None), (1, 2, "b", "b", 1), (1, 3, "c", None, None)]
    assert driven.shown == MAX_WATERMARK


def test_a_row_that_is_taken_back_while_it_waits_was_never_there() -> None:
    table = Outside({})
    driven = Driven(table, JoinKind.LEFT, RETRACT, LookupRetry(10, 3))
    assert driven.step(0, (INSERT, (1, "a")), (INSERT, (2, "a")), (INSERT, (2, "a"))) == []
    assert driven.step(5, (DELETE, (1, "a")), (DELETE, (2, "a"))) == []
    table.contents["a"] = [4]
    assert driven.step(10) == [(1, 2, "a", "a", 4)]
    table.contents["a"] = [5]
    assert driven.step(20, (DELETE, (2, "a"))) == [(-1, 2, "a", "a", 4)]
    assert driven.join.state_size.rows == 0
    assert driven.join.next_timer() is None


CHANGES = st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.sampled_from("abc")), max_size=5)
EPOCHS = st.lists(
    st.tuples(
        CHANGES,
        st.integers(0, 12),
        st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 2), max_size=2)),
        st.booleans(),
    ),
    max_size=10,
)


@given(EPOCHS, st.sampled_from([JoinKind.INNER, JoinKind.LEFT]), st.booleans(), st.integers(1, 3))
@settings(deadline=None, max_examples=100)
def test_restarts_and_deletes_change_nothing(epochs: list, kind: JoinKind, retract: bool, attempts: int) -> None:
    """Against a model of distinct rows that are asked for when they come and each time that they are due."""
    table = Outside({})
    driven = Driven(table, kind, RETRACT if retract else APPEND, LookupRetry(10, attempts))
    rows: Counter[tuple] = Counter()
    state: dict[tuple, list] = {}
    out: Counter[tuple] = Counter()
    now = 0

    def ask(row: tuple) -> list[tuple]:
        return [(*row, row[1], v) for v in table.contents.get(row[1], [])]

    for changes, later, contents, restart in epochs:
        now += later
        table.contents.update(contents)
        given = [(INSERT if plus else DELETE, (i, k)) for plus, i, k in changes if plus or retract]
        before = rows.copy()
        net: Counter[tuple] = Counter()
        for sign, row in given:
            net[row] += 1 if sign == INSERT else -1
        for row, n in net.items():
            rows[row] = max(0, rows[row] + n)
        if restart:
            driven.restart()
        driven.step(now, *given)
        for row in [*rows]:
            if not rows[row]:
                state.pop(row, None)
                continue
            fresh = row not in state
            if fresh:
                state[row] = ["waits", now, attempts]
            entry = state[row]
            if entry[0] == "waits" and (fresh or (entry[1] + 10 <= now and before[row])):
                found = ask(row)
                if found:
                    state[row] = [found]
                elif not fresh and entry[2] == 1:
                    state[row] = [[(*row, None, None)] if kind is JoinKind.LEFT else []]
                else:
                    state[row] = ["waits", now, entry[2] - (not fresh)]
            if not retract and state[row][0] != "waits":
                for answer in state.pop(row)[0]:
                    out[answer] += rows[row]
                rows[row] = 0
        if retract:
            out = Counter()
            for row, entry in state.items():
                if entry[0] != "waits":
                    for answer in entry[0]:
                        out[answer] += rows[row]
        assert driven.rows == Counter({r: n for r, n in out.items() if n})
        timers = [entry[1] + 10 for entry in state.values() if entry[0] == "waits"]
        timer = driven.join.next_timer()
        assert (timer is None and not timers) or (timer is not None and timer <= min(timers, default=timer))


def test_what_is_asked_for_again_is_not_remembered_as_missing() -> None:
    table = Outside({})
    driven = Driven(CachedTable(table, PartialCaching(max_rows=10), 0), JoinKind.INNER, APPEND, LookupRetry(10, 3))
    driven.step(0, (INSERT, (1, "a")))
    table.contents["a"] = [4]
    assert driven.step(10) == [(1, 1, "a", "a", 4)]
    assert driven.step(11, (INSERT, (2, "a"))) == [(1, 2, "a", "a", 4)]
    assert table.asked == ["a", "a"]


class Remote(Outside):
    """Answers each key when as many are asked for as may be, the last one first."""

    def __init__(self, contents: dict[str, list[int]], together: int) -> None:
        super().__init__(contents)
        self.together = together
        self.open = self.most = 0

    async def lookup_async(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        assert keys.num_rows == 1
        self.open += 1
        self.most = max(self.most, self.open)
        for _ in range(5 - len(self.asked) % 3):
            await asyncio.sleep(0)
        self.open -= 1
        return self.lookup(key_columns, keys)


def test_several_keys_are_asked_for_at_once_within_the_capacity() -> None:
    table = Remote({"a": [1, 2], "c": [3], "d": [4]}, 2)
    keys = pa.RecordBatch.from_arrays([pa.array(["d", "b", "a", "c"])], names=["k"])
    positions, (names, values) = ConcurrentlyAskedTable(table, 0, 2, 60.0).answer(keys, 4, 0)
    assert table.most == 2
    assert list(zip(positions.tolist(), names.to_pylist(), values.to_pylist(), strict=True)) == [
        (0, "d", 4),
        (2, "a", 1),
        (2, "a", 2),
        (3, "c", 3),
    ]


class Silent(Outside):
    async def lookup_async(self, key_columns: Sequence[str], keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
        await asyncio.Event().wait()
        raise AssertionError


def test_a_key_that_takes_too_long_fails() -> None:
    keys = pa.RecordBatch.from_arrays([pa.array(["d"])], names=["k"])
    with pytest.raises(ConnectorError, match=r"longer than 0 s") as error:
        ConcurrentlyAskedTable(Silent({}), 0, 2, 0.0).answer(keys, 1, 0)
    assert error.value.code == "E3109"


def test_a_hint_asks_for_all_keys_in_one_request() -> None:
    table = Silent({"a": [1]})
    join = made(table, JoinKind.INNER, APPEND, None, LookupRequests(asynchronous=False))
    output = join.step([batch_of(LEFT, [(INSERT, (1, "a"))])], EpochTime(0, 0, 0, 0))
    assert output is not None and len(output) == 1
