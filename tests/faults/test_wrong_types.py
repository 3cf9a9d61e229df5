"""A manifest with a right checksum in which one value has another type: the checkpoint before is gone on from.

Every place of a manifest comes to its turn: a place is the way to it, with list positions left out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import DAMAGES, FIRST_SEED
from tests.faults.damage import places_of, read_manifest, sign
from tests.faults.jobs import JOBS
from tests.faults.runs import published
from tests.faults.test_damage import SETTING, Specimen

JOBS_BY_NAME = {job.name: job for job in JOBS}
VALUES: tuple[Any, ...] = (
    None, True, 7, 2**31, 10**10, 10**13, 2**63 - 1, 1.5, 1e300, "", "x", "../../x", [], [7], ["x"], [None], [[]], {}, {"x": 7}, {"": []},
)  # fmt: skip
EACH = max(1, DAMAGES // 100)
"""Values tried at each place."""


def kind(value: Any) -> str:
    """The type of a JSON value."""
    return "number" if type(value) is int else type(value).__name__


def places(body: Any) -> dict[str, list[tuple[Any, Any]]]:
    """All places of a manifest, by the way to them. Names that differ from run to run are left out."""
    found: dict[str, list[tuple[Any, Any]]] = {}
    for way, holder, key in places_of(body):
        named = [str(step) if isinstance(step, str) and step.isidentifier() else "*" for step in way]
        found.setdefault(".".join(named), []).append((holder, key))
    return found


def changes(specimen: Specimen) -> Iterator[tuple[str, random.Random]]:
    """The places of the newest manifest, each so often as it is tried."""
    body = read_manifest(specimen.newest)
    for way in sorted(places(body)):
        for turn in range(EACH):
            yield way, random.Random(f"{way} {turn} {FIRST_SEED}")


@pytest.mark.parametrize("name", ["two-sinks", "partitions", "rejecting"])
def test_a_value_of_another_type(name: str, few_rows: Path, tmp_path: Path) -> None:
    specimen = Specimen(JOBS_BY_NAME[name], few_rows, tmp_path / "job", "", random.Random(name))
    specimen.restore()
    planned = specimen.planned
    assert specimen.checkpoints > 1
    bad: list[str] = []
    for way, rng in list(changes(specimen)):
        specimen.restore()
        body = read_manifest(specimen.newest)
        holder, key = rng.choice(places(body)[way])
        old = holder[key]
        value = holder[key] = rng.choice([v for v in VALUES if kind(v) != kind(old)])
        sign(specimen.newest, body)
        before = specimen.outside()
        try:
            planned.run(SETTING, rng)
            end = "" if published(planned.out) == planned.expected else "a wrong answer"
        except Exception as error:
            end = f"{type(error).__name__}: {error}"
        if end or specimen.outside() != before:
            bad.append(f"{way} is {value!r} instead of {str(old)[:80]}: {end or 'something outside has changed'}"[:500])
    assert not bad
