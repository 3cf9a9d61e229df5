"""The pytest plugin: what it collects, what it shows, and what it costs those who do not use it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sqlengine.testing.runner import CUTS
from tests.docs.pages import named_files

ROOT = Path(__file__).parents[3]


def run_pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and output of pytest in a folder, with the plugin as an installed sqlengine has it."""
    plugin = (
        "-p",
        "no:sqlengine",
        "-p",
        "sqlengine.testing.plugin",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of docs/testing.md."""
    for name, text in named_files((ROOT / "docs" / "testing.md").read_text()).items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_documentation_under_pytest(folder: Path) -> None:
    (folder / "wrong.slt").write_text(
        "set table.local-time-zone UTC\n\nquery\nSELECT CURRENT_TIMESTAMP, 1\n----\nx | 1\n"
    )
    (folder / "broken.slt").write_text("qeury\nSELECT 1\n----\n")
    status, output = run_pytest(folder, "-v", "--continue-on-collection-errors")
    assert status == 1
    assert "delays.slt::as written PASSED" in output and "test_delays.py::test_a_mistake PASSED" in output
    assert "- missing: 1  + too much: 1" in output
    assert "- x                       | 1" in output and "+ 1970-01-01 00:00:00.000 | 1" in output
    assert "'qeury' begins no record; did you mean \"query\"" in output
    assert re.search(r"1 failed, 10 passed, 1 error", output), output


def test_the_matrix_and_rewriting(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nslt_matrix = true\nslt_options =\n  table.local-time-zone = Asia/Tokyo\n"
    )
    file = tmp_path / "new.slt"
    file.write_text("query\nSELECT CURRENT_TIMESTAMP\n----\n")
    assert run_pytest(tmp_path, "--slt-rewrite", "new.slt::as written")[0] == 0
    assert file.read_text().endswith("----\n1970-01-01 09:00:00.000\n")
    status, output = run_pytest(tmp_path)
    assert status == 0 and f"{len(CUTS)} passed" in output, output


def test_who_has_no_sql_pays_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\n\ndef test_plain():\n"
        "    assert not {'sqlengine.api.environment', 'runtime', 'pyarrow', 'duckdb', 'sqlglot'} & set(sys.modules)\n"
    )
    (tmp_path / "notes.txt").write_text("no test")
    status, output = run_pytest(tmp_path)
    assert status == 0 and "1 passed" in output, output
