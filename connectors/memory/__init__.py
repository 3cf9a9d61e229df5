"""Tables that live in the process."""

from connectors.memory.open_changes import OpenChanges
from connectors.memory.reader import MemoryReader
from connectors.memory.sink import MemorySink
from connectors.memory.snapshot import TableSnapshot
from connectors.memory.table import MemoryTable

__all__ = ["MemoryReader", "MemorySink", "MemoryTable", "OpenChanges", "TableSnapshot"]
