"""Every `.slt` file, as written and with its epochs cut elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlengine.testing.runner import Cut, cuts_for, run_file
from sqlengine.testing.show import difference_lines
from sqlengine.testing.slt import read_slt

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.slt"))


RUNS = [(path, cut) for path in FILES for cut in cuts_for(read_slt(path))]


@pytest.mark.parametrize(("path", "cut"), RUNS, ids=[f"{path.relative_to(HERE)}-{cut.name}" for path, cut in RUNS])
def test_golden(path: Path, cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE.parent.parent)
    differences = run_file(read_slt(path), cut)
    assert not differences, "\n".join(line for d in differences for line in difference_lines(d))
