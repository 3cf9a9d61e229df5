"""The contract suite: what pytest checks of a connector, ours or a third party's.

    from sqlengine.testing.connectors import SinkContract, SourceContract

`docs/connectors/writing_one.md` has an example.
"""

from sqlengine.testing.connectors.jobs import Killed, SinkCase, killed_at_each_step, some_epochs
from sqlengine.testing.connectors.reading import Context, changes_of, drain, end, read_all, rows_of
from sqlengine.testing.connectors.sinks import SinkContract
from sqlengine.testing.connectors.sources import SourceContract
from sqlengine.testing.connectors.values import EXTREMES, every_value

__all__ = [
    "EXTREMES",
    "Context",
    "Killed",
    "SinkCase",
    "SinkContract",
    "SourceContract",
    "changes_of",
    "drain",
    "end",
    "every_value",
    "killed_at_each_step",
    "read_all",
    "rows_of",
    "some_epochs",
]
