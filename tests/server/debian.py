"""Programs of Debian's packages: installed where they are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from glob import glob

__all__ = ["debian_program"]


def debian_program(name: str, package: str = "", folders: str = "") -> str:
    """The path of a program. `folders`: a pattern of where it is, when it is not on the path; of several the last one is
    taken. Raises CalledProcessError when its package cannot be installed."""
    found = _found(name, folders)
    if found is None:
        for command in (["apt-get", "update"], ["apt-get", "install", "--yes", package or name]):
            subprocess.run(command, check=True, capture_output=True)
        found = _found(name, folders)
    assert found is not None, f"{name} is not in the package"
    return found


def _found(name: str, folders: str) -> str | None:
    if not folders:
        return shutil.which(name)
    return next(iter(sorted(glob(os.path.join(folders, name)), reverse=True)), None)
