"""CAST and TRY_CAST, column by column: every pair of Flink's cast matrix, with Flink's text forms."""

from __future__ import annotations

from runtime.expr.cast.dispatch import cast_array

__all__ = ["cast_array"]
