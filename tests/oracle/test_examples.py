"""Every file of sql_examples runs through the command line and prints what stands in the `.out` file beside it.

SQLENGINE_REWRITE=1 pytest tests/oracle/test_examples.py      writes the `.out` files anew
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqlengine.cli.main import main
from tests.oracle.tpch_data import generate

EXAMPLES = Path(__file__).parents[2] / "sql_examples"
BEFORE = {"tpch": ("schema.sql", "load.sql")}
"""Files that the others of a folder need to run first; they print nothing of their own."""
SERVED = "pipelines"
"""The folder whose files need servers: `tests/pipelines` runs them."""
LISTED = sorted(p for p in EXAMPLES.rglob("*.sql") if p.name not in BEFORE.get(p.parent.name, ()))
SCRIPTS = [p for p in LISTED if p.parent.name != SERVED]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the scripts run: their data is at the paths that they name, and what they write goes nowhere else."""
    here = tmp_path_factory.mktemp("examples")
    (here / "sql_examples").mkdir()
    for child in EXAMPLES.iterdir():
        if child.is_dir() and child.name != "tpch":
            (here / "sql_examples" / child.name).symlink_to(child)
    generate(here / "sql_examples" / "tpch" / "data")
    return here


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: str(s.relative_to(EXAMPLES)))
def test_output(
    script: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    needed = [str(script.parent / name) for name in BEFORE.get(script.parent.name, ())]
    status = main(["run", *needed, str(script)])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    golden = script.with_suffix(".out")
    if os.environ.get("SQLENGINE_REWRITE"):
        golden.write_text(printed.out)
    assert golden.exists(), f"{golden.name} is missing: run once with SQLENGINE_REWRITE=1 and read what it wrote"
    assert printed.out == golden.read_text()


def test_each_output_has_its_script() -> None:
    orphans = [p for p in EXAMPLES.rglob("*.out") if not p.with_suffix(".sql").exists()]
    assert not orphans


def test_the_list_names_every_script() -> None:
    text = (EXAMPLES / "README.md").read_text()
    missing = [str(s.relative_to(EXAMPLES)) for s in LISTED if s.name not in text]
    assert not missing, f"sql_examples/README.md does not list {missing}"
