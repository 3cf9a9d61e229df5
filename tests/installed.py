"""A copy of the tests that runs against an installed wheel: `python -m tests.installed FOLDER`.

The copy says `sqlengine.runtime` where the tests of a checkout say `runtime`. Beside it lie a user's own modules of the
names that the engine's packages have in a checkout; whatever imports one of them fails.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from sqlengine.cli.one_name import BELOW, NAME, renamed

ROOT = Path(__file__).resolve().parents[1]
_ABOUT_THE_CHECKOUT = (
    "architecture",
    "server/test_deploy.py",
    "server/test_deploy_spark.py",
    "unit/test_error_codes.py",
    "unit/kernels/test_abi.py",
)
_PROGRAM = re.compile(rf"\b(from|import) ({'|'.join(BELOW)})\.")
_OF_THE_USER = 'raise ImportError("a module of the user, which the engine has no business with")\n'


def copy_tests(folder: Path) -> None:
    """Put the tests, and what they read, into an empty folder."""
    for name in ("tests", "sql_examples", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name in _ABOUT_THE_CHECKOUT:
        path = folder / "tests" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in (folder / "tests").rglob("*.py"):
        text = renamed(path.read_text(), ROOT)
        # Programs in strings, which other processes run; but not the texts of the tests of `renamed`.
        path.write_text(text if path.parent.name == "packaging" else _PROGRAM.sub(rf"\1 {NAME}.\2.", text))
    for package in BELOW[:-1]:
        (folder / f"{package}.py").write_text(_OF_THE_USER)
    (folder / BELOW[-1]).mkdir()
    (folder / BELOW[-1] / "__init__.py").write_text(_OF_THE_USER)


if __name__ == "__main__":
    copy_tests(Path(sys.argv[1]))
