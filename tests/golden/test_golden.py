"""Every `.slt` file, as written and with its epochs cut elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlengine.cli.colours import Paint
from sqlengine.cli.test import difference_lines
from sqlengine.testing.runner import CUTS, Cut, run_file
from sqlengine.testing.slt import read_slt

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.slt"))


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name)
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_golden(path: Path, cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE.parent.parent)
    file = read_slt(path)
    if file.fixed_cuts and not cut.exact:
        cut = CUTS[0]
    differences = run_file(file, cut)
    assert not differences, "\n".join(line for d in differences for line in difference_lines(d, Paint(None)))
