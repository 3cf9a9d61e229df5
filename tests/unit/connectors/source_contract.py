"""What every bounded source must do, whatever it reads: checked over all connectors by `test_source_contract.py`."""

from __future__ import annotations

import json

import pytest
from connector_tables import Context, changes_of, drain, read_all

from runtime.spi.abilities import SupportsProjection
from runtime.spi.source import SourceTable


def check_rows_do_not_depend_on_polls(table: SourceTable) -> None:
    whole = read_all(table)
    assert whole
    for size in (1, 2, 7):
        assert read_all(table, size) == whole


def check_resumes_from_every_position(table: SourceTable) -> None:
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
    for split in table.splits():
        count = len(drain(table.open(split, Context())))
        reader = table.open(split, Context())
        given = 0
        while given < count:
            assert not reader.finished
            batch = reader.poll(5)
            given += 0 if batch is None else len(batch)
        assert reader.finished
        assert reader.poll(5) is None
        reader.close()
        reader.close()


def check_projection(table: SourceTable) -> None:
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


def check_types(table: SourceTable) -> None:
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
    check_types,
)
