"""Which C sources the Python beside them calls."""

from __future__ import annotations

__all__ = ["ABI"]

ABI = 3474934522383684936
"""The fingerprint of the sources, as `setup.py` compiles it into the library. A test holds it: whoever changes a source
writes here what the test says. So a library of other sources is never called."""
