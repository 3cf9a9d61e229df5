"""The data of TPC-H at scale 0.01, made when it is needed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["generate"]


def generate(folder: Path) -> None:
    """Writes `region.parquet` to `lineitem.parquet`. The same files each time. Args: `folder` is made when it is not
    there."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = Path(sys.executable).parent / "tpchgen-cli"
    tool = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    assert tool is not None, "tpchgen-cli is one of the development dependencies: pip install tpchgen-cli"
    subprocess.run([tool, "parquet", "-s", "0.01", f"--output-dir={folder}"], check=True, capture_output=True)
