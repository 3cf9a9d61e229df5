"""docs/table_api.md: its code runs, and gives what it shows."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

MANUAL = Path(__file__).parent.parent.parent.parent / "docs" / "table_api.md"


def test_the_code_of_the_manual_gives_what_it_shows() -> None:
    # Tables of Python rows are numbered through the life of a process.
    text = re.sub(r"from_elements_\d+", "from_elements_...", MANUAL.read_text().replace("```", ""))
    parsed = doctest.DocTestParser().get_doctest(text, {}, "table_api.md", str(MANUAL), 0)
    assert len(parsed.examples) > 30
    complaints: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    runner.run(parsed, out=complaints.append, clear_globs=False)
    if "t_env" in parsed.globs:
        parsed.globs["t_env"].close()
    assert not complaints, "".join(complaints)
