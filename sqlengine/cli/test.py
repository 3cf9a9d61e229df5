"""`sqlengine test`: runs `.slt` files and shows differences."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from runtime.core.errors import FormatError
from sqlengine.testing.runner import AS_WRITTEN, CUTS, Difference, run_file
from sqlengine.testing.slt import RULE, Record, read_slt

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
    colour = sys.stdout.isatty()
    files = find_files(paths)
    failed = 0
    for path in files:
        file = read_slt(path)
        if rewrite:
            _rewrite(path, options)
            continue
        differences: list[Difference] = []
        for cut in CUTS if matrix and not file.fixed_cuts else (AS_WRITTEN,):
            differences.extend(run_file(file, cut, options))
        failed += bool(differences)
        if differences or verbose:
            mark = _paint("FAIL", "31", colour) if differences else _paint("ok", "32", colour)
            print(f"{mark}  {path}")
        for difference in differences:
            for line in difference_lines(difference, colour):
                print(line)
    if not rewrite:
        print(f"{len(files) - failed} passed, {failed} failed")
    return 1 if failed else 0


def difference_lines(difference: Difference, colour: bool) -> Iterator[str]:
    """The place, the SQL, and a unified diff from what was expected to what came out."""
    where = f"{difference.path}:{difference.line}"
    yield f"  {where} ({difference.cut}): {difference.problem}"
    for line in difference.sql.splitlines():
        yield f"    {line}"
    if difference.expected or difference.actual:
        for line in difflib.ndiff(difference.expected, difference.actual):
            if line.startswith("- "):
                yield "    " + _paint("expected " + line[2:], "32", colour)
            elif line.startswith("+ "):
                yield "    " + _paint("actual   " + line[2:], "31", colour)
            elif not line.startswith("?"):
                yield "             " + line[2:]


def _paint(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text


def _rewrite(path: Path, options: dict[str, str]) -> None:
    """Put what comes out of each record below its rule."""
    file = read_slt(path)
    outcome: dict[int, list[str]] = {}

    def keep(record: Record, lines: list[str]) -> None:
        outcome[record.line] = lines

    broken = run_file(file, AS_WRITTEN, options, on_actual=keep)
    lines: list[str] = []
    at = 0
    for record in file.records:
        body_end = record.line + (len(record.sql.splitlines()) if record.sql else 0)
        lines.extend(file.lines[at:body_end])
        if record.line in outcome:
            lines.extend([RULE, *outcome[record.line]])
        else:
            lines.extend(file.lines[body_end : record.end])
        at = record.end
    lines.extend(file.lines[at:])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for difference in broken:
        print(f"  {difference.path}:{difference.line}: {difference.problem}", file=sys.stderr)
