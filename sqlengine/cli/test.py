"""`sqlengine test`: runs `.slt` files and shows differences."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from runtime.core.errors import FormatError
from sqlengine.options.target import TARGET
from sqlengine.terminal.colours import Paint
from sqlengine.testing.compare import together
from sqlengine.testing.rewrite import rewrite_file
from sqlengine.testing.runner import AS_WRITTEN, SPARK_CUTS, cuts_for, cuts_left_out, run_file, spark_cuts_for
from sqlengine.testing.show import difference_lines
from sqlengine.testing.slt import read_slt

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
    on_spark = options.get(TARGET.key, "").lower() == "spark"
    ways, as_written = (spark_cuts_for, SPARK_CUTS[0]) if on_spark else (cuts_for, AS_WRITTEN)
    for path in files:
        try:
            file = read_slt(path)
        except FormatError as error:
            # The others are run nevertheless.
            failed.append(path)
            print(f"{paint('FAIL', 'error')}  {path}\n  {error}")
            continue
        cuts = ways(file) if matrix else [as_written]
        differences = together([difference for cut in cuts for difference in run_file(file, cut, options)])
        if differences:
            failed.append(path)
        if differences or verbose:
            print(f"{paint('FAIL', 'error') if differences else paint('ok', 'green')}  {path}")
        for difference in differences:
            print("\n".join(difference_lines(difference, paint)))
        sys.stdout.flush()
    for name, extra in cuts_left_out() if matrix and not on_spark else ():
        print(f"not run: {name} (pip install 'sqlengine[{extra}]')")
    passed = f"{len(files) - len(failed)} passed"
    print(f"{passed}, {paint(f'{len(failed)} failed', 'error')}" if failed else paint(passed, "green"))
    return 1 if failed else 0


def _rewrite(path: Path, options: dict[str, str]) -> int:
    """Write a file anew; what cannot be written there is told, and makes the exit status 1."""
    changed, left = rewrite_file(path, options)
    if changed:
        print(f"rewritten  {path}")
    for difference in left:
        print(f"  {difference.path}:{difference.line}: {difference.problem}", file=sys.stderr)
    return 1 if left else 0
