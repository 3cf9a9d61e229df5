"""What an epoch frees is there for the next one: arrays of its size are made without new pages."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
from runtime.local.allocator import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(40):
        arrays = [np.ones(1 << 18) for _ in range(8)]
        del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(keep_freed_memory(), faults(), faults())
"""


SERVER = """
from runtime.local.allocator import share_freed_memory
shared = share_freed_memory()
import pyarrow
print(shared, pyarrow.default_memory_pool().backend_name)
"""


def told(program: str = PROGRAM, **environment: str) -> list[str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "ARROW_"))}
    run = [sys.executable, "-c", program]
    return subprocess.run(run, check=True, capture_output=True, text=True, env={**plain, **environment}).stdout.split()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="tells glibc's allocator")
def test_freed_arrays_serve_again() -> None:
    kept, _, again = told()
    # 40 times 16 MiB are 163,840 pages of 4 KiB.
    assert kept == "True" and int(again) < 1000


def test_whoever_starts_the_process_has_the_say() -> None:
    assert told(MALLOC_ARENA_MAX="2")[0] == "False"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="tells glibc's allocator")
def test_threads_share_what_is_freed() -> None:
    assert told(SERVER) == ["True", "system"]
    assert told(SERVER, ARROW_DEFAULT_MEMORY_POOL="jemalloc") == ["True", "jemalloc"]
