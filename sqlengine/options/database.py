"""Options of a database in a folder, which are read when it is opened."""

from __future__ import annotations

from runtime.core.options import Option, duration_option, parse_memory, text_option

__all__ = ["CHECKPOINT_INTERVAL", "CHECKPOINT_SIZE", "DATABASE_OPTIONS", "SYNCHRONOUS"]

SYNCHRONOUS = text_option(
    "sqlengine.database.synchronous",
    "full",
    "what a statement waits for: 'full' its changes are on the disk, 'normal' the system has them, 'off' the same, and "
    "nothing is synced",
    ("full", "normal", "off"),
)
CHECKPOINT_SIZE: Option[int] = Option(
    "sqlengine.database.checkpoint-size", 64 << 20, parse_memory, "how large the log grows before a checkpoint: 64mb"
)
CHECKPOINT_INTERVAL = duration_option(
    "sqlengine.database.checkpoint-interval", 0, "how old a checkpoint gets while the database changes, such as 5 min"
)
DATABASE_OPTIONS = (SYNCHRONOUS, CHECKPOINT_SIZE, CHECKPOINT_INTERVAL)
