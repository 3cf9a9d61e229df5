"""Queries that check themselves: generated ones agree with the reference wherever DuckDB can be asked, and it is asked often
enough."""

from __future__ import annotations

import pytest

from sqlengine.results.result import SqlEngineWarning
from tests.oracle.generate_cases import cases
from tests.oracle.generate_queries import FAMILIES
from tests.oracle.generate_windows import TEMPLATES, window_cases
from tests.oracle.outcomes import try_cases
from tests.oracle.verified import Outcome, run_case, run_window_case

pytestmark = pytest.mark.filterwarnings(f"ignore::{SqlEngineWarning.__module__}.SqlEngineWarning")
EACH = 5


def test_generated_queries_verify_themselves() -> None:
    outcome = Outcome()
    for family in FAMILIES:
        try_cases(cases(family), f"{family}/verify", EACH, lambda case: run_case(case, outcome), _untold)
    assert not outcome.wrong, outcome.wrong[0]
    assert outcome.verified >= 20 and outcome.compared >= 40, (outcome.verified, outcome.compared, outcome.refused)


def test_windows_verify_themselves_as_they_close() -> None:
    outcome = Outcome()
    for template in TEMPLATES:
        name = f"{template}/verify"
        try_cases(window_cases(template), name, EACH, lambda case: run_window_case(case, outcome), _untold)
    assert not outcome.wrong, outcome.wrong[0]
    assert outcome.compared >= 80, (outcome.verified, outcome.compared, outcome.refused)


def _untold(what: str) -> None:
    """What became of a case is counted by `Outcome`."""
