"""Jars of servers from Maven Central, once, into a cache of the user: each with the digest that a list says."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

__all__ = ["fetched_jars"]

_CENTRAL = "https://repo1.maven.org/maven2/"


def fetched_jars(listed: Path, name: str) -> Path:
    """The folder of the jars of a list: lines with digest and path. `name`: of the folder, with the version."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sqlengine-tests" / name
    cache.mkdir(parents=True, exist_ok=True)
    lines = [line.split() for line in listed.read_text().splitlines()]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda line: _jar(cache, listed.name, *line), lines))
    return cache


def _jar(cache: Path, listed: str, digest: str, path: str) -> None:
    kept = cache / path.rpartition("/")[2]
    if kept.exists():
        return
    with urllib.request.urlopen(_CENTRAL + path, timeout=60) as answer:
        data = answer.read()
    assert hashlib.sha256(data).hexdigest() == digest, f"{path} has another digest than in {listed}"
    part = kept.with_suffix(f".{os.getpid()}")
    part.write_bytes(data)
    part.rename(kept)
