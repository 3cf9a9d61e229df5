"""A position in which something has another type than a reader gave it: refused, and nothing is read."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from contract_sources import SOURCES
from test_source_positions import inputs_of, put, stored, watched

from runtime.core.clock import VirtualClock
from runtime.core.errors import ConnectorError
from runtime.local.split_progress import Reached, SplitProgress
from runtime.spi.source import SourceTable

VALUES: tuple[Any, ...] = (None, True, 7, -1, 1.5, "x", [], [7], {}, {"x": 7})


def mutated(position: Any) -> Iterator[Any]:
    """Positions in which one value has another type, or is a number below zero."""

    def below(value: Any, put_back: Callable[[Any], Any]) -> Iterator[Any]:
        for other in VALUES:
            if type(other) is not type(value) or other == -1:
                yield put_back(other)
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from below(inner, lambda v, key=key, value=value: put_back({**value, key: v}))
                yield put_back({k: v for k, v in value.items() if k != key})
        if isinstance(value, list):
            for at, inner in enumerate(value):
                yield from below(inner, lambda v, at=at, value=value: put_back([*value[:at], v, *value[at + 1 :]]))

    yield from below(position, lambda value: value)


@pytest.mark.parametrize("make", SOURCES, ids=lambda m: m.__name__)
def test_a_position_of_another_type_is_refused(make: Callable[[Path], SourceTable], tmp_path: Path) -> None:
    table = make(tmp_path)
    inputs = inputs_of(table)
    inputs.poll(1)
    position = stored(inputs.position())
    assert position["active"], "the test needs a split that is being read"
    inputs.close()
    tried = 0
    for other in mutated(position):
        if other is None or other == position or _may_be(position, other):
            continue
        tried += 1
        with pytest.raises((ValueError, TypeError, KeyError, ConnectorError)):
            inputs_of(table, other)
            pytest.fail(f"{json.dumps(other)[:300]} was taken for {json.dumps(position)[:300]}")
    assert tried > 40


def _may_be(position: Any, other: Any) -> bool:
    """Whether the other is a position, too: a split of no end, which only Kafka's has, or less of a list."""
    ((_, mine),) = position["active"][:1]
    theirs = other["active"] if isinstance(other, dict) and isinstance(other.get("active"), list) else [[None, mine]]
    seeded = isinstance(mine, dict) and "seed" in mine
    return not theirs or (
        seeded
        and isinstance(theirs[0], list)
        and len(theirs[0]) == 2
        and isinstance(theirs[0][1], dict)
        and theirs[0][1].get("seed") == -1
    )


def test_names_of_splits_do_not_unpack_without_bound() -> None:
    """A pack of a few kilobytes that holds a gigabyte."""
    progress = SplitProgress()
    for number in range(300):
        progress.finish(f"split {number}")
    position = stored(progress.json(Reached(300, (), ())))
    assert SplitProgress(position).finished == [f"split {number}" for number in range(300)]
    bomb = base64.b64encode(zlib.compress(b'["' + b"x" * (64 << 20) + b'"]')).decode()
    position["finished"]["packs"] = [bomb]
    with pytest.raises(ValueError, match="does not end"):
        SplitProgress(position)


@pytest.mark.parametrize("mark", [None, 7, "x", [], [1], [1, 2, 3], [1, "x"], [-1, 2], {"a": 1, "b": 2}])
def test_a_mark_of_another_type_is_refused(mark: Any, tmp_path: Path) -> None:
    """What tells whether a file that was read has changed."""
    put(tmp_path / "in", "a.json", 1, 2)
    put(tmp_path / "in", "b.json", 3)
    table, clock = watched(tmp_path / "in"), VirtualClock(1)
    inputs = inputs_of(table, None, clock)
    while inputs.poll(10).batch is not None:
        pass
    position = stored(inputs.position())
    assert isinstance(position["finished"]["names"][0], list)
    position["finished"]["names"][0][1] = mark
    with pytest.raises((ValueError, TypeError)):
        inputs_of(watched(tmp_path / "in"), position, clock).poll(10)
