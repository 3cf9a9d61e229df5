"""What became of generated cases, told at the end of the run: how many were equal, refused, or said nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.oracle.outcomes import OUTCOME

_LISTED = 40


@pytest.fixture
def outcome(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Notes what became of a case."""
    return lambda what: record_property(OUTCOME, what)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for of in ("passed", "failed") for r in terminalreporter.stats.get(of, []) if r.when == "call"]
    met = Counter(str(value) for r in reports for name, value in r.user_properties if name == OUTCOME)
    if not met:
        return
    terminalreporter.section("generated cases")
    total = sum(met.values())
    for what, times in met.most_common(_LISTED):
        terminalreporter.write_line(f"{times:7} {100 * times / total:5.1f} %  {what}")
    if len(met) > _LISTED:
        terminalreporter.write_line(f"{sum(n for _, n in met.most_common()[_LISTED:]):7}          others")
