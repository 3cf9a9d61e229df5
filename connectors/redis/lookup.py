"""Rows of given keys: the hashes of all keys are asked for at once, and answered one by one as the client reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from connectors.redis.address import connected, telling
from connectors.redis.commands import MOST_AT_ONCE, asked, commands, parts
from connectors.redis.values import keys_of, read_column
from runtime.core.errors import ConnectorError

if TYPE_CHECKING:
    from connectors.redis.table import RedisTable

__all__ = ["look_up"]


def look_up(table: RedisTable, keys: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch]:
    """For keys in the order of the primary key: places of those that are there, and their rows. Raises ConnectorError E3242 for
    a hash with a field that is no value of its column."""
    schema = table.schema
    types = [schema[schema.index_of(name)].type for name in table.primary_key]
    names = keys_of(table.prefix, keys.columns, types)
    known = np.flatnonzero(np.asarray(names.is_valid()))
    names = names.take(pa.array(known))
    answers: list[list[bytes | None]] = []
    with telling(table.address, table.place()):
        connection = connected(table.address)
        try:
            for at in range(0, len(names), MOST_AT_ONCE):
                piece = parts(names.slice(at, MOST_AT_ONCE))
                fields = [parts(pa.array([f.name] * len(piece), pa.string())) for f in schema]
                sent = commands("HMGET", np.full(len(piece), 2 + len(fields)), [piece, *fields])
                answers += asked(connection, sent, len(piece))
        finally:
            connection.disconnect()
    there = [place for place, answer in enumerate(answers) if any(value is not None for value in answer)]
    columns: list[pa.Array] = []
    for number, field in enumerate(schema):
        column, bad = read_column([answers[place][number] for place in there], field.type, table.time_zone)
        if bad is not None and bad.any():
            place = there[int(np.flatnonzero(bad)[0])]
            raise ConnectorError(
                f"{table.place()}: field {field.name} of {names[place].as_py()!r} is no {field.type}",
                code="E3242",
                hint="declare the column as a STRING, or mend the hash",
            )
        columns.append(column)
    rows = pa.RecordBatch.from_arrays(columns, names=list(schema.names))
    return pa.array(known[there] if there else np.empty(0, np.int64), pa.int64()), rows
