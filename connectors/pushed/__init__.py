"""Streams that a program pushes: rows and watermarks from any thread, read by queries as they come."""

from __future__ import annotations

from connectors.pushed.table import PushedSource, PushedTable

__all__ = ["PushedSource", "PushedTable"]
