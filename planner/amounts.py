"""Counts and sizes in the texts of EXPLAIN."""

from __future__ import annotations

__all__ = ["counted", "size_text"]


def counted(count: int, what: str) -> str:
    """`2 rows`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def size_text(size: float) -> str:
    """`1.5 MiB`."""
    for unit, length in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= length:
            return f"{size / length:.1f} {unit}"
    return f"{size:.0f} B"
