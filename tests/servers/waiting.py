"""Waiting for what others do: a server that starts, a process that writes."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

__all__ = ["until"]

_LOOKS_SECONDS = 0.005


def until(holds: Callable[[], bool], process: subprocess.Popen[Any] | None = None, seconds: float = 60) -> None:
    """Returns when something holds. Fails when that takes too long, or when the process that should make it so has ended."""
    ends, nothing = time.monotonic() + seconds, threading.Event()
    while not holds():
        if time.monotonic() > ends:
            pytest.fail(f"it does not hold after {seconds} seconds")
        if process is None:
            nothing.wait(_LOOKS_SECONDS)
            continue
        with suppress(subprocess.TimeoutExpired):
            pytest.fail(f"the process has ended: {process.wait(_LOOKS_SECONDS)}")
