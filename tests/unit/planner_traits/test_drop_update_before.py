"""Dropping old images by key: what moved away is deleted, what was replaced is not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from trait_plans import FakeSource

from runtime.core.changelog import RETRACT, UPSERT, ChangelogBatch
from runtime.core.schema import Schema
from runtime.core.types import INT, STRING
from runtime.operators.operator import EpochTime
from runtime.operators.stateless import DropUpdateBeforeOperator
from runtime.plan.nodes import DropUpdateBeforeExec, SourceExec

SCHEMA = Schema.of(("k", INT), ("v", STRING))
TIME = EpochTime(1, 0, 0, 0)


def run(keys: tuple[int, ...] | None, changes: list[tuple[str, int | None, str]]) -> list[tuple[str, int | None, str]]:
    source = SourceExec(FakeSource("t", SCHEMA), "t", SCHEMA, RETRACT)
    operator = DropUpdateBeforeOperator(DropUpdateBeforeExec(source, SCHEMA, UPSERT, keys), None)  # type: ignore[arg-type]
    names = ["+I", "-U", "+U", "-D"]
    rows = pa.record_batch(
        [pa.array([c[1] for c in changes], pa.int32()), pa.array([c[2] for c in changes])], names=["k", "v"]
    )
    out = operator.step([ChangelogBatch(rows, np.array([names.index(c[0]) for c in changes], np.int8))], TIME)
    if out is None:
        return []
    return [
        (names[kind], row["k"], row["v"])
        for kind, row in zip(out.kinds_or_inserts(), out.rows.to_pylist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("-U", 1, "a"), ("+U", 1, "b")], [("+U", 1, "b")]),
        ([("-U", 1, "a"), ("+U", 2, "a")], [("-D", 1, "a"), ("+I", 2, "a")]),
        ([("-U", None, "a"), ("+U", None, "b")], [("+U", None, "b")]),
        ([("+I", 1, "a"), ("-U", 1, "a")], []),
        ([("-U", 1, "a"), ("-D", 2, "x"), ("+I", 1, "b")], [("-D", 2, "x"), ("+U", 1, "b")]),
        # Two rows change places in a ranking: by rank, the new image of a row comes before its old one.
        (
            [("-U", 1, "1st"), ("+U", 2, "1st"), ("-U", 2, "2nd"), ("+U", 1, "2nd")],
            [("+U", 2, "1st"), ("+U", 1, "2nd")],
        ),
        ([("-U", 1, "a"), ("+U", 2, "a"), ("-D", 2, "a"), ("+I", 1, "a")], []),
    ],
)
def test_by_key(changes: list[tuple[str, int | None, str]], expected: list[tuple[str, int | None, str]]) -> None:
    assert run((0,), changes) == expected


def test_without_keys_every_old_image_goes() -> None:
    assert run(None, [("-U", 1, "a"), ("+U", 2, "a")]) == [("+U", 2, "a")]
    assert run(None, [("-U", 1, "a")]) == []
