"""Tables that live in the process."""

from connectors.memory.table import MemoryTable

__all__ = ["MemoryTable"]
