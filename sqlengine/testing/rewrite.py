"""What came out of a `.slt` file, written into it: for new tests, and for changes that are wanted."""

from __future__ import annotations

from pathlib import Path

from sqlengine.testing.compare import Difference
from sqlengine.testing.runner import AS_WRITTEN, run_file
from sqlengine.testing.slt import RULE, read_slt

__all__ = ["rewrite_file"]


def rewrite_file(path: Path, options: dict[str, str]) -> tuple[bool, list[Difference]]:
    """Put what comes out of each record below its rule.

    Gives whether the file has changed, and what cannot be written into it: a statement that fails or must fail
    otherwise.
    """
    file = read_slt(path)
    outcome: dict[int, list[str]] = {}
    broken = run_file(
        file, AS_WRITTEN, options, on_actual=lambda record, lines: outcome.__setitem__(record.line, lines)
    )
    lines: list[str] = []
    at = 0
    for record in file.records:
        body_end = record.line + len(record.sql.splitlines())
        lines.extend(file.lines[at:body_end])
        lines.extend([RULE, *outcome[record.line]] if record.line in outcome else file.lines[body_end : record.end])
        at = record.end
    lines.extend(file.lines[at:])
    text = "\n".join(lines) + "\n"
    changed = text != path.read_text(encoding="utf-8")
    if changed:
        path.write_text(text, encoding="utf-8")
    return changed, [d for d in broken if d.line not in outcome or "instead of" in d.problem]
