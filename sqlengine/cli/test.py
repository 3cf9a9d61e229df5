"""`sqlengine test`: runs `.slt` files and shows differences."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from runtime.core.errors import FormatError
from sqlengine.cli.colours import Paint
from sqlengine.testing.compare import Difference
from sqlengine.testing.runner import AS_WRITTEN, cuts_for, run_file
from sqlengine.testing.slt import RULE, read_slt

__all__ = ["find_files", "test_command"]


def find_files(paths: Sequence[str]) -> list[Path]:
    """The `.slt` files of all paths, sorted. Raises FormatError E3303 for a path without any."""
    found: list[Path] = []
    for name in paths:
        path = Path(name)
        inside = sorted(path.rglob("*.slt")) if path.is_dir() else [path] if path.is_file() else []
        if not inside:
            raise FormatError(
                f"no .slt file at {name}", code="E3303", hint="give a file or a folder that holds .slt files"
            )
        found.extend(inside)
    return list(dict.fromkeys(found))


def test_command(paths: Sequence[str], options: dict[str, str], *, rewrite: bool, matrix: bool, verbose: bool) -> int:
    """Exit status 0 when all is as the files say, else 1."""
    paint = Paint(sys.stdout)
    files = find_files(paths)
    if rewrite:
        return max(_rewrite(path, options) for path in files)
    failed: list[Path] = []
    for path in files:
        file = read_slt(path)
        cuts = cuts_for(file) if matrix else [AS_WRITTEN]
        differences = [difference for cut in cuts for difference in run_file(file, cut, options)]
        if differences:
            failed.append(path)
        if differences or verbose:
            print(f"{paint('FAIL', 'error') if differences else paint('ok', 'green')}  {path}")
        for difference in differences:
            print("\n".join(difference_lines(difference, paint)))
        sys.stdout.flush()
    passed = f"{len(files) - len(failed)} passed"
    print(f"{passed}, {paint(f'{len(failed)} failed', 'error')}" if failed else paint(passed, "green"))
    return 1 if failed else 0


def difference_lines(difference: Difference, paint: Paint) -> Iterator[str]:
    """The place, the SQL, and a unified diff from what was expected to what came out."""
    yield f"  {difference.path}:{difference.line} ({difference.cut}): {paint(difference.problem, 'bold')}"
    for line in difference.sql.splitlines():
        yield f"    {line}"
    if not difference.expected and not difference.actual:
        return
    yield "    " + paint("- expected", "red") + "  " + paint("+ what came out", "green")
    for line in _diff(difference.expected, difference.actual):
        yield "    " + (paint(line, "red") if line[0] == "-" else paint(line, "green") if line[0] == "+" else line)


def _diff(expected: Sequence[str], actual: Sequence[str]) -> Iterator[str]:
    """`-`, `+` and common lines; far from any difference common lines are left out."""
    for line in list(difflib.unified_diff(expected, actual, lineterm="", n=3))[2:]:
        if not line.startswith("@@"):
            yield line
        elif not line.startswith(("@@ -1 ", "@@ -1,", "@@ -0")):
            yield "  ..."


def _rewrite(path: Path, options: dict[str, str]) -> int:
    """Put what comes out of each record below its rule; what cannot be written there is told, and makes the exit status
    1."""
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
    if text != path.read_text(encoding="utf-8"):
        path.write_text(text, encoding="utf-8")
        print(f"rewritten  {path}")
    left = [d for d in broken if d.line not in outcome or "instead of" in d.problem]
    for difference in left:
        print(f"  {difference.path}:{difference.line}: {difference.problem}", file=sys.stderr)
    return 1 if left else 0
