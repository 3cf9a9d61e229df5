"""Tables that live in the process."""

from connectors.memory.table import MemorySink, MemoryTable, TableSnapshot

__all__ = ["MemorySink", "MemoryTable", "TableSnapshot"]
