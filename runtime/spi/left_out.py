"""What a source tells of input that is not read."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.spi.table import RejectedRow

__all__ = ["LeftOut"]


@dataclass(frozen=True, slots=True)
class LeftOut(RejectedRow):
    """Not a row but a part of the input, such as a file, that is not read, or not to its end: people are told at once, each
    text once."""
