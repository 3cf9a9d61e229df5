"""What connectors share: reading in the background, commits with a number, rows in checkpoints, conditions as SQL."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from connector_tables import Context, drain

from connectors.kit.commits import CommittingWriter
from connectors.kit.predicates import as_conditions, where
from connectors.kit.prefetch import Fetched, PrefetchingReader
from connectors.kit.spool import Spool, spooled
from runtime.core.changelog import DELETE, INSERT, ChangelogBatch
from runtime.core.errors import ConnectorError, UnavailableError
from runtime.core.retries import Retries, retried
from runtime.core.schema import Schema
from runtime.core.secrets import Secret
from runtime.core.types import BOOLEAN, DATE, DOUBLE, INT, STRING, decimal
from runtime.expr.nodes import Call, Constants, Expr, InList, InputRef, Literal

SCHEMA = Schema.of(("id", INT))


def rows(*ids: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(ids, pa.int32())], names=["id"])


def reader(fetching: Any, bounded: bool = True, **more: Any) -> PrefetchingReader:
    return PrefetchingReader("it", fetching, more.pop("context", Context()), bounded=bounded, **more)


def ids_of(changes: Sequence[Any]) -> list[int]:
    return [row[0] for _, row in changes]


def test_the_other_side_comes_back() -> None:
    begun: list[Any] = []

    def fetch(position: Any, stop: threading.Event) -> Iterator[Fetched]:
        begun.append(position)
        at = position or 0
        while at < 6:
            if len(begun) in (2, 3) or (len(begun) == 1 and at == 3):
                raise TimeoutError("nobody answers")
            at += 1
            yield Fetched(rows(at), at)

    reading = reader(fetch, retries=Retries(3, 0.0))
    assert ids_of(drain(reading)) == [1, 2, 3, 4, 5, 6]
    assert begun == [None, 3, 3, 3] and reading.tries == 3
    reading.close()


def test_it_does_not_come_back() -> None:
    def fetch(position: Any, stop: threading.Event) -> Iterator[Fetched]:
        yield Fetched(rows(1), 1)
        raise ConnectionRefusedError("refused")

    reading = reader(lambda p, s: fetch(p, s) if p is None else fails(), retries=Retries(3, 0.0))
    with pytest.raises(UnavailableError, match="E3150 it cannot be read: gone") as caught:
        drain(reading)
    assert caught.value.hint and reading.tries == 3
    wrong = reader(lambda p, s: iter([Fetched(rows(1), 1), 1 / 0]))
    with pytest.raises(ZeroDivisionError):
        drain(wrong)


def fails() -> Iterator[Fetched]:
    raise ConnectionError("gone")
    yield  # a generator


def test_so_much_waits_and_no_more() -> None:
    made, room = [0], threading.Event()

    def fetch(position: Any, stop: threading.Event) -> Iterator[Fetched]:
        for at in range(position or 0, 200):
            made[0] += 1
            if made[0] == 3:
                room.set()
            yield Fetched(rows(*range(1000)), at + 1)

    reading = reader(fetch, memory=8000)
    while reading.poll(1) is None:
        room.wait(1)
    assert sum(batch.nbytes for batch in reading.buffered) <= 12_000 and made[0] <= 5
    reading.close()
    reading.close()
    assert made[0] <= 5


def test_a_flush_has_what_was_there() -> None:
    there, answer = [1, 2], threading.Event()

    def fetch(position: Any, stop: threading.Event) -> Iterator[Fetched]:
        at = position or 0
        while not stop.is_set():
            for number in there[at:]:
                at += 1
                yield Fetched(rows(number), at)
            yield Fetched(None, at)
            answer.wait(5)
            answer.clear()

    reading = reader(fetch, bounded=False)

    def polled() -> list[int]:
        found: list[int] = []
        while (batch := reading.poll(10)) is not None:
            found += batch.rows.column(0).to_pylist()
        return found

    assert polled() == [1, 2], "what is there when reading begins"
    assert reading.available_in() is None
    there.append(3)
    reading.fetch_end_offset()
    answer.set()
    assert polled() == [3]
    assert reading.position() == {"at": 3, "rows": 0}
    answer.set()
    reading.close()


def test_a_position_that_moves_without_rows_is_kept() -> None:
    reading = reader(lambda p, s: iter([Fetched(None, 1), Fetched(rows(1, 2), 2), Fetched(None, 5), Fetched(None, 7)]))
    assert ids_of(drain(reading, 1)) == [1, 2]
    assert reading.position() == {"at": 7, "rows": 0}
    half = reader(lambda p, s: iter([Fetched(rows(1), 1), Fetched(rows(2, 3), 2)]))
    half.seek({"at": None, "rows": 2})
    assert ids_of(drain(half)) == [3]


class Remembered:
    """`EpochCommits` in memory, which fails where it is told to."""

    def __init__(self) -> None:
        self.number = 0
        self.rows: list[int] = []
        self.fails: list[str] = []

    def last(self) -> int:
        return self.number

    def commit(self, number: int, batches: Iterable[ChangelogBatch]) -> None:
        assert number > self.number
        found = [i for b in batches for i in b.rows.column("id").to_pylist()]
        how = self.fails.pop(0) if self.fails else ""
        if how != "before":
            self.number, self.rows = number, self.rows + found
        if how:
            raise UnavailableError("no answer")

    def close(self) -> None: ...


def committing(system: Remembered, **more: Any) -> CommittingWriter:
    return CommittingWriter("t", ["id"], system, retries=Retries(3, 0.0), pause=lambda s: None, **more)


def test_a_commit_of_which_nobody_knows_is_made_once(caplog: pytest.LogCaptureFixture) -> None:
    system = Remembered()
    system.fails = ["behind", "before", "before", "behind"]
    writer = committing(system)
    for number in (1, 2):
        writer.write(ChangelogBatch(rows(number)))
        writer.publish(json.loads(json.dumps(writer.prepare())))
    assert system.rows == [1, 2] and writer.prepare() is None
    assert writer.tries == 4 and len(caplog.records) == 4
    assert caplog.records[0].getMessage() == "t is asked again in 0.0 s: E3150 no answer"
    system.fails = ["before"] * 4
    writer.write(ChangelogBatch(rows(3)))
    with pytest.raises(UnavailableError):
        writer.publish(writer.prepare())
    assert system.rows == [1, 2]


def test_a_job_that_goes_back_writes_again_and_loses_nothing() -> None:
    system = Remembered()
    writer = committing(system)
    named = []
    for number in (1, 2, 3):
        writer.write(ChangelogBatch(rows(number)))
        named.append(writer.prepare())
        writer.publish(named[-1])
    again = committing(system)
    again.recover([named[0]])
    again.write(ChangelogBatch(rows(2, 3)))
    again.publish(again.prepare())
    assert system.rows == [1, 2, 3, 2, 3]
    with pytest.raises(ConnectorError, match="E3113"):
        again.recover([{"files": []}])


def test_rows_in_checkpoints() -> None:
    schema = Schema.of(("a", STRING), ("b", decimal(10, 2)))
    batch = ChangelogBatch.of(
        [pa.array(["x", None]), pa.array([None, Decimal("1.25")], pa.decimal128(10, 2))],
        schema,
        np.array([INSERT, DELETE], np.int8),
    )
    spool = Spool("t", 1 << 20)
    spool.add(batch)
    (found,) = spooled(json.loads(json.dumps(spool.take())), ["a", "b"])
    assert found.rows == batch.rows and found.kinds is not None and found.kinds.tolist() == [INSERT, DELETE]
    assert not spool.take()
    with pytest.raises(ConnectorError, match="E3113"):
        list(spooled(["AAAA"], ["a"]))
    random = np.random.default_rng(1).integers(0, 2**31, 1 << 19, dtype=np.int32)
    with pytest.raises(ConnectorError, match="E3151 t has .* MiB of rows that no checkpoint has taken"):
        spool.add(ChangelogBatch(pa.RecordBatch.from_arrays([pa.array(random)], names=["id"])))


def test_pauses() -> None:
    assert list(Retries(4, 1.0, 3.0).pauses()) == [1.0, 2.0, 3.0, 3.0]
    assert list(Retries(2, 1.0, jitter=0.5).pauses(lambda: 1.0)) == [0.5, 1.0]
    tries: list[int] = []

    def call() -> None:
        tries.append(1)
        raise KeyError

    with pytest.raises(KeyError):
        retried(call, Retries(2, 0.0), (KeyError, ValueError), lambda s: None)
    assert len(tries) == 3


def test_a_secret_is_in_no_text() -> None:
    secret = Secret("hunter2")
    shown = [f"{secret}", f"{secret!r}", f"{secret:>10}", str([secret]), repr({"p": secret})]
    assert not any("hunter" in text for text in shown)
    assert (
        secret.reveal() == "hunter2" and secret == Secret("hunter2") and secret != Secret("x") and secret != "hunter2"
    )
    assert pickle.loads(pickle.dumps(secret)) == secret and not Secret("")


TYPES = Schema.of(("i", INT), ("s", STRING), ("d", DOUBLE), ("p", decimal(10, 2)), ("day", DATE), ('q"', BOOLEAN))
I, S, D, P = (InputRef(n, TYPES[n].type) for n in range(4))


def compared(name: str, ref: Expr, value: Any) -> Call:
    return Call(name, (ref, Literal(value, ref.type.not_null())), BOOLEAN)


@pytest.mark.parametrize(
    ("condition", "dialect", "text", "exact"),
    [
        (compared(">", I, 3), "postgres", '"i" > 3', True),
        (compared("=", S, "it's \\"), "postgres", "\"s\" = 'it''s \\'", False),
        (compared("=", S, "it's \\"), "mysql", "`s` = 'it''s \\\\'", False),
        (compared("=", S, "a"), "duckdb", "\"s\" = 'a'", True),
        (compared("<>", S, "a"), "postgres", None, False),
        (Call("NOT", (compared("=", S, "a"),), BOOLEAN), "postgres", None, False),
        (Call("AND", (compared("=", S, "a"), compared("<", S, "b")), BOOLEAN), "postgres", "\"s\" = 'a'", False),
        (Call("OR", (compared("=", S, "a"), compared("<", S, "b")), BOOLEAN), "postgres", None, False),
        (compared("=", D, 1.0), "postgres", None, False),
        (compared("=", P, Decimal("1.50")), "sqlite", None, False),
        (compared("=", P, Decimal("1.50")), "postgres", '"p" = 1.50', True),
        (InList(I, (Constants((1, 2), INT.not_null()),)), "sqlite", '"i" IN (1, 2)', True),
        (Call("IS NOT NULL", (S,), BOOLEAN), "mysql", "NOT `s` IS NULL", True),
        (InputRef(5, BOOLEAN), "postgres", '"q"""', True),
        (compared(">", I, 3), "oracle", None, False),
        (compared("=", S, "a\0"), "postgres", None, False),
    ],
)
def test_conditions_as_sql(condition: Expr, dialect: str, text: str | None, exact: bool) -> None:
    taken, left = as_conditions([condition], TYPES, dialect)
    assert [c.sql for c in taken] == ([] if text is None else [text])
    assert left == ([] if exact else [condition])
    assert as_conditions([condition], TYPES, dialect, taken)[0] == taken, "none is taken twice"
    if taken:
        assert where(taken) == f" WHERE ({text})"
        moved = Schema(tuple(reversed(TYPES.fields)))
        assert taken[0].over(moved) != condition and set(taken[0].columns) <= set(TYPES.names)
