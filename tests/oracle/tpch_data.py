"""The data of TPC-H at scale 0.01, made when it is needed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["generate", "tool"]


def tool() -> str:
    """Where the generator is. Raises AssertionError when it is not installed."""
    beside = Path(sys.executable).parent / "tpchgen-cli"
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    assert found is not None, "tpchgen-cli is one of the development dependencies: pip install tpchgen-cli"
    return found


def generate(folder: Path) -> None:
    """Writes `region.parquet` to `lineitem.parquet`. The same files each time. Args: `folder` is made when it is not
    there."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([tool(), "parquet", "-s", "0.01", f"--output-dir={folder}"], check=True, capture_output=True)
