"""Event-time templates with random parameters, rows out of order and random cuts: the answers equal DuckDB's."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, seed

from tests.oracle.compare_case import Broken, Skipped
from tests.oracle.compare_windows import check_window_case
from tests.oracle.generate_windows import TEMPLATES, WindowCase, window_cases
from tests.oracle.test_fuzz import CASES, SEED, fuzz_settings

EACH = max(4, CASES // 30)


@pytest.mark.parametrize("template", TEMPLATES)
def test_event_time_answers_equal_duckdb(template: str) -> None:
    said: list[tuple[WindowCase, str]] = []

    @seed(random.Random(f"{SEED}/{template}").randrange(1 << 30))
    @fuzz_settings(EACH)
    @given(window_cases(template))
    def run(case: WindowCase) -> None:
        try:
            check_window_case(case)
        except Skipped as skipped:
            raise Broken(f"the oracle cannot be asked: {skipped}") from skipped
        except Broken as broken:
            said.append((case, str(broken)))
            raise

    try:
        run()
    except Broken as broken:
        case, why = said[-1] if said else (None, str(broken))
        pytest.fail(f"seed {SEED} template {template}\n{case}\n{why}", pytrace=False)
