"""What every source must do, whatever it reads. Its tests use a small table with an end."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from runtime.core.errors import ConnectorError
from runtime.core.schema import Schema
from runtime.spi.abilities import SupportsFilters, SupportsLimit, SupportsProjection
from runtime.spi.source import SourceTable
from sqlengine.testing.connectors.aggregates import check_aggregates
from sqlengine.testing.connectors.reading import Context, changes_of, drain, read_all
from sqlengine.testing.connectors.values import EXTREMES, conditions_over, every_value, passes

__all__ = ["CHECKS", "SourceContract"]

_POLL_SECONDS = 0.5


def check_rows_do_not_depend_on_polls(table: SourceTable) -> None:
    """However few rows are asked for at once, the same come in the same order."""
    whole = read_all(table)
    assert whole
    for size in (1, 2, 7):
        assert read_all(table, size) == whole


def check_resumes_from_every_position(table: SourceTable) -> None:
    """From each position, saved as JSON, another reader gives exactly the rows behind it."""
    for split in table.splits():
        reader = table.open(split, Context())
        assert reader.poll(0) is None
        whole = drain(table.open(split, Context()))
        given = 0
        while True:
            position = json.loads(json.dumps(reader.position()))
            resumed = table.open(split, Context())
            resumed.seek(position)
            assert drain(resumed, 3) == whole[given:]
            assert resumed.finished
            resumed.close()
            if reader.finished:
                break
            batch = reader.poll(2)
            given += 0 if batch is None else len(changes_of(batch))
        assert given == len(whole)
        reader.close()


def check_ends_with_the_last_row(table: SourceTable) -> None:
    """A split is finished when its last row was given, not before, and may be closed twice."""
    for split in table.splits():
        count = len(drain(table.open(split, Context())))
        reader = table.open(split, Context())
        given = 0
        while given < count:
            assert not reader.finished
            batch = reader.poll(5)
            given += 0 if batch is None else len(batch)
        assert not drain(reader)
        assert reader.finished
        assert reader.poll(5) is None
        reader.close()
        reader.close()


def check_projection(table: SourceTable) -> None:
    """It gives only the columns that are asked for, in that order."""
    if not isinstance(table, SupportsProjection):
        pytest.fail("the source cannot leave out columns")
    whole = read_all(table)
    names = table.schema.names
    for wanted in ([names[-1]], list(reversed(names)), [names[0]]):
        narrow = table.with_columns(wanted)
        assert narrow.schema.names == tuple(wanted)
        at = [names.index(n) for n in wanted]
        assert read_all(narrow, 3) == [(kind, tuple(row[i] for i in at)) for kind, row in whole]
        assert narrow == table.with_columns(wanted)
        assert hash(narrow) == hash(table.with_columns(wanted))


def check_filters(table: SourceTable) -> None:
    """What it takes of conditions, and what it leaves, keep together what they mean."""
    if not isinstance(table, SupportsFilters):
        return
    whole = read_all(table)
    rows = [row for _, row in whole]
    for condition in conditions_over(table.schema, rows):
        filtered, left = table.with_filters([condition])
        kept = read_all(filtered, 3)
        for rest in left:
            kept = [change for change in kept if passes(rest, change[1])]
        assert kept == [change for change in whole if passes(condition, change[1])], str(condition)
    if isinstance(table, SupportsProjection) and len(table.schema) > 1:
        narrow = table.with_columns([table.schema.names[-1]])
        for condition in list(conditions_over(table.schema, rows))[:8]:
            filtered, left = table.with_filters([condition])
            if not left and isinstance(filtered, SupportsProjection):
                kept = read_all(filtered.with_columns(narrow.schema.names))
                assert kept == [(kind, row[-1:]) for kind, row in whole if passes(condition, row)], str(condition)


def check_limit(table: SourceTable) -> None:
    """A limit gives the first rows, of each split at most so many."""
    if not isinstance(table, SupportsLimit):
        return
    whole = Counter(map(repr, read_all(table)))
    for limit in (1, 3):
        few = read_all(table.with_limit(limit), 2)
        assert limit <= len(few) <= limit * len(table.splits())
        assert not Counter(map(repr, few)) - whole


def check_describes_itself(table: SourceTable) -> None:
    """EXPLAIN and checkpoints can show it."""
    described = table.describe()
    assert json.loads(json.dumps(described)) == described


def check_types(table: SourceTable) -> None:
    """Batches have the names and Arrow types of the schema."""
    for split in table.splits():
        reader = table.open(split, Context())
        batch = None
        while batch is None and not reader.finished:
            batch = reader.poll(10)
        reader.close()
        if batch is None:  # An empty file.
            assert not drain(table.open(split, Context()))
            continue
        assert batch.rows.schema.names == list(table.schema.names)
        assert batch.rows.schema.types == [f.type.arrow for f in table.schema]


CHECKS = (
    check_rows_do_not_depend_on_polls,
    check_resumes_from_every_position,
    check_ends_with_the_last_row,
    check_projection,
    check_filters,
    check_limit,
    check_aggregates,
    check_describes_itself,
    check_types,
)


class SourceContract:
    """The tests of a source; a subclass gives it tables.

    class TestReadings(SourceContract):
        @pytest.fixture
        def table(self, tmp_path):
            return source_of(tmp_path, rows=20)
    """

    @pytest.fixture
    def table(self) -> SourceTable:
        """A bounded table with some rows, at most a few hundred."""
        pytest.fail(f"{type(self).__name__} needs a fixture `table`, which gives its table: see SourceContract")

    connectors: tuple[str, ...] = ()
    """Names of those whose promise the class proves, for tables of what is proven."""
    types: tuple[str, ...] = ()
    """Which of `EXTREMES` the system can hold."""

    def __init_subclass__(cls, **more: Any) -> None:
        """What a class gives no tables for is no test of it, and nothing that is skipped."""
        super().__init_subclass__(**more)
        given = {name for kind in cls.__mro__[: cls.__mro__.index(SourceContract)] for name in vars(kind)}
        for fixture, test in (("holding", "test_every_type"), ("away", "test_poll_does_not_wait")):
            setattr(cls, test, getattr(SourceContract, test) if fixture in given else None)

    @pytest.fixture
    def holding(self) -> Callable[[Schema, list[tuple[Any, ...]]], SourceTable] | None:
        """Makes a table that holds these rows, in this order, for `types`."""
        return None

    @pytest.fixture
    def away(self) -> Callable[[], AbstractContextManager[SourceTable]] | None:
        """A table whose system does not answer, or does so slowly, while the context is entered."""
        return None

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
    def test_contract(self, table: SourceTable, check: Callable[[SourceTable], None]) -> None:
        check(table)

    def test_every_type(self, holding: Callable[[Schema, list[tuple[Any, ...]]], SourceTable] | None) -> None:
        """NULL and the least and greatest values come as they are."""
        assert set(self.types) <= set(EXTREMES)
        assert holding is not None
        schema, rows = every_value(self.types)
        assert [row for _, row in read_all(holding(schema, rows))] == rows

    def test_poll_does_not_wait(self, away: Callable[[], AbstractContextManager[SourceTable]] | None) -> None:
        """Of a bounded source; and a system that does not answer ends in ConnectorError, not in waiting."""
        assert away is not None
        with away() as table:
            try:
                (reader,) = [table.open(split, Context()) for split in table.splits()][:1]
                for _ in range(3):
                    began = time.monotonic()
                    reader.poll(100)
                    assert time.monotonic() - began < _POLL_SECONDS
                reader.close()
            except ConnectorError as error:
                assert error.code and error.hint
