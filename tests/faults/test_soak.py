"""A few rounds of the soak (`make soak`): what was made is gone again, and answers are those of the model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.soak import Soak, growth

ENDED = "jobs"
"""Jobs that have ended stay in `system.jobs` for a while."""


@pytest.mark.skipif(os.name == "nt", reason="counts handles in /proc")
def test_rounds_leave_nothing_behind(tmp_path: Path) -> None:
    soak = Soak(tmp_path)
    try:
        soak.round()
        sample, before = soak.sample(), soak.registries()
        for _ in range(2):
            soak.round()
        later, after = soak.sample(), soak.registries()
        assert {k: n for k, n in after.items() if k != ENDED} == {k: n for k, n in before.items() if k != ENDED}
        assert later["handles"] == sample["handles"]
        soak.reopen()
    finally:
        soak.close()


def test_growth_is_that_of_the_second_half() -> None:
    assert growth([0, 100, 7, 7, 7, 7]) == pytest.approx(0)
    assert growth([0, 0, 0, 0, 10, 20, 30, 40]) == pytest.approx(40)
