"""Programs of Debian's packages: installed where they are missing."""

from __future__ import annotations

import shutil
import subprocess

__all__ = ["debian_program"]


def debian_program(name: str, package: str = "") -> str:
    """The path of a program. Raises CalledProcessError when its package cannot be installed."""
    if shutil.which(name) is None:
        for command in (["apt-get", "update"], ["apt-get", "install", "--yes", package or name]):
            subprocess.run(command, check=True, capture_output=True)
    found = shutil.which(name)
    assert found is not None, f"{name} is not in the package"
    return found
