"""The loggers and facts that the sources name are those that are described."""

from __future__ import annotations

import re
from pathlib import Path

from runtime.core.logs import FACTS, LOGGERS

ROOT = Path(__file__).parents[2]


def test_loggers_and_facts_are_those_that_are_described() -> None:
    """`Log("x")` of the sources is in `LOGGERS`, names of facts in `FACTS`."""
    sources = [p.read_text() for name in ("sqlengine", "runtime", "connectors") for p in (ROOT / name).rglob("*.py")]
    used = {found for text in sources for found in re.findall(r'^_\w+ = Log\("(\w+)', text, re.MULTILINE)}
    assert used | {"connectors"} == set(LOGGERS)
    calls = re.findall(r"_?log\.(?:debug|info|warning|error)\(([^\n]*)\)$", "\n".join(sources), re.MULTILINE)
    facts = {fact for call in calls for fact in re.findall(r"(?<![\w%])(\w+)=", call)}
    assert len(facts) > 5 and facts <= set(FACTS)
