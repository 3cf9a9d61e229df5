"""Which C sources the Python beside them calls."""

from __future__ import annotations

__all__ = ["ABI"]

ABI = 2039583011122779359
"""The fingerprint of the sources, as `setup.py` compiles it into the library. A test holds it: whoever changes a source
writes here what the test says. So a library of other sources is never called."""
