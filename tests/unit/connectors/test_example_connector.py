"""The contract suite over the connector in one file that the documentation shows."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "sql_examples" / "connector"))

from test_sqlite_table import TestSink, TestSource

__all__ = ["TestSink", "TestSource"]
