"""Numbers of rows and bytes, short enough to read."""

from __future__ import annotations

__all__ = ["counted_rows", "human_bytes", "human_count"]


def human_count(number: float) -> str:
    """`999`, `12.3k`, `4.56M`."""
    for unit in ("", "k", "M"):
        if abs(number) < 999.5:
            return f"{number:.3g}{unit}" if unit else f"{number:.0f}"
        number /= 1000
    return f"{number:.3g}G"


def human_bytes(number: float) -> str:
    """`512 B`, `1.5 KiB`, `3.0 MiB`, `1.2 GiB`."""
    if number < 1024:
        return f"{number:.0f} B"
    for unit in ("KiB", "MiB"):
        number /= 1024
        if number < 1024:
            return f"{number:.1f} {unit}"
    return f"{number / 1024:.1f} GiB"


def counted_rows(number: int) -> str:
    """A number of rows: `1 row`, `1,234 rows`."""
    return f"{number:,} row{'' if number == 1 else 's'}"
