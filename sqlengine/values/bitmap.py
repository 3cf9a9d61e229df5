"""BITMAP for Python."""

from __future__ import annotations

from pyroaring import FrozenBitMap

from runtime.expr.bitmaps import text_of

__all__ = ["Bitmap"]


class Bitmap(FrozenBitMap):
    """A value of BITMAP: an immutable set of integers from 0 to 4294967295, with all that `pyroaring.FrozenBitMap` has.

    `str` gives SQL's text, `{1,2}`.
    """

    def __str__(self) -> str:
        return text_of(self)
