"""The tables of TPC-H that the benchmark reads: made once per size, kept in the system's temporary folder."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.oracle.tpch_data import tool

__all__ = ["ONE_ROW", "columns", "table_files"]

ROWS_OF_SCALE_1 = 8_661_245
"""In all eight tables."""
ONE_ROW = ("q6", "q14", "q17", "q19")
"""Aggregates without GROUP BY: over no rows they give no row in a stream, where DuckDB gives one of NULLs."""
PARTS = 2

_SCHEMA = Path(__file__).parents[2] / "sql_examples" / "tpch" / "schema.sql"


def columns() -> dict[str, str]:
    """The columns of each table as the examples declare them, without keys: a file gives rows that are only added."""
    found = re.findall(r"CREATE TABLE (\w+) \(\n(.*?),\s*PRIMARY KEY[^;]*;", _SCHEMA.read_text(), re.DOTALL)
    return {name: " ".join(text.split()) for name, text in found}


def table_files(rows: int, file_format: str, distinct_times: bool = False) -> Path:
    """The folder with `region` to `lineitem` (a folder each, two files or one), about so many rows in all; made when it
    is not there. Rows have no times, so `distinct_times` changes nothing."""
    del distinct_times
    folder = Path(tempfile.gettempdir()) / "sqlengine-tpch" / str(rows) / file_format
    if folder.is_dir():
        return folder
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    scale = f"{rows / ROWS_OF_SCALE_1:.6f}"
    words = [tool(), file_format, "-s", scale, f"--parts={PARTS}", f"--output-dir={unfinished}"]
    subprocess.run(words, check=True, capture_output=True)
    for name in columns():
        for alone in unfinished.glob(f"{name}.*"):
            (unfinished / name).mkdir()
            alone.rename(unfinished / name / alone.name)
    unfinished.rename(folder)
    return folder
