"""How `sqlengine run` may print results."""

from __future__ import annotations

__all__ = ["FORMATS"]

FORMATS = ("table", "csv", "json", "changelog")
