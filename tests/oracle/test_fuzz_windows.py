"""Event-time templates with random parameters, rows out of order and random cuts: the answers equal DuckDB's. Where rows
are late the cuts are fixed, and the law of lateness is written out for DuckDB."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.oracle.compare_windows import check_late_case, check_window_case
from tests.oracle.generate_late import LATE_TEMPLATES, LateCase, late_cases
from tests.oracle.generate_windows import TEMPLATES, WindowCase, window_cases
from tests.oracle.outcomes import SEED, Broken, Skipped, share, try_cases


@pytest.mark.parametrize("template", TEMPLATES)
def test_event_time_answers_equal_duckdb(template: str, outcome: Callable[[str], None]) -> None:
    def check(case: WindowCase) -> None:
        try:
            check_window_case(case)
        except Skipped as skipped:
            raise Broken(f"the oracle cannot be asked: {skipped}") from skipped

    found = try_cases(window_cases(template), template, share(15, len(TEMPLATES), 5), check, outcome)
    if found is not None:
        pytest.fail(f"seed {SEED} template {template}\n{found[0]}\n{found[1]}", pytrace=False)


@pytest.mark.parametrize("template", LATE_TEMPLATES)
def test_late_rows_are_left_out(template: str, outcome: Callable[[str], None]) -> None:
    number = share(10, len(LATE_TEMPLATES), 6)
    found: tuple[LateCase, str] | None = try_cases(late_cases(template), template, number, check_late_case, outcome)
    if found is not None:
        pytest.fail(f"seed {SEED} template {template}\n{found[0]}\n{found[1]}", pytrace=False)
